/* Asking for what will be read, and giving it out. */
#include "file/ahead.h"

#include <string.h>

#include "file/fetched.h"
#include "file/io.h"
#include "file/lane.h"
#include "ledger/uncommitted.h"
#include "stats/count.h"
#include "sys/critical.h"
#include "sys/sys.h"

enum {
    PART = LEDGER_QUIET_MAX, /* one READ, at most */
    SIZE_LEAST = 64 << 10
};

/* ---- asking ---- */

/* Asks for [offset, end), in parts. How far it came. */
static uint64_t ask(struct file_open *open, uint64_t offset, uint64_t end, bool announced)
{
    struct file_fetched *fetched = open->ahead.all;
    struct file_request *requests[FILE_PARTS];
    unsigned count = 0;
    size_t longest = file_mount_client(open->inode->mount, open->auth).read_max;
    if (longest > PART)
        longest = PART;
    while (offset < end && fetched->count < FILE_PARTS) {
        size_t length = end - offset < longest ? (size_t)(end - offset) : longest;
        uint64_t asked_ns = sys_now_ns();
        struct ledger_quiet quiet;
        if (!ledger_quiet_begin(&open->inode->entry, offset, offset + length, &quiet))
            break;
        struct file_part *part = file_part_new(open, offset, length);
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
        file_fetched_wake();
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
        file_fetched_drop_outside(fetched, 0, 0);
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

static void copy(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length)
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

/* A copy to the application. */
struct gift {
    const struct iovec *vectors;
    size_t skip;
    const uint8_t *data;
    size_t length;
};

static void copy_gift(const void *argument)
{
    const struct gift *gift = argument;
    copy(gift->vectors, gift->skip, gift->data, gift->length);
}

static int give(const struct iovec *vectors, size_t skip, const uint8_t *data, size_t length)
{
    const struct gift gift = {vectors, skip, data, length};
    if (atomic_load_explicit(&sys_critical_faults, memory_order_relaxed))
        return sys_critical_guarded(copy_gift, &gift);
    copy(vectors, skip, data, length);
    return 0;
}

/* Waits for the part. False: not with what it brought. */
static bool wait_for(struct file_fetched *fetched, struct file_part *part)
{
    if (!file_part_is_done(part))
        file_lane_wait(fetched->lane, file_part_is_done, part, 0);
    return file_part_is_done(part) && part->request.result > 0;
}

/* Gives what there is of [offset, offset + length). */
static ssize_t take(struct file_open *open, const struct iovec *vectors, size_t length,
                    uint64_t offset)
{
    struct file_fetched *fetched = open->ahead.all;
    size_t done = 0;
    struct file_part *part;
    unsigned index;
    while (done < length && (part = file_part_at(fetched, offset + done, &index))) {
        uint64_t at = offset + done, from = at - file_part_start(part);
        if (!wait_for(fetched, part) || part->asked_ns < file_fetched_fresh_since(open->inode) ||
            (uint64_t)part->request.result <= from) {
            if (file_part_is_done(part))
                file_fetched_drop(fetched, index);
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
            file_fetched_drop(fetched, index);
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
        if (!(ahead->all = file_fetched_new(open)))
            return 0;
    }
    if (follows || (ahead->all->end > offset && ahead->all->end - offset <= ahead->all->size))
        ask_in_sequence(open, offset, length);
    ssize_t done = take(open, vectors, length, offset);
    if (done == 0 && follows)
        ahead->all->size = 0; /* it was not there in time, or too early: with little, anew */
    if (done < (ssize_t)length)
        file_fetched_drop_outside(ahead->all, follows ? offset : 0, UINT64_MAX);
    file_fetched_show(open);
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
    if (end <= offset || (!ahead->all && !(ahead->all = file_fetched_new(open))))
        return;
    if (end - offset > (uint64_t)file_tunables.read_ahead_max)
        end = offset + (uint64_t)file_tunables.read_ahead_max;
    file_fetched_drop_outside(ahead->all, 0, UINT64_MAX);
    if (!file_part_at(ahead->all, offset, &index))
        ask(open, offset, end, true);
}

static void not_needed(struct file_fetched *fetched)
{
    for (unsigned i = fetched ? fetched->count : 0; i-- > 0;) {
        if (file_part_is_done(fetched->parts[i]))
            file_fetched_drop(fetched, i);
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
    file_fetched_show(open);
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
