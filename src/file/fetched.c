#include "file/fetched.h"

#include "file/lane.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum { LOOK_MS = 50, IDLE_LOOKS = 20 };

#define LIFE_S  1.0
#define LOOK_NS (LOOK_MS * UINT64_C(1000000))

/* Those of this process. `all_lock` is held briefly. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_fetched *all;

/* ---- the parts of an open file ---- */

void file_fetched_drop(struct file_fetched *fetched, struct file_part *part)
{
    unsigned i = 0;
    while (i < fetched->count && fetched->parts[i] != part)
        i++;
    if (i == fetched->count)
        return; /* another thread did it */
    fetched->parts[i] = fetched->parts[--fetched->count];
    part->removed = true;
    if (part->users == 0)
        file_part_free(part);
}

void file_fetched_leave(struct file_part *part)
{
    if (--part->users == 0 && part->removed)
        file_part_free(part);
}

uint64_t file_fetched_fresh_since(struct file_inode *inode, uint64_t now_ns)
{
    double allowed_s = file_tunables.actimeo < LIFE_S ? file_tunables.actimeo : LIFE_S;
    uint64_t since_ns = now_ns - (uint64_t)(allowed_s * 1e9);
    uint64_t opened_ns = atomic_load_explicit(&inode->opened_ns, memory_order_relaxed);
    return since_ns > opened_ns ? since_ns : opened_ns;
}

void file_fetched_drop_old(struct file_fetched *fetched)
{
    uint64_t since_ns = file_fetched_fresh_since(fetched->open->inode, sys_now_ns());
    for (unsigned i = fetched->count; i-- > 0;) {
        struct file_part *part = fetched->parts[i];
        if (file_part_is_done(part) && part->asked_ns < since_ns)
            file_fetched_drop(fetched, part);
    }
}

static bool has_stream(const struct file_fetched *fetched, const struct file_part *part)
{
    bool has = false;
    for (unsigned i = 0; i < FILE_STREAMS && !has; i++) {
        const struct file_stream *stream = &fetched->streams[i];
        has = stream->size > 0 && stream->next < file_part_end(part) &&
              stream->end > file_part_start(part);
    }
    return has;
}

bool file_fetched_drop_useless(struct file_fetched *fetched)
{
    unsigned before = fetched->count;
    file_fetched_drop_old(fetched);
    for (unsigned i = fetched->count; i-- > 0;) {
        struct file_part *part = fetched->parts[i];
        if (file_part_is_done(part) && !part->announced && !has_stream(fetched, part))
            file_fetched_drop(fetched, part);
    }
    return fetched->count < before;
}

struct file_part *file_part_at(const struct file_fetched *fetched, uint64_t offset)
{
    struct file_part *found = NULL;
    for (unsigned i = 0; i < fetched->count && !found; i++) {
        struct file_part *part = fetched->parts[i];
        if (file_part_start(part) <= offset && offset < file_part_end(part))
            found = part;
    }
    return found;
}

/* ---- life ---- */

/* Nothing of it is on its way. */
static void fetched_free(struct file_fetched *fetched)
{
    while (fetched->count > 0)
        file_fetched_drop(fetched, fetched->parts[fetched->count - 1]);
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
    if (open && pthread_mutex_trylock(&open->ahead.lock) != 0)
        return true; /* it is in use */
    if (open) {
        file_fetched_drop_old(fetched);
        file_fetched_show(open);
    }
    if (is_left_alone(fetched, sys_now_ns()))
        file_lane_attend_now(fetched->lane);
    bool more = fetched->count > 0;
    if (open)
        pthread_mutex_unlock(&open->ahead.lock);
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
 * every LOOK_MS, and sleeps when there was nothing for a second: who reads one small file after the
 * other need not wake it for each, and gets the memory of the one before.
 */
static struct {
    _Atomic bool started; /* changed under all_lock */
    _Atomic bool awake;
    _Atomic uint32_t kicks; /* futex */
} minder;

static void *mind(void *argument)
{
    (void)argument;
    unsigned idle = 0;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;) {
        uint32_t kicks = atomic_load(&minder.kicks);
        atomic_store(&minder.awake, true);
        idle = look_after_all() ? 0 : idle + 1;
        if (idle < IDLE_LOOKS) {
            sys_nanosleep_ms(LOOK_MS);
            continue;
        }
        idle = 0;
        file_part_trim();
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
    bool started = atomic_load(&minder.started);
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
    pthread_mutex_init(&open->ahead.lock, NULL);
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
    atomic_store(&open->ahead.file_end, FILE_AHEAD_NONE);
    for (unsigned i = 0; i < FILE_AHEAD_ENDS; i++)
        atomic_store(&open->ahead.ends[i], allowed ? FILE_AHEAD_NONE : FILE_AHEAD_OFF);
    for (unsigned i = 0; i < FILE_AHEAD_UNITS; i++)
        atomic_store(&open->ahead.units[i], 0);
}

void file_ahead_prepare(int flags)
{
    if (!allows(flags) || atomic_load_explicit(&minder.started, memory_order_relaxed))
        return;
    pthread_mutex_lock(&all_lock);
    if (!atomic_load(&minder.started)) /* it may be that this thread cannot do so, and others can */
        atomic_store(&minder.started, sys_thread_start(mind, NULL, "reading ahead"));
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
            file_fetched_drop(fetched, fetched->parts[fetched->count - 1]);
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
    file_part_trim();
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
    atomic_store(&minder.started, false); /* until the next open there is none */
    atomic_store(&minder.awake, false);
    for (int fd = 0; fd < file_table_limit(); fd++) {
        struct file_open *open = atomic_load(&file_table[fd]);
        if (!open)
            continue;
        struct file_fetched *fetched = open->ahead.all;
        bool whole = pthread_mutex_trylock(&open->ahead.lock) == 0;
        pthread_mutex_init(&open->ahead.lock, NULL);
        open->ahead.all = NULL;
        atomic_store(&open->ahead.fetched, 0);
        if (!fetched || !whole) /* half of it may be there */
            continue;
        while (fetched->count > 0) /* the parent counts it */
            sys_free(fetched->parts[--fetched->count]);
        fetched_free(fetched);
    }
    file_part_fork_child();
}
