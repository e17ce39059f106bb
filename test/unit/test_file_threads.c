/* Threads, children and processes that read and write at once. */
#include <pthread.h>

#include "durability_scene.h"
#include "rounds.h"

/* ---- fork and threads ---- */

static _Atomic bool stop;

static void *reads_and_writes(void *argument)
{
    int fd = *(int *)argument;
    static _Atomic unsigned number;
    unsigned self = atomic_fetch_add(&number, 1);
    off_t offset = (off_t)self * 65536;
    for (unsigned i = 1; !atomic_load(&stop); i++) {
        engine_put(fd, 8192, offset, i);
        engine_expect(fd, 8192, offset, i);
        if (i % 16 == 0)
            CHECK_EQUAL(engine_fsync(fd), 0);
    }
    return NULL;
}

ENGINE_TEST(fork_while_threads_do_io)
{
    enum { THREADS = 4 };
    const unsigned children = rounds_of(20);
    disk_make("f", MEBIBYTE, 1);
    int fd = engine_adopt("f", O_RDWR);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, reads_and_writes, &fd);
    for (unsigned i = 0; i < children; i++) {
        pid_t pid = engine_fork();
        if (pid == 0) {
            off_t offset = 8 * 65536;
            engine_put(fd, 30000, offset, i);
            engine_expect(fd, 30000, offset, i);
            CHECK_EQUAL(engine_fsync(fd), 0);
            CHECK_EQUAL(engine_size(fd), MEBIBYTE);
            CHECK_EQUAL(engine_close(fd), 0);
            _exit(0);
        }
        scene_wait(pid);
        disk_expect("f", 30000, 8 * 65536, i);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *loses_power(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < 10; i++) {
        usleep(30000);
        server_do(FILE_SERVER_LOSE_POWER);
    }
    atomic_store(&stop, true);
    return NULL;
}

/* Each thread reads what it wrote, whatever the server forgets. */
ENGINE_TEST(threads_during_power_losses)
{
    enum { THREADS = 4 };
    disk_make("f", MEBIBYTE, 1);
    int fd = engine_adopt("f", O_RDWR);
    pthread_t threads[THREADS], power;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, reads_and_writes, &fd);
    pthread_create(&power, NULL, loses_power, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(power, NULL);
}

enum { NUMBERED, ADOPTED }; /* steps, of how many processes */

static void writes_a_region(void)
{
    int number = atomic_fetch_add(&scene.shared->steps[NUMBERED], 1);
    int fd = engine_adopt("f", O_RDWR);
    atomic_fetch_add(&scene.shared->steps[ADOPTED], 1);
    off_t offset = (off_t)number * 65536;
    for (unsigned i = 1; i < 300; i++) {
        unsigned length = 100 + i * 131 % 20000;
        engine_put(fd, length, offset + i * 17 % 5000, i);
        engine_expect(fd, length, offset + i * 17 % 5000, i);
        if (i % 50 == 0)
            CHECK_EQUAL(engine_fsync(fd), 0);
    }
    engine_put(fd, 65536, offset, 77);
}

SCENE_TEST(processes_during_power_losses)
{
    enum { PROCESSES = 4 };
    disk_make("f", PROCESSES * 65536, 1);
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = scene_start(writes_a_region);
    /* A server that goes away during the first contact is left to the kernel. */
    while (atomic_load(&scene.shared->steps[ADOPTED]) < PROCESSES)
        usleep(1000);
    for (int i = 0; i < 10; i++) {
        usleep(20000);
        server_do(FILE_SERVER_LOSE_POWER);
    }
    for (int i = 0; i < PROCESSES; i++)
        scene_wait(pids[i]);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", PROCESSES * 65536, 0, 77);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
