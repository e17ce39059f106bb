/*
 * Files, as a program under the face would use them; what is to be in them, and what the kernel has
 * of them. For processes of scene.h.
 */
#ifndef TEST_ENGINE_H
#define TEST_ENGINE_H

#include "scene.h"

/* ---- files, as a program under the face would use them; errors are -errno ---- */

/* From now on this process leaves behind what it writes to such a file. */
void engine_is_cared_for(const struct file_open *open);
int engine_open(const char *name, int flags);

/* Opens a file that the engine must serve. */
int engine_adopt(const char *name, int flags);

/* NULL: the kernel has the file. */
struct file_open *engine_begin(int fd);
void engine_end(struct file_open *open);
ssize_t engine_readv(int fd, const struct iovec *vectors, int count, off_t offset, int flags);
ssize_t engine_writev(int fd, const struct iovec *vectors, int count, off_t offset, int flags);
ssize_t engine_read(int fd, void *data, size_t length, off_t offset);
ssize_t engine_write(int fd, const void *data, size_t length, off_t offset);

/* What the face does for a descriptor that is not managed. */
int engine_kernel_fsync(int fd);
int engine_fsync(int fd);
int engine_close(int fd);
off_t engine_seek(int fd, off_t offset, int whence);
off_t engine_size(int fd);
int engine_truncate(int fd, off_t size);
int engine_demote(int fd);
int engine_dup(int fd);

/* The reason for which the kernel has a file, from the statistics; "" if it has not. */
const char *engine_reason(const char *name);

/* ---- data ---- */

void engine_put(int fd, size_t length, off_t offset, unsigned version);
void engine_expect(int fd, size_t length, off_t offset, unsigned version);

/* Blocks of PAGE_BYTES. */
void put_blocks(int fd, unsigned from, unsigned count, unsigned version);
void expect_blocks(int fd, unsigned from, unsigned count, unsigned version);

/* What the kernel sees, which is what is left after a loss of power. */
void disk_expect(const char *name, size_t length, off_t offset, unsigned version);
off_t disk_size(const char *name);
void disk_make(const char *name, size_t length, unsigned version);

#endif
