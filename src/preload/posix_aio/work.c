/*
 * POSIX AIO: workers. They serve requests that the engine carries out in the calling thread:
 * COMMITs, transfers of several calls, and requests that the kernel must serve after all. The first
 * one starts when it is needed, one more when all are busy. They live as long as the process.
 */

#include "durable/fsync.h"
#include "file/table.h"
#include "ahead/buffered.h"
#include "io/write.h"
#include "preload/posix_aio/posix_aio.h"
#include "sys/thread.h"

enum { WORKERS = 4 };

/* Guarded by posix_aio_lock. */
static struct posix_aio_list queue = TAILQ_HEAD_INITIALIZER(queue);
static unsigned workers, idle;
static pthread_cond_t work_queued = PTHREAD_COND_INITIALIZER;

static void carry_out(struct posix_aio_request *request)
{
    struct async_request *file = &request->base.file;
    ssize_t result = FILE_KERNEL;
    if (!request->kernel) {
        if (file->operation == ASYNC_SYNC)
            result = durable_fsync(file->open, preload_request_fd(&request->base));
        else
            result = (file->operation == ASYNC_READ ? ahead_preadv : io_pwritev)(
                file->open, file->fd, file->vectors, file->count, file->offset, 0);
        file_put(file->open);
    }
    if (result == FILE_KERNEL)
        result = preload_request_by_kernel(&request->base);
    posix_aio_end(request, result);
}

static void *work(void *argument);

/* `workers` counts it already. */
static bool worker_start(void)
{
    if (sys_thread_start(work, NULL, "asynchronous I/O"))
        return true;
    pthread_mutex_lock(&posix_aio_lock);
    workers--;
    pthread_mutex_unlock(&posix_aio_lock);
    return false;
}

static void *work(void *argument)
{
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;) {
        struct posix_aio_request *request;
        pthread_mutex_lock(&posix_aio_lock);
        while ((request = TAILQ_FIRST(&queue)) == NULL) {
            idle++;
            pthread_cond_wait(&work_queued, &posix_aio_lock);
            idle--;
        }
        posix_aio_work_remove_locked(request);
        atomic_store(&request->state, POSIX_AIO_RUNNING);
        bool more = idle == 0 && workers < WORKERS;
        if (more)
            workers++;
        pthread_mutex_unlock(&posix_aio_lock);
        if (more)
            (void)worker_start();
        carry_out(request);
    }
    return argument;
}

bool posix_aio_work_ready(void)
{
    pthread_mutex_lock(&posix_aio_lock);
    bool start = workers == 0;
    if (start)
        workers++;
    pthread_mutex_unlock(&posix_aio_lock);
    return !start || worker_start();
}

void posix_aio_work_add_locked(struct posix_aio_request *request)
{
    atomic_store(&request->state, POSIX_AIO_QUEUED);
    TAILQ_INSERT_TAIL(&queue, request, work);
    pthread_cond_signal(&work_queued);
}

void posix_aio_work_remove_locked(struct posix_aio_request *request)
{
    TAILQ_REMOVE(&queue, request, work);
}

void posix_aio_work_child(void)
{
    TAILQ_INIT(&queue);
    workers = idle = 0;
    pthread_cond_init(&work_queued, NULL);
}
