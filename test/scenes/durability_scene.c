/* See durability_scene.h. */
#include "durability_scene.h"

int written(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 1);
    return fd;
}

int written_anew(void)
{
    disk_make("f", 0, 0);
    return written();
}

void writes_and_waits(void)
{
    written();
    step_done(0);
    step_wait(SCENE_STEPS - 1);
}

pid_t start_writer(void)
{
    disk_make("f", 0, 0);
    pid_t writer = scene_start(writes_and_waits);
    step_wait(0);
    return writer;
}

void expect_durable(void)
{
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}
