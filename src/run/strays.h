/*
 * Strays that were set aside: a file of the run directory for each file of a server, called
 *
 *     stray.DEVICE.INODE.NUMBER      DEVICE in hexadecimal digits
 *
 * where the NUMBER of what is newer in the same file is higher. It begins with lines of text, which
 * say what it is of:
 *
 *     directnfs stray 1
 *     server NAME
 *     mount DIRECTORY
 *     path NAME              as far as it was known; else that of the mount
 *     file DEVICE INODE      numbers, as stat(2) tells them
 *     since SECONDS          CLOCK_REALTIME, when it was set aside
 *     <an empty line>
 *
 * Then come pieces: 8 bytes of offset, 4 bytes of length, in the order of bytes of this host, and
 * the bytes. A piece of length 0 is the end; its offset is the sum of the others' lengths. Without
 * it the file was not finished, and the data is in the registry still.
 */
#ifndef RUN_STRAYS_H
#define RUN_STRAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_STRAY_PREFIX "stray."
enum { RUN_STRAY_NAME = 80, RUN_STRAY_PIECE = 1 << 16, RUN_STRAY_TEXT = 3 * 4096 };

/* What a stray file is of. */
struct run_stray {
    const char *server, *mount, *path;
    uint64_t device, inode, since_s;
    uint64_t bytes; /* of its pieces; when it is read */
};

/* One that is being written, or read. */
struct run_stray_file {
    int run, fd;
    char name[RUN_STRAY_NAME];
    uint64_t bytes;
    uint64_t first; /* where its pieces begin; when it is read */
};

/* What its name says. False: that is none of a stray file. */
struct run_stray_name {
    uint64_t device, inode;
    uint32_t number;
};
bool run_stray_parse(const char *name, struct run_stray_name *parsed);

/* Begins one, writes a piece of it, and ends it: it is there for good, or is gone. 0 or -errno;
 * after an error only the end is to be called, with `keep` false. */
int run_stray_begin(struct run_stray_file *file, const struct run_stray *stray);
int run_stray_piece(struct run_stray_file *file, uint64_t offset, const void *bytes,
                    uint32_t length);
int run_stray_end(struct run_stray_file *file, bool keep);
/* Removes one by its name. 0; -EBUSY: it is being written; or -errno. */
int run_stray_remove(int run, const char *name);

/*
 * Reads one: what it is of, with names that are in `text`; 0, -EBADMSG: it is none, or not
 * finished; or -errno. It takes the same short time for any file. Then its pieces, one after the
 * other: the length (at most RUN_STRAY_PIECE), 0 at the end, or -errno. Before the first of them is
 * used run_stray_check() reads all of them, which are then read again: 0; -EBADMSG: the file is
 * damaged, or it was made to do harm.
 */
int run_stray_read(struct run_stray_file *file, int run, const char *name,
                   char text[RUN_STRAY_TEXT], struct run_stray *stray);
int run_stray_check(struct run_stray_file *file);
ssize_t run_stray_next(struct run_stray_file *file, uint64_t *offset, void *bytes);
void run_stray_close(struct run_stray_file *file);

#endif
