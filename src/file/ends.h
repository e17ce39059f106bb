/* Answers to READ that say two things of where the file ends. Inside src/file only. */
#ifndef FILE_ENDS_H
#define FILE_ENDS_H

#include "file/inode.h"

/* What was seen of them in one call; zeros at its beginning. */
struct file_ends {
    unsigned tries;
    uint64_t told; /* the size that came with the last one */
};

/*
 * nfs3_read() found two ends. Returns how many of the bytes that it read from `offset` on
 * are the file's; -EAGAIN: after a pause, it is to be read again; -EIO: data are missing (said on
 * the log); or the error of asking for the size.
 */
ssize_t file_ends_decide(struct file_open *open, uint64_t offset,
                         const struct nfs3_transfer *transfer, struct file_ends *ends);

#endif
