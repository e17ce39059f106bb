/*
 * The library's own descriptors. They live high in the table and are known here, so that the face
 * can keep the application from closing or overwriting them.
 */
#ifndef SYS_FD_H
#define SYS_FD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Moves a descriptor of ours out of the application's way, with FD_CLOEXEC set, and registers it.
 * Returns the descriptor to use from now on (the old number when there is no room higher up).
 * Never fails: the worst case is the old number.
 */
int sys_fd_protect(int fd);

/* Forgets and closes a descriptor that sys_fd_protect() returned. */
void sys_fd_close(int fd);

/*
 * Makes a file of ours this long. 0 or -errno: -EFBIG where RLIMIT_FSIZE forbids it, for which the
 * kernel would send a signal that ends the program.
 */
int sys_fd_lengthen(int fd, off_t size);

/* Gives memory to a piece of a file that is to be mapped: a page that is missing when /dev/shm is
 * full would be a SIGBUS. 0 or -errno. A file system without fallocate(2) gives it as it is
 * touched.
 */
int sys_fd_reserve(int fd, uint64_t offset, uint64_t length);

/* In the child of fork(): closes connections of ours that threads which do not exist here were
 * using. That to the log stays. */
void sys_fd_fork_child(void);

/* Two atomic loads and no lock: is this number one of ours? */
bool sys_fd_is_ours(int fd);

/* The lowest descriptor of ours that is >= fd, or -1: for splitting ranges around ours. */
int sys_fd_next_ours(int fd);

#endif
