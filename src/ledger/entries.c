/*
 * Finds, makes, recycles and renames the entries of files.
 */
#include <string.h>

#include "ledger/store/pocket.h"
#include "ledger/cache.h"
#include "ledger/entries.h"
#include "ledger/proof.h"
#include "ledger/world.h"
#include "sys/sys.h"

static uint32_t home_set(uint64_t device, uint64_t inode)
{
    uint64_t hash = (inode ^ device * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 31) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(hash >> 40) % LEDGER_SETS;
}

/* The sets of one stripe follow each other in a ring. */
static uint32_t next_set(uint32_t set)
{
    return (set + LEDGER_STRIPES) % LEDGER_SETS;
}

struct ledger_entry *ledger_entry_next(uint64_t device, uint64_t inode,
                                       const struct ledger_entry *last)
{
    uint32_t home = home_set(device, inode), set = home, i = 0;
    if (last) {
        set = ledger_entry_index(last) / LEDGER_SET_SIZE;
        i = ledger_entry_index(last) % LEDGER_SET_SIZE + 1;
    }
    do {
        uint8_t state =
            atomic_load_explicit(&ledger_map.shared->set_state[set], memory_order_acquire);
        for (; state && i < LEDGER_SET_SIZE; i++) {
            struct ledger_entry *entry = &ledger_map.entries[set * LEDGER_SET_SIZE + i];
            if (atomic_load_explicit(&entry->inode, memory_order_relaxed) == inode &&
                atomic_load_explicit(&entry->device, memory_order_relaxed) == device &&
                (atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_PRESENT))
                return entry;
        }
        if (state != 2)
            return NULL;
        set = next_set(set);
        i = 0;
    } while (set != home);
    return NULL;
}

/* The name of the server, by the configuration, does not count: device, inode and handle identify a
 * file. But with LEDGER_APART it does: what was done at another time with a fence must be told
 * apart. */
static bool same_key(const struct ledger_entry *entry, const struct ledger_file_key *key)
{
    bool apart = (entry->server | key->server) & LEDGER_APART && entry->server != key->server;
    return !apart && entry->handle_length == key->handle_length &&
           memcmp(entry->handle, key->handle, key->handle_length) == 0;
}

struct ledger_entry *ledger_entry_find(const struct ledger_file_key *key)
{
    struct ledger_entry *entry = NULL;
    while ((entry = ledger_entry_next(key->device, key->inode, entry)) && !same_key(entry, key))
        ;
    return entry;
}

/* What a new entry inherits from entries that may be of the same file, by an older handle. */
struct heritage {
    bool loss; /* they have data that is lost now, or a loss that nobody was told of */
    uint32_t flags;
};
static const struct heritage no_heritage;

/* In this order, as this process may die here: first nobody goes on with what the place was; then
 * nobody finds it; PRESENT comes last. */
static void begin_life(struct ledger_entry *entry, const struct ledger_file_key *key,
                       const struct heritage *heritage)
{
    struct ledger_stripe *stripe = ledger_entry_stripe(entry);
    ledger_entry_forget_written(entry);
    ledger_entry_change(entry);
    atomic_store(&entry->generation, ++stripe->births);
    atomic_store(&entry->flags, 0);
    atomic_store(&entry->truncations, ++stripe->births);
    atomic_store(&entry->device, key->device);
    atomic_store(&entry->inode, key->inode);
    ledger_entry_set_name(entry, key);
    atomic_store(&entry->size, 0);
    atomic_store(&entry->used, 0);
    atomic_store(&entry->mtime, 0);
    atomic_store(&entry->ctime, 0);
    atomic_store(&entry->verified_ns, 0);
    entry->uncommitted_end = 0;
    atomic_store(&entry->losses.count, heritage->loss);
    atomic_store(&entry->losses.told, 0);
    entry->losses.error = 0;
    entry->pins = 0;
    ledger_proof_end(entry);
    atomic_store(&entry->user, 0);
    /* Other entries with this number may be of the same file, by another handle. */
    for (struct ledger_entry *other = NULL;
         (other = ledger_entry_next(key->device, key->inode, other));)
        ledger_entry_outdate(other);
    bool kernel = ledger_world_is_pinned(key->device, key->inode);
    atomic_store(&entry->flags, LEDGER_ENTRY_PRESENT | LEDGER_ENTRY_UNTOLD | heritage->flags |
                                    (kernel ? LEDGER_ENTRY_KERNEL | LEDGER_ENTRY_ARRIVED : 0));
    ledger_entry_changed(entry);
}

static bool has_untold_loss(const struct ledger_entry *entry)
{
    return atomic_load(&entry->losses.count) != atomic_load(&entry->losses.told);
}

/* Does something refer to the place? */
static bool is_used(struct ledger_entry *entry)
{
    return entry->records || ledger_entry_truncator(entry);
}

/* Has the entry what is nowhere else? Then its place must not be given to another file. */
static bool is_needed(struct ledger_entry *entry)
{
    return is_used(entry) || has_untold_loss(entry) ||
           (atomic_load(&entry->flags) & LEDGER_ENTRY_STUCK);
}

/* A place in a set. In this order: a free one; of the entries without a loss, the one that was last
 * used longest ago; the same of all entries. (Some open file may not have heard of a loss.) NULL:
 * all are needed. A file that finds no place is served by the kernel. */
static struct ledger_entry *find_place(uint32_t set)
{
    struct ledger_entry *best = NULL;
    uint32_t clock = ledger_map.shared->stripes[set % LEDGER_STRIPES].clock, best_age = 0;
    bool best_lost = false;
    for (uint32_t i = 0; i < LEDGER_SET_SIZE; i++) {
        struct ledger_entry *entry = &ledger_map.entries[set * LEDGER_SET_SIZE + i];
        uint32_t age = clock - entry->used_at;
        bool present = atomic_load(&entry->flags) & LEDGER_ENTRY_PRESENT;
        if (present ? is_needed(entry) : is_used(entry))
            continue;
        if (!present)
            return entry;
        bool lost = atomic_load_explicit(&entry->losses.count, memory_order_relaxed) != 0;
        if (!best || (lost != best_lost ? best_lost : age > best_age)) {
            best = entry;
            best_age = age;
            best_lost = lost;
        }
    }
    return best;
}

static struct ledger_entry *make(const struct ledger_file_key *key, const struct heritage *heritage)
{
    uint32_t home = home_set(key->device, key->inode), set = home;
    do {
        _Atomic uint8_t *state = &ledger_map.shared->set_state[set];
        if (!atomic_load(state)) {
            if (ledger_registry_back(ledger_map.entries_at + (uint64_t)set * 4096, 4096) != 0)
                return NULL;
            atomic_store_explicit(state, 1, memory_order_release);
        }
        struct ledger_entry *entry = find_place(set);
        if (entry) {
            begin_life(entry, key, heritage);
            return entry;
        }
        atomic_store(state, 2);
        set = next_set(set);
    } while (set != home);
    return NULL;
}

/* From now on `file` stands for this entry. All losses that the entry counts are news for `file`,
 * which knew of none, or only of those of an earlier entry. */
static void remember(struct ledger_file *file, const struct ledger_entry *entry)
{
    __atomic_store_n(&file->index, ledger_entry_index(entry), __ATOMIC_RELAXED);
    __atomic_store_n(&file->losses_known, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&file->generation, atomic_load(&entry->generation), __ATOMIC_RELAXED);
}

struct ledger_entry *ledger_entry_remembered(const struct ledger_file *file)
{
    uint32_t index = __atomic_load_n(&file->index, __ATOMIC_RELAXED);
    uint64_t generation = __atomic_load_n(&file->generation, __ATOMIC_RELAXED);
    if (generation == 0 || index >= LEDGER_FILES)
        return NULL;
    struct ledger_entry *entry = &ledger_map.entries[index];
    return atomic_load_explicit(&entry->generation, memory_order_acquire) == generation ? entry
                                                                                        : NULL;
}

struct ledger_entry *ledger_entry_peek(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    if (entry)
        return entry;
    entry = ledger_entry_lock(file, false, NULL);
    if (entry)
        ledger_entry_unlock(file);
    return entry;
}

static void touch(struct ledger_entry *entry)
{
    struct ledger_stripe *stripe = ledger_entry_stripe(entry);
    if (entry->used_at != stripe->clock) /* else it is the one that was used last */
        entry->used_at = ++stripe->clock;
}

uint32_t ledger_stripe_of_inode(uint64_t device, uint64_t inode)
{
    return home_set(device, inode) % LEDGER_STRIPES;
}

struct ledger_entry *ledger_entry_of(const struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_remembered(file);
    return entry ? entry : ledger_entry_find(&file->key);
}

/* Had the export's root another handle when the handle of the entry was got than for the key? Then
 * one of the two is older than the new handles that the server gave all files, and both may be of
 * one file. */
static bool of_other_root(const struct ledger_entry *entry, const struct ledger_file_key *key)
{
    return entry->server == key->server && entry->root != key->root;
}

static bool may_have_new_handle(const struct ledger_file_key *key)
{
    const struct ledger_entry *entry = NULL;
    while ((entry = ledger_entry_next(key->device, key->inode, entry)) &&
           !of_other_root(entry, key))
        ;
    return entry != NULL;
}

/* The file has no entry: makes one, or *result says why not. */
static struct ledger_entry *make_or_say(const struct ledger_file_key *key, bool may_make,
                                        int *result)
{
    bool renamed = may_make && may_have_new_handle(key);
    struct ledger_entry *entry = may_make && !renamed ? make(key, &no_heritage) : NULL;
    if (!entry && result)
        *result = renamed ? -ESTALE : may_make ? -ENOSPC : -ENOENT;
    return entry;
}

struct ledger_entry *ledger_entry_lock(struct ledger_file *file, bool may_make, int *result)
{
    if (!ledger_map.shared) {
        if (result)
            *result = -ENOSPC;
        return NULL;
    }
    uint32_t stripe = ledger_stripe_of_file(file);
    ledger_stripe_lock(stripe);
    struct ledger_entry *entry = ledger_entry_remembered(file);
    if (!entry) {
        entry = ledger_entry_find(&file->key);
        if (!entry)
            entry = make_or_say(&file->key, may_make, result);
        if (!entry) {
            ledger_stripe_unlock(stripe);
            return NULL;
        }
        remember(file, entry);
    }
    touch(entry);
    return entry;
}

void ledger_entry_unlock(const struct ledger_file *file)
{
    ledger_stripe_unlock(ledger_stripe_of_file(file));
}

/* The file has another handle now. If this process dies here, the process that gets the lock next
 * finishes, and nobody sees half a handle. */
static void rename_entry(struct ledger_entry *entry, const struct ledger_file_key *key)
{
    ledger_entry_stripe(entry)->renamed = *key;
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_RENAMING);
    ledger_entry_end_rename(entry);
}

static uint64_t bytes_of(struct ledger_entry *entry)
{
    return atomic_load(&entry->uncommitted) + atomic_load(&entry->dirty);
}

/* The entries with the device and inode of a key, which none of them has. */
struct others {
    struct ledger_entry *idle; /* an entry of another file that has nothing to keep; NULL: none */
    unsigned count;            /* how many may be of the same file: see of_other_root() */
    struct ledger_entry *same; /* the last of these that has the change time as well */
    unsigned same_count;
    uint64_t bytes; /* bytes in the ledger that they have */
    struct heritage heritage;
};

static struct others find_others(const struct ledger_file_key *key, const struct timespec *ctime)
{
    struct others others = {.count = 0};
    struct ledger_entry *entry = NULL;
    while ((entry = ledger_entry_next(key->device, key->inode, entry))) {
        if (!of_other_root(entry, key)) {
            others.idle = is_needed(entry) ? others.idle : entry;
            continue;
        }
        others.count++;
        others.bytes += bytes_of(entry);
        others.heritage.loss |= bytes_of(entry) > 0 || has_untold_loss(entry);
        others.heritage.flags |= atomic_load(&entry->flags) &
                                 (LEDGER_ENTRY_KERNEL | LEDGER_ENTRY_STUCK | LEDGER_ENTRY_WRITTEN);
        if ((atomic_load(&entry->flags) & LEDGER_ENTRY_KNOWN) &&
            atomic_load(&entry->ctime) == ledger_nanoseconds(ctime)) {
            others.same = entry;
            others.same_count++;
        }
    }
    return others;
}

/*
 * Makes or finds the entry for a key that no entry has; NULL: no room. Mostly it is a new one. But
 * the change time may prove that an entry with an older handle is of the same file. Then that entry
 * gets the new handle.
 *
 * If that is not proven, such entries stay, as they may be of other files. But their data counts as
 * lost: *lost bytes. If there is only one such entry, its loss counts as told there. A process that
 * finds the older handle stale may then forget that data.
 */
static struct ledger_entry *make_or_rename(const struct ledger_file_key *key,
                                           const struct timespec *ctime, uint64_t *lost,
                                           struct ledger_garbage *garbage)
{
    struct others others = find_others(key, ctime);
    if (others.same_count == 1) {
        rename_entry(others.same, key);
        return others.same;
    }
    struct ledger_entry *entry = others.idle;
    if (entry)
        begin_life(entry, key, &others.heritage); /* mostly its file is gone */
    else
        entry = make(key, &others.heritage);
    if (!entry)
        return NULL;
    *lost = others.bytes;
    if (*lost > 0)
        atomic_fetch_add(&ledger_map.shared->losses, 1);
    struct ledger_entry *other = NULL;
    while (others.count > 0 && (other = ledger_entry_next(key->device, key->inode, other))) {
        if (!of_other_root(other, key))
            continue;
        if (others.count == 1) {
            other->root = entry->root;
            atomic_store(&other->losses.told, atomic_load(&other->losses.count));
        }
        if (!is_needed(other))
            ledger_entry_retire(other, garbage);
    }
    return entry;
}

bool ledger_file_attach(struct ledger_file *file, const struct ledger_file_key *key,
                        const struct timespec *ctime, uint64_t *lost)
{
    struct ledger_garbage garbage = {0};
    *lost = 0;
    file->key = *key;
    if (file->key.handle_length > LEDGER_HANDLE_MAX)
        file->key.handle_length = LEDGER_HANDLE_MAX;
    file->index = UINT32_MAX;
    file->generation = 0;
    file->outside_pins = 0;
    if (!ledger_map.shared)
        return false;
    uint32_t stripe = ledger_stripe_of_file(file);
    ledger_stripe_lock(stripe);
    struct ledger_entry *entry = ledger_entry_find(&file->key);
    if (!entry)
        entry = make_or_rename(&file->key, ctime, lost, &garbage);
    if (entry) {
        remember(file, entry);
        /* Losses that nobody was told of are news. */
        file->losses_known = atomic_load(&entry->losses.told);
        touch(entry);
    }
    ledger_stripe_unlock(stripe);
    ledger_stripe_wake(stripe);
    ledger_arena_give(garbage.first);
    return entry != NULL;
}

/* `from`, which has an older handle, is of the same file as `into`. Its data was written before the
 * file was changed under the new handle, and counts as lost. Returns the bytes of which nobody was
 * told. */
static uint64_t merge(struct ledger_entry *from, struct ledger_entry *into,
                      struct ledger_garbage *garbage)
{
    bool told = from->root == into->root; /* see make_or_rename() */
    uint64_t lost = told ? 0 : bytes_of(from);
    if (from->records || has_untold_loss(from))
        atomic_fetch_add(&into->losses.count, 1);
    if (lost > 0)
        atomic_fetch_add(&ledger_map.shared->losses, 1);
    ledger_cache_drop(into);
    atomic_fetch_or(&into->flags,
                    atomic_load(&from->flags) &
                        (LEDGER_ENTRY_KERNEL | LEDGER_ENTRY_STUCK | LEDGER_ENTRY_WRITTEN));
    ledger_entry_retire(from, garbage);
    return lost;
}

bool ledger_file_rename(struct ledger_file *file, const struct ledger_file_key *key,
                        const struct timespec *ctime, uint64_t *lost)
{
    struct ledger_garbage garbage = {0};
    *lost = 0;
    if (!ledger_map.shared)
        return false;
    uint32_t stripe = ledger_stripe_of_file(file);
    ledger_stripe_lock(stripe);
    struct ledger_entry *known = ledger_entry_of(file), *entry = ledger_entry_find(key);
    file->key.server = key->server; /* device and inode are read without the lock, and stay */
    __atomic_store_n(&file->key.root, key->root, __ATOMIC_RELAXED);
    file->key.handle_length = key->handle_length;
    memcpy(file->key.handle, key->handle, sizeof(key->handle));
    if (known && (!entry || entry == known)) {
        rename_entry(known, key);
        entry = known;
    } else if (known) {
        *lost = merge(known, entry, &garbage);
    } else if (!entry) {
        entry = make_or_rename(key, ctime, lost, &garbage);
    }
    if (entry && entry != ledger_entry_remembered(file))
        remember(file, entry);
    if (entry)
        touch(entry);
    ledger_stripe_unlock(stripe);
    ledger_stripe_wake(stripe);
    ledger_arena_give(garbage.first);
    return entry != NULL;
}

void ledger_entry_name(const struct ledger_entry *entry, struct ledger_file *file)
{
    file->key.device = atomic_load(&entry->device);
    file->key.inode = atomic_load(&entry->inode);
    file->key.server = entry->server;
    file->key.root = entry->root;
    file->key.handle_length = entry->handle_length;
    memcpy(file->key.handle, entry->handle, LEDGER_HANDLE_MAX);
    file->index = ledger_entry_index(entry);
    file->generation = atomic_load(&entry->generation);
    file->outside_pins = 0;
    file->losses_known = atomic_load(&entry->losses.told);
}

bool ledger_file_find(const struct ledger_file_key *key, uint32_t *cursor, struct ledger_file *file)
{
    if (!ledger_map.shared)
        return false;
    uint32_t stripe = ledger_stripe_of_inode(key->device, key->inode);
    ledger_stripe_lock(stripe);
    const struct ledger_entry *entry = *cursor ? &ledger_map.entries[*cursor - 1] : NULL;
    do
        entry = ledger_entry_next(key->device, key->inode, entry);
    while (entry && key->handle_length && !same_key(entry, key) && !of_other_root(entry, key));
    if (entry) {
        ledger_entry_name(entry, file);
        *cursor = ledger_entry_index(entry) + 1;
    }
    ledger_stripe_unlock(stripe);
    return entry != NULL;
}
