/*
 * /proc, also for a program that went by chroot(2) where there is none. Names are relative to it:
 * "self/stat".
 */
#ifndef SYS_PROC_H
#define SYS_PROC_H

#include "sys/sys.h"

/* Keeps it open: once, at start. Until then, and where it cannot be had, it is found by its name.
 * Notes the network namespace in which the process begins. */
void sys_proc_keep(void);

/* As open(2), readlink(2) and stat(2): -errno. */
int sys_proc_open(const char *name, int flags);
ssize_t sys_proc_readlink(const char *name, char *buffer, size_t size);
int sys_proc_stat(const char *name, struct stat *status);

/* Does the calling thread make sockets in the network namespace in which the process began? True
 * where that is not known. Asks the kernel. */
bool sys_network_is_home(void);
/* The number of that; 0: it is not known. */
ino_t sys_network_home(void);

#endif
