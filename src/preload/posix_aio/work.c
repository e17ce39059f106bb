/*
 * POSIX AIO: workers, for requests that src/file carries out in the thread that asks: COMMITs,
 * transfers of several calls, and what the kernel has to do after all. Started on first need, one
 * more when all are busy; they live as long as the process.
 */

#include "preload/posix_aio/posix_aio.h"
#include "sys/thread.h"

enum { WORKERS = 4 };

/* Under posix_aio_lock. */
static struct posix_aio_cell *first, *last;
static unsigned queued, workers, idle;
static pthread_cond_t work_queued = PTHREAD_COND_INITIALIZER;

static void carry_out(struct posix_aio_cell *cell)
{
    struct file_request *file = &cell->base.file;
    ssize_t result = FILE_KERNEL;
    if (!cell->request.kernel) {
        if (file->operation == FILE_SYNC)
            result = file_fsync(file->open, preload_request_fd(&cell->base));
        else
            result = (file->operation == FILE_READ ? file_preadv : file_pwritev)(
                file->open, file->fd, file->vectors, file->count, file->offset, 0);
        file_put(file->open);
    }
    if (result == FILE_KERNEL)
        result = preload_request_by_kernel(&cell->base);
    posix_aio_end(cell, result);
}

/* NULL: the queue is empty. */
static struct posix_aio_cell *take_locked(void)
{
    struct posix_aio_cell *cell = first;
    if (cell) {
        posix_aio_work_remove_locked(cell);
        atomic_store(&cell->request.state, POSIX_AIO_RUNNING);
    }
    return cell;
}

static void *work(void *argument)
{
    (void)argument;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;) {
        struct posix_aio_cell *cell;
        pthread_mutex_lock(&posix_aio_lock);
        while ((cell = take_locked()) == NULL) {
            idle++;
            pthread_cond_wait(&work_queued, &posix_aio_lock);
            idle--;
        }
        pthread_mutex_unlock(&posix_aio_lock);
        carry_out(cell);
    }
    return NULL;
}

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

bool posix_aio_work_ready(void)
{
    pthread_mutex_lock(&posix_aio_lock);
    bool start = workers == 0;
    if (start)
        workers++;
    pthread_mutex_unlock(&posix_aio_lock);
    return !start || worker_start();
}

bool posix_aio_work_add_locked(struct posix_aio_cell *cell)
{
    atomic_store(&cell->request.state, POSIX_AIO_QUEUED);
    cell->request.next_work = NULL;
    if (first)
        last->request.next_work = cell;
    else
        first = cell;
    last = cell;
    queued++;
    pthread_cond_signal(&work_queued);
    return idle < queued && workers < WORKERS;
}

void posix_aio_work_more(void)
{
    pthread_mutex_lock(&posix_aio_lock);
    bool start = idle < queued && workers < WORKERS;
    if (start)
        workers++;
    pthread_mutex_unlock(&posix_aio_lock);
    if (!start || worker_start())
        return;
    /* Without any worker this thread has to do it. Only what the kernel is to do comes here: for
     * all else posix_aio_work_ready() was asked before. */
    pthread_mutex_lock(&posix_aio_lock);
    struct posix_aio_cell *cell = workers == 0 ? take_locked() : NULL;
    pthread_mutex_unlock(&posix_aio_lock);
    if (cell)
        carry_out(cell);
}

void posix_aio_work_remove_locked(struct posix_aio_cell *cell)
{
    struct posix_aio_cell *before = NULL, *at = first;
    while (at != cell) {
        before = at;
        at = at->request.next_work;
    }
    if (before)
        before->request.next_work = cell->request.next_work;
    else
        first = cell->request.next_work;
    if (last == cell)
        last = before;
    queued--;
}

void posix_aio_work_child(void)
{
    first = last = NULL;
    queued = workers = idle = 0;
    pthread_cond_init(&work_queued, NULL);
}
