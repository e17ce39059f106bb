/*
 * The layout of the registry in shared memory.
 *
 *   header | locks, counters | process slots | buckets | free lists | entries | records | chunks |
 *   heads of frames | frames
 *
 * Everything is an index, never a pointer. Index 0 of records, chunks and process slots is no
 * record, no chunk, and "a process that is no more".
 *
 * Locks, in the order of taking them: process_lock, one stripe's lock, arena_lock. All are robust:
 * a process that gets one from a dead owner first puts in order what the lock guards.
 *   process_lock  the process slots.
 *   stripe lock   the entries of the stripe, their lists of records, its buckets, and the states of
 *                 records that are linked there (IN_FLIGHT, ACKED, REPLAY, GHOST).
 *   arena_lock    which records and chunks are free, and which chunks belong to which record.
 *   cache locks   the frames of every 64th group; beside arena_lock, neither under the other.
 *   flags locks   nothing here; before all others: see ledger_flags_lock().
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
#include <stdint.h>

#include "ledger/store/key.h"
#include "ledger/store/left.h"
#include "ledger/store/users.h"

#define LEDGER_REGISTRY_MAGIC UINT64_C(0x67657253464e4444) /* "DDNFSreg" in memory */

enum {
    LEDGER_REGISTRY_LAYOUT = 17,
    LEDGER_STRIPES = 64,
    LEDGER_COMMITS = 64, /* on their way that a stripe has places for */
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
    LEDGER_WAIT_NS = 100000000, /* a thread that waits for a range looks again after this */
    LEDGER_NO_FILE = UINT32_MAX >> 1
};
#define LEDGER_NO_TIME INT64_MIN

enum { LEDGER_DISTRUSTED = 1, LEDGER_DISTRUSTED_BEFORE = 2 };

/* In flight with DATA_SYNC or FILE_SYNC, so that it may be told an error of the disk that concerns
 * other data; GIVEN_UP: and no COMMIT waits for its answer any more. */
enum ledger_to_disk { LEDGER_NOT_TO_DISK, LEDGER_TO_DISK, LEDGER_TO_DISK_GIVEN_UP };

enum ledger_record_state {
    LEDGER_RECORD_FREE,
    LEDGER_RECORD_PRIVATE, /* of its owner alone: being filled, or about to be freed; in no list */
    LEDGER_RECORD_DIRTY,   /* written, says write(2), and not sent yet: see dirty.h */
    LEDGER_RECORD_IN_FLIGHT,
    LEDGER_RECORD_ACKED,
    LEDGER_RECORD_REPLAY, /* as ACKED, and its owner is writing it again */
    LEDGER_RECORD_GHOST   /* ended, but an older copy may still be executed: no data, no owner */
};

enum ledger_twin_flag {
    LEDGER_TWIN_OLD = 1, /* others have its bytes, and its sequence */
    LEDGER_TWIN_NEW = 2  /* it has those of another */
};

/* A slice of one write. Bytes [from, to) counted from file offset `base`, which is byte 0 of
 * chunk[0]. Trimming changes only `range`: a single store. */
struct ledger_record {
    _Atomic uint32_t state;
    _Atomic uint32_t owner; /* process slot */
    _Atomic uint32_t file;  /* entry, once it is IN_FLIGHT */
    bool kept;              /* the data is in the chunks */
    bool promised;          /* it was DIRTY before it was IN_FLIGHT: its bytes may not go */
    bool changed;           /* DIRTY, and an older copy, which is held or has it for a twin, has
                               other bytes */
    uint8_t twins;          /* of ledger_twin_flag: see twins.c */
    uint64_t base;
    _Atomic uint64_t range; /* from << 32 | to */
    uint64_t sequence;      /* of the acknowledgement, in the stripe; kept when split. DIRTY: of the
                               write. IN_FLIGHT: the last one before it began */
    union {
        uint64_t verifier; /* ACKED, REPLAY */
        /* DIRTY, or promised: the sequence of the oldest write of whose bytes it took some. Who
         * flushes what was written until then must send it. */
        uint64_t since;
    };
    uint32_t bucket_next, bucket_previous; /* records of the same bucket */
    uint32_t file_next, file_previous;     /* ACKED and REPLAY of a file, by sequence and offset;
                                              DIRTY: a list of their own */
    uint32_t write_next;                   /* the next slice of the same write */
    uint32_t chunk[LEDGER_RECORD_CHUNKS];  /* arena_lock */
    uint8_t distrusted; /* the server may have lost it, and said so: only writing it again makes it
                           safe (LEDGER_DISTRUSTED_BEFORE: since before that began); stripe lock */
    uint8_t to_disk;    /* of enum ledger_to_disk; stripe lock */
    /* While `owner` sends what another process wrote: the slot of that one, which owns it again
     * when the sending is over; LEDGER_PROCESSES: nobody does, it is dead. Else 0. Stripe lock. */
    _Atomic uint16_t writer;
    /* Drawn from the stripe's `commits`. */
    union {
        uint64_t began; /* TO_DISK */
        uint64_t
            aside; /* DIRTY or ACKED, and nobody's: by who sets it aside as it is; or 0 (agent.h) */
    };
    /* Bytes [held_from, held_to), counted from `base`, are blocked until held_until
     * (CLOCK_MONOTONIC; 0: was not held, or no more): see hold.c. Stripe lock. */
    uint32_t held_from, held_to;
    uint64_t held_until;
};
_Static_assert(sizeof(struct ledger_record) == 128, "two cache lines");

/* A change of a file by this host: the server's times of change before and after it. */
struct ledger_link {
    int64_t from, to; /* the same: none */
};

/* A place in the hash table of records. */
struct ledger_bucket {
    uint32_t first;          /* record */
    _Atomic uint32_t starts; /* changes when a write of any file that belongs here is announced */
};

enum ledger_entry_flag {
    LEDGER_ENTRY_PRESENT = 1,
    LEDGER_ENTRY_KNOWN = 2,       /* the attributes are */
    LEDGER_ENTRY_KERNEL = 4,      /* in the kernel's world, or on its way there: see world.h */
    LEDGER_ENTRY_MIXED = 8,       /* records of several verifiers */
    LEDGER_ENTRY_DISTRUSTED = 32, /* records that are `distrusted` */
    LEDGER_ENTRY_RENAMING = 16,   /* its name is `renamed` of the stripe: here may be half of it */
    LEDGER_ENTRY_TRUNCATED = 64,  /* the server did what `truncator` asked for, and it said so */
    LEDGER_ENTRY_ARRIVED = 128,   /* in the kernel's world: nothing of it is left in the ledger */
    LEDGER_ENTRY_STUCK = 256,     /* somebody could not pin it: it does not come back */
    LEDGER_ENTRY_APPENDING = 512, /* `truncator` has a turn to append: see append.c */
    LEDGER_ENTRY_UNTOLD = 1024,   /* this host may have changed it, and no answer told own_mtime */
    LEDGER_ENTRY_REFUSED = 2048, /* dirty data was lost: writes go out at once until one succeeds */
    LEDGER_ENTRY_CACHED = 4096,  /* frames may have bytes of it: see cache.h */
    LEDGER_ENTRY_TO_DISK = 8192, /* records may be that are TO_DISK, and in flight */
    LEDGER_ENTRY_ORPHANED = 16384, /* DIRTY records may be whose process is dead: see agent.h */
    LEDGER_ENTRY_ORPHANED_SENT = 32768, /* likewise, ACKED ones */
    LEDGER_ENTRY_UNPROVEN = 131072,     /* what is acknowledged: the proof is not of all of it */
    LEDGER_ENTRY_OWED = 65536 /* of the dead, and whoever sent it since, nobody committed it */
};

/*
 * A file. All is written under the stripe's lock. What is atomic is loaded without it, too; the
 * rest is read under it alone.
 */
struct ledger_entry {
    /* ---- whose the place is: see entries.h ---- */
    _Atomic uint32_t sequence; /* odd while attributes or key change */
    _Atomic uint32_t flags;
    _Atomic uint64_t generation; /* of the use of this place; never the same again */
    _Atomic uint64_t device, inode;
    uint64_t server, root;
    uint32_t handle_length;
    uint8_t handle[LEDGER_HANDLE_MAX];
    uint32_t used_at; /* stripe->clock at the last use */

    /* ---- its records, and who uses it ---- */
    uint32_t first, last; /* records ACKED or REPLAY */
    uint32_t records;     /* linked in any state: the entry may not be recycled */
    uint32_t pins;        /* times that a process pinned the file */
    /* Process slot that changes the size or appends now; 0: none; LEDGER_TRUNCATOR_HELD: one that
     * died while it changed the size. */
    _Atomic uint32_t truncator;
    _Atomic uint32_t changes; /* begins and ends of writes */
    struct {
        uint64_t size; /* writes beyond it wait for `truncator` */
        uint64_t held; /* LEDGER_TRUNCATOR_HELD until then (CLOCK_MONOTONIC) */
    } truncate;

    /* ---- what is known of it: see attributes.h ---- */
    _Atomic uint64_t size; /* while not KNOWN: a lower bound from writes */
    _Atomic uint64_t used;
    _Atomic int64_t mtime, ctime; /* nanoseconds */
    int64_t own_mtime;            /* after the last change by this host, unless UNTOLD */
    _Atomic uint64_t verified_ns; /* while not KNOWN: since when they are not */
    _Atomic uint64_t truncations; /* as `changes`; drawn from the stripe's, so never repeated */

    /* ---- what is acknowledged, and not committed ---- */
    _Atomic uint64_t uncommitted; /* bytes ACKED or REPLAY */
    _Atomic uint64_t verifier;    /* of the records, unless MIXED */
    uint64_t uncommitted_end;     /* at least the end of the last of them */
    _Atomic uint32_t replays;     /* records written again, or over after a restart */
    _Atomic uint32_t cuts;        /* acknowledged records that changes of size cut off */
    struct {
        _Atomic uint32_t count; /* times that data was dropped, not committed, not overwritten */
        _Atomic uint32_t told;  /* those of which an fsync of any process has told */
        int32_t error;          /* errno of the last of them */
    } losses;

    /* ---- what is dirty: see dirty.h ---- */
    uint32_t dirty_first, dirty_last; /* records DIRTY, by sequence */
    _Atomic uint64_t dirty;           /* bytes DIRTY, and IN_FLIGHT that are promised */
    uint64_t sending;                 /* of these, bytes IN_FLIGHT */
    uint64_t dirty_end;               /* at least the end of the last of them */
    uint64_t sent_end;                /* while some are: the server's file ends there, or later */
    /* The proof that nobody else changed the file: see proof.h. */
    struct {
        int64_t ctime;  /* LEDGER_NO_TIME: there is none */
        int64_t mtime;  /* the latest of the writes that it is of */
        uint64_t since; /* of what was written at this sequence, or later */
        struct ledger_link links[LEDGER_LINKS];
    } proof;
    /* While it is ORPHANED: the agent that will send what the dead left; 0: nobody will. */
    _Atomic uint32_t carer;
    _Atomic uint32_t sent_carer; /* likewise, while it is ORPHANED_SENT */
    _Atomic uint32_t user;       /* as whom it was written behind last: see users.h */

    /* ---- while it is CACHED: see cache.c ---- */
    _Atomic uint64_t frames; /* drawn from the stripe's births: older frames are of no use */
    _Atomic uint64_t frames_seen_ns;    /* when the server was asked last, and had what they have */
    int64_t frames_mtime, frames_ctime; /* the times of the file that they are of ... */
    int64_t frames_doubt;               /* ... and a later one that no answer explains; or 0 */
    int64_t frames_since;               /* while there is one: all is explained up to here */
} __attribute__((aligned(512)));
_Static_assert(sizeof(struct ledger_entry) * LEDGER_SET_SIZE == 4096, "a set is a page");

enum ledger_commit_state {
    LEDGER_COMMIT_SENT,     /* its answer is not known */
    LEDGER_COMMIT_ANSWERED, /* well, and it waits for others that were sent before */
    LEDGER_COMMIT_OVER,
    LEDGER_COMMIT_VOUCHES /* it is over, and all is safe that was acknowledged before it was sent */
};

/* A COMMIT: see commits.c. Under the stripe's lock. */
struct ledger_committing {
    uint64_t ticket; /* of the stripe's `commits`; 0: the place was never used */
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
    _Atomic uint32_t waiting; /* someone may wait on it */
    uint32_t clock;
    _Atomic uint64_t sequence;           /* of acknowledgements */
    uint64_t births;                     /* source of generations and of `truncations` */
    _Atomic uint64_t uncommitted, dirty; /* sums of those of its entries */
    _Atomic uint64_t recoveries;         /* locks got from a dead owner */
    _Atomic uint64_t held_check; /* when to look for holds that ended; 0: no record is held */
    uint64_t commits;            /* tickets given out, to COMMITs and what is TO_DISK */
    uint64_t commit_took_ns;     /* the last that was answered */
    uint32_t commit_places;      /* that were ever used */
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
    _Atomic uint32_t wrote;       /* had records */
    _Atomic uint32_t truncations; /* in progress, and turns to append */
    _Atomic uint64_t ahead;       /* bytes of its memory that are read ahead: see quota.c */
    _Atomic uint32_t watched;     /* by this agent, or LEDGER_WATCH_WANTED; 0: it never asked */
    /* Why it cannot write behind though it would, of enum ledger_agent_lack, and errno << 8; or 0.
     */
    _Atomic uint32_t lack;
};

/* `watched` of a process that asked for it, and was not answered yet. */
enum { LEDGER_WATCH_WANTED = UINT32_MAX };

/* A server whose files processes write behind, as their keys name it. Only the agent gives the
 * place back, at a time at which it watches nobody. */
struct ledger_agent_server {
    _Atomic uint64_t key;    /* 0: the place is free */
    _Atomic uint64_t device; /* a mount of it; 0: not said yet */
    _Atomic uint32_t served; /* the last agent that was in contact with it; 0: none was */
};

/* The agent: see agent.h. */
struct ledger_agent {
    pthread_mutex_t lock; /* the agent has it as long as it lives */
    /* Of the agent that has it; 0 until it is ready. Written by who has it. */
    _Atomic uint32_t number;
    _Atomic uint32_t drawn;   /* the last number that was given out */
    _Atomic uint32_t pid;     /* of the agent that has, or had, it */
    _Atomic uint32_t rings;   /* futex: changes when somebody wants something of the agent */
    _Atomic uint32_t sleeps;  /* until something is dirty: whoever writes behind shall ring */
    _Atomic uint64_t since_s; /* CLOCK_REALTIME, when it was ready */
    /* When a process began to start one; 0: it knows by now that none comes of that. */
    _Atomic uint64_t starting_ns;
    struct ledger_agent_server servers[LEDGER_AGENT_SERVERS];
};

struct ledger_user_place {
    _Atomic uint32_t state;
    _Atomic uint32_t vouched; /* the last agent that vouched for it */
    struct ledger_user user;  /* once it is made never changed */
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
    _Atomic uint64_t damages; /* times that a free record was none: see ledger_arena_damaged() */
    _Atomic uint64_t losses; /* times that data of any file was lost since it was made; none goes */

    struct ledger_agent agent __attribute__((aligned(128)));
    struct ledger_user_place users[LEDGER_USERS]; /* the first is none */

    struct ledger_stripe stripes[LEDGER_STRIPES];
    /* 0: no entry was ever made in the set; 1: in use; 2: and entries went to the next set. */
    _Atomic uint8_t set_state[LEDGER_SETS];
    struct ledger_process processes[LEDGER_PROCESSES];
    _Atomic uint64_t ahead;       /* of all processes, or more: see quota.c */
    _Atomic uint64_t ahead_added; /* when that was last made again from theirs */
    /* Changes when what was read of a file of the set before may be old: see stamp.h. */
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

/* A piece of a file, at a multiple of LEDGER_FRAME: bytes [from, to) of it. Under its group's lock.
 */
struct ledger_frame {
    uint32_t valid; /* 0 while it is filled */
    uint32_t file;  /* entry */
    uint64_t block;
    uint64_t truncations, frames; /* of the entry, when its bytes were asked for */
    uint32_t from, to;
    uint32_t used; /* the clock of its group's lock, at its last use */
    uint32_t spare[5];
};
_Static_assert(sizeof(struct ledger_frame) * LEDGER_GROUP_FRAMES == 4096, "a group's are a page");

#endif
