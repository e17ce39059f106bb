/*
 * Managed descriptors.
 *
 * A managed descriptor is a real descriptor of the kernel that has a `file_open` in the table; its
 * number, flags, locks and offset are the kernel's. Everything returns a result or -errno; EINTR
 * never. A function that takes a descriptor may also return FILE_KERNEL: the file was handed to the
 * kernel ("demoted") before this call did any I/O, so the face makes the real call.
 *
 * Callers of the engine hold a critical section (sys/critical.h) from file_get() to file_put().
 */
#ifndef FILE_FILE_H
#define FILE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { FILE_KERNEL = -65536, FILE_TABLE_SIZE = 1 << 20 };

/* One call moves at most this many bytes: read(2), NOTES. */
#define FILE_TRANSFER_MAX ((size_t)0x7ffff000)

/* Since Linux 6.9: O_APPEND does not count for this write. */
enum { FILE_NOAPPEND = 0x20 }; /* RWF_NOAPPEND, which older headers lack */

struct file_open;

/* Managed descriptors, by number. NULL: the kernel's. Never locked; file_get() makes use safe
 * against close. */
extern _Atomic(struct file_open *) file_table[FILE_TABLE_SIZE];

/* One load for an unmanaged descriptor. */
static inline bool file_is_managed(int fd)
{
    return (unsigned)fd < FILE_TABLE_SIZE &&
           atomic_load_explicit(&file_table[fd], memory_order_relaxed) != NULL;
}

#endif
