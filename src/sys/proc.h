/*
 * /proc, also for a program in a chroot(2) without one. Names are relative to it: "self/stat".
 */
#ifndef SYS_PROC_H
#define SYS_PROC_H

#include "sys/sys.h"

/* Opens /proc and keeps it open: once, at start. Before that, and if it cannot be opened, its name
 * is used. Notes the network namespace in which the process begins. */
void sys_proc_keep(void);

/* As open(2), readlink(2) and stat(2): -errno. */
int sys_proc_open(const char *name, int flags);
ssize_t sys_proc_readlink(const char *name, char *buffer, size_t size);
int sys_proc_stat(const char *name, struct stat *status);

/* Does the calling thread make sockets in the network namespace in which the process began? True if
 * that is not known. Asks the kernel. */
bool sys_network_is_home(void);
/* The number of that namespace; 0: it is not known. */
ino_t sys_network_home(void);

#endif
