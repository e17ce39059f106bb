/* What a read gives out of memory of ours. */
#ifndef FILE_GIVE_H
#define FILE_GIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Is any of them one that no memory can be at? */
bool file_bad_vectors(const struct iovec *vectors, int count);
/* Copies to the vectors, behind their first `skip` bytes. 0 or -EFAULT. */
int file_give(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length);

#endif
