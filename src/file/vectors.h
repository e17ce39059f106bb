/* Memory of the application, as vectors. */
#ifndef FILE_VECTORS_H
#define FILE_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The sum of the vectors, cut as the kernel does; -EINVAL, -EFAULT as readv(2). */
ssize_t file_total_length(const struct iovec *vectors, int count);
/* Is any of them one that no memory can be at? */
bool file_bad_vectors(const struct iovec *vectors, int count);
/* Copies to the vectors, behind their first `skip` bytes. 0 or -EFAULT. */
int file_give(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length);

#endif
