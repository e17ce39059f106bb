/* See async_scene.h. */
#include "async_scene.h"

struct file_lane *lane;

struct job jobs[DEPTH];

static void job_done(struct file_request *request)
{
    while (request) {
        struct job *job = (struct job *)((char *)request - offsetof(struct job, request));
        request = request->next;
        job->result = job->request.result;
        atomic_fetch_add(&job->done, 1);
    }
}

void job_prepare(struct job *job, enum file_operation operation, int fd, size_t length,
                 off_t offset)
{
    sys_critical_enter();
    job->request.open = file_get(fd);
    sys_critical_leave();
    CHECK(job->request.open != NULL);
    if (!job->data)
        job->data = malloc(4 << 20);
    job->vector = (struct iovec){job->data, length};
    job->request.operation = operation;
    job->request.fd = fd;
    job->request.vectors = &job->vector;
    job->request.count = 1;
    job->request.offset = offset;
    job->request.flags = 0;
    job->request.done = job_done;
    atomic_store(&job->done, 0);
}

void job_write(struct job *job, int fd, size_t length, off_t offset, unsigned version)
{
    job_prepare(job, FILE_WRITE, fd, length, offset);
    data_fill(job->data, length, (uint64_t)offset, version);
}

void submit(unsigned from, unsigned count)
{
    struct file_request *requests[DEPTH];
    for (unsigned i = 0; i < count; i++)
        requests[i] = &jobs[from + i].request;
    sys_critical_enter();
    file_submit(lane, requests, count);
    sys_critical_leave();
}

bool job_is_done(void *context)
{
    return atomic_load(&((struct job *)context)->done) == 1;
}

void wait_for_job(struct job *job)
{
    sys_critical_enter();
    CHECK(file_lane_wait(lane, job_is_done, job, 0));
    sys_critical_leave();
}

void wait_for_jobs(unsigned from, unsigned count)
{
    for (unsigned i = from; i < from + count; i++)
        wait_for_job(&jobs[i]);
}

int lane_open(size_t size)
{
    disk_make("f", size, 0);
    CHECK((lane = file_lane_new()) != NULL);
    return engine_adopt("f", O_RDWR);
}

bool never(void *context)
{
    (void)context;
    return false;
}
