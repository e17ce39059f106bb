#include "ahead/fetched.h"

#include "async/lane.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum { LOOK_MS = 50, IDLE_LOOKS = 20 };

#define LIFE_S  1.0
#define LOOK_NS (LOOK_MS * UINT64_C(1000000))

/* What the open files of this process have. `all_lock` is held briefly. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ahead_fetched *all;

/* ---- the parts of an open file ---- */

void ahead_fetched_drop(struct ahead_fetched *fetched, struct ahead_part *part)
{
    unsigned i = 0;
    while (i < fetched->count && fetched->parts[i] != part)
        i++;
    if (i == fetched->count)
        return; /* another thread has dropped it */
    fetched->parts[i] = fetched->parts[--fetched->count];
    part->removed = true;
    if (part->users == 0)
        ahead_part_free(part);
}

void ahead_fetched_leave(struct ahead_part *part)
{
    if (--part->users == 0 && part->removed)
        ahead_part_free(part);
}

uint64_t ahead_fetched_fresh_since(struct file_inode *inode, uint64_t now_ns)
{
    double allowed_s = mount_tunables.actimeo < LIFE_S ? mount_tunables.actimeo : LIFE_S;
    uint64_t since_ns = now_ns - (uint64_t)(allowed_s * 1e9);
    uint64_t opened_ns = atomic_load_explicit(&inode->opened_ns, memory_order_relaxed);
    return since_ns > opened_ns ? since_ns : opened_ns;
}

void ahead_fetched_drop_old(struct ahead_fetched *fetched)
{
    uint64_t since_ns = ahead_fetched_fresh_since(fetched->open->inode, sys_now_ns());
    for (unsigned i = fetched->count; i-- > 0;) {
        struct ahead_part *part = fetched->parts[i];
        if (ahead_part_is_done(part) && part->asked_ns < since_ns)
            ahead_fetched_drop(fetched, part);
    }
}

static bool has_stream(const struct ahead_fetched *fetched, const struct ahead_part *part)
{
    bool has = false;
    for (unsigned i = 0; i < AHEAD_STREAMS && !has; i++) {
        const struct ahead_stream *stream = &fetched->streams[i];
        has = stream->size > 0 && stream->next < ahead_part_end(part) &&
              stream->end > ahead_part_start(part);
    }
    return has;
}

bool ahead_fetched_drop_useless(struct ahead_fetched *fetched)
{
    unsigned before = fetched->count;
    ahead_fetched_drop_old(fetched);
    for (unsigned i = fetched->count; i-- > 0;) {
        struct ahead_part *part = fetched->parts[i];
        if (ahead_part_is_done(part) && !part->announced && !has_stream(fetched, part))
            ahead_fetched_drop(fetched, part);
    }
    return fetched->count < before;
}

struct ahead_part *ahead_part_at(const struct ahead_fetched *fetched, uint64_t offset)
{
    struct ahead_part *found = NULL;
    for (unsigned i = 0; i < fetched->count && !found; i++) {
        struct ahead_part *part = fetched->parts[i];
        if (ahead_part_start(part) <= offset && offset < ahead_part_end(part))
            found = part;
    }
    return found;
}

/* ---- life ---- */

/* Frees it; nothing of it is on its way. */
static void fetched_free(struct ahead_fetched *fetched)
{
    while (fetched->count > 0)
        ahead_fetched_drop(fetched, fetched->parts[fetched->count - 1]);
    async_lane_free(fetched->lane);
    sys_free(fetched);
}

void ahead_fetched_show(struct file_open *open)
{
    atomic_store_explicit(&open->ahead.fetched, open->ahead.all ? open->ahead.all->count : 0,
                          memory_order_relaxed);
}

/* Has anything been on its way for so long that nobody may be waiting for it? */
static bool is_left_alone(const struct ahead_fetched *fetched, uint64_t now_ns)
{
    bool alone = false;
    for (unsigned i = 0; i < fetched->count && !alone; i++)
        alone = !ahead_part_is_done(fetched->parts[i]) &&
                now_ns - fetched->parts[i]->asked_ns > LOOK_NS;
    return alone;
}

/* Drops what grew old, and has attendants take in what nobody waits for. True: there is more to
 * look after. Under `all_lock`. */
static bool look_after(struct ahead_fetched *fetched)
{
    struct file_open *open = fetched->open;
    if (open && pthread_mutex_trylock(&open->ahead.lock) != 0)
        return true; /* it is in use */
    if (open) {
        ahead_fetched_drop_old(fetched);
        ahead_fetched_show(open);
    }
    if (is_left_alone(fetched, sys_now_ns()))
        async_lane_attend_now(fetched->lane);
    bool more = fetched->count > 0;
    if (open)
        pthread_mutex_unlock(&open->ahead.lock);
    return more;
}

/* Looks after all. False: there is nothing to look after. */
static bool look_after_all(void)
{
    bool more = false;
    pthread_mutex_lock(&all_lock);
    for (struct ahead_fetched **at = &all; *at;) {
        struct ahead_fetched *fetched = *at;
        more = look_after(fetched) || more;
        if (fetched->open || async_lane_in_flight(fetched->lane) > 0) {
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
 * A thread of ours looks after what was read ahead and nobody takes. So no reply waits at the
 * server for a program that does something else, and no memory for one that does nothing. It looks
 * every LOOK_MS, and sleeps when there was nothing for a second. So a program that reads one small
 * file after the other need not wake it for each, and gets the memory of the one before.
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
        ahead_part_trim();
        atomic_store(&minder.awake, false);
        if (!look_after_all()) /* in this order: see ahead_fetched_wake() */
            sys_futex(&minder.kicks, FUTEX_WAIT_PRIVATE, kicks, NULL);
    }
    return NULL;
}

void ahead_fetched_wake(void)
{
    if (atomic_load(&minder.awake))
        return;
    atomic_fetch_add(&minder.kicks, 1);
    sys_futex(&minder.kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

struct ahead_fetched *ahead_fetched_new(struct file_open *open)
{
    struct ahead_fetched *fetched = sys_alloc_zeroed(sizeof(*fetched));
    if (fetched && !(fetched->lane = async_lane_new())) {
        sys_free(fetched);
        fetched = NULL;
    }
    pthread_mutex_lock(&all_lock);
    /* Another thread may be able to start one: one in a handler may have interrupted malloc(). */
    if (fetched && !atomic_load(&minder.started) && !sys_critical_in_handler())
        atomic_store(&minder.started, sys_thread_start(mind, NULL, "reading ahead"));
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

void ahead_open(struct file_open *open, int flags)
{
    open->ahead.all = NULL;
    atomic_store(&open->ahead.fetched, 0);
    pthread_mutex_init(&open->ahead.lock, NULL);
    ahead_allow(open, flags);
}

static bool allows(int flags)
{
    return !(flags & O_DIRECT) && (flags & O_ACCMODE) != O_WRONLY &&
           mount_tunables.read_ahead_max > 0 && mount_tunables.actimeo > 0;
}

void ahead_allow(struct file_open *open, int flags)
{
    bool allowed = allows((flags & ~O_ACCMODE) | open->access);
    atomic_store(&open->ahead.allowed, allowed);
    atomic_store(&open->ahead.file_end, FILE_AHEAD_NONE);
    for (unsigned i = 0; i < FILE_AHEAD_ENDS; i++)
        atomic_store(&open->ahead.ends[i], allowed ? FILE_AHEAD_NONE : FILE_AHEAD_OFF);
    for (unsigned i = 0; i < FILE_AHEAD_UNITS; i++)
        atomic_store(&open->ahead.units[i], 0);
}

/* Drops what has arrived, and has attendants take in what is on its way. True: something is. */
static bool ending(void)
{
    bool some = false;
    pthread_mutex_lock(&all_lock);
    for (struct ahead_fetched *fetched = all; fetched; fetched = fetched->next) {
        if (async_lane_in_flight(fetched->lane) > 0) {
            async_lane_attend_now(fetched->lane);
            some = true;
            continue;
        }
        while (fetched->count > 0)
            ahead_fetched_drop(fetched, fetched->parts[fetched->count - 1]);
        if (fetched->open)
            ahead_fetched_show(fetched->open);
    }
    pthread_mutex_unlock(&all_lock);
    return some;
}

void ahead_forget(void)
{
    while (ending())
        sys_nanosleep_ms(1);
    ahead_part_trim();
}

void ahead_close(struct file_open *open)
{
    struct ahead_fetched *fetched = open->ahead.all;
    if (!fetched)
        return;
    pthread_mutex_lock(&all_lock);
    open->ahead.all = NULL;
    fetched->open = NULL;
    /* Its own requests hold the file. The last of them may be ending here, so its memory stays. */
    if (async_lane_in_flight(fetched->lane) == 0) {
        struct ahead_fetched **at = &all;
        while (*at != fetched)
            at = &(*at)->next;
        *at = fetched->next;
        fetched_free(fetched);
    }
    pthread_mutex_unlock(&all_lock);
}

void ahead_fork_child(void)
{
    pthread_mutex_init(&all_lock, NULL);
    all = NULL;
    atomic_store(&minder.started, false); /* until it is needed */
    atomic_store(&minder.awake, false);
    for (int fd = 0; fd < file_table_limit(); fd++) {
        struct file_open *open = atomic_load(&file_table[fd]);
        if (!open)
            continue;
        struct ahead_fetched *fetched = open->ahead.all;
        bool whole = pthread_mutex_trylock(&open->ahead.lock) == 0;
        pthread_mutex_init(&open->ahead.lock, NULL);
        open->ahead.all = NULL;
        atomic_store(&open->ahead.fetched, 0);
        if (!fetched || !whole) /* a thread of the parent was changing it */
            continue;
        while (fetched->count > 0) /* the parent counts their memory */
            sys_free(fetched->parts[--fetched->count]);
        fetched_free(fetched);
    }
    ahead_part_fork_child();
}
