/*
 * Entries of files: finding, making, recycling and renaming them.
 */
#include <string.h>

#include "host/shared.h"
#include "sys/sys.h"

static uint32_t home_set(uint64_t device, uint64_t inode)
{
    uint64_t hash = (inode ^ device * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 31) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(hash >> 40) % HOST_SETS;
}

/* Sets of one stripe follow each other in a ring. */
static uint32_t next_set(uint32_t set)
{
    return (set + HOST_STRIPES) % HOST_SETS;
}

void host_stripe_lock(uint32_t stripe)
{
    struct host_stripe *s = &host_map.shared->stripes[stripe];
    if (pthread_mutex_lock(&s->lock) == EOWNERDEAD) {
        host_stripe_rebuild(stripe);
        atomic_fetch_add(&s->recoveries, 1);
        pthread_mutex_consistent(&s->lock);
    }
    if (atomic_load_explicit(&s->held_check, memory_order_relaxed))
        host_stripe_expire(stripe);
}

void host_stripe_unlock(uint32_t stripe)
{
    pthread_mutex_unlock(&host_map.shared->stripes[stripe].lock);
}

/* ---- finding and making ---- */

struct host_entry *host_entry_find(uint64_t device, uint64_t inode)
{
    uint32_t home = home_set(device, inode), set = home;
    do {
        uint8_t state =
            atomic_load_explicit(&host_map.shared->set_state[set], memory_order_acquire);
        for (uint32_t i = 0; state && i < HOST_SET_SIZE; i++) {
            struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
            if (atomic_load_explicit(&entry->inode, memory_order_relaxed) == inode &&
                atomic_load_explicit(&entry->device, memory_order_relaxed) == device &&
                (atomic_load_explicit(&entry->flags, memory_order_relaxed) & HOST_ENTRY_PRESENT))
                return entry;
        }
        if (state != 2)
            return NULL;
        set = next_set(set);
    } while (set != home);
    return NULL;
}

/* Whatever the configuration calls its server: device, inode and handle are those of one file. */
static bool same_key(const struct host_entry *entry, const struct host_file_key *key)
{
    return !(atomic_load(&entry->flags) & HOST_ENTRY_RENAMING) &&
           entry->handle_length == key->handle_length &&
           memcmp(entry->handle, key->handle, key->handle_length) == 0;
}

static void set_name(struct host_entry *entry, const struct host_file_key *key)
{
    entry->server = key->server;
    entry->root = key->root;
    entry->handle_length = key->handle_length;
    memcpy(entry->handle, key->handle, key->handle_length);
}

static void begin_life(struct host_entry *entry, const struct host_file_key *key)
{
    struct host_stripe *stripe = &host_map.shared->stripes[host_stripe_of(host_entry_index(entry))];
    host_entry_change(entry);
    atomic_store(&entry->flags, 0); /* PRESENT comes last, should this process die here */
    atomic_store(&entry->generation, ++stripe->births);
    atomic_store(&entry->truncations, ++stripe->births);
    atomic_store(&entry->device, key->device);
    atomic_store(&entry->inode, key->inode);
    set_name(entry, key);
    atomic_store(&entry->size, 0);
    atomic_store(&entry->used, 0);
    atomic_store(&entry->mtime, 0);
    atomic_store(&entry->ctime, 0);
    atomic_store(&entry->verified_ns, 0);
    entry->uncommitted_end = 0;
    atomic_store(&entry->losses, 0);
    atomic_store(&entry->told, 0);
    atomic_store(&entry->flags, HOST_ENTRY_PRESENT);
    host_entry_changed(entry);
}

static bool has_untold_loss(const struct host_entry *entry)
{
    return atomic_load(&entry->losses) != atomic_load(&entry->told);
}

/* The entry of a set that is free, or was not used for the longest time; NULL: all are needed. */
static struct host_entry *find_place(uint32_t set, bool desperate)
{
    struct host_entry *best = NULL;
    uint32_t clock = host_map.shared->stripes[set % HOST_STRIPES].clock, best_age = 0;
    for (uint32_t i = 0; i < HOST_SET_SIZE; i++) {
        struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
        uint32_t flags = atomic_load(&entry->flags), age = clock - entry->used_at;
        if (!(flags & HOST_ENTRY_PRESENT))
            return entry;
        bool wanted = (flags & HOST_ENTRY_KERNEL_WRITER) || has_untold_loss(entry);
        if (entry->records || host_entry_truncator(entry) || (wanted && !desperate))
            continue;
        if (!best || age > best_age) {
            best = entry;
            best_age = age;
        }
    }
    return best;
}

static struct host_entry *make(const struct host_file_key *key)
{
    uint32_t home = home_set(key->device, key->inode);
    for (int desperate = 0; desperate <= 1; desperate++) {
        uint32_t set = home;
        do {
            _Atomic uint8_t *state = &host_map.shared->set_state[set];
            if (!atomic_load(state)) {
                if (host_registry_back(host_map.entries_at + (uint64_t)set * 4096, 4096) != 0)
                    return NULL;
                atomic_store_explicit(state, 1, memory_order_release);
            }
            struct host_entry *entry = find_place(set, desperate);
            if (entry) {
                begin_life(entry, key);
                return entry;
            }
            atomic_store(state, 2);
            set = next_set(set);
        } while (set != home);
    }
    return NULL;
}

/* Losses since this life of the entry began are news for who knew an earlier one. */
static void remember(struct host_file *file, const struct host_entry *entry)
{
    __atomic_store_n(&file->index, host_entry_index(entry), __ATOMIC_RELAXED);
    __atomic_store_n(&file->losses, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&file->generation, atomic_load(&entry->generation), __ATOMIC_RELAXED);
}

struct host_entry *host_entry_remembered(const struct host_file *file)
{
    uint32_t index = __atomic_load_n(&file->index, __ATOMIC_RELAXED);
    uint64_t generation = __atomic_load_n(&file->generation, __ATOMIC_RELAXED);
    if (generation == 0 || index >= HOST_FILES)
        return NULL;
    struct host_entry *entry = &host_map.entries[index];
    return atomic_load_explicit(&entry->generation, memory_order_acquire) == generation ? entry
                                                                                        : NULL;
}

struct host_entry *host_entry_peek(struct host_file *file)
{
    int error;
    struct host_entry *entry = host_map.shared ? host_entry_remembered(file) : NULL;
    if (entry)
        return entry;
    entry = host_entry_lock(file, false, &error);
    if (entry)
        host_entry_unlock(file);
    return entry;
}

static void touch(struct host_entry *entry)
{
    entry->used_at = ++host_map.shared->stripes[host_stripe_of(host_entry_index(entry))].clock;
}

uint32_t host_stripe_of_inode(uint64_t device, uint64_t inode)
{
    return home_set(device, inode) % HOST_STRIPES;
}

struct host_entry *host_entry_lock(struct host_file *file, bool may_make, int *error)
{
    if (!host_map.shared) {
        *error = -ENOSPC;
        return NULL;
    }
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = host_entry_remembered(file);
    if (!entry) {
        entry = host_entry_find(file->key.device, file->key.inode);
        *error = -ENOENT;
        if (entry && !same_key(entry, &file->key)) {
            *error = -ESTALE;
            entry = NULL;
        } else if (!entry && may_make) {
            *error = -ENOSPC;
            entry = make(&file->key);
        }
        if (entry)
            remember(file, entry);
    }
    if (!entry) {
        host_stripe_unlock(stripe);
        return NULL;
    }
    touch(entry);
    return entry;
}

void host_entry_unlock(const struct host_file *file)
{
    host_stripe_unlock(host_stripe_of_file(file));
}

/* Forgets all of a file that is gone. Writes in flight go on, but leave nothing here. */
static void empty(struct host_entry *entry, const struct host_file_key *key,
                  struct host_garbage *garbage)
{
    uint32_t index = host_entry_index(entry);
    host_record_cut(entry, 0, true, garbage);
    host_records_detach(index, garbage);
    atomic_store(&entry->truncator, 0);
    begin_life(entry, key);
}

/* The same file has another handle. Who dies here leaves an entry that no handle is the same as. */
static void rename_entry(struct host_entry *entry, const struct host_file_key *key)
{
    atomic_fetch_or(&entry->flags, HOST_ENTRY_RENAMING);
    set_name(entry, key);
    atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_RENAMING);
}

/* Gives the place of a file, of which the kernel says the same device and inode, to `key`. */
static uint64_t take_over(struct host_entry *entry, const struct host_file_key *key,
                          const struct timespec *ctime, struct host_garbage *garbage)
{
    uint32_t flags = atomic_load(&entry->flags);
    if (entry->root == key->root && !(flags & HOST_ENTRY_RENAMING)) {
        empty(entry, key, garbage);
        return 0;
    }
    if ((flags & HOST_ENTRY_KNOWN) && atomic_load(&entry->ctime) == host_nanoseconds(ctime)) {
        rename_entry(entry, key);
        return 0;
    }
    uint64_t lost = atomic_load(&entry->uncommitted);
    bool untold = has_untold_loss(entry);
    empty(entry, key, garbage);
    if (lost > 0 || untold) /* it may be the same file */
        atomic_store(&entry->losses, 1);
    atomic_fetch_or(&entry->flags, flags & HOST_ENTRY_KERNEL_WRITER);
    return lost;
}

bool host_file_attach(struct host_file *file, const struct host_file_key *key,
                      const struct timespec *ctime, uint64_t *lost)
{
    struct host_garbage garbage = {0};
    *lost = 0;
    file->key = *key;
    if (file->key.handle_length > HOST_HANDLE_MAX)
        file->key.handle_length = HOST_HANDLE_MAX;
    file->index = UINT32_MAX;
    file->generation = 0;
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = host_entry_find(key->device, key->inode);
    if (entry && !same_key(entry, &file->key))
        *lost = take_over(entry, &file->key, ctime, &garbage);
    if (!entry)
        entry = make(&file->key);
    if (entry) {
        remember(file, entry);
        file->losses = atomic_load(&entry->told); /* others are news, as nobody knows of them */
        touch(entry);
    }
    host_stripe_unlock(stripe);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
    return entry != NULL;
}

bool host_file_rename(struct host_file *file, const struct host_file_key *key,
                      const struct timespec *ctime, uint64_t *lost)
{
    struct host_garbage garbage = {0};
    *lost = 0;
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = host_entry_find(key->device, key->inode);
    bool known = entry && entry == host_entry_remembered(file),
         ours = known || (entry && same_key(entry, &file->key));
    file->key.server = key->server; /* device and inode are read without the lock, and stay */
    __atomic_store_n(&file->key.root, key->root, __ATOMIC_RELAXED);
    file->key.handle_length = key->handle_length;
    memcpy(file->key.handle, key->handle, sizeof(key->handle));
    if (ours) {
        rename_entry(entry, &file->key);
    } else if (entry) {
        if (!same_key(entry, &file->key))
            *lost = take_over(entry, &file->key, ctime, &garbage);
    } else {
        entry = make(&file->key);
    }
    if (entry && !known)
        remember(file, entry);
    if (entry)
        touch(entry);
    host_stripe_unlock(stripe);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
    return entry != NULL;
}

void host_entry_name(const struct host_entry *entry, struct host_file *file)
{
    file->key.device = atomic_load(&entry->device);
    file->key.inode = atomic_load(&entry->inode);
    file->key.server = entry->server;
    file->key.root = entry->root;
    file->key.handle_length = entry->handle_length;
    memcpy(file->key.handle, entry->handle, HOST_HANDLE_MAX);
    file->index = host_entry_index(entry);
    file->generation = atomic_load(&entry->generation);
}

bool host_file_find(uint64_t device, uint64_t inode, struct host_file *file)
{
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_inode(device, inode);
    host_stripe_lock(stripe);
    const struct host_entry *entry = host_entry_find(device, inode);
    if (entry)
        host_entry_name(entry, file);
    host_stripe_unlock(stripe);
    return entry != NULL;
}
