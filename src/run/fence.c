#include "run/fence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "run/directory.h"
#include "run/identity.h"
#include "sys/fd.h"
#include "sys/hash.h"
#include "sys/sys.h"

#define MAGIC UINT64_C(0x3165636e65464e44) /* "DNFence1" in memory */

enum { FILE_NAME = 128, PAUSE_MS = 5, LOOKS = 200 };

struct record {
    uint64_t magic, boot, verifier, state;
    uint64_t sum; /* of the others: a reader without the lock may see half of a change */
};

static void name_file(const char *server, const char *name, char file[FILE_NAME])
{
    uint64_t hash = sys_hash(SYS_HASH_NONE, server, strlen(server));
    snprintf(file, FILE_NAME, "fence.%.64s.%016llx", name, (unsigned long long)hash);
}

static uint64_t sum_of(const struct record *record)
{
    const uint64_t words[] = {record->magic, record->boot, record->verifier, record->state};
    uint64_t sum = 1;
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

/* False: the record makes no sense, at this moment. */
static bool read_record(int fd, struct run_fence *fence)
{
    struct record record;
    *fence = (struct run_fence){.state = RUN_FENCE_NONE};
    ssize_t got = sys_pread(fd, &record, sizeof(record), 0);
    if (got == 0)
        return true; /* the file was just made */
    if (got != sizeof(record) || record.magic != MAGIC || record.sum != sum_of(&record))
        return false;
    uint64_t boot = run_boot_id();
    if (boot == 0) /* reading it takes a descriptor, too */
        fence->state = RUN_FENCE_UNKNOWN;
    if (boot == 0 || record.boot != boot || record.state > RUN_FENCE_LOST)
        return true;
    fence->state = (enum run_fence_state)record.state;
    fence->verifier = record.verifier;
    return true;
}

bool run_fence_is_shortage(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

int run_fence_lock(const char *server, const char *name, int timeout_ms)
{
    char file[FILE_NAME];
    uint64_t until = timeout_ms > 0 ? sys_now_ns() + (uint64_t)timeout_ms * 1000000 : UINT64_MAX;
    name_file(server, name, file);
    int run = run_make();
    int fd = run < 0 ? run : run_open_file(run, file, O_RDWR | O_CREAT);
    run_close(run);
    if (fd < 0)
        return fd;
    fd = sys_fd_protect(fd);
    int error;
    while ((error = (int)sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB)) == -EWOULDBLOCK) {
        if (sys_now_ns() >= until) {
            error = -ETIMEDOUT;
            break;
        }
        sys_nanosleep_ms(PAUSE_MS);
    }
    if (error != 0)
        sys_fd_close(fd);
    return error != 0 ? error : fd;
}

void run_fence_unlock(int fd)
{
    sys_call2(SYS_flock, fd, LOCK_UN); /* a child of fork() may still have the descriptor */
    sys_fd_close(fd);
}

void run_fence_drop(int fd)
{
    sys_fd_close(fd);
}

void run_fence_read(int fd, struct run_fence *fence)
{
    read_record(fd, fence);
}

int run_fence_write(int fd, const struct run_fence *fence)
{
    struct record record = {
        .magic = MAGIC, .boot = run_boot_id(), .verifier = fence->verifier, .state = fence->state};
    if (record.boot == 0)
        return -ENODATA; /* nobody could tell it from another boot's */
    record.sum = sum_of(&record);
    ssize_t put = sys_call4(SYS_pwrite64, fd, &record, sizeof(record), 0);
    return put == sizeof(record) ? 0 : put < 0 ? (int)put : -ENOSPC;
}

void run_fence_look(const char *server, const char *name, struct run_fence *fence)
{
    char file[FILE_NAME];
    *fence = (struct run_fence){.state = RUN_FENCE_NONE};
    name_file(server, name, file);
    int fd = run_open_named(file, O_RDONLY);
    if (run_fence_is_shortage(fd))
        fence->state = RUN_FENCE_UNKNOWN;
    if (fd < 0)
        return;
    for (int i = 0; i < LOOKS && !read_record(fd, fence); i++)
        sys_nanosleep_ms(1);
    sys_close(fd);
}
