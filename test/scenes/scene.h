/*
 * The server of file_server.h with an exported directory on /dev/shm, and fresh processes that use
 * the engine without any preloading: how they begin, wait for one another, and end.
 */
#ifndef TEST_SCENE_H
#define TEST_SCENE_H

#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "config/tunables.h"
#include "durable/agent.h"
#include "mount/vouch.h"
#include "async/async.h"
#include "durable/behind.h"
#include "file/file.h"
#include "file/inode.h"
#include "file_data.h"
#include "file_server.h"
#include "stats/count.h"
#include "ledger/agent.h"
#include "ledger/store/processes.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "unit.h"

/* test/lib/limit.c ends a program that hangs before that; this is for processes that it leaves, and
 * long enough for a machine of which it gets little. */
enum { SCENE_LIMIT_S = 1200, SCENE_STEPS = 16, SCENE_PATH = 1024, PAGE_BYTES = 8192 };

struct scene_shared {
    struct file_control control;
    _Atomic int steps[SCENE_STEPS];
};

/* Owned by the test's first process; the others have copies, but for what is shared. */
struct scene {
    char top[64];       /* everything is below it */
    char directory[80]; /* exported, and the mount */
    struct scene_shared *shared;
    struct file_control *control;
    int commands; /* to the server */
    pid_t server;
    pid_t agent;        /* 0: nobody writes behind */
    const char *nfstab; /* NULL: one export; else a text with %s for directory and %u for port */
    char conf[256];
};

extern struct scene scene;

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

#define CHECK_EQUAL(left, right)                                                             \
    do {                                                                                     \
        long long check_left = (long long)(left), check_right = (long long)(right);          \
        if (check_left != check_right) {                                                     \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, #left, \
                    check_left, check_right, #right);                                        \
            _exit(1);                                                                        \
        }                                                                                    \
    } while (0)

/* ---- the server ---- */

void server_do(enum file_server_command command);
unsigned server_calls(enum nfs_procedure procedure);
void server_fail(enum nfs_procedure procedure, unsigned count, uint32_t status);
void server_hold(enum nfs_procedure procedure);
void server_release(void);
void server_wait_held(unsigned count);

/* ---- steps, by which processes wait for one another ---- */

void step_done(int step);
void step_wait(int step);

/* ---- processes ---- */

void scene_file_path(char path[SCENE_PATH], const char *name);
void scene_environment(void);
void scene_start_agent(void);

/* The processes that start from now on have these tunables. If they write behind there is an agent.
 */
void scene_configure(const char *tunables);

/* Starts a fresh process that uses the engine; it ends with fd_finish() when `body` returns. Not
 * for a process that uses the engine itself: see engine_fork(). */
pid_t scene_start(void (*body)(void));
void scene_wait(pid_t pid);
void scene_run(void (*body)(void));

/* SIGKILL, as a crash. */
void scene_kill(pid_t pid);

/* Starts a process that writes after its step 0, which the server holds, and then another, until
 * its step 1. */
void scene_start_behind(void (*first)(void), void (*second)(void), pid_t started[2]);

/* The same until both end: the second is to send no WRITE before the first has its answer. */
void scene_run_behind(void (*first)(void), void (*second)(void));

/* fork() of a process that uses the engine, as the face does it. */
pid_t engine_fork(void);

#endif
