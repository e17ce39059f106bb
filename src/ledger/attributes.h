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

/* A lower bound of the size, for when nothing else is known. It comes from data in the ledger that
 * the server may not have. 0: there is no bound. */
uint64_t ledger_file_least_size(struct ledger_file *file);

/* As ledger_file_attributes(), by number, for a file that this process may not have opened. Makes
 * no entry. False: nothing is known, the kernel has the file, or several files have this number. */
bool ledger_file_peek(uint64_t device, uint64_t inode, struct ledger_attributes *attributes);

/* What is known by a number. */
struct ledger_number {
    bool known;  /* a file */
    bool shared; /* several files have it */
    bool dirty;  /* one of them has dirty data: ledger_number_dirty() */
};
/* All of that at one look, without a lock. */
void ledger_number_look(uint64_t device, uint64_t inode, struct ledger_number *number);

/*
 * Brackets a question to the server (GETATTR, or any call whose reply has post_op_attr):
 *   epoch = ledger_file_asking(file);
 *   ... RPC ...
 *   ledger_file_learned(file, epoch, &attributes, now_ns);
 *
 * Replies to several processes overtake one another. So an answer replaces the known size only if
 * no write or truncation by this host began or ended since `epoch`. Else the size only grows; if a
 * truncation was among them, it stays. It also stays if a question that was asked after `now_ns` is
 * already answered. It never falls below the end of uncommitted data. Times and `used` follow the
 * later ctime.
 */
uint64_t ledger_file_asking(struct ledger_file *file);
/* As ledger_file_asking(), before it is known which file it is: the epoch of the only file with
 * this number. 0: there are several, or none. The epoch of another file spoils the answer. */
uint64_t ledger_number_asking(uint64_t device, uint64_t inode);
void ledger_file_learned(struct ledger_file *file, uint64_t epoch,
                         const struct ledger_attributes *attributes, uint64_t now_ns);

/* The server told the kernel's NFS client these attributes before `now_ns`. If they are what is
 * known, they count as asked for at that time. */
void ledger_file_confirmed(struct ledger_file *file, const struct ledger_attributes *attributes,
                           uint64_t now_ns);
/*
 * The same for an open: the kernel's client has asked the server in it. Attributes with a later
 * time of change replace those known, if nothing of this host is on its way or uncommitted, and the
 * server's last answer is older than a second. So no write of this host came after the kernel's
 * question: the server told the time of that write, which would be the later one. (Only if its
 * clock was set back within an open that takes a second could that be wrong.)
 */
void ledger_file_kernel_told(struct ledger_file *file, const struct ledger_attributes *attributes,
                             uint64_t now_ns);
/*
 * As ledger_file_confirmed(), by the key of a file that this process may not have attached.
 *   LEDGER_CONFIRMED: the attributes are what is known.
 *   LEDGER_OTHER: other attributes are known, or none; *epoch is as of ledger_file_asking().
 *   LEDGER_UNKNOWN: the file has no entry, or one of another root.
 */
enum ledger_confirmation { LEDGER_CONFIRMED, LEDGER_OTHER, LEDGER_UNKNOWN };
enum ledger_confirmation ledger_key_confirmed(const struct ledger_file_key *key,
                                              const struct ledger_attributes *attributes,
                                              uint64_t now_ns, uint64_t *epoch);

/*
 * The server has just told `now`, in answer to a question asked at `epoch`. Has a program that does
 * not use the ledger changed the file since the last change by this host? LEDGER_CHANGE_NONE also
 * when that cannot be known. What this host has on its way, or never got an answer to, changes the
 * times as well. So does the kernel's open(O_TRUNC), which a process tells only later, or never if
 * it is killed. So an empty file tells nothing.
 */
enum ledger_change {
    LEDGER_CHANGE_NONE,
    LEDGER_CHANGE_TIME, /* it was changed later, by another host or by the kernel */
    LEDGER_CHANGE_SIZE  /* it is longer than this host made it */
};
enum ledger_change ledger_file_changed_by_other(struct ledger_file *file, uint64_t epoch,
                                                const struct ledger_attributes *now);

/*
 * Brackets a change of size by SETATTR or by the kernel's open(O_TRUNC). `size` is the new size;
 * data of the ledger beyond it is dropped. `done` false: the change failed, or its fate is not
 * known; the server is asked for the size.
 *
 * Begin waits for writes beyond `size` and changes of size that are in flight or held. A change of
 * size is held if its process was killed. 0; else there is nothing to end: LEDGER_OF_KERNEL,
 * -ESTALE, or -ENOSPC: there is no room to note it.
 */
int ledger_file_truncate_begin(struct ledger_file *file, uint64_t size);
void ledger_file_truncate_end(struct ledger_file *file, uint64_t size, bool done);
/*
 * The kernel has truncated or replaced the file that has this key. If the key has no handle, that
 * is the first known file with its device and inode. True: a write beyond `size`, or another change
 * of size, is in flight or held, and may undo that. Then the caller truncates once more, between
 * begin and end for `again`. `again` is set to the file if it is known; else its generation is 0.
 */
bool ledger_file_truncated_by_kernel(const struct ledger_file_key *key, uint64_t size,
                                     struct ledger_file *again);

struct ledger_entry;
/* Does what ledger_file_learned() does, under the stripe's lock. `own`: from the answer to a write
 * of this host. */
void ledger_entry_learn(struct ledger_entry *entry, uint64_t epoch,
                        const struct ledger_attributes *attributes, uint64_t now_ns, bool own);

#endif
