/*
 * Requests of asynchronous I/O with their memory, in a lane: see file_scene.h. Part of the tests of
 * src/file/async.c.
 */
#ifndef TEST_ASYNC_SCENE_H
#define TEST_ASYNC_SCENE_H

#include "file_scene.h"

enum { BLOCK = 4096, BLOCKS = 512, DEPTH = 64, DISK = BLOCK * BLOCKS };

/* A request with its memory, as an application context would keep it. */
struct job {
    struct file_request request;
    struct iovec vector;
    uint8_t *data;
    _Atomic int done;
    ssize_t result;
    unsigned block, version;
};

extern struct file_lane *lane;
extern struct job jobs[DEPTH];

void job_prepare(struct job *job, enum file_operation operation, int fd, size_t length,
                 off_t offset);
void job_write(struct job *job, int fd, size_t length, off_t offset, unsigned version);
void submit(unsigned from, unsigned count);
bool job_is_done(void *context);
void wait_for_job(struct job *job);
void wait_for_jobs(unsigned from, unsigned count);
int lane_open(size_t size);
bool never(void *context);

#endif
