/*
 * The layout of the registry in shared memory.
 *
 *   header | locks, counters | process slots | buckets | free lists | entries | records | chunks |
 *   heads of frames | frames
 *
 * Everything is an index, never a pointer. Index 0 of records, chunks and process slots means no
 * record, no chunk, and "a process that is no more".
 *
 * Locks, in the order of taking them: process_lock, one stripe's lock, arena_lock. All are robust.
 * A process that gets a lock from a dead owner first puts in order what the lock guards.
 *   process_lock  the process slots.
 *   stripe lock   the entries of the stripe, their lists of records, its buckets, and the states of
 *                 records that are linked there (DIRTY, IN_FLIGHT, ACKED, REPLAY, GHOST).
 *   arena_lock    which records and chunks are free, and which chunks belong to which record.
 *   cache locks   the frames of every 64th group. A thread has either this or arena_lock, not both.
 *   flags locks   nothing here. They come before all others: see ledger_flags_lock().
 * A record's `state` is its commit point. On EOWNERDEAD the lists are made again from the records.
 *
 * Memory is reserved with fallocate() before its first use, so that a full /dev/shm is an error
 * (-ENOSPC) and never a SIGBUS.
 */
#ifndef LEDGER_LAYOUT_H
#define LEDGER_LAYOUT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/store/key.h"
#include "ledger/store/left.h"
#include "ledger/store/users.h"

#define LEDGER_REGISTRY_MAGIC UINT64_C(0x67657253464e4444) /* "DDNFSreg" in memory */

enum {
    LEDGER_REGISTRY_LAYOUT = 20,
    LEDGER_STRIPES = 64,
    LEDGER_COMMITS = 64, /* COMMITs under way that a stripe has places for */
    LEDGER_OFFSET_USERS = 16,
    LEDGER_SETS = 8192,  /* an entry lives in the set of its key, or in the next of its stripe */
    LEDGER_SET_SIZE = 8, /* entries in a set: one page */
    LEDGER_FILES = LEDGER_SETS * LEDGER_SET_SIZE,
    LEDGER_PROCESSES = 8192,
    LEDGER_TRUNCATOR_HELD = LEDGER_PROCESSES, /* no slot */
    LEDGER_CHUNK = 8192,
    LEDGER_UNIT_SHIFT = 16, /* a record never crosses a multiple of 64 KiB */
    LEDGER_RECORD_CHUNKS = (1 << LEDGER_UNIT_SHIFT) / LEDGER_CHUNK,
    LEDGER_WRITE_RECORDS = (LEDGER_WRITE_MAX >> LEDGER_UNIT_SHIFT) + 1,
    LEDGER_FRAME = 4096, /* bytes of a file that the cache keeps together */
    LEDGER_FRAME_WAYS = 8,
    LEDGER_FRAME_SETS = 8, /* of a group: the frames of a unit are of one group */
    LEDGER_GROUP_FRAMES = LEDGER_FRAME_WAYS * LEDGER_FRAME_SETS,
    LEDGER_GROUP = LEDGER_GROUP_FRAMES * LEDGER_FRAME,
    LEDGER_GROUPS_MAX = 16384,
    LEDGER_CACHE_LOCKS = 64,
    LEDGER_AGENT_SERVERS = 256,
    LEDGER_LINKS = 3,
    LEDGER_WAIT_NS = 100000000, /* after this a thread that waits for a range looks again */
    LEDGER_NO_FILE = UINT32_MAX >> 1
};
#define LEDGER_NO_TIME INT64_MIN

enum { LEDGER_DISTRUSTED = 1, LEDGER_DISTRUSTED_BEFORE = 2 };

/* TO_DISK: the write is in flight with DATA_SYNC or FILE_SYNC. Its answer may be an error of the
 * disk that concerns other data. GIVEN_UP: as TO_DISK, but no COMMIT waits for the answer any more.
 */
enum ledger_to_disk { LEDGER_NOT_TO_DISK, LEDGER_TO_DISK, LEDGER_TO_DISK_GIVEN_UP };

enum ledger_record_state {
    LEDGER_RECORD_FREE,
    LEDGER_RECORD_PRIVATE, /* its owner's alone: being filled, or about to be freed; in no list */
    LEDGER_RECORD_DIRTY,   /* written, says write(2), and not sent yet: see dirty.h */
    LEDGER_RECORD_IN_FLIGHT,
    LEDGER_RECORD_ACKED,
    LEDGER_RECORD_REPLAY, /* as ACKED, and its owner is writing it again */
    LEDGER_RECORD_GHOST   /* over, but an older copy may still be executed; no data, no owner */
};

enum ledger_twin_flag {
    LEDGER_TWIN_OLD = 1, /* other records have its bytes and its sequence */
    LEDGER_TWIN_NEW = 2  /* it has the bytes and the sequence of another */
};

/* A slice of one write: bytes [from, to), counted from file offset `base`, which is byte 0 of
 * chunk[0]. Trimming changes only `range`, by a single store. */
struct ledger_record {
    _Atomic uint32_t state;
    _Atomic uint32_t owner; /* process slot */
    _Atomic uint32_t file;  /* entry, once the record is linked */
    bool kept;              /* the data is in the chunks */
    bool promised;          /* IN_FLIGHT, and DIRTY before: its bytes must not be lost */
    bool changed;           /* DIRTY. An older copy, which is held or a twin, has other bytes */
    uint8_t twins;          /* enum ledger_twin_flag; see twins.c */
    uint64_t base;
    _Atomic uint64_t range; /* from << 32 | to */
    /* The tree of the bucket: see spans.h. Stripe lock. */
    uint32_t span_from, span_to; /* at least the range and what is held, counted from `base` */
    uint32_t left, right, above; /* records */
    uint32_t write_next;         /* the next slice of the same write */
    uint64_t reach;              /* where the last of its span and those below it ends */
    uint64_t sequence; /* of the stripe. ACKED, REPLAY: of the acknowledgement; a split keeps it.
                          DIRTY: of the write. IN_FLIGHT: the last one before the write began */
    union {
        uint64_t verifier; /* ACKED, REPLAY */
        /* DIRTY, or promised: the sequence of the oldest write that bytes were taken from. A flush
         * of what was written until then must send the record. */
        uint64_t since;
    };
    /* One of three lists of the file. ACKED, REPLAY: by sequence and offset. DIRTY: by sequence.
     * IN_FLIGHT, GHOST: in no order. */
    uint32_t file_next, file_previous;
    uint32_t chunk[LEDGER_RECORD_CHUNKS]; /* arena_lock */
    uint8_t distrusted; /* the server said that it may have lost it: only writing it again helps
                           (LEDGER_DISTRUSTED_BEFORE: since before that began). Stripe lock */
    uint8_t to_disk;    /* enum ledger_to_disk; stripe lock */
    /* The process that wrote the record, while another one, `owner`, sends it: a slot. When the
     * sending is over, the writer owns the record again. LEDGER_PROCESSES: the writer is dead, and
     * nobody will own it. 0: the record is not lent. Stripe lock. */
    _Atomic uint16_t writer;
    /* Drawn from the stripe's `commits`; 0: not set. */
    union {
        uint64_t began; /* TO_DISK */
        uint64_t aside; /* DIRTY or ACKED: the mark by which it is set aside (strays.h) */
    };
    /* Bytes [held_from, held_to), counted from `base`, are blocked until held_until
     * (CLOCK_MONOTONIC). 0: the record was never held, or its hold is over. See hold.c. Stripe
     * lock. */
    uint32_t held_from, held_to;
    uint64_t held_until;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct ledger_record) == 192, "three cache lines");
_Static_assert(offsetof(struct ledger_record, sequence) == 64, "a look in a tree needs the first");

/* A change of a file by this host: the server's times of change before it and after it. If both are
 * equal, there is no link. */
struct ledger_link {
    int64_t from, to;
};

/* A place in the hash table of records. */
struct ledger_bucket {
    uint32_t root;           /* of the tree of its records: see spans.h */
    _Atomic uint32_t starts; /* changes when a write that belongs here is announced, of any file */
};

enum ledger_entry_flag {
    LEDGER_ENTRY_PRESENT = 1,
    LEDGER_ENTRY_KNOWN = 2,       /* its attributes are known */
    LEDGER_ENTRY_KERNEL = 4,      /* in the kernel's world, or on its way there: see world.h */
    LEDGER_ENTRY_MIXED = 8,       /* its records have several verifiers */
    LEDGER_ENTRY_DISTRUSTED = 32, /* it has records that are `distrusted` */
    LEDGER_ENTRY_RENAMING = 16,   /* its name is the stripe's `renamed`: it may have half of it */
    LEDGER_ENTRY_TRUNCATED = 64,  /* the server did what `truncator` asked for, and said so */
    LEDGER_ENTRY_ARRIVED = 128,   /* in the kernel's world: nothing is left in the ledger */
    LEDGER_ENTRY_STUCK = 256,     /* a process could not pin it: it does not come back */
    LEDGER_ENTRY_APPENDING = 512, /* `truncator` has a turn to append: see append.c */
    LEDGER_ENTRY_UNTOLD = 1024,   /* this host may have changed it; no answer told `own_mtime` */
    LEDGER_ENTRY_REFUSED = 2048, /* dirty data was lost: writes go out at once until one succeeds */
    LEDGER_ENTRY_CACHED = 4096,  /* frames may have bytes of it: see cache.h */
    LEDGER_ENTRY_TO_DISK = 8192, /* it may have records in flight that are TO_DISK */
    LEDGER_ENTRY_ORPHANED = 16384, /* may have DIRTY records of dead processes: see orphans.h */
    LEDGER_ENTRY_ORPHANED_SENT = 32768, /* may have ACKED records of dead processes */
    LEDGER_ENTRY_UNPROVEN = 131072,     /* the proof does not cover all that is acknowledged */
    LEDGER_ENTRY_REPLAYED = 262144,     /* some of its records may be REPLAY */
    LEDGER_ENTRY_WRITTEN = 524288,      /* a process has begun to write or cut it: see dirty.h */
    LEDGER_ENTRY_OWED = 65536           /* data of the dead, perhaps sent since, is not committed */
};

/*
 * A file. All fields are written under the stripe's lock. Atomic fields are also loaded without it.
 * The others are read under it only.
 */
struct ledger_entry {
    /* ---- the file that has the place: see entries.h ---- */
    _Atomic uint32_t sequence; /* odd while attributes or key change */
    _Atomic uint32_t flags;
    _Atomic uint64_t generation; /* of this use of the place; never repeated */
    _Atomic uint64_t device, inode;
    uint64_t server, root;
    uint32_t handle_length;
    uint8_t handle[LEDGER_HANDLE_MAX];
    uint32_t used_at; /* stripe->clock at the last use */

    /* ---- its records, and the processes that use it ---- */
    uint32_t first, last;           /* records ACKED or REPLAY */
    uint32_t sent_first, sent_last; /* records IN_FLIGHT or GHOST */
    uint32_t records;               /* linked, in any state: the entry may not be recycled */
    uint32_t pins;                  /* times that a process pinned the file */
    /* The process (slot) that changes the size, or appends, now. 0: none. LEDGER_TRUNCATOR_HELD: a
     * process died while it changed the size. */
    _Atomic uint32_t truncator;
    _Atomic uint32_t changes; /* counts the begins and the ends of writes */
    struct {
        uint64_t size; /* writes beyond it wait for `truncator` */
        uint64_t held; /* LEDGER_TRUNCATOR_HELD ends then (CLOCK_MONOTONIC) */
    } truncate;

    /* ---- what is known of it: see attributes.h ---- */
    _Atomic uint64_t size; /* while not KNOWN: a lower bound from writes */
    _Atomic uint64_t used;
    _Atomic int64_t mtime, ctime; /* nanoseconds */
    int64_t own_mtime;            /* after the last change by this host, unless UNTOLD */
    _Atomic uint64_t verified_ns; /* when the server was asked; not KNOWN: since when */
    _Atomic uint64_t truncations; /* changes with the size; drawn from `births` */

    /* ---- what is acknowledged, and not committed ---- */
    _Atomic uint64_t uncommitted; /* bytes ACKED or REPLAY */
    _Atomic uint64_t verifier;    /* of the records, unless MIXED */
    uint64_t uncommitted_end;     /* at least the end of the last of them */
    _Atomic uint32_t replays;     /* records written again, or over, after a restart */
    _Atomic uint32_t cuts;        /* acknowledged records that changes of size cut off */
    struct {
        _Atomic uint32_t count; /* drops of data neither committed nor overwritten */
        _Atomic uint32_t told;  /* those that an fsync of any process has told */
        int32_t error;          /* errno of the last of them */
    } losses;

    /* ---- what is dirty: see dirty.h ---- */
    uint32_t dirty_first, dirty_last; /* records DIRTY, by sequence */
    _Atomic uint64_t dirty;           /* bytes DIRTY, and bytes IN_FLIGHT that are promised */
    uint64_t sending;                 /* of these, the bytes IN_FLIGHT */
    uint64_t dirty_end;               /* at least the end of the last of them */
    uint64_t sent_end;                /* while `dirty`: the server's file ends there, or later */
    /* The proof that nobody else changed the file: see proof.h. */
    struct {
        int64_t ctime;  /* LEDGER_NO_TIME: there is none */
        int64_t mtime;  /* the latest of the writes that the proof covers */
        uint64_t since; /* the proof covers what was written at this sequence, or later */
        struct ledger_link links[LEDGER_LINKS];
    } proof;
    /* While ORPHANED: the number of the agent that will send what the dead left; 0: none will. */
    _Atomic uint32_t carer;
    _Atomic uint32_t sent_carer; /* while ORPHANED_SENT: likewise */
    _Atomic uint32_t user;       /* the user of the last write behind: see users.h */

    /* ---- while it is CACHED: see cache.c ---- */
    uint32_t frames_assumed; /* when a write first moved frames_ctime; 0: none did */
    _Atomic uint64_t frames; /* drawn from the stripe's births: older frames are of no use */
    _Atomic uint64_t frames_seen_ns; /* when the server last had what they have */
    uint64_t frames_told; /* when the server last told a time that is explained: see cache.c */
    int64_t frames_ctime; /* the time of change of the file that the frames belong to ... */
    int64_t frames_doubt; /* ... and a later one that no answer explains; or 0 */
    int64_t frames_since; /* in doubt: all up to this time is explained */
} __attribute__((aligned(512)));
_Static_assert(sizeof(struct ledger_entry) * LEDGER_SET_SIZE == 4096, "a set is a page");

enum ledger_commit_state {
    LEDGER_COMMIT_SENT,     /* its answer is not known */
    LEDGER_COMMIT_ANSWERED, /* with success; it waits for COMMITs that were sent before */
    LEDGER_COMMIT_OVER,
    LEDGER_COMMIT_VOUCHES /* it is over; all that was acknowledged before it was sent is safe */
};

/* A COMMIT under way: see commits.c. Under the stripe's lock. */
struct ledger_committing {
    uint64_t ticket; /* a number of the stripe's `commits`; 0: the place was never used */
    uint32_t file;   /* entry */
    uint32_t state;
    _Atomic uint32_t slot;
};

/* A process that uses the offset of an open file description: see offset.c. Under the stripe's
 * lock. */
struct ledger_offset_user {
    uint32_t file;         /* entry */
    _Atomic uint32_t slot; /* 0: the place is free */
};

struct ledger_stripe {
    pthread_mutex_t lock;
    _Atomic uint32_t wake;    /* futex; changes when a range becomes free */
    _Atomic uint32_t waiting; /* a thread may wait on `wake` */
    uint32_t clock;
    _Atomic bool forgets_written; /* an entry that was WRITTEN is another file's by now, or free */
    _Atomic uint64_t sequence;    /* order of acknowledgements, and of writes behind */
    uint64_t births;              /* source of `generation`, `truncations` and `frames` */
    _Atomic uint64_t uncommitted, dirty; /* the sums of its entries */
    _Atomic uint64_t recoveries;         /* how often its lock was got from a dead owner */
    _Atomic uint64_t held_check; /* when to look for holds that are over; 0: no record is held */
    uint64_t commits;            /* tickets of COMMITs, of what is TO_DISK, of marks of strays */
    uint64_t commit_took_ns;     /* how long the last COMMIT took that was answered */
    uint32_t commit_places;      /* places of `committing` that were ever used */
    uint32_t commit_waiters;     /* threads that may need to know which COMMITs vouch for all */
    struct ledger_committing committing[LEDGER_COMMITS];
    struct ledger_offset_user offset_users[LEDGER_OFFSET_USERS];
    struct ledger_file_key renamed; /* see LEDGER_ENTRY_RENAMING */
} __attribute__((aligned(128)));

struct ledger_process {
    _Atomic uint32_t state; /* 0 free, 1 used */
    uint32_t pid;
    uint64_t starttime, image;    /* see struct run_identity */
    uint64_t program;             /* drawn at each exec: see run_program() */
    _Atomic uint32_t wrote;       /* the process has had records */
    _Atomic uint32_t truncations; /* changes of size in progress, and turns to append */
    _Atomic uint64_t ahead;       /* bytes of its memory that are read ahead: see quota.c */
    _Atomic uint32_t watched;     /* by this agent; or LEDGER_WATCH_ASKED; 0: it never asked */
    /* Why it cannot write behind: enum ledger_agent_lack, and errno << 8; or 0. */
    _Atomic uint32_t lack;
};

/* Set in `watched` of a process that has asked, and has no answer yet. The other bits are the
 * number of the agent that it asked; 0: there was none. */
#define LEDGER_WATCH_ASKED (UINT32_C(1) << 31)

/* A server that processes write behind to, by the name in the keys of its files. Only the agent
 * frees the place, while it watches no process. */
struct ledger_agent_server {
    _Atomic uint64_t key;    /* 0: the place is free */
    _Atomic uint64_t device; /* of a mount of this server; 0: not told yet */
    _Atomic uint32_t served; /* the last agent in contact with the server; 0: none was */
};

/* The agent: see agent.h. */
struct ledger_agent {
    pthread_mutex_t lock; /* the agent has it as long as it lives */
    /* The number of the agent that has the lock; 0 until it is ready. Only that agent writes it. */
    _Atomic uint32_t number;
    _Atomic uint32_t drawn;   /* the last number that was given out */
    _Atomic uint32_t pid;     /* of the agent that has, or had, the lock */
    _Atomic uint32_t rings;   /* futex: changes when a process wants something of the agent */
    _Atomic uint32_t sleeps;  /* it does: the next process that writes behind must ring */
    _Atomic uint64_t since_s; /* when it was ready (CLOCK_REALTIME) */
    /* When a process began to start an agent. 0: no start is under way. */
    _Atomic uint64_t starting_ns;
    struct ledger_agent_server servers[LEDGER_AGENT_SERVERS];
};

struct ledger_user_place {
    _Atomic uint32_t state;
    _Atomic uint32_t vouched; /* the last agent that vouched for the user */
    struct ledger_user user;  /* never changed once it is made */
};

struct ledger_shared {
    struct ledger_head head;
    uint64_t total_size;
    uint32_t chunk_count, record_count;
    uint32_t bucket_count;           /* of one stripe; a power of two */
    _Atomic uint32_t append_changes; /* see ledger_append_changed() */
    uint32_t group_count;            /* of frames; 0: there is no cache */
    _Atomic uint32_t guided;         /* futex: the thread that the agent guides, or 0 ... */
    _Atomic uint32_t waited;         /* ... and 1 once others wait for long: see stopped.h */

    pthread_mutex_t process_lock __attribute__((aligned(128)));
    uint32_t process_count;  /* slots ever used, slot 0 included */
    uint32_t process_cursor; /* where to look for dead ones next */
    _Atomic uint64_t swept_ns;

    pthread_mutex_t arena_lock __attribute__((aligned(128)));
    _Atomic uint32_t free_chunks, next_chunk, backed_chunks;
    _Atomic uint32_t free_records, next_record, backed_records;
    _Atomic uint64_t arena_recoveries;
    _Atomic uint64_t damages; /* how often a free record was not free: see ledger_arena_damaged() */
    _Atomic uint64_t losses;  /* how often data was lost; never decreases */

    struct ledger_agent agent __attribute__((aligned(128)));
    struct ledger_user_place users[LEDGER_USERS]; /* the first is not used */

    struct ledger_stripe stripes[LEDGER_STRIPES];
    /* 0: no entry was ever made in the set. 1: the set is in use. 2: entries went on to the next
     * set. */
    _Atomic uint8_t set_state[LEDGER_SETS];
    struct ledger_process processes[LEDGER_PROCESSES];
    _Atomic uint64_t ahead;       /* the sum of all processes, or more: see quota.c */
    _Atomic uint64_t ahead_added; /* when `ahead` was last added up from the processes */
    /* Changes when what was read of a file of this set may be old: see stamp.h. */
    _Atomic uint64_t freshness[LEDGER_SETS];

    pthread_mutex_t flags_locks[LEDGER_STRIPES];
    pthread_mutex_t cache_locks[LEDGER_CACHE_LOCKS];
    uint32_t cache_clocks[LEDGER_CACHE_LOCKS];
    uint8_t group_ways[LEDGER_GROUPS_MAX]; /* a bit for each way that has memory */
};

/* A chain of PRIVATE records to give back to the arena after unlocking. */
struct ledger_garbage {
    uint32_t first;
};

/* Bytes [from, to) of a block of a file; a block has LEDGER_FRAME bytes. Under the lock of its
 * group. */
struct ledger_frame {
    uint32_t valid; /* 0: it has no bytes, or is being filled */
    uint32_t file;  /* entry */
    uint64_t block;
    uint64_t truncations, frames; /* of the entry, when the bytes were asked for */
    uint32_t from, to;
    uint32_t used; /* the clock of the group's lock at the last use */
    uint32_t spare[5];
};
_Static_assert(sizeof(struct ledger_frame) * LEDGER_GROUP_FRAMES == 4096, "a group's are a page");

#endif
