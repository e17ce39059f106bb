/*
 * May memory of the application be written? The kernel says EFAULT where it may not; a copy of our
 * own would end the program by a signal.
 */
#ifndef SYS_PROBE_H
#define SYS_PROBE_H

#include <stddef.h>

/* Asks the kernel, page by page. 0 or -EFAULT. What is there is overwritten, as it will be anyway;
 * not all of it. */
int sys_probe_write(void *start, size_t length);

#endif
