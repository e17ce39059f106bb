/* The end of a process whose first thread has ended, while the library has threads:
 * src/sys/thread.c. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/sys.h"
#include "sys/thread.h"
#include "unit.h"

static void *ends(void *ended)
{
    atomic_fetch_add((_Atomic int *)ended, 1);
    return NULL;
}

static void *stays(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void *works(void *unused)
{
    usleep(200000);
    _exit(7);
    return unused;
}

static void *returns(void *unused)
{
    return unused;
}

/* The process loses its first thread when it has threads of ours that ended and one that stays, and
 * one of the application, which runs `body`. Returns its exit status. */
static int process(void *(*body)(void *))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        _Atomic int ended = 0;
        pthread_t thread;
        alarm(600);
        for (int i = 0; i < 3; i++)
            sys_thread_start(ends, &ended, "a test");
        sys_thread_start(stays, NULL, "a test");
        while (atomic_load(&ended) < 3)
            usleep(1000);
        if (pthread_create(&thread, NULL, body, NULL) != 0)
            _exit(1);
        sys_thread_first_ends();
        pthread_exit(NULL);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

UNIT_TEST(it_lives_as_long_as_a_thread_of_the_application)
{
    assert_int_equal(process(works), 7);
}

UNIT_TEST(it_ends_with_the_last_one)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizer has a thread of its own, or looks for leaks at the end */
#endif
    assert_int_equal(process(returns), 0);
}

/* A process that has just opened its first file becomes another user. */
UNIT_TEST(a_thread_that_has_hardly_started_is_not_one_of_the_application)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* as above */
#endif
    int status;
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t one; /* where a new thread waits for its turn */
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof(one), &one);
        for (int i = 0; i < 20; i++) {
            if (!sys_thread_start(stays, NULL, "a test") || !sys_thread_alone())
                _exit(1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
