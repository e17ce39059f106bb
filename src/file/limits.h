/* RLIMIT_FSIZE. */
#ifndef FILE_LIMITS_H
#define FILE_LIMITS_H

#include "file/inode.h"

/* Learns RLIMIT_FSIZE, which may have changed. A write beyond it fails with -EFBIG and SIGXFSZ, as
 * in the kernel, or is cut there: file_size_room() of enter.h. */
void file_size_limit_learn(void);

#endif
