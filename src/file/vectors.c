/* The application's memory, as vectors. */
#include "file/vectors.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "file/file.h"
#include "sys/critical.h"
#include "sys/probe.h"
#include "sys/sys.h"

ssize_t file_total_length(const struct iovec *vectors, int count)
{
    if (count < 0 || count > IOV_MAX)
        return -EINVAL;
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        if (vectors[i].iov_len > (size_t)SSIZE_MAX - total) /* no process has so much memory */
            return vectors[i].iov_len > SSIZE_MAX ? -EINVAL : -EFAULT;
        total += vectors[i].iov_len;
    }
    return (ssize_t)(total < FILE_TRANSFER_MAX ? total : FILE_TRANSFER_MAX);
}

bool file_bad_vectors(const struct iovec *vectors, int count)
{
    bool bad = false;
    for (int i = 0; i < count && !bad; i++)
        bad = vectors[i].iov_len && sys_bad_pointer(vectors[i].iov_base);
    return bad;
}

static void copy(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length)
{
    while (skip >= vectors->iov_len)
        skip -= vectors++->iov_len;
    while (length > 0) {
        size_t room = vectors->iov_len - skip, part = length < room ? length : room;
        memcpy((uint8_t *)vectors->iov_base + skip, data, part);
        data += part;
        length -= part;
        skip = 0;
        vectors++;
    }
}

static int probe(const struct iovec *vectors, size_t skip, size_t length)
{
    int result = 0;
    while (skip >= vectors->iov_len)
        skip -= vectors++->iov_len;
    while (length > 0 && result == 0) {
        size_t room = vectors->iov_len - skip, part = length < room ? length : room;
        result = sys_probe_write((uint8_t *)vectors->iov_base + skip, part);
        length -= part;
        skip = 0;
        vectors++;
    }
    return result;
}

/* A copy to the application. */
struct piece {
    const struct iovec *vectors;
    size_t skip;
    const uint8_t *data;
    size_t length;
};

static void copy_piece(const void *argument)
{
    const struct piece *piece = argument;
    copy(piece->vectors, piece->skip, piece->data, piece->length);
}

int file_give(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length)
{
    const struct piece piece = {vectors, skip, data, length};
    if (sys_critical_can_guard())
        return sys_critical_guarded(copy_piece, &piece);
    int result = probe(vectors, skip, length);
    if (result == 0)
        copy(vectors, skip, data, length);
    return result;
}
