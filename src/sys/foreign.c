#include "sys/foreign.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum { FORK_WAIT_MS = 1000, SHUT_WAIT_MS = 1000, SHUT_OUT_MS = 2000 };

/* ---- loading ---- */

void *sys_foreign_open(const char *soname, const char **why)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    *why = library ? NULL : dlerror();
    if (!library && !*why)
        *why = "no reason is told";
    return library;
}

/* Does an object define what is there without a version? Then what asks for one gets it as well. An
 * entry for calls of a function of another object is no definition. */
static bool has_no_version(void *function)
{
    struct link_map *map = NULL;
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    if (!dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
        symbol->st_shndx == SHN_UNDEF ||
        !dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return false;
    const ElfW(Dyn) *entry = map->l_ld;
    while (entry->d_tag != DT_NULL && entry->d_tag != DT_VERDEF)
        entry++;
    return entry->d_tag == DT_NULL;
}

bool sys_foreign_is_replaced(const char *name, const void *own)
{
    void *other = dlsym(RTLD_DEFAULT, name);
    if (!other)
        dlerror(); /* the program must not see our message */
    return other && other != own && has_no_version(other);
}

/* ---- the gates ---- */

/* Threads at the gate or inside, and forks under way. Who goes in counts itself first, and then
 * looks for a fork; who forks counts itself first, and then looks for threads. So one of them sees
 * the other. `inside` are those that passed the gate. */
static _Atomic unsigned coming[SYS_FOREIGNS], inside[SYS_FOREIGNS];
static _Atomic uint32_t forking;  /* also a futex for threads at the gate */
static _Atomic uint64_t begun_ns; /* when the last fork began */
static _Atomic bool lost[SYS_FOREIGNS];
static _Atomic uint64_t shut_ns[SYS_FOREIGNS]; /* until then; 0: never; see sys_foreign_shut() */
static __thread bool keeps[SYS_FOREIGNS];      /* this thread has shut it */

static __thread unsigned deep[SYS_FOREIGNS]; /* how often this thread is inside */
static __thread unsigned forks; /* forks that this thread began: a handler may fork amidst one */

static uint64_t deadline_ns(int milliseconds)
{
    return sys_now_ns() + (uint64_t)milliseconds * 1000000;
}

static int left_ms(uint64_t until_ns)
{
    int64_t left_ns = (int64_t)(until_ns - sys_now_ns());
    return left_ns <= 0 ? 0 : (int)(left_ns / 1000000) + 1;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, int milliseconds)
{
    struct timespec limit = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    sys_futex(word, FUTEX_WAIT_PRIVATE, seen, &limit);
}

/* For a second after its beginning only: the thread that forks may wait for a lock which this
 * thread holds, or a handler has left it by siglongjmp(). The child then knows that a thread was
 * inside. */
static void await_forks(enum sys_foreign which)
{
    uint32_t seen;
    int left;
    while ((seen = atomic_load(&forking)) > 0 &&
           (left = left_ms(atomic_load(&begun_ns) + FORK_WAIT_MS * UINT64_C(1000000))) > 0) {
        atomic_fetch_sub(&coming[which], 1);
        futex_wait(&forking, seen, left);
        atomic_fetch_add(&coming[which], 1);
    }
}

static bool is_shut(enum sys_foreign which)
{
    return left_ms(atomic_load(&shut_ns[which])) > 0;
}

/* Waits until the gate is open again, for two seconds at most. */
static bool await_opening(enum sys_foreign which)
{
    uint64_t until_ns = deadline_ns(SHUT_OUT_MS);
    while (is_shut(which) && left_ms(until_ns) > 0) {
        int left = left_ms(atomic_load(&shut_ns[which])), most = left_ms(until_ns);
        atomic_fetch_sub(&coming[which], 1);
        sys_nanosleep_ms(left < most ? left : most);
        atomic_fetch_add(&coming[which], 1);
    }
    return !is_shut(which);
}

bool sys_foreign_enter(enum sys_foreign which)
{
    if (atomic_load_explicit(&lost[which], memory_order_relaxed))
        return false;
    if (deep[which]++ > 0)
        return true;
    atomic_fetch_add(&coming[which], 1);
    if (__builtin_expect(atomic_load(&forking) > 0, false) && forks == 0)
        await_forks(which);
    if (__builtin_expect(atomic_load(&shut_ns[which]) > 0, false) && !keeps[which] &&
        !await_opening(which)) {
        atomic_fetch_sub(&coming[which], 1);
        deep[which]--;
        return false;
    }
    atomic_fetch_add(&inside[which], 1);
    return true;
}

void sys_foreign_leave(enum sys_foreign which)
{
    if (--deep[which] > 0)
        return;
    atomic_fetch_sub(&inside[which], 1);
    atomic_fetch_sub(&coming[which], 1);
}

bool sys_foreign_usable(enum sys_foreign which)
{
    return !atomic_load_explicit(&lost[which], memory_order_relaxed);
}

static bool has_others(enum sys_foreign which)
{
    return atomic_load(&coming[which]) > (deep[which] > 0 ? 1u : 0u);
}

static bool is_inside(void)
{
    bool any = false;
    for (int which = 0; which < SYS_FOREIGNS; which++)
        any = any || has_others((enum sys_foreign)which);
    return any;
}

void sys_foreign_fork_prepare(void)
{
    forks++;
    atomic_store(&begun_ns, sys_now_ns());
    atomic_fetch_add(&forking, 1);
}

void sys_foreign_fork_parent(void)
{
    if (forks == 0) /* the child: its handler has forgotten the fork */
        return;
    forks--;
    if (atomic_fetch_sub(&forking, 1) == 1)
        sys_futex(&forking, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

void sys_foreign_fork_begin(void)
{
    sys_foreign_fork_prepare();
    uint64_t until_ns = deadline_ns(FORK_WAIT_MS);
    while (is_inside() && left_ms(until_ns) > 0)
        sys_nanosleep_ms(1);
}

void sys_foreign_fork_end(void)
{
    sys_foreign_fork_parent();
}

void sys_foreign_shut(enum sys_foreign which, int milliseconds)
{
    uint64_t until_ns = deadline_ns(SHUT_WAIT_MS);
    keeps[which] = true;
    atomic_store(&shut_ns[which], deadline_ns(SHUT_WAIT_MS + milliseconds));
    while (has_others(which) && left_ms(until_ns) > 0)
        sys_nanosleep_ms(1);
    atomic_store(&shut_ns[which], deadline_ns(milliseconds));
}

bool sys_foreign_is_kept(enum sys_foreign which)
{
    return keeps[which] && is_shut(which);
}

/* ---- aside ---- */

enum { NEW, BEGUN, DONE };

struct job {
    void (*work)(void *argument);
    void *argument;
    _Atomic uint32_t state; /* a futex for the thread that waits */
    _Atomic unsigned users; /* of two threads: the last one frees it */
    struct job *next;
};

/* `jobs_lock` guards the list. It is only taken in critical sections, where no handler runs. */
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct job *jobs;
static _Atomic uint32_t submitted; /* a futex for the thread aside */
static _Atomic bool running;       /* there is such a thread */

static void job_put(struct job *job)
{
    if (atomic_fetch_sub(&job->users, 1) == 1)
        sys_free(job);
}

static struct job *job_take(void)
{
    pthread_mutex_lock(&jobs_lock);
    struct job *job = jobs;
    if (job) {
        jobs = job->next;
        atomic_store(&job->state, BEGUN);
    }
    pthread_mutex_unlock(&jobs_lock);
    return job;
}

static void *work_aside(void *unused)
{
    sys_critical_enter();
    for (;;) {
        uint32_t seen = atomic_load(&submitted);
        struct job *job = job_take();
        if (!job) {
            sys_futex(&submitted, FUTEX_WAIT_PRIVATE, seen, NULL);
            continue;
        }
        job->work(job->argument);
        atomic_store(&job->state, DONE);
        sys_futex(&job->state, FUTEX_WAKE_PRIVATE, 1, NULL);
        job_put(job);
    }
    return unused;
}

void sys_foreign_aside_start(void)
{
    if (!atomic_load_explicit(&running, memory_order_relaxed) && !atomic_exchange(&running, true) &&
        !sys_thread_start(work_aside, NULL, "encrypted I/O in signal handlers"))
        atomic_store(&running, false);
}

bool sys_foreign_aside_runs(void)
{
    return atomic_load_explicit(&running, memory_order_relaxed);
}

/* Takes back a job that did not begin. */
static void withdraw(struct job *job)
{
    pthread_mutex_lock(&jobs_lock);
    for (struct job **link = &jobs; *link; link = &(*link)->next) {
        if (*link != job)
            continue;
        *link = job->next;
        atomic_fetch_sub(&job->users, 1);
        break;
    }
    pthread_mutex_unlock(&jobs_lock);
}

static void submit(struct job *job)
{
    struct job **link = &jobs;
    pthread_mutex_lock(&jobs_lock);
    while (*link)
        link = &(*link)->next;
    *link = job;
    pthread_mutex_unlock(&jobs_lock);
    atomic_fetch_add(&submitted, 1);
    sys_futex(&submitted, FUTEX_WAKE_PRIVATE, 1, NULL);
}

int sys_foreign_aside(void (*work)(void *argument), void *argument, int timeout_ms)
{
    struct job *job = atomic_load(&running) ? sys_alloc_zeroed(sizeof(*job)) : NULL;
    if (!job)
        return -EAGAIN;
    job->work = work;
    job->argument = argument;
    atomic_store(&job->users, 2);
    sys_critical_enter();
    submit(job);
    uint64_t until_ns = deadline_ns(timeout_ms);
    uint32_t state;
    int left;
    while ((state = atomic_load(&job->state)) != DONE && (left = left_ms(until_ns)) > 0)
        futex_wait(&job->state, state, left);
    if (state == NEW)
        withdraw(job);
    state = atomic_load(&job->state); /* it may have begun meanwhile */
    job_put(job);
    sys_critical_leave();
    return state == DONE ? 0 : state == NEW ? -EAGAIN : -EINPROGRESS;
}

/* ---- the child of fork() ---- */

void sys_foreign_fork_child(void)
{
    for (int which = 0; which < SYS_FOREIGNS; which++) {
        unsigned own = deep[which] > 0 ? 1 : 0;
        if (atomic_load(&inside[which]) > own ||
            (is_shut((enum sys_foreign)which) && !keeps[which]))
            atomic_store(&lost[which], true);
        atomic_store(&inside[which], own);
        atomic_store(&coming[which], own);
    }
    atomic_store(&forking, 0);
    forks = 0;
    pthread_mutex_init(&jobs_lock, NULL);
    jobs = NULL; /* their memory is lost: a few bytes */
    atomic_store(&running, false);
}
