/*
 * The library's own descriptors. They live high in the table and are known here, so that the face
 * can keep the application from closing or overwriting them.
 */
#ifndef SYS_FD_H
#define SYS_FD_H

#include <stdbool.h>

/*
 * Moves a descriptor of ours out of the application's way, with FD_CLOEXEC set, and registers it.
 * Returns the descriptor to use from now on (the old number when there is no room higher up).
 * Never fails: the worst case is the old number.
 */
int sys_fd_protect(int fd);

/* Forgets and closes a descriptor that sys_fd_protect() returned. */
void sys_fd_close(int fd);

/* In the child of fork(): closes sockets of ours that threads which do not exist here were using.
 */
void sys_fd_fork_child(void);

/* One atomic load and no lock: is this number one of ours? */
bool sys_fd_is_ours(int fd);

/* The lowest descriptor of ours that is >= fd, or -1: for splitting ranges around ours. */
int sys_fd_next_ours(int fd);

#endif
