/*
 * The layout of the registry in shared memory, and what the files of src/host share of it.
 *
 *   header | locks, counters | process slots | buckets | free lists | entries | records | chunks
 *
 * Everything is an index, never a pointer. Index 0 of records, chunks and process slots is no
 * record, no chunk, and "a process that is no more".
 *
 * Locks, in the order of taking them: process_lock, one stripe's lock, arena_lock. All are robust:
 * who gets one from a dead owner first puts in order what it guards.
 *   process_lock  the process slots.
 *   stripe lock   the entries of the stripe, their lists of records, its buckets, and the states of
 *                 records that are linked there (IN_FLIGHT, ACKED, REPLAY, GHOST).
 *   arena_lock    which records and chunks are free, and which chunks belong to which record.
 * A record's `state` is its commit point. On EOWNERDEAD the lists are made again from the records.
 *
 * Memory is reserved with fallocate() before its first use, so that a full /dev/shm is an error
 * (-ENOSPC) and never a SIGBUS.
 */
#ifndef HOST_SHARED_H
#define HOST_SHARED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/registry.h"
#include "host/run.h"
#include "sys/test_switch.h"

#define HOST_REGISTRY_MAGIC UINT64_C(0x67657253464e4444) /* "DDNFSreg" in memory */

enum {
    HOST_REGISTRY_LAYOUT = 6,
    HOST_STRIPES = 64,
    HOST_COMMITS = 64, /* on their way that a stripe has places for */
    HOST_OFFSET_USERS = 16,
    HOST_SETS = 4096,   /* an entry lives in the set of its key, or in the next of its stripe */
    HOST_SET_SIZE = 16, /* entries in a set: one page */
    HOST_FILES = HOST_SETS * HOST_SET_SIZE,
    HOST_PROCESSES = 8192,
    HOST_TRUNCATOR_HELD = HOST_PROCESSES, /* no slot */
    HOST_CHUNK = 8192,
    HOST_UNIT_SHIFT = 16, /* a record never crosses a multiple of 64 KiB */
    HOST_RECORD_CHUNKS = (1 << HOST_UNIT_SHIFT) / HOST_CHUNK,
    HOST_WRITE_RECORDS = (HOST_WRITE_MAX >> HOST_UNIT_SHIFT) + 1,
    HOST_WAIT_NS = 100000000, /* who waits for a range looks again after this */
    HOST_NO_FILE = UINT32_MAX >> 1
};

enum { HOST_DISTRUSTED = 1, HOST_DISTRUSTED_BEFORE = 2 };

enum host_record_state {
    HOST_RECORD_FREE,
    HOST_RECORD_PRIVATE, /* of its owner alone: being filled, or about to be freed; in no list */
    HOST_RECORD_IN_FLIGHT,
    HOST_RECORD_ACKED,
    HOST_RECORD_REPLAY, /* as ACKED, and its owner is writing it again */
    HOST_RECORD_GHOST   /* ended, but an older copy may still be executed: no data, no owner */
};

/* A piece of one write. Bytes [from, to) counted from file offset `base`, which is byte 0 of
 * chunk[0]. Trimming changes only `range`: a single store. */
struct host_record {
    _Atomic uint32_t state;
    _Atomic uint32_t owner; /* process slot */
    _Atomic uint32_t file;  /* entry, once it is IN_FLIGHT */
    uint32_t kept;
    uint64_t base;
    _Atomic uint64_t range; /* from << 32 | to */
    uint64_t sequence; /* of the acknowledgement, in the stripe; kept when split. IN_FLIGHT: the
                          last one before it began */
    uint64_t verifier;
    uint32_t bucket_next, bucket_previous; /* records of the same bucket */
    uint32_t file_next, file_previous;     /* ACKED and REPLAY of a file, by sequence and offset */
    uint32_t write_next;                   /* the next piece of the same write */
    uint32_t chunk[HOST_RECORD_CHUNKS];    /* arena_lock */
    uint32_t distrusted; /* the server may have lost it, and said so: only writing it again makes it
                            safe (HOST_DISTRUSTED_BEFORE: since before that began); stripe lock */
    /* [held_start, held_end) of the file is blocked until held_until (CLOCK_MONOTONIC; 0: was not
     * held, or no more): see hold.c. Stripe lock. */
    uint64_t held_start, held_end, held_until;
};
_Static_assert(sizeof(struct host_record) == 128, "two cache lines");

enum host_entry_flag {
    HOST_ENTRY_PRESENT = 1,
    HOST_ENTRY_KNOWN = 2, /* the attributes are */
    HOST_ENTRY_KERNEL = 4,   /* in the kernel's world, or on its way there: see world.h */
    HOST_ENTRY_MIXED = 8,       /* records of several verifiers */
    HOST_ENTRY_DISTRUSTED = 32, /* records that are `distrusted` */
    HOST_ENTRY_RENAMING =
        16, /* the handle is being replaced: what is there is none, or half of one */
    HOST_ENTRY_TRUNCATED = 64, /* the server did what `truncator` asked for, and it said so */
    HOST_ENTRY_ARRIVED = 128,  /* in the kernel's world: nothing of it is left in the ledger */
    HOST_ENTRY_STUCK = 256,    /* somebody could not pin it: it does not come back */
    HOST_ENTRY_APPENDING = 512, /* `truncator` has a turn to append: see append.c */
    HOST_ENTRY_UNTOLD = 1024    /* this host may have changed it since the times were told */
};

/* A file. Written under the stripe's lock; what a reader without it may load is atomic. */
struct host_entry {
    _Atomic uint32_t sequence; /* odd while attributes or key change */
    _Atomic uint32_t flags;
    _Atomic uint64_t generation; /* of the use of this place; never the same again */
    _Atomic uint64_t device, inode;
    uint64_t server, root;
    uint32_t handle_length;
    uint8_t handle[HOST_HANDLE_MAX];
    uint32_t used_at;     /* stripe->clock at the last use */
    uint32_t first, last; /* records ACKED or REPLAY */
    uint32_t records;     /* linked in any state: the entry may not be recycled */
    uint32_t pins;        /* times that a process pinned the file */
    /* Process slot that changes the size or appends now; 0: none; HOST_TRUNCATOR_HELD: one that
     * died while it changed the size. */
    _Atomic uint32_t truncator;
    uint64_t truncate_size; /* writes beyond it wait for `truncator` */
    uint64_t truncate_held; /* HOST_TRUNCATOR_HELD until then (CLOCK_MONOTONIC) */
    _Atomic uint64_t size;  /* while not KNOWN: a lower bound from writes */
    _Atomic uint64_t used;
    _Atomic int64_t mtime, ctime; /* nanoseconds */
    _Atomic uint64_t verified_ns; /* while not KNOWN: since when they are not */
    _Atomic uint64_t changes;     /* begins and ends of writes */
    _Atomic uint64_t truncations; /* likewise; drawn from the stripe's, so never repeated */
    _Atomic uint64_t uncommitted; /* bytes ACKED or REPLAY */
    _Atomic uint64_t verifier;    /* of the records, unless MIXED */
    uint64_t uncommitted_end;     /* at least the end of the last of them */
    _Atomic uint32_t replays;     /* records written again, or over after a restart */
    _Atomic uint32_t cuts;        /* acknowledged records that changes of size cut off */
    _Atomic uint32_t losses; /* times that data was dropped, not committed and not overwritten */
    _Atomic uint32_t told;   /* those of which an fsync of any process has told */
} __attribute__((aligned(256)));
_Static_assert(sizeof(struct host_entry) * HOST_SET_SIZE == 4096, "a set is a page");

enum host_commit_state {
    HOST_COMMIT_SENT,     /* its answer is not known */
    HOST_COMMIT_ANSWERED, /* well, and it waits for others that were sent before */
    HOST_COMMIT_OVER,
    HOST_COMMIT_VOUCHES /* it is over, and all is safe that was acknowledged before it was sent */
};

/* A COMMIT: see committing.c. Under the stripe's lock. */
struct host_committing {
    uint64_t ticket; /* of the stripe's `commits`; 0: the place was never used */
    uint32_t file;   /* entry */
    uint32_t state;
    _Atomic uint32_t slot;
};

/* Who uses the offset of an open file description: see offset.c. Under the stripe's lock. */
struct host_offset_user {
    uint32_t file;         /* entry */
    _Atomic uint32_t slot; /* 0: the place is free */
};

struct host_stripe {
    pthread_mutex_t lock;
    _Atomic uint32_t wake;    /* futex; changes when a range becomes free */
    _Atomic uint32_t waiting; /* someone may wait on it */
    uint32_t clock;
    _Atomic uint64_t sequence; /* of acknowledgements */
    uint64_t births;           /* source of generations and of `truncations` */
    _Atomic uint64_t uncommitted;
    _Atomic uint64_t recoveries; /* locks got from a dead owner */
    _Atomic uint64_t held_check; /* when to look for holds that ended; 0: no record is held */
    uint64_t commits;            /* tickets given out */
    uint64_t commit_took_ns;     /* the last that was answered */
    uint32_t commit_places;      /* that were ever used */
    uint32_t commit_waiters;     /* who may need to know which COMMITs vouch for all */
    struct host_committing committing[HOST_COMMITS];
    struct host_offset_user offset_users[HOST_OFFSET_USERS];
} __attribute__((aligned(128)));

struct host_process {
    _Atomic uint32_t state; /* 0 free, 1 used */
    uint32_t pid;
    uint64_t starttime, image;    /* see struct host_identity */
    _Atomic uint32_t wrote;       /* had records */
    _Atomic uint32_t truncations; /* in progress, and turns to append */
};

struct host_shared {
    uint64_t magic;
    uint32_t layout;
    uint32_t header_size;
    _Atomic uint64_t told; /* changes when who has no registry pinned a file: see world.h */
    uint64_t total_size;
    uint32_t chunk_count, record_count;
    uint32_t bucket_count;           /* of one stripe; a power of two */
    _Atomic uint32_t append_changes; /* see host_append_changed() */
    uint64_t boot_id;
    _Atomic uint64_t pid_namespace;

    pthread_mutex_t process_lock __attribute__((aligned(128)));
    uint32_t process_count;  /* slots ever used, slot 0 included */
    uint32_t process_cursor; /* where to look for dead ones next */
    _Atomic uint64_t swept_ns;

    pthread_mutex_t arena_lock __attribute__((aligned(128)));
    _Atomic uint32_t free_chunks, next_chunk, backed_chunks;
    _Atomic uint32_t free_records, next_record, backed_records;
    _Atomic uint64_t arena_recoveries;

    struct host_stripe stripes[HOST_STRIPES];
    /* 0: no entry was ever made in the set; 1: in use; 2: and entries went to the next set. */
    _Atomic uint8_t set_state[HOST_SETS];
    struct host_process processes[HOST_PROCESSES];
};

/* A chain of PRIVATE records to give back to the arena after unlocking. */
struct host_garbage {
    uint32_t first;
};

/* Where this process sees the parts. Immutable once host_registry_open() has succeeded. */
struct host_map {
    struct host_shared *shared;
    uint32_t *buckets;
    uint32_t *free_chunks, *free_records;
    uint16_t *chunk_users; /* records that refer to a chunk: more than one after a split */
    struct host_entry *entries;
    struct host_record *records;
    uint8_t *chunks;
    uint64_t entries_at, records_at, chunks_at; /* offsets in the file */
    int fd; /* open with a shared flock() as long as this process or a child lives */
};
extern struct host_map host_map;

/* ---- registry.c ---- */

/* Reserves the memory of [offset, offset + length) of the file. 0 or -ENOSPC. */
int host_registry_back(uint64_t offset, uint64_t length);

/* Where the entries are in the file, by what its header says. */
uint64_t host_registry_entries_at(const struct host_shared *shared);

/* ---- process.c ---- */

/* This process's slot, taken at its first use; 0 when there is none. Takes process_lock. */
uint32_t host_process_slot(void);
/* The same without a lock: 0 also while it was not taken yet. */
uint32_t host_process_slot_taken(void);
/* Makes another slot this process's own; returns the one before. Gives the own slot back. */
uint32_t host_process_exchange(uint32_t slot);
void host_process_leave(void);
/* The same, before a record becomes this process's: when it is dead its records are looked for. */
uint32_t host_process_owner(void);
void host_process_after_fork(void);
/* If the process of this slot is dead, gives back what it held, and frees the slot. */
void host_process_check(uint32_t slot);
/* As above for all slots; not more often than once in `interval_ns`. */
void host_process_sweep(uint64_t interval_ns);
/* Gives up all slots whatever the processes are, when nobody else can have the registry open. */
void host_process_sweep_all(void);

/* ---- arena.c ---- */

struct host_piece {
    uint64_t base;
    uint32_t length;
    uint32_t record; /* result */
};
/* Takes records, with chunks for their lengths if `kept`; PRIVATE, chained by write_next. 0 or
 * -ENOSPC. */
int host_arena_take(struct host_piece *pieces, uint32_t count, bool kept, uint32_t owner);
/* Frees PRIVATE records chained by write_next, but for some that the process keeps; and all. */
void host_arena_give(uint32_t first);
void host_arena_free(uint32_t first);
/* Frees the chunks of a record that has data no more. */
void host_arena_empty(uint32_t record);
/* Sets the range of an ACKED record, and frees chunks that fall outside. */
void host_arena_trim(uint32_t record, uint32_t from, uint32_t to);
/*
 * A PRIVATE record for [from, to) of `source`, sharing its chunks: a new one, else `reuse` (whose
 * own chunks are freed), else 0.
 */
uint32_t host_arena_share(uint32_t source, uint32_t from, uint32_t to, uint32_t reuse,
                          uint32_t owner);

/* ---- pocket.c ---- */

/* A PRIVATE record for one piece out of the pocket, without the arena's lock in most cases; 0: take
 * it from the arena. */
uint32_t host_pocket_take(uint64_t base, uint32_t length, bool kept, uint32_t owner);
/* Keeps some of the PRIVATE records chained by write_next; the others are the result. */
uint32_t host_pocket_give(uint32_t first);
/* Gives all back to the arena. */
void host_pocket_empty(void);
/* In a child: what is in the pocket is the parent's. */
void host_pocket_after_fork(void);

/* ---- entry.c ---- */

static inline uint32_t host_stripe_of(uint32_t file)
{
    return (file / HOST_SET_SIZE) % HOST_STRIPES;
}
/* Takes a stripe's lock, after putting in order what a dead owner left. */
void host_stripe_lock(uint32_t stripe);
void host_stripe_unlock(uint32_t stripe);
/* Under the stripe's lock: the next number of its sequence. */
static inline uint64_t host_stripe_next(struct host_stripe *stripe)
{
    uint64_t next = atomic_load_explicit(&stripe->sequence, memory_order_relaxed) + 1;
    atomic_store_explicit(&stripe->sequence, next, memory_order_release);
    return next;
}
/* Wakes those who wait for a range of the stripe; call without the lock if `waiting` was set. */
void host_stripe_wake(uint32_t stripe);

/*
 * Finds the entry again if it was recycled, making it if `make`, and returns it with its stripe
 * locked; NULL, with nothing locked, if there is none: -ESTALE in *error if there is one with
 * another handle that may be of the same file, so that this one must be looked up again; -ENOSPC if
 * there is no room.
 */
struct host_entry *host_entry_lock(struct host_file *file, bool make, int *error);
void host_entry_unlock(const struct host_file *file);
/* The entry without a lock, for single atomic loads; NULL: there is none. */
struct host_entry *host_entry_peek(struct host_file *file);
/* The stripe of a file's entry, whether there is one or not. */
uint32_t host_stripe_of_inode(uint64_t device, uint64_t inode);
static inline uint32_t host_stripe_of_file(const struct host_file *file)
{
    return host_stripe_of_inode(file->key.device, file->key.inode);
}
/* The entries with this device and inode, which may be of several files: the next after `last`, or
 * the first if that is NULL; NULL: no more. They stay only under the stripe's lock. */
struct host_entry *host_entry_next(uint64_t device, uint64_t inode, const struct host_entry *last);
/* Under the stripe's lock: the entry that has this key, by its handle; NULL: none. */
struct host_entry *host_entry_find(const struct host_file_key *key);
/* Under the stripe's lock: the entry of a file, remembered or by its key; NULL: none. */
struct host_entry *host_entry_of(const struct host_file *file);
/* The entry that a process remembers, if it still is of the same file. Generations are unique in a
 * stripe, so a torn pair of index and generation matches nothing. No lock. */
struct host_entry *host_entry_remembered(const struct host_file *file);
static inline uint32_t host_entry_index(const struct host_entry *entry)
{
    return (uint32_t)(entry - host_map.entries);
}

/* Fills in whose entry it is. Under the stripe's lock. */
void host_entry_name(const struct host_entry *entry, struct host_file *file);

/* ---- attributes.c ---- */

static inline int64_t host_nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Bracket changes that readers without the lock may see half. */
void host_entry_change(struct host_entry *entry);
void host_entry_changed(struct host_entry *entry);
/* Under the stripe's lock: the size must be asked for. */
void host_entry_forget_size(struct host_entry *entry);
/* Under the stripe's lock: the size is what a truncation made it; what the ledger has beyond it is
 * cut off. */
void host_entry_set_size(struct host_entry *entry, uint64_t size, struct host_garbage *garbage);
/* Under the stripe's lock: what host_file_learned() does. */
void host_entry_learn(struct host_entry *entry, uint64_t epoch,
                      const struct host_attributes *attributes, uint64_t now_ns);
/* Under the stripe's lock: a write of the file began or ended. */
static inline void host_entry_count_change(struct host_entry *entry)
{
    uint64_t changes = atomic_load_explicit(&entry->changes, memory_order_relaxed);
    atomic_store_explicit(&entry->changes, changes + 1, memory_order_release);
}

/* ---- records.c: all under the stripe's lock ---- */

static inline struct host_record *host_record(uint32_t index)
{
    return &host_map.records[index];
}
static inline uint32_t host_record_from(const struct host_record *record)
{
    return (uint32_t)(atomic_load_explicit(&record->range, memory_order_relaxed) >> 32);
}
static inline uint32_t host_record_to(const struct host_record *record)
{
    return (uint32_t)atomic_load_explicit(&record->range, memory_order_relaxed);
}
static inline uint64_t host_range(uint32_t from, uint32_t to)
{
    return (uint64_t)from << 32 | to;
}
/* A PRIVATE record gets a new life as [base, base + length). */
static inline void host_record_begin(struct host_record *record, uint64_t base, uint32_t length,
                                     bool kept)
{
    record->kept = kept;
    record->distrusted = 0;
    record->held_until = 0;
    record->base = base;
    record->write_next = 0;
    atomic_store_explicit(&record->range, host_range(0, length), memory_order_relaxed);
    atomic_store_explicit(&record->file, HOST_NO_FILE, memory_order_relaxed);
}
static inline uint64_t host_record_start(const struct host_record *record)
{
    return record->base + host_record_from(record);
}
static inline uint64_t host_record_end(const struct host_record *record)
{
    return record->base + host_record_to(record);
}
static inline uint32_t host_record_state(const struct host_record *record)
{
    return atomic_load_explicit(&record->state, memory_order_acquire);
}
static inline void host_record_set_state(struct host_record *record, uint32_t state)
{
    atomic_store_explicit(&record->state, state, memory_order_release);
}

/* The chunks that hold bytes [from, to) of a record: the first, and the one behind the last. */
static inline int host_first_chunk(uint32_t from)
{
    return (int)(from / HOST_CHUNK);
}
static inline int host_end_chunk(uint32_t to)
{
    return (int)((to + HOST_CHUNK - 1) / HOST_CHUNK);
}

/* Head of the bucket for an offset of a file. */
uint32_t *host_bucket(uint32_t file, uint64_t offset);
/* Enters a record in its bucket and counts it in its entry. */
void host_record_link(uint32_t index);
/* Appends a record, which is or becomes ACKED, to the list of its file and counts its bytes. */
void host_record_append(struct host_entry *entry, uint32_t index);
/* A REPLAY was answered UNSTABLE: it is ACKED anew. */
void host_record_renew(struct host_entry *entry, uint32_t index, uint64_t verifier);
void host_garbage_add(struct host_garbage *garbage, uint32_t index);
/* Takes a record out of all lists, makes it PRIVATE and adds it to `garbage`; while it is held, and
 * where this process has no slot, only its data goes, and it becomes a GHOST. `entry` is not needed
 * for a GHOST. */
void host_record_drop(struct host_entry *entry, uint32_t index, struct host_garbage *garbage);
/*
 * A record IN_FLIGHT, REPLAY or held that overlaps [start, end); 0: none. The hold of `own` does
 * not count: an older copy of the same bytes does no harm to a replay of them. Every other hold
 * does.
 */
uint32_t host_record_conflict(uint32_t file, uint64_t start, uint64_t end, uint32_t own);
/*
 * Takes the bytes of record `own`, written with `verifier`, away from older acknowledged records;
 * where those have another one, this counts as a replay. True if `own` was consumed:
 * its bytes were copied into an older record, or `own` itself became the second half of one.
 */
bool host_record_supersede(struct host_entry *entry, uint32_t own, uint64_t verifier,
                           struct host_garbage *garbage);
/* Makes one record of `own` and its neighbours where they touch, in the last chunk of the first: so
 * small writes that follow one another leave few records. */
void host_record_join(struct host_entry *entry, uint32_t own, struct host_garbage *garbage);
enum { HOST_JOIN_MOST = 2048 }; /* bytes for which that is worth its cost */
/* The same for records of the same sequence, which are halves of a split that a process did not
 * live to finish. */
void host_record_supersede_halves(struct host_entry *entry, uint32_t own,
                                  struct host_garbage *garbage);
/* Shortens acknowledged records of the file to end at `size`. Those that are being written again
 * stay until that has ended, or are forgotten now if `replays`. */
void host_record_cut(struct host_entry *entry, uint64_t size, bool replays,
                     struct host_garbage *garbage);
/* A record IN_FLIGHT, REPLAY or held of the file with bytes at `size` or beyond; 0: none. */
uint32_t host_record_beyond(const struct host_entry *entry, uint64_t size);
/* A record IN_FLIGHT or REPLAY of the file that began before this sequence, or one that is held; 0:
 * none. */
uint32_t host_record_unsettled(const struct host_entry *entry, uint64_t sequence);
/* The server may have lost what it had of the file until now, and no COMMIT will tell: all of it is
 * distrusted, what is in flight as well. */
void host_records_distrust(uint32_t file);
/* Unlinks what remains of a file that is gone; owners free such records when their write ends. */
void host_records_detach(uint32_t file, struct host_garbage *garbage);
/* Recomputes whether the records of a file have one verifier. */
void host_entry_verifiers(struct host_entry *entry);
/* Waits until something of the stripe became free or a tenth of a second passed. Unlocks and locks.
 * What the process `owner` held is given back if it is dead; that is looked for now and then,
 * however often others wake who waits. */
void host_stripe_wait(uint32_t stripe, uint32_t owner);

/* ---- ledger.c ---- */

/* Under the stripe's lock: the process that must be waited for before [start, end) may be written
 * (0: only time), by a replay of record `own` if that is not 0; UINT32_MAX: none. */
uint32_t host_range_user(const struct host_entry *entry, uint64_t start, uint64_t end,
                         uint32_t own);

/* ---- rebuild.c ---- */

/* Under the stripe's lock: makes its buckets, lists and counters again from the records. */
void host_stripe_rebuild(uint32_t stripe);

/* ---- committing.c ---- */

/* Without a lock: a COMMIT succeeded. Waits for others of the file that were sent before now, but
 * not for long: one without an answer counts as failed. */
void host_commit_answered(struct host_file *file, const struct host_commit *commit);
/* Likewise, after that: what came of it. `vouches`: all is safe that was acknowledged before. */
void host_commit_over(struct host_file *file, const struct host_commit *commit, bool vouches);
/* Those of a process that is dead failed. */
void host_commits_of_dead(uint32_t slot);

/* ---- offset.c ---- */

/* A dead process uses none. */
void host_offsets_of_dead(uint32_t slot);

/* ---- hold.c ---- */

/* How long this process holds a range; set once, before all else. */
void host_hold_set(uint64_t length_ns);
uint64_t host_hold_ns(void);
/* Under the stripe's lock: nobody may write over a linked record for a while. */
void host_record_hold(uint32_t record);
static inline bool host_record_held(const struct host_record *record, uint64_t now)
{
    return record->held_until > now;
}
/*
 * Under the stripe's lock: who must be waited for before the size may be changed, or bytes beyond
 * `truncate_size` be written: a process slot, HOST_TRUNCATOR_HELD (only time), 0: nobody.
 */
uint32_t host_entry_truncator_slowly(struct host_entry *entry);
static inline uint32_t host_entry_truncator(struct host_entry *entry)
{
    uint32_t slot = atomic_load_explicit(&entry->truncator, memory_order_relaxed);
    return slot == HOST_TRUNCATOR_HELD ? host_entry_truncator_slowly(entry) : slot;
}
/* Under the stripe's lock: the process that changed the size is dead. */
void host_entry_hold_size(struct host_entry *entry, struct host_garbage *garbage);
/* Under the stripe's lock: frees ghosts whose time is over. The size of a file that such a write
 * may have made longer must be asked for. */
void host_stripe_expire(uint32_t stripe);
/* The same; the first looks for them no more often than once a second. */
static inline void host_stripe_expire_now(uint32_t stripe)
{
    _Atomic uint64_t *check = &host_map.shared->stripes[stripe].held_check;
    if (atomic_load_explicit(check, memory_order_relaxed) == 0)
        return;
    atomic_store_explicit(check, 1, memory_order_relaxed);
    host_stripe_expire(stripe);
}

/* ---- append.c: under the stripe's lock ---- */

static inline bool host_entry_is_kernel(const struct host_entry *entry)
{
    return (atomic_load_explicit(&entry->flags, memory_order_relaxed) & HOST_ENTRY_KERNEL) &&
           !sys_test_unsafe(SYS_TEST_WORLDS);
}
static inline bool host_entry_is_appending(const struct host_entry *entry)
{
    return atomic_load_explicit(&entry->flags, memory_order_relaxed) & HOST_ENTRY_APPENDING;
}
/* The turn is over. */
void host_entry_append_end(struct host_entry *entry);

#endif
