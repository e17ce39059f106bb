/*
 * The library's own descriptors. They have high numbers and are known here, so that the face can
 * keep the application from closing or overwriting them.
 */
#ifndef SYS_FD_H
#define SYS_FD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Moves a descriptor of ours out of the application's way, with FD_CLOEXEC set, and registers it.
 * Returns the descriptor to use from now on. That is the old number if there is no room higher up.
 * It never fails.
 */
int sys_fd_protect(int fd);

/* Forgets and closes a descriptor that sys_fd_protect() returned. */
void sys_fd_close(int fd);

/*
 * Makes a file of ours this long. 0 or -errno.
 * -EFBIG: RLIMIT_FSIZE forbids it; the kernel would send a signal that ends the program.
 */
int sys_fd_lengthen(int fd, off_t size);

/*
 * Gives memory to a piece of a file that is to be mapped. Otherwise, a page that is missing while
 * /dev/shm is full would be a SIGBUS. 0 or -errno. 0 without fallocate(2) in the file system too:
 * it gives memory when a page is touched.
 */
int sys_fd_reserve(int fd, uint64_t offset, uint64_t length);

/* In the child of fork(): closes our connections to servers, as the threads that used them do not
 * exist here. The connection to the log stays. */
void sys_fd_fork_child(void);

/* Is this number one of ours? Two atomic loads and no lock. */
bool sys_fd_is_ours(int fd);

/* The lowest descriptor of ours that is >= fd, or -1. For splitting ranges around ours. */
int sys_fd_next_ours(int fd);

#endif
