/*
 * May the program's memory be written? The kernel answers EFAULT where it may not; a copy by the
 * library would end the program by a signal.
 */
#ifndef SYS_PROBE_H
#define SYS_PROBE_H

#include <stddef.h>

/* Asks the kernel, page by page. 0 or -EFAULT. It overwrites some of the bytes there, which the
 * caller will do anyway. */
int sys_probe_write(void *start, size_t length);

#endif
