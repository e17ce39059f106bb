/* The application's memory, as vectors. */
#ifndef FILE_VECTORS_H
#define FILE_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The length of all vectors, at most FILE_TRANSFER_MAX as in the kernel; -EINVAL, -EFAULT as
 * readv(2). */
ssize_t file_total_length(const struct iovec *vectors, int count);
/* Does any of them point to where no memory can be? */
bool file_bad_vectors(const struct iovec *vectors, int count);
/* Copies to the vectors, from their byte `skip` on. 0 or -EFAULT. */
int file_give(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length);

#endif
