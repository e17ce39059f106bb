#include "ledger/cache.h"

#include <string.h>
#include <sys/statfs.h>

#include "ledger/store/mutex.h"
#include "ledger/stamp.h"
#include "sys/sys.h"

enum { SEEN_LATELY_NS = 100000000, UNIT = 1 << LEDGER_UNIT_SHIFT };

/* A write is assumed to find what the server told so long before it was sent. */
#define ASSUMED_AFTER_NS UINT64_C(1000000000)
/* What was kept is given out so long after the first write whose answer moved the known time. */
enum { ASSUMED_FOR_S = 30 };

static uint64_t wanted_bytes;

void ledger_cache_set(uint64_t bytes)
{
    wanted_bytes = bytes;
}

uint32_t ledger_cache_groups(void)
{
    uint64_t groups = (wanted_bytes + LEDGER_GROUP - 1) / LEDGER_GROUP;
    return groups < LEDGER_GROUPS_MAX ? (uint32_t)groups : LEDGER_GROUPS_MAX;
}

/* ---- groups ---- */

/* The group of the frames of a unit of a file. */
static uint32_t group_of(uint32_t file, uint64_t offset)
{
    uint64_t hash =
        ((uint64_t)file << 40 ^ offset >> LEDGER_UNIT_SHIFT) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((hash >> 32) * ledger_map.shared->group_count >> 32);
}

/* A process that died with the lock left a frame that is not valid, at worst. */
static void lock_group(uint32_t group)
{
    pthread_mutex_t *lock = &ledger_map.shared->cache_locks[group % LEDGER_CACHE_LOCKS];
    if (ledger_mutex_lock(lock) == EOWNERDEAD)
        pthread_mutex_consistent(lock);
}

static void unlock_group(uint32_t group)
{
    ledger_mutex_unlock(&ledger_map.shared->cache_locks[group % LEDGER_CACHE_LOCKS]);
}

static struct ledger_frame *frame_at(uint32_t group, uint32_t set, unsigned way)
{
    return &ledger_map
                .frames[(uint64_t)group * LEDGER_GROUP_FRAMES + way * LEDGER_FRAME_SETS + set];
}

/* The frames of a way of a group are side by side, so that they get memory together. */
static uint8_t *bytes_of(const struct ledger_frame *frame)
{
    return ledger_map.frame_bytes + (uint64_t)(frame - ledger_map.frames) * LEDGER_FRAME;
}

static void set_valid(struct ledger_frame *frame, uint32_t valid)
{
    __atomic_store_n(&frame->valid, valid, __ATOMIC_SEQ_CST);
}

static bool has_memory(uint32_t group, unsigned way)
{
    return ledger_map.shared->group_ways[group] >> way & 1;
}

/* Uncommitted data needs room in the same file system, and is more important. */
static bool is_room_left(void)
{
    struct statfs system;
    return sys_call2(SYS_fstatfs, ledger_map.fd, &system) == 0 &&
           system.f_bavail > system.f_blocks / 2;
}

static bool get_memory(uint32_t group, unsigned way)
{
    uint64_t first = (uint64_t)group * LEDGER_GROUP_FRAMES + way * LEDGER_FRAME_SETS;
    uint8_t *ways = &ledger_map.shared->group_ways[group];
    if (!is_room_left() ||
        (*ways == 0 && ledger_registry_back(ledger_map.frames_at + (uint64_t)group * 4096, 4096)) ||
        ledger_registry_back(ledger_map.frame_bytes_at + first * LEDGER_FRAME,
                             (uint64_t)LEDGER_FRAME_SETS * LEDGER_FRAME))
        return false;
    __atomic_store_n(ways, (uint8_t)(*ways | 1u << way), __ATOMIC_SEQ_CST);
    return true;
}

/* The frame that has the block; NULL: none. */
static struct ledger_frame *find(uint32_t group, uint32_t file, uint64_t block)
{
    for (unsigned way = 0; way < LEDGER_FRAME_WAYS && has_memory(group, way); way++) {
        struct ledger_frame *frame = frame_at(group, block % LEDGER_FRAME_SETS, way);
        if (frame->valid && frame->block == block && frame->file == file)
            return frame;
    }
    return NULL;
}

/* A frame for a block that has none: a free one; else the one that was last used longest ago. NULL:
 * there is no memory. */
static struct ledger_frame *choose(uint32_t group, uint64_t block)
{
    struct ledger_frame *best = NULL;
    uint32_t clock = ledger_map.shared->cache_clocks[group % LEDGER_CACHE_LOCKS];
    unsigned way = 0;
    for (; way < LEDGER_FRAME_WAYS && has_memory(group, way); way++) {
        struct ledger_frame *frame = frame_at(group, block % LEDGER_FRAME_SETS, way);
        if (!frame->valid)
            return frame;
        if (!best || clock - frame->used > clock - best->used)
            best = frame;
    }
    if (way < LEDGER_FRAME_WAYS && get_memory(group, way))
        return frame_at(group, block % LEDGER_FRAME_SETS, way);
    return best;
}

static void use(struct ledger_frame *frame, uint32_t group)
{
    frame->used = ++ledger_map.shared->cache_clocks[group % LEDGER_CACHE_LOCKS];
}

/* ---- giving ---- */

/* Does the frame have bytes of the file as it is in the stamp? The bounds are checked, as shared
 * memory may have been damaged. */
static bool is_good(const struct ledger_frame *frame, const struct ledger_stamp *stamp)
{
    return frame->truncations == stamp->truncations && frame->frames == stamp->frames &&
           frame->from < frame->to && frame->to <= LEDGER_FRAME;
}

/* Copies from the frames of one unit. Returns how many bytes. */
static size_t copy_unit(uint32_t file, const struct ledger_stamp *stamp, uint64_t offset,
                        size_t length, uint8_t *bytes)
{
    uint32_t group = group_of(file, offset);
    size_t done = 0;
    if (__atomic_load_n(&ledger_map.shared->group_ways[group], __ATOMIC_RELAXED) == 0)
        return 0;
    lock_group(group);
    while (done < length) {
        uint64_t at = offset + done;
        uint32_t from = (uint32_t)(at % LEDGER_FRAME);
        struct ledger_frame *frame = find(group, file, at / LEDGER_FRAME);
        if (!frame || !is_good(frame, stamp) || from < frame->from || from >= frame->to)
            break;
        size_t part = frame->to - from;
        if (part > length - done)
            part = length - done;
        memcpy(bytes + done, bytes_of(frame) + from, part);
        use(frame, group);
        done += part;
        if (from + part < LEDGER_FRAME)
            break; /* the frame has no more, or no more is wanted */
    }
    unlock_group(group);
    return done;
}

static const struct ledger_entry *cached_entry(const struct ledger_file *file)
{
    const struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    return entry && atomic_load_explicit(&entry->flags, memory_order_acquire) & LEDGER_ENTRY_CACHED
               ? entry
               : NULL;
}

bool ledger_cache_watches(const struct ledger_file *file)
{
    return ledger_cache_is_there() && cached_entry(file);
}

size_t ledger_cache_copy(const struct ledger_file *file, uint64_t offset, size_t length,
                         uint8_t *bytes, struct ledger_stamp *stamp)
{
    const struct ledger_entry *entry = cached_entry(file);
    size_t done = 0;
    if (!entry || !ledger_cache_is_there())
        return 0;
    if (length > LEDGER_STAMP_MAX)
        length = LEDGER_STAMP_MAX;
    ledger_stamp_look(entry, offset, offset + length, stamp);
    while (done < length) {
        uint64_t at = offset + done;
        size_t part = UNIT - at % UNIT;
        if (part > length - done)
            part = length - done;
        size_t had = copy_unit(ledger_entry_index(entry), stamp, at, part, bytes + done);
        done += had;
        if (had < part)
            break;
    }
    return done;
}

enum ledger_cache_state ledger_cache_judge_copy(const struct ledger_file *file,
                                                const struct ledger_stamp *stamp, uint64_t offset,
                                                size_t length, uint64_t since_ns)
{
    const struct ledger_entry *entry = cached_entry(file);
    if (!entry)
        return LEDGER_CACHE_OLD;
    /* First: the last look at the server may have shown something new, and dropped all of it. */
    bool seen = atomic_load_explicit(&entry->frames_seen_ns, memory_order_acquire) >= since_ns;
    if (!ledger_stamp_is(entry, stamp, LEDGER_STAMP_SIZE | LEDGER_STAMP_FRAMES, offset,
                         offset + length))
        return LEDGER_CACHE_OLD;
    return seen ? LEDGER_CACHE_GOOD : LEDGER_CACHE_UNSEEN;
}

/* ---- keeping ---- */

/* The bytes to be kept, in vectors that follow one another. */
struct source {
    const struct iovec *vector;
    size_t used; /* of the first vector */
};

static void take(struct source *source, uint8_t *bytes, size_t length)
{
    while (length > 0) {
        size_t part = source->vector->iov_len - source->used;
        if (part > length)
            part = length;
        memcpy(bytes, (const uint8_t *)source->vector->iov_base + source->used, part);
        bytes += part;
        length -= part;
        source->used += part;
        if (source->used == source->vector->iov_len) {
            source->vector++;
            source->used = 0;
        }
    }
}

static void skip(struct source *source, size_t length)
{
    while (length > 0) {
        size_t part = source->vector->iov_len - source->used;
        if (part > length)
            part = length;
        length -= part;
        source->used += part;
        if (source->used == source->vector->iov_len) {
            source->vector++;
            source->used = 0;
        }
    }
}

/* Keeps bytes [from, to) of a block. */
static void keep_block(uint32_t group, uint32_t file, const struct ledger_stamp *stamp,
                       uint64_t block, uint32_t from, uint32_t to, struct source *source)
{
    uint32_t first = from, end = to;
    struct ledger_frame *frame = find(group, file, block);
    if (frame && is_good(frame, stamp) && from <= frame->to && to >= frame->from) {
        first = frame->from < from ? frame->from : from; /* the frame has more of the block */
        end = frame->to > to ? frame->to : to;
    } else if (!frame) {
        frame = choose(group, block);
    }
    if (!frame) {
        skip(source, to - from);
        return;
    }
    set_valid(frame, 0);
    take(source, bytes_of(frame) + from, to - from);
    frame->file = file;
    frame->block = block;
    frame->truncations = stamp->truncations;
    frame->frames = stamp->frames;
    frame->from = first;
    frame->to = end;
    use(frame, group);
    set_valid(frame, 1);
}

/* Keeps bytes of one unit, under the stripe's lock. */
static void keep_unit(uint32_t file, const struct ledger_stamp *stamp, uint64_t offset,
                      size_t length, struct source *source)
{
    uint32_t group = group_of(file, offset);
    lock_group(group);
    for (uint64_t at = offset, end = offset + length; at < end;) {
        uint32_t from = (uint32_t)(at % LEDGER_FRAME), to = LEDGER_FRAME;
        if (to - from > end - at)
            to = from + (uint32_t)(end - at);
        keep_block(group, file, stamp, at / LEDGER_FRAME, from, to, source);
        at += to - from;
    }
    unlock_group(group);
}

/* Under the stripe's lock: may the bytes of [start, end) be kept, as nothing has changed them? */
static bool may_keep(const struct ledger_entry *entry, const struct ledger_stamp *stamp,
                     uint64_t start, uint64_t end)
{
    return atomic_load(&entry->flags) & LEDGER_ENTRY_CACHED && !ledger_entry_is_kernel(entry) &&
           (ledger_stamp_is(entry, stamp, LEDGER_STAMP_SIZE | LEDGER_STAMP_FRAMES, start, end) ||
            sys_test_unsafe(SYS_TEST_FRAMES));
}

void ledger_cache_keep(struct ledger_file *file, const struct ledger_stamp *stamp, uint64_t offset,
                       const struct iovec *data, size_t length)
{
    struct source source = {data, 0};
    if (!ledger_map.shared || ledger_map.shared->group_count == 0 || stamp->generation == 0)
        return;
    for (uint64_t at = offset, end = offset + length; at < end;) {
        size_t part = UNIT - at % UNIT;
        if (part > end - at)
            part = end - at;
        struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
        if (!entry)
            return;
        bool keeps = may_keep(entry, stamp, at, at + part);
        if (keeps)
            keep_unit(ledger_entry_index(entry), stamp, at, part, &source);
        ledger_entry_unlock(file);
        if (!keeps)
            skip(&source, part);
        at += part;
    }
}

/* ---- what makes frames old ---- */

void ledger_cache_passed(struct ledger_file *file, uint64_t offset, size_t length)
{
    struct ledger_entry *entry;
    if (!cached_entry(file) || !(entry = ledger_entry_lock(file, false, NULL)))
        return;
    while (length > 0) {
        size_t part = UNIT - offset % UNIT;
        if (part > length)
            part = length;
        ledger_cache_broken(entry, offset, offset + part);
        offset += part;
        length -= part;
    }
    ledger_entry_unlock(file);
}

void ledger_cache_broken(const struct ledger_entry *entry, uint64_t start, uint64_t end)
{
    uint32_t file = ledger_entry_index(entry), group = group_of(file, start);
    if (__atomic_load_n(&ledger_map.shared->group_ways[group], __ATOMIC_RELAXED) == 0 ||
        sys_test_unsafe(SYS_TEST_FRAMES))
        return;
    lock_group(group);
    for (uint64_t block = start / LEDGER_FRAME; block <= (end - 1) / LEDGER_FRAME; block++) {
        struct ledger_frame *frame = find(group, file, block);
        if (frame)
            set_valid(frame, 0);
    }
    unlock_group(group);
}

void ledger_cache_watch(struct ledger_entry *entry)
{
    uint32_t flags = atomic_load(&entry->flags);
    if (ledger_map.shared->group_count == 0 || flags & LEDGER_ENTRY_CACHED)
        return;
    bool known = flags & LEDGER_ENTRY_KNOWN;
    ledger_cache_drop(entry);
    entry->frames_ctime = known ? atomic_load(&entry->ctime) : 0;
    entry->frames_doubt = 0;
    atomic_store(&entry->frames_seen_ns, 0);
    entry->frames_told = sys_now_ns(); /* nothing is kept yet: see ledger_cache_drop() */
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_CACHED);
}

/* `frames_told` while the file was opened at the time below, and nothing was told since. */
#define OPENED (UINT64_C(1) << 63)

/* The server told, in answer to a question of this time, what is known or explained. */
static void told(struct ledger_entry *entry, uint64_t asked_ns)
{
    if ((entry->frames_told & ~OPENED) <= asked_ns)
        entry->frames_told = asked_ns;
}

static uint32_t in_seconds(uint64_t ns)
{
    return (uint32_t)(ns / 1000000000) + 1; /* not 0 */
}

static void see(struct ledger_entry *entry, uint64_t asked_ns)
{
    told(entry, asked_ns);
    if (atomic_load(&entry->frames_seen_ns) < asked_ns)
        atomic_store(&entry->frames_seen_ns, asked_ns);
}

static bool is_idle(struct ledger_entry *entry)
{
    return !ledger_entry_truncator(entry) && !ledger_record_pending(entry, UINT64_MAX);
}

/* No answer to a write of this host has explained this time yet. */
static void doubt(struct ledger_entry *entry, int64_t ctime)
{
    if (entry->frames_doubt == 0)
        entry->frames_since = entry->frames_ctime;
    if (entry->frames_doubt != ctime)
        entry->frames_doubt = entry->frames_doubt == 0 ? ctime : INT64_MAX;
}

/* The answer to a write does not tell what the write found. May that be taken for what is known? */
static bool may_assume(const struct ledger_entry *entry, uint64_t sent_ns)
{
    return !(entry->frames_told & OPENED) && sent_ns <= entry->frames_told + ASSUMED_AFTER_NS;
}

void ledger_cache_wrote(struct ledger_entry *entry, const struct ledger_attributes *now,
                        int64_t before_ctime, uint64_t sent_ns)
{
    int64_t ctime = ledger_nanoseconds(&now->ctime);
    int64_t before = before_ctime != 0 ? before_ctime : INT64_MAX;
    if (!(atomic_load(&entry->flags) & LEDGER_ENTRY_CACHED))
        return;
    bool doubtful = entry->frames_doubt != 0;
    bool explained = before_ctime != 0
                         ? before <= (doubtful ? entry->frames_since : entry->frames_ctime)
                         : may_assume(entry, sent_ns);
    if (explained) {
        told(entry, sent_ns);
        if (entry->frames_assumed == 0)
            entry->frames_assumed = in_seconds(sent_ns);
    }
    if (doubtful && ctime == entry->frames_doubt) /* this write made the time in doubt */
        entry->frames_doubt = explained ? 0 : before;
    else if (!explained)
        doubt(entry, before);
    else if (doubtful && ctime > entry->frames_since)
        entry->frames_since = ctime;
    if (ctime >= entry->frames_ctime)
        entry->frames_ctime = ctime;
}

void ledger_cache_times(struct ledger_entry *entry, const struct ledger_attributes *now,
                        uint64_t asked_ns, bool same)
{
    int64_t ctime = ledger_nanoseconds(&now->ctime);
    bool known = ctime == entry->frames_ctime;
    if (known && entry->frames_doubt == 0) {
        if (entry->frames_assumed != 0 &&
            in_seconds(asked_ns) - entry->frames_assumed > ASSUMED_FOR_S)
            ledger_cache_drop(entry);
        see(entry, asked_ns);
        return;
    }
    if (!same || !is_idle(entry)) { /* a write may have made it */
        if (!known && ctime >= entry->frames_ctime)
            doubt(entry, ctime);
        return;
    }
    if (!sys_test_unsafe(SYS_TEST_TIMES))
        ledger_cache_drop(entry);
    entry->frames_ctime = ctime;
    entry->frames_doubt = 0;
    see(entry, asked_ns);
}

void ledger_cache_told(struct ledger_file *file, uint64_t epoch,
                       const struct ledger_attributes *now, uint64_t asked_ns)
{
    const struct ledger_entry *cached = cached_entry(file);
    if (!cached ||
        atomic_load_explicit(&cached->frames_seen_ns, memory_order_relaxed) + SEEN_LATELY_NS >
            asked_ns)
        return;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    if (atomic_load(&entry->flags) & LEDGER_ENTRY_CACHED)
        ledger_cache_times(entry, now, asked_ns, ledger_entry_epoch(entry) == epoch);
    ledger_entry_unlock(file);
}

void ledger_cache_forget(struct ledger_file *file)
{
    if (!cached_entry(file))
        return;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    ledger_cache_drop(entry);
    told(entry, sys_now_ns());
    ledger_entry_unlock(file);
}

void ledger_cache_opened(struct ledger_file *file, uint64_t asked_ns)
{
    if (!cached_entry(file))
        return;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    if (entry->frames_assumed != 0 && !sys_test_unsafe(SYS_TEST_TIMES)) {
        ledger_cache_drop(entry);
        told(entry, sys_now_ns());
    }
    if ((entry->frames_told & ~OPENED) < asked_ns)
        entry->frames_told = asked_ns | OPENED;
    ledger_entry_unlock(file);
}
