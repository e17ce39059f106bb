#include "file/fetched.h"

#include "file/getattr.h"
#include "file/lane.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    LOOK_MS = 50,
    FILES = 4 /* of the process that may have as much as the tunable allows for one */
};

#define LIFE_NS UINT64_C(1000000000)
#define LOOK_NS (LOOK_MS * UINT64_C(1000000))

/* Those of this process. `all_lock` is held briefly. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_fetched *all;
static _Atomic size_t bytes_ahead; /* of all open files */

/* ---- parts ---- */

/* Their `done`. After it the lane is still looked at, the parts are not. */
static void parts_done(struct file_request *first)
{
    while (first) {
        struct file_part *part = (struct file_part *)first;
        first = first->next;
        if (part->request.result > 0)
            stats_add(&stats_own->counters.read_ahead_bytes, (uint64_t)part->request.result);
        atomic_store_explicit(&part->done, true, memory_order_release);
    }
}

bool file_part_is_done(void *part)
{
    return atomic_load_explicit(&((struct file_part *)part)->done, memory_order_acquire);
}

struct file_part *file_part_new(struct file_open *open, uint64_t offset, size_t length)
{
    size_t most = (size_t)file_tunables.read_ahead_max * FILES;
    struct file_part *part = NULL;
    size_t cost = length + sizeof(*part);
    if (atomic_fetch_add(&bytes_ahead, cost) + cost <= most)
        part = sys_alloc(sizeof(*part));
    void *data = part ? sys_alloc(length) : NULL;
    if (!data) {
        atomic_fetch_sub(&bytes_ahead, cost);
        sys_free(part);
        return NULL;
    }
    part->vector = (struct iovec){data, length};
    part->request.operation = FILE_READ_AHEAD;
    part->request.open = open;
    part->request.fd = -1;
    part->request.vectors = &part->vector;
    part->request.count = 1;
    part->request.offset = (off_t)offset;
    part->request.flags = 0;
    part->request.done = parts_done;
    part->announced = false;
    part->used = 0;
    atomic_store_explicit(&part->done, false, memory_order_relaxed);
    return part;
}

static void part_free(struct file_part *part)
{
    atomic_fetch_sub(&bytes_ahead, part->vector.iov_len + sizeof(*part));
    stats_add(&stats_own->counters.read_ahead_used, part->used);
    sys_free(part->vector.iov_base);
    sys_free(part);
}

void file_fetched_drop(struct file_fetched *fetched, unsigned index)
{
    part_free(fetched->parts[index]);
    fetched->parts[index] = fetched->parts[--fetched->count];
}

uint64_t file_fetched_fresh_since(struct file_inode *inode)
{
    uint64_t since_ns = file_fresh_since(inode), now_ns = sys_now_ns();
    return since_ns + LIFE_NS > now_ns ? since_ns : now_ns - LIFE_NS;
}

void file_fetched_drop_outside(struct file_fetched *fetched, uint64_t start, uint64_t end)
{
    uint64_t since_ns = file_fetched_fresh_since(fetched->open->inode);
    for (unsigned i = fetched->count; i-- > 0;) {
        struct file_part *part = fetched->parts[i];
        bool outside =
            !part->announced && (file_part_end(part) <= start || file_part_start(part) >= end);
        if (file_part_is_done(part) && (outside || part->asked_ns < since_ns))
            file_fetched_drop(fetched, i);
    }
}

struct file_part *file_part_at(const struct file_fetched *fetched, uint64_t offset, unsigned *index)
{
    for (unsigned i = 0; i < fetched->count; i++) {
        struct file_part *part = fetched->parts[i];
        if (file_part_start(part) <= offset && offset < file_part_end(part)) {
            *index = i;
            return part;
        }
    }
    return NULL;
}

/* ---- life ---- */

/* Nothing of it is on its way. */
static void fetched_free(struct file_fetched *fetched)
{
    while (fetched->count > 0)
        file_fetched_drop(fetched, fetched->count - 1);
    file_lane_free(fetched->lane);
    sys_free(fetched);
}

void file_fetched_show(struct file_open *open)
{
    atomic_store_explicit(&open->ahead.fetched, open->ahead.all ? open->ahead.all->count : 0,
                          memory_order_relaxed);
}

/* Has anything been on its way for so long that nobody may be waiting for it? */
static bool is_left_alone(const struct file_fetched *fetched, uint64_t now_ns)
{
    bool alone = false;
    for (unsigned i = 0; i < fetched->count && !alone; i++)
        alone =
            !file_part_is_done(fetched->parts[i]) && now_ns - fetched->parts[i]->asked_ns > LOOK_NS;
    return alone;
}

/* Under `all_lock`. Is there more to look after? */
static bool look_after(struct file_fetched *fetched)
{
    struct file_open *open = fetched->open;
    if (open && atomic_exchange_explicit(&open->ahead.taken, true, memory_order_acquire))
        return true; /* somebody else does, as it is in use */
    if (open) {
        file_fetched_drop_outside(fetched, 0, UINT64_MAX);
        file_fetched_show(open);
    }
    if (is_left_alone(fetched, sys_now_ns()))
        file_lane_attend_now(fetched->lane);
    bool more = fetched->count > 0;
    if (open)
        atomic_store_explicit(&open->ahead.taken, false, memory_order_release);
    return more;
}

/* Looks after all of them. False: there is nothing to look after. */
static bool look_after_all(void)
{
    bool more = false;
    pthread_mutex_lock(&all_lock);
    for (struct file_fetched **at = &all; *at;) {
        struct file_fetched *fetched = *at;
        more = look_after(fetched) || more;
        if (fetched->open || file_lane_in_flight(fetched->lane) > 0) {
            at = &fetched->next;
        } else {
            *at = fetched->next;
            fetched_free(fetched);
        }
    }
    pthread_mutex_unlock(&all_lock);
    return more;
}

/*
 * A thread of ours looks after what was read ahead and nobody takes, so that no reply waits at the
 * server for a program that does something else, and no memory for one that does nothing. It looks
 * every LOOK_MS, and sleeps when there is nothing.
 */
static struct {
    _Atomic bool tried;
    bool started; /* all_lock */
    _Atomic bool awake;
    _Atomic uint32_t kicks; /* futex */
} minder;

static void *mind(void *argument)
{
    (void)argument;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;) {
        uint32_t kicks = atomic_load(&minder.kicks);
        atomic_store(&minder.awake, true);
        if (look_after_all()) {
            sys_nanosleep_ms(LOOK_MS);
            continue;
        }
        atomic_store(&minder.awake, false);
        if (!look_after_all()) /* in this order: see file_fetched_wake() */
            sys_futex(&minder.kicks, FUTEX_WAIT_PRIVATE, kicks, NULL);
    }
    return NULL;
}

void file_fetched_wake(void)
{
    if (atomic_load(&minder.awake))
        return;
    atomic_fetch_add(&minder.kicks, 1);
    sys_futex(&minder.kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

struct file_fetched *file_fetched_new(struct file_open *open)
{
    struct file_fetched *fetched = sys_alloc_zeroed(sizeof(*fetched));
    if (fetched && !(fetched->lane = file_lane_new())) {
        sys_free(fetched);
        fetched = NULL;
    }
    pthread_mutex_lock(&all_lock);
    bool started = minder.started;
    if (fetched && started) {
        fetched->open = open;
        fetched->next = all;
        all = fetched;
    }
    pthread_mutex_unlock(&all_lock);
    if (started || !fetched)
        return fetched;
    fetched_free(fetched);
    return NULL;
}

void file_ahead_open(struct file_open *open, int flags)
{
    open->ahead.all = NULL;
    atomic_store(&open->ahead.fetched, 0);
    atomic_store(&open->ahead.taken, false);
    file_ahead_allow(open, flags);
}

static bool allows(int flags)
{
    return !(flags & O_DIRECT) && (flags & O_ACCMODE) != O_WRONLY &&
           file_tunables.read_ahead_max > 0 && file_tunables.actimeo > 0;
}

void file_ahead_allow(struct file_open *open, int flags)
{
    bool allowed = allows((flags & ~O_ACCMODE) | open->access);
    atomic_store(&open->ahead.allowed, allowed);
    atomic_store(&open->ahead.next, allowed ? FILE_AHEAD_NONE : FILE_AHEAD_OFF);
}

void file_ahead_prepare(int flags)
{
    if (!allows(flags) || atomic_load_explicit(&minder.tried, memory_order_relaxed))
        return;
    pthread_mutex_lock(&all_lock);
    if (!atomic_exchange(&minder.tried, true))
        minder.started = sys_thread_start(mind, NULL, "reading ahead");
    pthread_mutex_unlock(&all_lock);
}

/* Is anything on its way? Attendants take it in, and what has arrived is dropped. */
static bool ending(void)
{
    bool some = false;
    pthread_mutex_lock(&all_lock);
    for (struct file_fetched *fetched = all; fetched; fetched = fetched->next) {
        if (file_lane_in_flight(fetched->lane) > 0) {
            file_lane_attend_now(fetched->lane);
            some = true;
            continue;
        }
        while (fetched->count > 0)
            file_fetched_drop(fetched, fetched->count - 1);
        if (fetched->open)
            file_fetched_show(fetched->open);
    }
    pthread_mutex_unlock(&all_lock);
    return some;
}

void file_ahead_forget(void)
{
    while (ending())
        sys_nanosleep_ms(1);
}

void file_ahead_close(struct file_open *open)
{
    struct file_fetched *fetched = open->ahead.all;
    if (!fetched)
        return;
    pthread_mutex_lock(&all_lock);
    open->ahead.all = NULL;
    fetched->open = NULL;
    /* Its own requests hold the file. The last of them may be ending here: its memory stays. */
    if (file_lane_in_flight(fetched->lane) == 0) {
        struct file_fetched **at = &all;
        while (*at != fetched)
            at = &(*at)->next;
        *at = fetched->next;
        fetched_free(fetched);
    }
    pthread_mutex_unlock(&all_lock);
}

void file_ahead_fork_child(void)
{
    pthread_mutex_init(&all_lock, NULL);
    all = NULL;
    atomic_store(&minder.tried, false); /* until the next open there is none */
    minder.started = false;
    atomic_store(&minder.awake, false);
    for (int fd = 0; fd < file_table_limit(); fd++) {
        struct file_open *open = atomic_load(&file_table[fd]);
        struct file_fetched *fetched = open ? open->ahead.all : NULL;
        bool taken = open && atomic_exchange(&open->ahead.taken, false);
        if (!fetched)
            continue;
        open->ahead.all = NULL;
        atomic_store(&open->ahead.fetched, 0);
        for (unsigned i = 0; i < fetched->count; i++)
            fetched->parts[i]->used = 0; /* the parent counts it */
        if (!taken)                      /* else half of it may be there */
            fetched_free(fetched);
    }
    atomic_store(&bytes_ahead, 0);
}
