/*
 * A timer interrupts at 1 kHz while a file is read and written. Handlers do I/O on the same file,
 * and leave by siglongjmp(). No call is ever interrupted, nothing hangs, nothing is torn.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

#include "program.h"

enum { BLOCK = 8192, BLOCKS = 64, SECONDS = 2 };

static int fd;
static volatile sig_atomic_t ticks, in_main, jumping;
static sigjmp_buf out;
static atomic_long from_queue;

static void on_tick(int number)
{
    int saved = errno;
    char got[512];
    off_t at = (off_t)BLOCK * BLOCKS + (ticks % 8) * (off_t)sizeof(got);
    (void)number;
    ticks++;
    fill(got, sizeof(got), (uint64_t)at, 9);
    CHECK(pwrite(fd, got, sizeof(got), at) == (ssize_t)sizeof(got));
    memset(got, 0, sizeof(got));
    CHECK(pread(fd, got, sizeof(got), at) == (ssize_t)sizeof(got));
    CHECK(differs(got, sizeof(got), (uint64_t)at, 9) < 0);
    errno = saved;
    if (jumping && in_main)
        siglongjmp(out, 1);
}

static void on_queued(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (info->si_code == SI_QUEUE)
        atomic_fetch_add(&from_queue, info->si_value.sival_int);
}

static void timer(long microseconds)
{
    struct itimerval interval = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
}

static void handle(int flags)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = flags}, old;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    /* What was set is what is shown. */
    CHECK(sigaction(SIGALRM, NULL, &old) == 0);
    CHECK(old.sa_handler == on_tick && (old.sa_flags & ~0x04000000) == flags);
    CHECK(sigismember(&old.sa_mask, SIGUSR2) == 1 && sigismember(&old.sa_mask, SIGINT) == 0);
}

static bool passed(time_t end)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec >= end;
}

static time_t later(int seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + seconds;
}

static void io(uint64_t *random)
{
    static char block[BLOCK];
    off_t at = (off_t)(next_random(random) % BLOCKS) * BLOCK;
    if (next_random(random) % 4 == 0) {
        fill(block, BLOCK, (uint64_t)at, 3);
        CHECK(pwrite(fd, block, BLOCK, at) == BLOCK);
    } else {
        CHECK(pread(fd, block, BLOCK, at) == BLOCK);
        CHECK(differs(block, BLOCK, (uint64_t)at, 3) < 0);
    }
    if (next_random(random) % 64 == 0)
        CHECK(fdatasync(fd) == 0);
}

/* Handlers that return. */
static void returning(int flags)
{
    uint64_t random = 88172645463325252u;
    int before = ticks;
    handle(flags);
    timer(1000);
    for (time_t end = later(SECONDS); !passed(end);)
        io(&random);
    timer(0);
    if (ticks - before < 20)
        fail("the timer came %d times in %d s only", (int)ticks - before, SECONDS);
}

static void nothing_blocked(void)
{
    sigset_t mask;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigismember(&mask, number) == 1)
            fail("signal %d stayed blocked", number);
}

/* Handlers that jump away: the signal mask comes back with them. */
static void jumping_out(void)
{
    volatile uint64_t random = 1442695040888963407u;
    volatile int jumps = 0;
    handle(SA_RESTART);
    time_t end = later(SECONDS);
    jumping = 1;
    timer(1000);
    if (sigsetjmp(out, 1))
        jumps++;
    in_main = 1;
    while (!passed(end)) {
        uint64_t state = random;
        io(&state);
        random = state;
    }
    in_main = 0;
    jumping = 0;
    timer(0);
    if (jumps < 20)
        fail("only %d jumps", jumps);
    nothing_blocked();
}

/* None of the queued signals is lost, and each comes with its value, though the timer, too, ticks:
 * several signals are pending at once. */
static void *queueing(void *argument)
{
    pthread_t target = *(pthread_t *)argument;
    for (int i = 0; i < 2000; i++) {
        union sigval value = {.sival_int = 1};
        int error;
        while ((error = pthread_sigqueue(target, SIGRTMIN + 1, value)) == EAGAIN)
            usleep(100);
        CHECK(error == 0);
        if (i % 16 == 0)
            usleep(300);
    }
    return NULL;
}

static void queued(void)
{
    struct sigaction action = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(SIGRTMIN + 1, &action, NULL) == 0);
    handle(SA_RESTART);
    timer(1000);
    pthread_t self = pthread_self(), thread;
    CHECK(pthread_create(&thread, NULL, queueing, &self) == 0);
    uint64_t random = 7046029254386353131u;
    for (time_t end = later(20); atomic_load(&from_queue) < 2000 && !passed(end);)
        io(&random);
    CHECK(pthread_join(thread, NULL) == 0);
    timer(0);
    nothing_blocked();
    if (atomic_load(&from_queue) != 2000)
        fail("%ld of 2000 queued signals came", atomic_load(&from_queue));
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt() */

static volatile sig_atomic_t once;
static void on_once(int number)
{
    (void)number;
    once++;
}

static void kinds(void)
{
    struct sigaction old, action = {.sa_handler = on_once, .sa_flags = (int)SA_RESETHAND};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && once == 1);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR1, on_once) == SIG_DFL);
    CHECK(signal(SIGUSR1, SIG_IGN) == on_once);
    CHECK(raise(SIGUSR1) == 0 && once == 1);
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
    CHECK(sysv_signal(SIGUSR1, on_once) == SIG_DFL);
    CHECK(raise(SIGUSR1) == 0 && once == 2);
    CHECK(signal(SIGUSR1, on_once) == SIG_DFL);
    CHECK(siginterrupt(SIGUSR1, 1) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == on_once &&
          !(old.sa_flags & SA_RESTART));
    errno = 0;
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(0, &action, NULL) == -1 && sigaction(1000, NULL, &old) == -1);
}

/* By the system call itself, as some runtimes do: its structure is the kernel's, not libc's. */
static void by_number(void)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } now, old;
    struct sigaction action = {.sa_handler = on_once, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &now, sizeof(now.mask)) == 0);
    CHECK(now.handler == on_once && (now.flags & SA_RESTART));
    CHECK(now.mask == 1ul << (SIGUSR2 - 1));
    now.handler = SIG_IGN;
    now.mask = 1ul << (SIGHUP - 1);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, &now, &old, sizeof(now.mask)) == 0);
    CHECK(old.handler == on_once && raise(SIGUSR1) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
    CHECK(sigismember(&action.sa_mask, SIGHUP) && !sigismember(&action.sa_mask, SIGUSR2));
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

static sigjmp_buf before_fault;

static void on_fault(int number)
{
    siglongjmp(before_fault, number);
}

/* Memory that is not there is an error of the call, and no signal; whoever has a handler for that
 * signal sees no difference either. */
static void memory_that_is_not_there(void)
{
    long page = sysconf(_SC_PAGESIZE);
    char *memory =
        mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + page, (size_t)page, PROT_NONE) == 0);
    CHECK(signal(SIGSEGV, on_fault) == SIG_DFL && signal(SIGUSR1, on_once) == SIG_DFL);
    int before = once, number = sigsetjmp(before_fault, 1);
    if (number != 0)
        fail("a signal %d where an error was due", number);
    CHECK(pwrite(fd, memory + page, 100, 0) == -1 && errno == EFAULT);
    ssize_t part = pwrite(fd, memory + page - 100, 200, 0);
    CHECK(part == 100 || (part == -1 && errno == EFAULT));
    CHECK(pread(fd, memory + page, 100, 0) == -1 && errno == EFAULT);
    CHECK(preadv(fd, (void *)-1, 1, 0) == -1 && errno == EFAULT);
    CHECK(pwrite(fd, (void *)-100, 10, 0) == -1 && errno == EFAULT);
    CHECK(raise(SIGUSR1) == 0 && once == before + 1);
    char block[100];
    fill(block, sizeof(block), 0, 3);
    CHECK(pwrite(fd, block, sizeof(block), 0) == sizeof(block) && fsync(fd) == 0);
    number = sigsetjmp(before_fault, 1);
    if (number == 0)
        *(volatile char *)(memory + page) = 1;
    CHECK(number == SIGSEGV);
    CHECK(signal(SIGSEGV, SIG_DFL) == on_fault && signal(SIGUSR1, SIG_DFL) == on_once);
}

/* ---- sent, and not raised by a fault ---- */

enum { HANDLED = 42 };

static void work_until_it_comes(int number, bool handled)
{
    const struct rlimit none = {0, 0};
    uint64_t random = 88172645463325252u;
    setrlimit(RLIMIT_CORE, &none);
    once = 0;
    CHECK(signal(number, handled ? on_once : SIG_DFL) == SIG_DFL);
    while (!once)
        io(&random);
    _exit(HANDLED);
}

/* As for a core file of a program that hangs. Mostly the child is in a call. */
static void sent(int number, bool handled)
{
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0)
        work_until_it_comes(number, handled);
    usleep(100000);
    CHECK(kill(child, number) == 0);
    if (!ends_within(child, 20, &status))
        fail("signal %d, %s: the child neither ends nor handles it", number,
             handled ? "with a handler" : "without");
    if (handled ? !WIFEXITED(status) || WEXITSTATUS(status) != HANDLED : WTERMSIG(status) != number)
        fail("signal %d: status %#x", number, (unsigned)status);
}

static void sent_and_not_raised(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE};
    for (int i = 0; i < 12; i++)
        sent(numbers[i % 3], i % 2);
}

/* ---- no room ---- */

/* A timer has room for its own signal, which is not lost though there is none for another. */
static void no_room_for_another(void)
{
    enum { SHOTS = 50 };
    struct sigaction action = {.sa_handler = on_once, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2};
    struct rlimit room, before;
    uint64_t random = 88172645463325252u;
    timer_t timer;
    CHECK(sigaction(SIGRTMIN + 2, &action, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(getrlimit(RLIMIT_SIGPENDING, &before) == 0);
    room = before;
    room.rlim_cur = 1;
    CHECK(setrlimit(RLIMIT_SIGPENDING, &room) == 0);
    for (int i = 0; i < SHOTS; i++) {
        int came = once;
        struct itimerspec shot = {.it_value = {0, 200000 + i * 4000}};
        CHECK(timer_settime(timer, 0, &shot, NULL) == 0);
        for (time_t end = later(10); once == came && !passed(end);)
            io(&random);
        if (once == came)
            fail("the signal of a timer is lost");
    }
    CHECK(setrlimit(RLIMIT_SIGPENDING, &before) == 0 && timer_delete(timer) == 0);
}

int main(int argc, char **argv)
{
    const char *path = below(directory(argc, argv), "signals");
    static char block[BLOCK];
    CHECK((fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666)) >= 0);
    for (int i = 0; i < BLOCKS; i++) {
        fill(block, BLOCK, (uint64_t)i * BLOCK, 3);
        CHECK(write(fd, block, BLOCK) == BLOCK);
    }
    kinds();
    by_number();
    returning(0); /* without SA_RESTART: EINTR would show */
    returning(SA_RESTART | SA_NODEFER);
    jumping_out();
    queued();
    memory_that_is_not_there();
    sent_and_not_raised();
    no_room_for_another();
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(pread(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK);
        CHECK(differs(block, BLOCK, (uint64_t)i * BLOCK, 3) < 0);
    }
    CHECK(close(fd) == 0);
    CHECK(unlink(path) == 0);
    return 0;
}
