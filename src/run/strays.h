/*
 * Strays that were set aside: a file of the run directory for each file of a server, called
 *
 *     stray.DEVICE.INODE.NUMBER      DEVICE in hexadecimal digits
 *
 * A later stray of a file has a higher NUMBER. The file begins with lines of text that say
 * what it belongs to:
 *
 *     directnfs stray 1
 *     server NAME
 *     mount DIRECTORY
 *     path NAME              as far as it was known; else the mount's
 *     file DEVICE INODE      numbers, as stat(2) tells them
 *     since SECONDS          CLOCK_REALTIME, when it was set aside
 *     <an empty line>
 *
 * Then come pieces: 8 bytes of offset, 4 bytes of length, both in this host's byte order, and the
 * bytes. A piece of length 0 is the end; its offset is the sum of the other lengths. Without an end
 * the file is unfinished, and the registry still has the data.
 */
#ifndef RUN_STRAYS_H
#define RUN_STRAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_STRAY_PREFIX "stray."
enum { RUN_STRAY_NAME = 80, RUN_STRAY_PIECE = 1 << 16, RUN_STRAY_TEXT = 3 * 4096 };

/* What a stray file belongs to. */
struct run_stray {
    const char *server, *mount, *path;
    uint64_t device, inode, since_s;
    uint64_t bytes; /* the sum of its pieces; set by run_stray_read() */
};

/* A stray file that is being written or read. */
struct run_stray_file {
    int run, fd;
    char name[RUN_STRAY_NAME];
    uint64_t bytes;
    uint64_t first; /* where its pieces begin; set by run_stray_read() */
};

/* What a stray file's name says. False: it is no such name. */
struct run_stray_name {
    uint64_t device, inode;
    uint32_t number;
};
bool run_stray_parse(const char *name, struct run_stray_name *parsed);

/* Begin a file, write a piece of it, and end it: after that it is there for good, or it is removed.
 * 0 or -errno. After an error call only run_stray_end(), with `keep` false. */
int run_stray_begin(struct run_stray_file *file, const struct run_stray *stray);
int run_stray_piece(struct run_stray_file *file, uint64_t offset, const void *bytes,
                    uint32_t length);
int run_stray_end(struct run_stray_file *file, bool keep);
/* Removes a file by its name. 0; -EBUSY: it is being written; or another -errno. */
int run_stray_remove(int run, const char *name);

/*
 * run_stray_read() tells what a file belongs to; the names are in `text`. It takes about the same
 * short time for any file.
 * 0: it is open at its first piece.
 * -EBADMSG: it is no stray file, or it is unfinished.
 * Another -errno: it cannot be read.
 *
 * run_stray_check() reads all pieces before the first one is used, so each is read twice. 0 or
 * -errno; -EBADMSG: the file is damaged, or it was made to do harm.
 *
 * run_stray_next() gives one piece after the other. It returns the length (at most
 * RUN_STRAY_PIECE), 0 at the end, or -errno.
 */
int run_stray_read(struct run_stray_file *file, int run, const char *name,
                   char text[RUN_STRAY_TEXT], struct run_stray *stray);
int run_stray_check(struct run_stray_file *file);
ssize_t run_stray_next(struct run_stray_file *file, uint64_t *offset, void *bytes);
void run_stray_close(struct run_stray_file *file);

#endif
