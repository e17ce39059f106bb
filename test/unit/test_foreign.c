/* The gates around libraries that are not ours, and work aside: src/sys/foreign.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/foreign.h"
#include "sys/sys.h"
#include "unit.h"

enum { NOT_YET, INSIDE, LEAVE, LEFT };

static _Atomic int step;

static void await(int wanted)
{
    while (atomic_load(&step) != wanted)
        usleep(1000);
}

/* A thread that is in the library until it is told to leave. */
static void *amidst(void *unused)
{
    if (sys_foreign_enter(SYS_FOREIGN_TLS))
        atomic_store(&step, INSIDE);
    await(LEAVE);
    sys_foreign_leave(SYS_FOREIGN_TLS);
    atomic_store(&step, LEFT);
    return unused;
}

static void start(pthread_t *thread, void *(*body)(void *))
{
    atomic_store(&step, NOT_YET);
    assert_int_equal(pthread_create(thread, NULL, body, NULL), 0);
}

/* Forks as the wrapper and the handlers do. Returns the exit status of check() in the child. */
static int forked(int (*check)(void))
{
    int status;
    sys_foreign_fork_begin();
    sys_foreign_fork_prepare();
    pid_t child = fork();
    if (child == 0) {
        sys_foreign_fork_child();
        sys_foreign_fork_end();
        sys_call1(SYS_exit_group, check()); /* nothing is looked for at the end */
    }
    sys_foreign_fork_parent();
    sys_foreign_fork_end();
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Which libraries can be used? A bit for each. */
static int usable(void)
{
    int bits = 0;
    for (int which = 0; which < SYS_FOREIGNS; which++) {
        bool enters = sys_foreign_enter((enum sys_foreign)which);
        if (enters)
            sys_foreign_leave((enum sys_foreign)which);
        if (enters != sys_foreign_usable((enum sys_foreign)which))
            return 100;
        bits |= enters << which;
    }
    return bits;
}

UNIT_TEST(all_can_be_used_after_a_fork)
{
    assert_int_equal(forked(usable), 3);
    assert_true(sys_foreign_enter(SYS_FOREIGN_TLS)); /* this thread alone is inside */
    assert_true(sys_foreign_enter(SYS_FOREIGN_TLS));
    assert_int_equal(forked(usable), 3);
    sys_foreign_leave(SYS_FOREIGN_TLS);
    sys_foreign_leave(SYS_FOREIGN_TLS);
}

UNIT_TEST(a_fork_amidst_a_call_loses_that_library_in_the_child)
{
    pthread_t thread;
    start(&thread, amidst);
    await(INSIDE);
    assert_int_equal(forked(usable), 1 << SYS_FOREIGN_KERBEROS);
    atomic_store(&step, LEAVE);
    pthread_join(thread, NULL);
    assert_int_equal(usable(), 3);
    assert_int_equal(forked(usable), 3);
}

static void *leaves_soon(void *unused)
{
    sys_foreign_enter(SYS_FOREIGN_KERBEROS);
    atomic_store(&step, INSIDE);
    usleep(50000);
    atomic_store(&step, LEFT);
    sys_foreign_leave(SYS_FOREIGN_KERBEROS);
    return unused;
}

static void *is_refused(void *unused)
{
    if (!sys_foreign_enter(SYS_FOREIGN_KERBEROS))
        atomic_store(&step, LEFT);
    return unused;
}

/* In a child, as the gates stay shut. */
static int ends(void)
{
    pthread_t one, other;
    start(&one, leaves_soon);
    await(INSIDE);
    sys_foreign_shut(SYS_FOREIGN_KERBEROS, SYS_FOREIGN_FOR_EVER);
    bool left = atomic_load(&step) == LEFT;
    atomic_store(&step, NOT_YET);
    pthread_create(&other, NULL, is_refused, NULL);
    pthread_join(other, NULL);
    return left && atomic_load(&step) == LEFT && usable() == 3;
}

UNIT_TEST(at_the_end_only_the_thread_that_ends_goes_in)
{
    assert_int_equal(forked(ends), 1);
}

UNIT_TEST(a_fork_waits_for_the_end_of_a_call)
{
    pthread_t thread;
    start(&thread, leaves_soon);
    await(INSIDE);
    assert_int_equal(forked(usable), 3);
    pthread_join(thread, NULL);
}

static void *wants_in(void *unused)
{
    atomic_store(&step, INSIDE);
    sys_foreign_enter(SYS_FOREIGN_TLS);
    atomic_store(&step, LEFT);
    sys_foreign_leave(SYS_FOREIGN_TLS);
    return unused;
}

UNIT_TEST(nobody_goes_in_while_a_fork_is_under_way)
{
    pthread_t thread;
    sys_foreign_fork_begin();
    start(&thread, wants_in);
    await(INSIDE);
    usleep(20000);
    assert_int_equal(atomic_load(&step), INSIDE);
    sys_foreign_fork_end();
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&step), LEFT);
}

static void *goes_in_after_all(void *unused)
{
    sys_foreign_enter(SYS_FOREIGN_KERBEROS);
    atomic_store(&step, LEFT);
    sys_foreign_leave(SYS_FOREIGN_KERBEROS);
    return unused;
}

UNIT_TEST(a_pause_waits_for_the_end_of_a_call_and_passes)
{
    pthread_t one, other;
    start(&one, leaves_soon);
    await(INSIDE);
    uint64_t begun_ns = sys_now_ns();
    sys_foreign_shut(SYS_FOREIGN_KERBEROS, 100);
    assert_int_equal(atomic_load(&step), LEFT);
    pthread_join(one, NULL);
    assert_int_equal(usable(), 3);
    start(&other, goes_in_after_all);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&step), LEFT);
    assert_true(sys_now_ns() - begun_ns >= 100000000);
}

static void *forks_too_late(void *result)
{
    *(int *)result = forked(usable);
    return NULL;
}

static int loses_in_a_child(void)
{
    pthread_t thread;
    int result = -1;
    sys_foreign_shut(SYS_FOREIGN_KERBEROS, SYS_FOREIGN_FOR_EVER);
    pthread_create(&thread, NULL, forks_too_late, &result);
    pthread_join(thread, NULL);
    return result;
}

UNIT_TEST(a_child_made_at_the_end_by_another_thread_has_none)
{
    assert_int_equal(forked(loses_in_a_child), 1 << SYS_FOREIGN_TLS);
}

/* libc forks, so only the handlers are called. */
UNIT_TEST(handlers_alone_do_not_wait)
{
    pthread_t thread;
    start(&thread, amidst);
    await(INSIDE);
    sys_foreign_fork_prepare();
    pid_t child = fork();
    if (child == 0) {
        sys_foreign_fork_child();
        sys_call1(SYS_exit_group, usable());
    }
    sys_foreign_fork_parent();
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 1 << SYS_FOREIGN_KERBEROS);
    atomic_store(&step, LEAVE);
    pthread_join(thread, NULL);
    start(&thread, wants_in); /* the fork is over */
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&step), LEFT);
}

/* ---- aside ---- */

static _Atomic int done;

static void work(void *thread)
{
    *(pid_t *)thread = sys_gettid();
    atomic_fetch_add(&done, 1);
}

static void waits(void *unused)
{
    (void)unused;
    atomic_store(&step, INSIDE);
    await(LEAVE);
    atomic_store(&step, LEFT);
}

static int without_a_thread(void)
{
    pid_t thread;
    return sys_foreign_aside(work, &thread, 1000) == -EAGAIN ? 0 : 1;
}

UNIT_TEST(work_aside)
{
    pid_t thread = 0;
    assert_int_equal(forked(without_a_thread), 0);
    sys_foreign_aside_start();
    sys_foreign_aside_start();
    assert_int_equal(sys_foreign_aside(work, &thread, 60000), 0);
    assert_int_equal(atomic_load(&done), 1);
    assert_true(thread != 0 && thread != sys_gettid());
    assert_int_equal(forked(without_a_thread), 0);
}

UNIT_TEST(work_aside_that_does_not_end_in_time)
{
    pid_t thread;
    int before = atomic_load(&done);
    sys_foreign_aside_start();
    atomic_store(&step, NOT_YET);
    int result;
    while ((result = sys_foreign_aside(waits, NULL, 20)) == -EAGAIN) /* a busy machine */
        ;
    assert_int_equal(result, -EINPROGRESS);
    await(INSIDE);
    assert_int_equal(sys_foreign_aside(work, &thread, 20), -EAGAIN); /* and never will be */
    atomic_store(&step, LEAVE);
    await(LEFT);
    assert_int_equal(sys_foreign_aside(work, &thread, 60000), 0);
    assert_int_equal(atomic_load(&done), before + 1);
}

UNIT_TEST(a_library_that_is_not_there)
{
    const char *why = NULL;
    assert_null(sys_foreign_open("libdirectnfs-no-such.so.9", &why));
    assert_non_null(strstr(why, "libdirectnfs-no-such.so.9"));
    assert_non_null(sys_foreign_open("libc.so.6", &why));
    assert_null(why);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
