/* What the tests of durability share: a file with data that is not committed. */
#ifndef DURABILITY_SCENE_H
#define DURABILITY_SCENE_H

#include "file_scene.h"

enum { SIZE = 100000, MEBIBYTE = 1 << 20 };

/* Adopts "f" and writes version 1 to it, uncommitted. */
static inline int written(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 1);
    return fd;
}

/* The same with a new file. */
static inline int written_anew(void)
{
    disk_make("f", 0, 0);
    return written();
}

static inline void writes_and_waits(void)
{
    written();
    step_done(0);
    step_wait(SCENE_STEPS - 1);
}

/* A process that has written a new file and has it open until the last step. */
static inline pid_t start_writer(void)
{
    disk_make("f", 0, 0);
    pid_t writer = scene_start(writes_and_waits);
    step_wait(0);
    return writer;
}

/* Version 1 is on the server's disk, not only in its memory. */
static inline void expect_durable(void)
{
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

#endif
