/* RLIMIT_FSIZE. */
#ifndef FILE_LIMITS_H
#define FILE_LIMITS_H

#include "file/inode.h"

/* Learns RLIMIT_FSIZE, which may have changed: what would make a file longer fails with -EFBIG and
 * SIGXFSZ, as in the kernel, or is cut there. */
void file_size_limit_learn(void);

#endif
