/* Asking for what will be read, and giving it out. */
#include "ahead/ahead.h"

#include <string.h>

#include "ahead/cache.h"
#include "ahead/fetched.h"
#include "file/attributes.h"
#include "file/table.h"
#include "file/vectors.h"
#include "io/io.h"
#include "async/lane.h"
#include "ledger/cache.h"
#include "ledger/stamp.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

enum {
    WINDOW_LEAST = 32 << 10,
    WINDOW_PARTS = 4, /* READs on their way together, over all paths */
    GROWTH = 4,
    PAUSE_MOST = 64,
    UNPROVEN_MOST = 8 /* parts around reads to which no other read has come yet */
};

#define STREAM_LIFE_NS UINT64_C(1000000000)

/* ---- asking ---- */

/* Parts that are asked for together. */
struct asking {
    struct file_open *open;
    unsigned count;
    struct async_request *requests[AHEAD_PARTS];
};

/* A part, shorter for lack of room: *length. NULL: there is no room. */
static struct ahead_part *new_part(struct file_open *open, uint64_t offset, size_t *length)
{
    struct ahead_part *part = ahead_part_new(open, offset, *length);
    if (!part && ahead_fetched_drop_useless(open->ahead.all))
        part = ahead_part_new(open, offset, *length);
    if (!part && *length > AHEAD_PART_LEAST) {
        *length = AHEAD_PART_LEAST;
        part = ahead_part_new(open, offset, *length);
    }
    return part;
}

/* Adds parts for [offset, end), of `most` bytes, that end at multiples of 64 KiB. Returns how far
 * they reach. */
static uint64_t add(struct asking *asking, uint64_t offset, uint64_t end, size_t most,
                    bool announced)
{
    struct file_open *open = asking->open;
    struct ahead_fetched *fetched = open->ahead.all;
    while (offset < end && fetched->count < AHEAD_PARTS) {
        uint64_t stop = (offset + most) & ~(uint64_t)(AHEAD_PART_LEAST - 1);
        if (stop <= offset)
            stop = offset + most;
        size_t length = (size_t)((stop < end ? stop : end) - offset);
        uint64_t asked_ns = sys_now_ns();
        struct ledger_stamp stamp;
        if (!ledger_stamp_take_quiet(&open->inode->entry, offset, offset + length, &stamp))
            break;
        struct ahead_part *part = new_part(open, offset, &length);
        if (!part)
            break;
        part->announced = announced;
        part->asked_ns = asked_ns;
        part->request.stamp = stamp;
        fetched->parts[fetched->count++] = part;
        asking->requests[asking->count++] = &part->request;
        file_hold(open);
        offset += length;
    }
    return offset;
}

static void submit(const struct asking *asking)
{
    if (asking->count == 0)
        return;
    async_submit(asking->open->ahead.all->lane, asking->requests, asking->count);
    ahead_fetched_wake();
}

static size_t longest_part(const struct file_open *open)
{
    size_t longest = mount_client(open->inode->mount, open->auth).read_max;
    return longest < AHEAD_PART_MOST ? longest : AHEAD_PART_MOST;
}

/* ---- streams ---- */

/* A read of the program. */
struct reading {
    struct file_open *open;
    const struct iovec *vectors;
    size_t length;
    uint64_t offset;
    uint64_t now_ns;              /* roughly when it began, or when it last waited */
    bool waited, changed, useful; /* `useful`: a part that is not short was used up, or stays */
};

/* How many bytes one stream may have ahead, beside the others that have some. */
static size_t window_most(const struct ahead_fetched *fetched, const struct ahead_stream *one,
                          uint64_t now_ns)
{
    unsigned alive = 1;
    for (unsigned i = 0; i < AHEAD_STREAMS; i++) {
        const struct ahead_stream *stream = &fetched->streams[i];
        alive += stream != one && stream->size > 0 && stream->end > stream->next &&
                 stream->used_ns + STREAM_LIFE_NS > now_ns; /* each thread's `now_ns` differs */
    }
    return (size_t)mount_tunables.read_ahead_max / alive;
}

static struct ahead_stream *stream_at(struct ahead_fetched *fetched, uint64_t offset)
{
    struct ahead_stream *found = NULL;
    for (unsigned i = 0; i < AHEAD_STREAMS && !found; i++) {
        if (fetched->streams[i].size > 0 && fetched->streams[i].next == offset)
            found = &fetched->streams[i];
    }
    return found;
}

/* Makes a stream, as a read at `offset` follows another. It takes the place of the stream that it
 * goes on with, or of the one that was not read for the longest time. */
static struct ahead_stream *stream_new(struct ahead_fetched *fetched, uint64_t offset)
{
    struct ahead_stream *stream = &fetched->streams[0], *within = NULL;
    for (unsigned i = 0; i < AHEAD_STREAMS; i++) {
        struct ahead_stream *other = &fetched->streams[i];
        if (other->used_ns < stream->used_ns)
            stream = other;
        if (other->size > 0 && other->next < offset && offset <= other->end)
            within = other;
    }
    if (within)
        stream = within;
    else
        *stream = (struct ahead_stream){.size = WINDOW_LEAST};
    const struct ahead_part *part;
    stream->end = offset;
    while ((part = ahead_part_at(fetched, stream->end)))
        stream->end = ahead_part_end(part);
    return stream;
}

/* Asks for enough ahead of this read, and for the bytes of the read itself first. */
static void advance(const struct reading *reading, struct ahead_stream *stream)
{
    struct file_open *open = reading->open;
    struct ahead_fetched *fetched = open->ahead.all;
    size_t length = reading->length;
    uint64_t offset = reading->offset, reach = offset + length;
    uint64_t size = ledger_file_least_size(&open->inode->entry);
    stream->used_ns = reading->now_ns;
    stream->next = reach;
    if (stream->end > offset &&
        !ahead_part_at(fetched, offset)) { /* what was fetched grew old: it was too much */
        stream->end = offset;
        stream->size = stream->size / GROWTH + 1;
    }
    if (stream->end < offset)
        stream->end = offset;
    if (stream->pause > 0) {
        stream->pause--;
        stream->end = reach;
        return;
    }
    uint64_t ahead = stream->end > reach ? stream->end - reach : 0;
    size_t most = window_most(fetched, stream, stream->used_ns);
    if (ahead > stream->size / 2 || stream->end >= size)
        return;
    if (stream->waited)
        stream->size *= GROWTH;
    if (stream->size < 2 * length)
        stream->size = 2 * length;
    if (stream->size < WINDOW_LEAST)
        stream->size = WINDOW_LEAST;
    if (stream->size > most)
        stream->size = most;
    stream->waited = false;
    struct asking asking = {.open = open, .count = 0};
    size_t longest = longest_part(open), part = stream->size / WINDOW_PARTS;
    if (part < AHEAD_PART_LEAST)
        part = AHEAD_PART_LEAST;
    uint64_t own = reach < size ? reach : size, end = reach + stream->size;
    if (size <= AHEAD_PART_LEAST) /* the whole file costs hardly more */
        own = size;
    if (stream->end < own) /* the read shall not wait for more than it needs */
        stream->end = add(&asking, stream->end, own, longest, false);
    if (stream->end >= own)
        stream->end = add(&asking, stream->end, end < size ? end : size,
                          part < longest ? part : longest, false);
    if (stream->end < end && stream->end < size) /* for lack of room */
        stream->size = stream->end > reach + WINDOW_LEAST ? stream->end - reach : WINDOW_LEAST;
    submit(&asking);
}

/* Other reads were near this one, which follows none: asks for all of their unit, once. */
static void fetch_around(const struct reading *reading)
{
    struct file_open *open = reading->open;
    struct ahead_fetched *fetched = open->ahead.all;
    uint64_t size = ledger_file_least_size(&open->inode->entry);
    uint64_t start = reading->offset & ~(uint64_t)(AHEAD_UNIT - 1);
    uint64_t end = start + AHEAD_UNIT < size ? start + AHEAD_UNIT : size;
    struct asking asking = {.open = open, .count = 0};
    unsigned unproven = 0;
    for (unsigned i = 0; i < fetched->count; i++)
        unproven += fetched->parts[i]->around && !fetched->parts[i]->proven;
    if (reading->offset >= size || unproven >= UNPROVEN_MOST ||
        ahead_part_at(fetched, reading->offset))
        return;
    if (fetched->scattered.pause > 0) {
        fetched->scattered.pause--;
        return;
    }
    if (fetched->count == AHEAD_PARTS)
        ahead_fetched_drop_useless(fetched);
    add(&asking, start, end, longest_part(open), false);
    for (unsigned i = 0; i < asking.count; i++)
        ((struct ahead_part *)asking.requests[i])->around = true;
    submit(&asking);
}

/* ---- giving ---- */

/* Waits for the part as an ordinary read would: signals wait until it is over. True: the server did
 * not answer for as long as it may take. */
static bool times_out(struct reading *reading, struct ahead_part *part)
{
    struct async_lane *lane = reading->open->ahead.all->lane;
    if (ahead_part_is_done(part))
        return false;
    reading->waited = true;
    bool before = sys_critical_set_patient(true);
    async_lane_wait(lane, ahead_part_is_done, part, 0);
    sys_critical_set_patient(before);
    reading->now_ns = sys_now_ns();
    uint64_t soft_ns = (uint64_t)mount_tunables.soft_timeout * 1000000000;
    return soft_ns > 0 && (!ahead_part_is_done(part) || part->request.result < 0) &&
           reading->now_ns - part->asked_ns >= soft_ns;
}

/* Gives out what the part has of the read after its first `done` bytes. How much; 0: nothing, as it
 * is of no use; -EFAULT; -ETIMEDOUT. */
static ssize_t give_part(struct reading *reading, struct ahead_part *part, size_t done)
{
    struct file_inode *inode = reading->open->inode;
    uint64_t at = reading->offset + done, from = at - ahead_part_start(part);
    if (!ahead_part_is_done(part) &&
        part->asked_ns < ahead_fetched_fresh_since(inode, reading->now_ns))
        return 0; /* its bytes would be too old */
    if (times_out(reading, part))
        return -ETIMEDOUT;
    if (!ahead_part_is_done(part) || part->request.result <= 0 ||
        (uint64_t)part->request.result <= from ||
        part->asked_ns < ahead_fetched_fresh_since(inode, reading->now_ns))
        return 0;
    size_t have = (size_t)part->request.result - from;
    if (have > reading->length - done)
        have = reading->length - done;
    const struct ledger_stamp *stamp = &part->request.stamp;
    uint64_t size = ledger_file_least_size(&inode->entry);
    if (at >= size)
        return 0; /* another host has cut the file meanwhile */
    if (have > size - at)
        have = size - at;
    if (!sys_test_unsafe(SYS_TEST_AHEAD) &&
        !ledger_stamp_lasts(&inode->entry, stamp, LEDGER_STAMP_GIVEN, at, at + have)) {
        reading->changed |= ledger_stamp_lasts(&inode->entry, stamp, LEDGER_STAMP_REWRITTEN, 0, 0);
        return 0;
    }
    struct iovec data = {(uint8_t *)part->vector.iov_base + from, have};
    int result = file_give(reading->vectors, done, data.iov_base, have);
    ahead_cache_keep(reading->open, stamp, at, &data, !part->around);
    return result != 0 ? result : (ssize_t)have;
}

/* Gives out what there is. Under the lock, which is free while it waits and copies. */
static void take(struct reading *reading, struct ahead_gift *gift)
{
    struct file_ahead *ahead = &reading->open->ahead;
    struct ahead_part *part;
    ssize_t given = 1;
    while (given > 0 && gift->length < reading->length &&
           (part = ahead_part_at(ahead->all, reading->offset + gift->length))) {
        part->users++;
        pthread_mutex_unlock(&ahead->lock);
        given = give_part(reading, part, gift->length);
        pthread_mutex_lock(&ahead->lock);
        if (given > 0) {
            part->used += (size_t)given;
            gift->length += (size_t)given;
        }
        bool all = reading->offset + gift->length == ahead_part_end(part);
        part->proven |= given > 0 && part->used > (size_t)given;
        reading->useful |=
            part->around ? part->proven : all && part->vector.iov_len >= AHEAD_PART_LEAST;
        if (!part->removed && ahead_part_is_done(part) && (given == 0 || (all && !part->around)))
            ahead_fetched_drop(ahead->all, part);
        ahead_fetched_leave(part);
    }
    if (given < 0)
        gift->error = (int)given;
}

/* What the stream that was advanced for this read learns from it; `scattered` learns for reads in
 * no stream. */
static void learn(struct ahead_fetched *fetched, const struct reading *reading)
{
    struct ahead_stream *stream = stream_at(fetched, reading->offset + reading->length);
    if (!stream)
        stream = &fetched->scattered;
    stream->waited = stream->waited || reading->waited;
    if (reading->useful)
        stream->failed = 0;
    if (!reading->changed)
        return;
    /* A program that reads and writes in turn has no use for reading ahead. */
    if ((1u << stream->failed) < PAUSE_MOST)
        stream->failed++;
    stream->pause = 1u << stream->failed;
    stream->size = 1;
}

/* Under the lock. */
static void read_ahead(struct reading *reading, struct ahead_gift *gift)
{
    struct file_open *open = reading->open;
    struct file_ahead *ahead = &open->ahead;
    uint64_t offset = reading->offset, size = ledger_file_least_size(&open->inode->entry);
    bool sequence = ahead_follows(open, offset), near = ahead_is_near(open, offset);
    if (!ahead->all && ((!near && (!sequence || offset + reading->length >= size)) ||
                        !(ahead->all = ahead_fetched_new(open))))
        return; /* reads are random, or this is the last one */
    struct ahead_stream *stream = stream_at(ahead->all, offset);
    if (!stream && sequence && offset < size)
        stream = stream_new(ahead->all, offset);
    if (offset == 0) /* the next read at 0 is not the first any more */
        ahead_note(open, offset, reading->length);
    if (stream)
        advance(reading, stream);
    else if (near && reading->length <= AHEAD_UNIT / 2)
        fetch_around(reading);
    gift->stream = stream != NULL;
    take(reading, gift);
    learn(ahead->all, reading);
    ahead_fetched_show(open);
}

void ahead_read(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                uint64_t offset, struct ahead_gift *gift)
{
    struct reading reading = {.open = open, .vectors = vectors, .length = length, .offset = offset};
    *gift = (struct ahead_gift){.length = 0};
    if (file_bad_vectors(vectors, count))
        return; /* the ordinary read finds the error */
    if (!atomic_load(&open->ahead.allowed) || length > (size_t)mount_tunables.read_ahead_max / 2)
        return; /* its own READs are on their way together */
    reading.now_ns = sys_about_ns();
    pthread_mutex_lock(&open->ahead.lock);
    read_ahead(&reading, gift);
    pthread_mutex_unlock(&open->ahead.lock);
}

/* ---- the end of the file ---- */

bool ahead_ends(struct file_open *open, uint64_t offset)
{
    struct file_ahead *ahead = &open->ahead;
    if (offset < atomic_load_explicit(&ahead->file_end, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&ahead->lock);
    uint64_t end = atomic_load_explicit(&ahead->file_end, memory_order_relaxed);
    struct ledger_stamp stamp = ahead->end_stamp;
    uint64_t asked_ns = ahead->end_asked_ns;
    pthread_mutex_unlock(&ahead->lock);
    return offset >= end && asked_ns >= ahead_fetched_fresh_since(open->inode, sys_now_ns()) &&
           ledger_stamp_end_lasts(&open->inode->entry, &stamp, end);
}

/* ---- advice ---- */

static void will_need(struct file_open *open, uint64_t offset, uint64_t end)
{
    struct file_ahead *ahead = &open->ahead;
    uint64_t size = ledger_file_least_size(&open->inode->entry);
    struct asking asking = {.open = open, .count = 0};
    if (end > size)
        end = size;
    if (end <= offset || (!ahead->all && !(ahead->all = ahead_fetched_new(open))))
        return;
    if (end - offset > (uint64_t)mount_tunables.read_ahead_max)
        end = offset + (uint64_t)mount_tunables.read_ahead_max;
    ahead_fetched_drop_old(ahead->all);
    if (!ahead_part_at(ahead->all, offset))
        add(&asking, offset, end, longest_part(open), true);
    submit(&asking);
}

static void not_needed(struct ahead_fetched *fetched)
{
    for (unsigned i = fetched ? fetched->count : 0; i-- > 0;) {
        struct ahead_part *part = fetched->parts[i];
        if (ahead_part_is_done(part))
            ahead_fetched_drop(fetched, part);
        else
            atomic_store(&part->asked_ns, 0);
    }
}

static void set_ends(struct file_open *open, uint64_t from, uint64_t to)
{
    for (unsigned i = 0; i < FILE_AHEAD_ENDS; i++) {
        if (from == FILE_AHEAD_NONE || atomic_load(&open->ahead.ends[i]) == from)
            atomic_store(&open->ahead.ends[i], to);
    }
    for (unsigned i = 0; to == FILE_AHEAD_OFF && i < FILE_AHEAD_UNITS; i++)
        atomic_store(&open->ahead.units[i], 0);
}

/* Under the lock. */
static void advise(struct file_open *open, uint64_t offset, uint64_t end, int advice)
{
    struct file_ahead *ahead = &open->ahead;
    if (advice == POSIX_FADV_WILLNEED)
        will_need(open, offset, end);
    if (advice == POSIX_FADV_RANDOM)
        set_ends(open, FILE_AHEAD_NONE, FILE_AHEAD_OFF);
    else if (advice == POSIX_FADV_NORMAL || advice == POSIX_FADV_SEQUENTIAL)
        set_ends(open, FILE_AHEAD_OFF, FILE_AHEAD_NONE);
    if (advice == POSIX_FADV_RANDOM && ahead->all)
        memset(ahead->all->streams, 0, sizeof(ahead->all->streams));
    if (advice == POSIX_FADV_DONTNEED && offset == 0 &&
        end >= ledger_file_least_size(&open->inode->entry))
        ledger_cache_forget(&open->inode->entry);
    if (advice == POSIX_FADV_RANDOM || advice == POSIX_FADV_DONTNEED)
        not_needed(ahead->all);
    ahead_fetched_show(open);
}

void ahead_advise(struct file_open *open, off_t offset, off_t length, int advice)
{
    uint64_t start = (uint64_t)offset, end = length ? start + (uint64_t)length : UINT64_MAX;
    if (!atomic_load(&open->ahead.allowed) || advice == POSIX_FADV_NOREUSE ||
        !file_inode_enter(open->inode))
        return;
    pthread_mutex_lock(&open->ahead.lock);
    advise(open, start, end, advice);
    pthread_mutex_unlock(&open->ahead.lock);
    file_inode_leave(open->inode);
}
