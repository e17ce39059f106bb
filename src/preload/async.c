/*
 * POSIX aio: glibc serves it from helper threads that call the kernel inside libc. A file that is
 * used so is handed to the kernel.
 */
#include "preload/preload.h"

static const char reason[] = "asynchronous I/O";

PRELOAD_EXPORT int aio_read(struct aiocb *request)
{
    if (preload_demote(request->aio_fildes, reason) < 0)
        return -1;
    return PRELOAD_REAL(aio_read)(request);
}

PRELOAD_EXPORT int aio_write(struct aiocb *request)
{
    if (preload_demote(request->aio_fildes, reason) < 0)
        return -1;
    return PRELOAD_REAL(aio_write)(request);
}

PRELOAD_EXPORT int aio_fsync(int operation, struct aiocb *request)
{
    if (preload_demote(request->aio_fildes, reason) < 0)
        return -1;
    return PRELOAD_REAL(aio_fsync)(operation, request);
}

PRELOAD_EXPORT int lio_listio(int mode, struct aiocb *const *list, int count,
                              struct sigevent *event)
{
    for (int i = 0; i < count; i++)
        if (list[i] != NULL && list[i]->aio_lio_opcode != LIO_NOP &&
            preload_demote(list[i]->aio_fildes, reason) < 0)
            return -1;
    return PRELOAD_REAL(lio_listio)(mode, list, count, event);
}

PRELOAD_ASYNC(PRELOAD_NOTHING, PRELOAD_ALIAS)
