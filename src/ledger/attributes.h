/*
 * Size and attributes of a file, as the host knows them.
 */
#ifndef LEDGER_ATTRIBUTES_H
#define LEDGER_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "ledger/file.h"

/* What the server said of a file. */
struct ledger_attributes {
    uint64_t size;
    uint64_t used; /* bytes of disk space */
    struct timespec mtime, ctime;
};

static inline int64_t ledger_nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/*
 * Reads the attributes without a lock (a sequence lock; a few loads). `*verified_ns` is when the
 * server last confirmed them (CLOCK_MONOTONIC), 0 for never. False when nothing is known.
 */
bool ledger_file_attributes(struct ledger_file *file, struct ledger_attributes *attributes,
                            uint64_t *verified_ns);

/* What the size is at least, by acknowledged data that the server may have lost; for when nothing
 * is known. */
uint64_t ledger_file_least_size(struct ledger_file *file);

/* As ledger_file_attributes() for a file that this process may not have opened, by its number; no
 * entry is made. False: not known, or there are several files with this number. */
bool ledger_file_peek(uint64_t device, uint64_t inode, struct ledger_attributes *attributes);

/* Several files with this number are known. */
bool ledger_number_is_shared(uint64_t device, uint64_t inode);

/*
 * Brackets a question to the server (GETATTR, or any call whose reply has post_op_attr):
 *   epoch = ledger_file_asking(file);  ... RPC ...;  ledger_file_learned(file, epoch, &attributes,
 * now) Replies of several processes overtake one another. Attributes replace the known size only if
 * no write or truncation by this host began or ended since `epoch`; otherwise the size only grows,
 * unless a truncation was among them, when it stays. It stays as well when a question of after
 * `now_ns` was answered already. It never falls below the end of uncommitted data. Times and `used`
 * follow the later ctime.
 */
uint64_t ledger_file_asking(struct ledger_file *file);
/* The same before it is known which file it is: of the only one with this number; 0: there are
 * several, or none. An epoch of another file spoils the answer. */
uint64_t ledger_number_asking(uint64_t device, uint64_t inode);
void ledger_file_learned(struct ledger_file *file, uint64_t epoch,
                         const struct ledger_attributes *attributes, uint64_t now_ns);

/* The kernel's NFS client was told this of the file before `now_ns`: if that is what is known, it
 * is as good as asked for then. */
void ledger_file_confirmed(struct ledger_file *file, const struct ledger_attributes *attributes,
                           uint64_t now_ns);
/*
 * The same by the key of a file that this process may not have attached. LEDGER_OTHER: something
 * else is known of it, or nothing; *epoch is as of ledger_file_asking(). LEDGER_UNKNOWN: it has no
 * entry, or one of another root.
 */
enum ledger_confirmation { LEDGER_CONFIRMED, LEDGER_OTHER, LEDGER_UNKNOWN };
enum ledger_confirmation ledger_key_confirmed(const struct ledger_file_key *key,
                                              const struct ledger_attributes *attributes,
                                              uint64_t now_ns, uint64_t *epoch);

/*
 * The server has just told `now`, in answer to a question asked at `epoch`: has somebody who does
 * not use the ledger changed the file since the last change by this host? LEDGER_CHANGE_NONE also
 * where this cannot be known: what this host has on its way, or never heard the end of, changes the
 * times as well. So does the kernel's open(O_TRUNC), which a process tells only later or, killed,
 * never: an empty file tells nothing.
 */
enum ledger_change {
    LEDGER_CHANGE_NONE,
    LEDGER_CHANGE_TIME, /* it changed later, by whomever */
    LEDGER_CHANGE_SIZE  /* it is longer than this host made it */
};
enum ledger_change ledger_file_changed_by_other(struct ledger_file *file, uint64_t epoch,
                                                const struct ledger_attributes *now);

/* Brackets a change of size by SETATTR or by the kernel's open(O_TRUNC). `size` is the new size;
 * data of the ledger beyond it is dropped. `done` false: the change failed, or its fate is not
 * known; the server is asked for the size. Waits for writes beyond `size` and changes of size that
 * are in flight or held: one whose process was killed is held. Else, with nothing to end,
 * LEDGER_OF_KERNEL, or -ENOSPC: there is no room to note it. */
int ledger_file_truncate_begin(struct ledger_file *file, uint64_t size);
void ledger_file_truncate_end(struct ledger_file *file, uint64_t size, bool done);
/*
 * The kernel already truncated or replaced the file that has this key, or is the first known one
 * with its device and inode if the key has no handle. True: a write beyond `size`, or another
 * change of size, is in flight or held, and may undo that. Then the caller does it once more
 * between begin and end of `again`, which is the file in any case if it is known (else its
 * generation is 0).
 */
bool ledger_file_truncated_by_kernel(const struct ledger_file_key *key, uint64_t size,
                                     struct ledger_file *again);

struct ledger_entry;
/* Under the stripe's lock: what ledger_file_learned() does. `own`: from the answer to a write. */
void ledger_entry_learn(struct ledger_entry *entry, uint64_t epoch,
                        const struct ledger_attributes *attributes, uint64_t now_ns, bool own);

#endif
