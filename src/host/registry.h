/*
 * Files as all processes of one host (and user) see them, in shared memory: size and attributes at
 * memory speed, and the ledger of written but uncommitted data.
 *
 * Everything here survives the death of any process at any instruction (robust process-shared
 * mutexes; what a lock guards can be rebuilt from the records), and nothing blocks on the network.
 */
#ifndef HOST_REGISTRY_H
#define HOST_REGISTRY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>

enum { HOST_VERIFIER_SIZE = 8, HOST_HANDLE_MAX = 64 };

/*
 * A file is its server's handle. Device and inode number, as the kernel shows them, only tell where
 * to look for it: several files may have one number, as those of subvolumes and snapshots, and one
 * that was removed and one that got its number.
 */
struct host_file_key {
    uint64_t device;
    uint64_t inode;
    uint64_t server; /* hash of server and export: the same in all processes */
    uint64_t root;   /* hash of the export's root handle when the file's handle was got */
    uint32_t handle_length;
    uint8_t handle[HOST_HANDLE_MAX];
};

/*
 * A process's hold on the entry of a file. Kept in the process's own memory by the caller. The
 * shared entry may be recycled while nothing is uncommitted in it: every function notices by
 * `generation` and finds or makes the entry again.
 */
struct host_file {
    struct host_file_key key;
    uint32_t index;
    uint32_t losses; /* of the entry, that this process knows of */
    uint64_t generation;
    uint64_t told; /* of the registry, when this process last asked whether the file is pinned */
};

/* What the server said of a file. */
struct host_attributes {
    uint64_t size;
    uint64_t used; /* bytes of disk space */
    struct timespec mtime, ctime;
};

/*
 * Maps the registry in the run directory ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>/), making
 * it with room for `uncommitted_max` bytes of uncommitted data if it is not there. Once a process.
 * `hold_ns`: how long a request may survive in the network and in the server's queues after its
 * connection is gone; the range of a write of unknown fate stays blocked for that long. 0: never.
 * -errno when it cannot be had (said on the log with the reason); then no file may be adopted.
 */
int host_registry_open(uint64_t uncommitted_max, uint64_t hold_ns);
bool host_registry_ready(void);
/* Is there a registry in the run directory, whoever made it? */
bool host_registry_exists(void);

/*
 * The run directory is another user's now (host_run_become()): maps the registry there in place of
 * the one before, in which this process's place is given back. No other thread uses either, and
 * nothing is in flight. -errno as host_registry_open(): then the old one stays.
 */
int host_registry_move(uint64_t uncommitted_max, uint64_t hold_ns);

/* What is known of the file is of the registry before. */
static inline void host_file_moved(struct host_file *file)
{
    file->generation = 0;
    file->losses = 0;
}

/* In the child of fork(): the child is a process of its own in the registry. */
void host_registry_after_fork(void);

/*
 * Finds or makes the entry of a file, by its handle. One with the same device and inode but another
 * handle is of another file, and stays. But if the root had another handle then, too, the server
 * may have given all files new ones: where `ctime` (as the server tells it now) is what it told
 * last of one such entry, that proves that it still is the same file, and the entry is kept under
 * the new handle; and where there is one that is not proven the same, what is uncommitted there
 * counts as lost: *lost bytes, for the next fsync to tell. False: no room for the entry.
 */
bool host_file_attach(struct host_file *file, const struct host_file_key *key,
                      const struct timespec *ctime, uint64_t *lost);

/*
 * What `file` stands for has the handle and root of `key` by now, as its user has proven: the
 * entry is kept under them. Others who know the entry go on with it. *lost as for
 * host_file_attach(). False: no room for the entry.
 */
bool host_file_rename(struct host_file *file, const struct host_file_key *key,
                      const struct timespec *ctime, uint64_t *lost);

/* The root under which the file's handle was got. */
static inline uint64_t host_file_root(const struct host_file *file)
{
    return __atomic_load_n(&file->key.root, __ATOMIC_RELAXED);
}

/* ---- attributes ---- */

/*
 * Reads the attributes without a lock (a sequence lock; a few loads). `*verified_ns` is when the
 * server last confirmed them (CLOCK_MONOTONIC), 0 for never. False when nothing is known.
 */
bool host_file_attributes(struct host_file *file, struct host_attributes *attributes,
                          uint64_t *verified_ns);

/* What the size is at least, by acknowledged data that the server may have lost; for when nothing
 * is known. */
uint64_t host_file_least_size(struct host_file *file);

/* As host_file_attributes() for a file that this process may not have opened, by its number; no
 * entry is made. False: not known, or there are several files with this number. */
bool host_file_peek(uint64_t device, uint64_t inode, struct host_attributes *attributes);

/*
 * Brackets a question to the server (GETATTR, or any call whose reply has post_op_attr):
 *   epoch = host_file_asking(file);  ... RPC ...;  host_file_learned(file, epoch, &attributes, now)
 * Replies of several processes overtake one another. Attributes replace the known size only if no
 * write or truncation by this host began or ended since `epoch`; otherwise the size only grows,
 * unless a truncation was among them, when it stays. It stays as well when a question of after
 * `now_ns` was answered already. It never falls below the end of uncommitted data. Times and `used`
 * follow the later ctime.
 */
uint64_t host_file_asking(struct host_file *file);
void host_file_learned(struct host_file *file, uint64_t epoch,
                       const struct host_attributes *attributes, uint64_t now_ns);

/* The kernel's NFS client was told this of the file before `now_ns`: if that is what is known, it
 * is as good as asked for then. */
void host_file_confirmed(struct host_file *file, const struct host_attributes *attributes,
                         uint64_t now_ns);

/*
 * The server has just told `now`, in answer to a question asked at `epoch`: has somebody who does
 * not use the ledger changed the file since this host was told of it last? False where this cannot
 * be known: what this host wrote since, or has on its way, changes the times as well.
 */
bool host_file_changed_by_other(struct host_file *file, uint64_t epoch,
                                const struct host_attributes *now);

/* Brackets a change of size by SETATTR or by the kernel's open(O_TRUNC). `size` is the new size;
 * data of the ledger beyond it is dropped. `done` false: the change failed, or its fate is not
 * known; the server is asked for the size. Waits for writes beyond `size` and changes of size that
 * are in flight or held: one whose process was killed is held. Else, with nothing to end,
 * HOST_OF_KERNEL, or -ENOSPC: there is no room to note it. */
int host_file_truncate_begin(struct host_file *file, uint64_t size);
void host_file_truncate_end(struct host_file *file, uint64_t size, bool done);
/*
 * The kernel already truncated or replaced the file that has this key, or is the first known one
 * with its device and inode if the key has no handle. True: a write beyond `size`, or another
 * change of size, is in flight or held, and may undo that. Then the caller does it once more
 * between begin and end of `again`, which is the file in any case if it is known (else its
 * generation is 0).
 */
bool host_file_truncated_by_kernel(const struct host_file_key *key, uint64_t size,
                                   struct host_file *again);

/*
 * The files that `key` may name, one after the other, of those that any process of the host knows:
 * with its device and inode and, unless that has no length, its handle, or one of another root of
 * the same export, which may be what it had before. *cursor starts at 0. False at the end.
 */
bool host_file_find(const struct host_file_key *key, uint32_t *cursor, struct host_file *file);

/* Between these no other process, and no other thread, uses an offset of an open file description
 * of the file that it shares. The end of the process ends it, too. False: it cannot be had, as this
 * process has no place in the registry. */
bool host_offset_lock(struct host_file *file);
void host_offset_unlock(struct host_file *file);

/* ---- the ledger ---- */
/*
 * Invariants: acknowledged records of a file do not overlap (a newer write takes the bytes away
 * from older ones), so the order of writing again does not matter; writes in flight of the whole
 * host do not overlap either (a later one waits), so a replay never overtakes a newer write. A
 * write whose fate is unknown ("held") counts as one in flight for a time, whoever it was of.
 */

/* The file is in the kernel's world (world.h): the engine may not write it. */
enum { HOST_OF_KERNEL = -EREMCHG };

enum host_outcome {
    HOST_WRITE_FAILED,   /* nothing is promised: forget it */
    HOST_WRITE_STABLE,   /* on stable storage: forget it, and older data it covers */
    HOST_WRITE_UNSTABLE, /* acknowledged with `verifier`: keep until a COMMIT returns the same */
};

/* One write of the application, or one replay. In the caller's memory, between begin and end. */
struct host_write {
    uint64_t offset;
    size_t length;
    bool kept; /* the data is in the ledger: send it from there */
    /* Set by the caller before host_write_end(): the request was sent over a connection that died,
     * and an older copy of it may still be executed. Whatever the outcome, the range is held. */
    bool unsettled;
    /* Likewise: it made the server write the file to its disk, and met an error there, or may have.
     * As with a COMMIT that failed all other data of the file must be written again. */
    bool doubtful;
    uint32_t first_record;
    uint32_t record_count;
};

enum { HOST_WRITE_MAX = 1 << 20, HOST_WRITE_VECTORS = HOST_WRITE_MAX / 8192 + 20 };

/*
 * Announces a write of length <= HOST_WRITE_MAX. Waits while another write in flight overlaps.
 * `keep`: copies the data into the ledger first. Returns 0; -ENOSPC when the ledger has no room
 * (commit files and try again, or write with keep = false and FILE_SYNC); -EFAULT; -ESTALE when the
 * file may have another handle by now; HOST_OF_KERNEL. A thread must end its write before it begins
 * one that
 * overlaps.
 */
int host_write_begin(struct host_file *file, uint64_t offset, const struct iovec *data, int count,
                     size_t length, bool keep, struct host_write *write);

/* The same, but -EAGAIN instead of waiting: for callers whose own write may be what is in the way.
 */
int host_write_try(struct host_file *file, uint64_t offset, const struct iovec *data, int count,
                   size_t length, bool keep, struct host_write *write);

/* The arguments of host_write_try(). `appends`: the caller has the turn to append. */
struct host_beginning {
    uint64_t offset;
    const struct iovec *data;
    int count;
    size_t length;
    bool keep;
    struct host_write *write;
    bool appends;
};
int host_write_start(struct host_file *file, const struct host_beginning *beginning, bool wait);
/* Begins several writes of one file, in order and in one step, up to the first that cannot be begun
 * now: host_write_try() tells why. Returns how many. */
unsigned host_writes_try(struct host_file *file, const struct host_beginning *list, unsigned count);

/* The kept data as vectors (at most HOST_WRITE_VECTORS); bytes [from, from + length) of the write.
 * Returns the number of vectors. Only this memory may be sent again later. */
int host_write_data(const struct host_write *write, size_t from, size_t length,
                    struct iovec *vectors);

/* (What was not kept cannot be HOST_WRITE_UNSTABLE: it is taken for stable.)
 * Ends it, wakes those who wait for the range, and lets the known size grow on success. */
void host_write_end(struct host_file *file, struct host_write *write, enum host_outcome outcome,
                    const uint8_t verifier[HOST_VERIFIER_SIZE]);

/* The end of a write, with what the reply said of the file: see host_file_learned(). */
struct host_ending {
    struct host_file *file;
    struct host_write *write;
    enum host_outcome outcome;
    uint64_t verifier; /* its bytes */
    bool told;         /* what follows is known */
    uint64_t epoch, asked_ns;
    struct host_attributes attributes;
};
/* Ends several writes, in order, in one step for neighbours that are of one file. */
void host_writes_end(struct host_ending *endings, unsigned count);

/*
 * A write of `length` bytes to the end of the file, with an answer of the server to a question of
 * `fresh_ns` or later. Begin takes the turn, of all processes of the host, and finds out where the
 * end is when nothing is in flight or held behind it: 0, and `offset`. Pieces are written there by
 * host_write_start() with `appends`, one after the other; writes of others beyond the end, and
 * changes of size, wait until host_append_end(), which must follow whatever begin returned.
 * -ENODATA: the server must be asked for the size (host_file_learned()); -EAGAIN instead of
 * waiting: then the same once more. -ENOSPC; -ESTALE; HOST_OF_KERNEL.
 */
struct host_append {
    uint64_t length, fresh_ns;
    uint64_t offset; /* result */
    bool turn;       /* false at first */
};
int host_append_begin(struct host_file *file, struct host_append *append, bool wait);
/* `failed`: the server may have some bytes that were not acknowledged. */
void host_append_end(struct host_file *file, struct host_append *append, bool failed);

/*
 * Whether a descriptor appends is known by the kernel only, and may be changed by another process
 * that has a duplicate. That process says so before and after it does, so that who sees the same
 * number as when it asked the kernel need not ask again.
 */
uint32_t host_append_changes(void);
void host_append_changed(void);

/*
 * Waits until the writes that are in flight now, of any process, have ended, and none is held, and
 * no change of size is in flight; for handing the file to the kernel, whose writes wait for nobody.
 * 0, or -ETIMEDOUT: there still is one after the time of a hold.
 */
int host_file_settle(struct host_file *file);
/* Waits as long as a range is held: before host_file_truncate_end(), when the change of size may
 * yet be carried out again. */
void host_hold_wait(void);

/* Bytes uncommitted in a file (by all processes of the host); and in all files. No lock. */
uint64_t host_file_uncommitted(struct host_file *file);
uint64_t host_uncommitted(void);

/* How often data of the file was written again, or over, since the server may have lost it. A read
 * during which this changes may have missed it. */
uint64_t host_file_replays(struct host_file *file);
/* The same for reads, and how often such data was cut off: who reads across a restart of the server
 * could miss data and find no trace that there was any. */
uint64_t host_file_read_epoch(struct host_file *file);

/* True if this process itself has uncommitted data in the file. */
bool host_file_uncommitted_here(struct host_file *file);

/*
 * Is some uncommitted data of the file acknowledged with another verifier than this one? (Then the
 * server restarted since, and what it says of the file may lack that data.)
 */
bool host_file_verifier_differs(struct host_file *file, const uint8_t verifier[HOST_VERIFIER_SIZE]);

/* May the server have lost uncommitted data of the file, because a COMMIT failed? */
bool host_file_distrusted(struct host_file *file);

/*
 * COMMIT: `host_commit_begin` notes which acknowledged writes the COMMIT to be sent vouches for;
 * one of the two below must follow. False: none is to be sent. While several of the file were on
 * their way this one waited, and another that was sent meanwhile by whatever process vouches for
 * all that was acknowledged before the call. `host_commit_end` waits, a second at most or twice as
 * long as this one took, for other COMMITs of the file that are on their way: what one of them was
 * to vouch for is lost if it fails. Then it drops the writes whose verifier is the one that came
 * back, and returns how many bytes are lost or have another one, and must be written again, one
 * after the other: while (host_replay_next(file, &commit, &write) == 1) { WRITE FILE_SYNC from
 * host_write_data(); host_write_end(file, ...); } A record that another process is replaying is
 * waited for. A replay that ended with HOST_WRITE_FAILED stays in the ledger, acknowledged as
 * before, and is not offered again in this commit; the fsync must then report EIO.
 */
struct host_commit {
    uint64_t sequence;
    bool vouches;                 /* for any data */
    bool again;                   /* the end: nothing is lost, but only another COMMIT tells
                                     whether newer data is safe that took the place of older */
    uint32_t replays;             /* host_file_replays() when it began */
    uint64_t began_ns;            /* CLOCK_MONOTONIC */
    uint64_t ticket;              /* 0: it is not noted */
    uint32_t place;               /* where it is noted */
    size_t most;                  /* may be set after it began: records that follow one another are
                                     offered as one replay, up to so many bytes */
    uint64_t tried, tried_offset; /* replays offered up to this record */
    uint8_t verifier[HOST_VERIFIER_SIZE];
};
bool host_commit_begin(struct host_file *file, struct host_commit *commit);
uint64_t host_commit_end(struct host_file *file, struct host_commit *commit,
                         const uint8_t verifier[HOST_VERIFIER_SIZE]);
/*
 * The COMMIT failed, or may have: it was sent again, and the first answer is not known. Servers
 * tell an error of their disk once, and forget the data: a later COMMIT that succeeds says nothing
 * of it. All that the server may have of the file by now must be written again.
 */
void host_commit_failed(struct host_file *file, const struct host_commit *commit);
/* Is a COMMIT of the file on its way, from any process? */
bool host_file_committing(struct host_file *file);
/* 1; 0: no more; -ENOSPC: there is more, but this process cannot be noted as its owner. */
int host_replay_next(struct host_file *file, struct host_commit *commit, struct host_write *write);
/* The same, and -EAGAIN instead of waiting, as host_write_try(). */
int host_replay_try(struct host_file *file, struct host_commit *commit, struct host_write *write);

/*
 * Uncommitted data of the file can go nowhere, and is dropped. Returns bytes. `missed`: the file is
 * not gone; all other processes that know it hear of the loss by host_file_lost().
 */
uint64_t host_file_forget(struct host_file *file, bool missed);
/* True once after data was dropped that may be missed, also by who attached later if nobody was
 * told till then: no fsync may succeed over that. */
bool host_file_lost(struct host_file *file);
/* Would host_file_lost() be true? */
bool host_file_has_loss(struct host_file *file);

/*
 * Walks files that have uncommitted data: with `server` (0: any), and with data of dead processes
 * only if `orphans`. *cursor starts at 0. False at the end. For committing the largest user when
 * the ledger is full, what dead processes left behind, and sync().
 */
bool host_uncommitted_next(uint32_t *cursor, uint64_t server, bool orphans, struct host_file *file);

#endif
