#include "file/ahead.h"

#include <string.h>

#include "file/getattr.h"
#include "file/io.h"
#include "file/lane.h"
#include "ledger/quiet.h"
#include "ledger/uncommitted.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    PART = LEDGER_QUIET_MAX, /* one READ, at most */
    PARTS = 64,              /* of one open file */
    SIZE_LEAST = 64 << 10,
    LOOK_MS = 50,
    FILES = 4 /* of the process that may have as much as the tunable allows for one */
};

#define LIFE_NS UINT64_C(1000000000)
#define LOOK_NS (LOOK_MS * UINT64_C(1000000))

/* A READ of bytes that nobody has asked for yet, and the bytes. */
struct part {
    struct file_request request;
    struct iovec vector;
    struct ledger_quiet quiet; /* when it was asked for, */
    uint64_t asked_ns;         /* and when that was */
    _Atomic bool done;
    bool announced; /* by posix_fadvise(2), and not part of a sequence */
    size_t used;    /* bytes that were given */
};

/* What was fetched for an open file, in no order. Used by the one thread that has `taken`. */
struct file_fetched {
    struct file_lane *lane;
    struct file_open *open;    /* NULL: it was closed, and requests are on their way; `all_lock` */
    struct file_fetched *next; /* in `all`; `all_lock` */
    uint64_t end;              /* of what was asked for in sequence */
    size_t size;               /* that is to be ahead of who reads */
    unsigned count;
    struct part *parts[PARTS];
};

/* Those of this process. `all_lock` is held briefly. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_fetched *all;
static _Atomic size_t bytes_ahead; /* of all open files */

/* ---- parts ---- */

/* Their `done`. After it the lane is still looked at, the parts are not. */
static void parts_done(struct file_request *first)
{
    while (first) {
        struct part *part = (struct part *)first;
        first = first->next;
        if (part->request.result > 0)
            stats_add(&stats_own->counters.read_ahead_bytes, (uint64_t)part->request.result);
        atomic_store_explicit(&part->done, true, memory_order_release);
    }
}

static bool is_done(void *part)
{
    return atomic_load_explicit(&((struct part *)part)->done, memory_order_acquire);
}

static uint64_t start_of(const struct part *part)
{
    return (uint64_t)part->request.offset;
}

static uint64_t end_of(const struct part *part)
{
    return start_of(part) + part->vector.iov_len;
}

static struct part *part_new(struct file_open *open, uint64_t offset, size_t length)
{
    size_t most = (size_t)file_tunables.read_ahead_max * FILES;
    struct part *part = NULL;
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

static void part_free(struct part *part)
{
    atomic_fetch_sub(&bytes_ahead, part->vector.iov_len + sizeof(*part));
    stats_add(&stats_own->counters.read_ahead_used, part->used);
    sys_free(part->vector.iov_base);
    sys_free(part);
}

static void drop(struct file_fetched *fetched, unsigned index)
{
    part_free(fetched->parts[index]);
    fetched->parts[index] = fetched->parts[--fetched->count];
}

/* What was asked for earlier may not be given out any more. */
static uint64_t fresh_since(struct file_inode *inode)
{
    uint64_t since_ns = file_fresh_since(inode), now_ns = sys_now_ns();
    return since_ns + LIFE_NS > now_ns ? since_ns : now_ns - LIFE_NS;
}

/* Drops what has arrived and has grown old, or is of a sequence and ends before `start`, or begins
 * at `end` or later. */
static void drop_outside(struct file_fetched *fetched, uint64_t start, uint64_t end)
{
    uint64_t since_ns = fresh_since(fetched->open->inode);
    for (unsigned i = fetched->count; i-- > 0;) {
        struct part *part = fetched->parts[i];
        bool outside = !part->announced && (end_of(part) <= start || start_of(part) >= end);
        if (is_done(part) && (outside || part->asked_ns < since_ns))
            drop(fetched, i);
    }
}

static struct part *part_at(const struct file_fetched *fetched, uint64_t offset, unsigned *index)
{
    for (unsigned i = 0; i < fetched->count; i++) {
        struct part *part = fetched->parts[i];
        if (start_of(part) <= offset && offset < end_of(part)) {
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
        drop(fetched, fetched->count - 1);
    file_lane_free(fetched->lane);
    sys_free(fetched);
}

static void show_count(struct file_open *open)
{
    atomic_store_explicit(&open->ahead.fetched, open->ahead.all ? open->ahead.all->count : 0,
                          memory_order_relaxed);
}

/* Has anything been on its way for so long that nobody may be waiting for it? */
static bool is_left_alone(const struct file_fetched *fetched, uint64_t now_ns)
{
    bool alone = false;
    for (unsigned i = 0; i < fetched->count && !alone; i++)
        alone = !is_done(fetched->parts[i]) && now_ns - fetched->parts[i]->asked_ns > LOOK_NS;
    return alone;
}

/* Under `all_lock`. Is there more to look after? */
static bool look_after(struct file_fetched *fetched)
{
    struct file_open *open = fetched->open;
    if (open && atomic_exchange_explicit(&open->ahead.taken, true, memory_order_acquire))
        return true; /* somebody else does, as it is in use */
    if (open) {
        drop_outside(fetched, 0, UINT64_MAX);
        show_count(open);
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
        if (!look_after_all()) /* in this order: see minder_wake() */
            sys_futex(&minder.kicks, FUTEX_WAIT_PRIVATE, kicks, NULL);
    }
    return NULL;
}

/* Something was asked for. */
static void minder_wake(void)
{
    if (atomic_load(&minder.awake))
        return;
    atomic_fetch_add(&minder.kicks, 1);
    sys_futex(&minder.kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* NULL: no memory, or no thread to look after it. */
static struct file_fetched *fetched_new(struct file_open *open)
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
            drop(fetched, fetched->count - 1);
        if (fetched->open)
            show_count(fetched->open);
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

/* ---- asking ---- */

/* Asks for [offset, end), in parts. How far it came. */
static uint64_t ask(struct file_open *open, uint64_t offset, uint64_t end, bool announced)
{
    struct file_fetched *fetched = open->ahead.all;
    struct file_request *requests[PARTS];
    unsigned count = 0;
    size_t longest = file_mount_client(open->inode->mount, open->auth).read_max;
    if (longest > PART)
        longest = PART;
    while (offset < end && fetched->count < PARTS) {
        size_t length = end - offset < longest ? (size_t)(end - offset) : longest;
        uint64_t asked_ns = sys_now_ns();
        struct ledger_quiet quiet;
        if (!ledger_quiet_begin(&open->inode->entry, offset, offset + length, &quiet))
            break;
        struct part *part = part_new(open, offset, length);
        if (!part)
            break;
        part->announced = announced;
        part->asked_ns = asked_ns;
        part->quiet = quiet;
        fetched->parts[fetched->count++] = part;
        requests[count++] = &part->request;
        file_hold(open);
        offset += length;
    }
    if (count > 0) {
        file_submit(fetched->lane, requests, count);
        minder_wake();
    }
    return offset;
}

/* Has enough ahead of who reads [offset, offset + length) in sequence. */
static void ask_in_sequence(struct file_open *open, uint64_t offset, size_t length)
{
    struct file_fetched *fetched = open->ahead.all;
    size_t most = (size_t)file_tunables.read_ahead_max;
    uint64_t size = ledger_file_least_size(&open->inode->entry);
    if (fetched->size == 0 || fetched->end < offset ||
        fetched->end > offset + length + fetched->size) {
        fetched->end = offset; /* another sequence */
        drop_outside(fetched, 0, 0);
        fetched->size = 2 * length > SIZE_LEAST ? 2 * length : SIZE_LEAST;
    } else if (fetched->end - offset > length + fetched->size / 2) {
        return;
    } else {
        fetched->size *= 2;
    }
    if (fetched->size > most)
        fetched->size = most;
    uint64_t end = offset + length + fetched->size;
    if (end > size)
        end = size;
    if (fetched->end < end)
        fetched->end = ask(open, fetched->end, end, false);
}

/* ---- giving ---- */

__attribute__((noinline)) static void copy(const struct iovec *vectors, size_t skip,
                                           const uint8_t *data, size_t length)
{
    while (skip >= vectors->iov_len)
        skip -= vectors++->iov_len;
    while (length > 0) {
        size_t room = vectors->iov_len - skip, part = length < room ? length : room;
        memcpy((uint8_t *)vectors->iov_base + skip, data, part);
        data += part;
        length -= part;
        skip = 0;
        vectors++;
    }
}

/* Where the application has a handler for bad addresses it is -EFAULT. */
__attribute__((noinline)) static int copy_guarded(const struct iovec *vectors, size_t skip,
                                                  const uint8_t *data, size_t length)
{
    jmp_buf guard;
    if (_setjmp(guard) != 0) {
        sys_critical.guard = NULL;
        return -EFAULT;
    }
    sys_critical.guard = &guard;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    copy(vectors, skip, data, length);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    sys_critical.guard = NULL;
    return 0;
}

static int give(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length)
{
    if (atomic_load_explicit(&sys_critical_faults, memory_order_relaxed))
        return copy_guarded(vectors, skip, data, length);
    copy(vectors, skip, data, length);
    return 0;
}

/* Waits for the part. False: not with what it brought. */
static bool wait_for(struct file_fetched *fetched, struct part *part)
{
    if (!is_done(part))
        file_lane_wait(fetched->lane, is_done, part, 0);
    return is_done(part) && part->request.result > 0;
}

/* Gives what there is of [offset, offset + length). */
static ssize_t take(struct file_open *open, const struct iovec *vectors, size_t length,
                    uint64_t offset)
{
    struct file_fetched *fetched = open->ahead.all;
    size_t done = 0;
    struct part *part;
    unsigned index;
    while (done < length && (part = part_at(fetched, offset + done, &index))) {
        uint64_t at = offset + done, from = at - start_of(part);
        if (!wait_for(fetched, part) || part->asked_ns < fresh_since(open->inode) ||
            (uint64_t)part->request.result <= from) {
            if (is_done(part))
                drop(fetched, index);
            break;
        }
        size_t have = (size_t)part->request.result - from;
        if (have > length - done)
            have = length - done;
        uint64_t size, replays = ledger_file_read_epoch(&open->inode->entry, &size);
        if (at >= size || replays != part->request.replays)
            break; /* cut by another host, or written again, meanwhile */
        if (have > size - at)
            have = size - at;
        if (!ledger_quiet_lasts(&open->inode->entry, &part->quiet, at, at + have))
            break;
        int result = give(vectors, done, (const uint8_t *)part->vector.iov_base + from, have);
        if (result != 0)
            return done > 0 ? (ssize_t)done : result;
        done += have;
        part->used += have;
        if (from + have == part->vector.iov_len)
            drop(fetched, index);
        else if (from + have == (size_t)part->request.result)
            break; /* the file ended there */
    }
    return (ssize_t)done;
}

/* In a thread that has `taken`. */
static ssize_t read_taken(struct file_open *open, const struct iovec *vectors, size_t length,
                          uint64_t offset)
{
    struct file_ahead *ahead = &open->ahead;
    bool follows = atomic_load_explicit(&ahead->next, memory_order_relaxed) == offset;
    if (length > PART || length > (size_t)file_tunables.read_ahead_max)
        return 0; /* its own parts are on their way together */
    if (!ahead->all) {
        if (!follows || offset + length >= ledger_file_least_size(&open->inode->entry))
            return 0; /* it is random, or the last */
        if (!(ahead->all = fetched_new(open)))
            return 0;
    }
    if (follows || (ahead->all->end > offset && ahead->all->end - offset <= ahead->all->size))
        ask_in_sequence(open, offset, length);
    ssize_t done = take(open, vectors, length, offset);
    if (done == 0 && follows)
        ahead->all->size = 0; /* it was not there in time, or too early: with little, anew */
    if (done < (ssize_t)length)
        drop_outside(ahead->all, follows ? offset : 0, UINT64_MAX);
    show_count(open);
    return done;
}

ssize_t file_ahead_read(struct file_open *open, const struct iovec *vectors, int count,
                        size_t length, uint64_t offset)
{
    for (int i = 0; i < count; i++) {
        if (vectors[i].iov_len && sys_bad_pointer(vectors[i].iov_base))
            return 0; /* the ordinary read knows what is to be said */
    }
    if (!atomic_load(&open->ahead.allowed) ||
        atomic_exchange_explicit(&open->ahead.taken, true, memory_order_acquire))
        return 0;
    ssize_t done = read_taken(open, vectors, length, offset);
    atomic_store_explicit(&open->ahead.taken, false, memory_order_release);
    return done;
}

/* ---- advice ---- */

static void will_need(struct file_open *open, uint64_t offset, uint64_t end)
{
    struct file_ahead *ahead = &open->ahead;
    uint64_t size = ledger_file_least_size(&open->inode->entry);
    unsigned index;
    if (end > size)
        end = size;
    if (end <= offset || (!ahead->all && !(ahead->all = fetched_new(open))))
        return;
    if (end - offset > (uint64_t)file_tunables.read_ahead_max)
        end = offset + (uint64_t)file_tunables.read_ahead_max;
    drop_outside(ahead->all, 0, UINT64_MAX);
    if (!part_at(ahead->all, offset, &index))
        ask(open, offset, end, true);
}

static void not_needed(struct file_fetched *fetched)
{
    for (unsigned i = fetched ? fetched->count : 0; i-- > 0;) {
        if (is_done(fetched->parts[i]))
            drop(fetched, i);
    }
}

/* In a thread that has `taken`. */
static void advise(struct file_open *open, uint64_t offset, uint64_t end, int advice)
{
    struct file_ahead *ahead = &open->ahead;
    uint64_t off = FILE_AHEAD_OFF;
    if (advice == POSIX_FADV_WILLNEED)
        will_need(open, offset, end);
    if (advice == POSIX_FADV_RANDOM)
        atomic_store(&ahead->next, FILE_AHEAD_OFF);
    else if (advice == POSIX_FADV_NORMAL || advice == POSIX_FADV_SEQUENTIAL)
        atomic_compare_exchange_strong(&ahead->next, &off, FILE_AHEAD_NONE);
    if (advice == POSIX_FADV_RANDOM || advice == POSIX_FADV_DONTNEED)
        not_needed(ahead->all);
    show_count(open);
}

void file_advise(struct file_open *open, off_t offset, off_t length, int advice)
{
    uint64_t start = (uint64_t)offset, end = length ? start + (uint64_t)length : UINT64_MAX;
    if (!atomic_load(&open->ahead.allowed) || advice == POSIX_FADV_NOREUSE ||
        !file_inode_enter(open->inode))
        return;
    if (!atomic_exchange_explicit(&open->ahead.taken, true, memory_order_acquire)) {
        advise(open, start, end, advice);
        atomic_store_explicit(&open->ahead.taken, false, memory_order_release);
    }
    file_inode_leave(open->inode);
}
