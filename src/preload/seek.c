/* lseek(2): the offset is the kernel's, the end of the file is the server's. */
#include "preload/preload.h"

PRELOAD_SLOW static off_t managed_lseek(int fd, off_t offset, int whence)
{
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    off_t result = file_lseek(open, fd, offset, whence);
    preload_leave(open);
    return preload_result(result);
}

PRELOAD_EXPORT off_t lseek(int fd, off_t offset, int whence)
{
    if (preload_managed(fd)) {
        off_t result = managed_lseek(fd, offset, whence);
        if (result != FILE_KERNEL)
            return result;
    }
    return PRELOAD_REAL(lseek)(fd, offset, whence);
}

PRELOAD_SEEK(PRELOAD_NOTHING, PRELOAD_ALIAS)
