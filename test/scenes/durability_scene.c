/* See durability_scene.h. */
#include "durability_scene.h"
#include "run/directory.h"
#include "run/strays.h"

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

uint64_t set_aside(const char *of)
{
    static uint8_t bytes[RUN_STRAY_PIECE];
    static char text[RUN_STRAY_TEXT];
    struct run_stray_file file;
    struct run_stray stray = {0};
    struct stat status;
    char name[SCENE_PATH], path[SCENE_PATH];
    uint64_t offset;
    ssize_t length;
    int run = run_open();
    scene_file_path(path, of);
    CHECK_EQUAL(stat(path, &status), 0);
    snprintf(name, sizeof(name), RUN_STRAY_PREFIX "%llx.%llu.1", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino);
    if (run_stray_read(&file, run, name, text, &stray) == 0) {
        while ((length = run_stray_next(&file, &offset, bytes)) > 0)
            CHECK(data_is(bytes, (size_t)length, offset, 1));
        CHECK_EQUAL(length, 0);
        run_stray_close(&file);
    }
    run_close(run);
    return stray.bytes;
}
