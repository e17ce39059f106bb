/*
 * What a file is for the processes of a host, and the entry of it that they share.
 */
#ifndef LEDGER_FILE_H
#define LEDGER_FILE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "ledger/store/key.h"

/*
 * A process's hold on the entry of a file. Kept in the process's own memory by the caller. The
 * shared entry may be recycled while nothing is uncommitted in it: every function notices by
 * `generation` and finds or makes the entry again.
 */
struct ledger_file {
    struct ledger_file_key key;
    uint32_t index;
    uint32_t losses_known; /* those of the entry that this process knows of */
    uint64_t generation;
    uint64_t outside_pins; /* of the registry, when this process last asked for a pin */
};

/* Which losses of a file somebody has told: of the entry with that generation. */
struct ledger_seen {
    _Atomic uint64_t generation;
    _Atomic uint32_t losses;
};

/* Why nothing was begun, beside -errno; no numbers of errno. */
enum ledger_verdict {
    LEDGER_OF_KERNEL = -0x20000, /* the file is in the kernel's world (world.h) */
    LEDGER_IS_DIRTY,             /* dirty data overlaps, and must be sent first */
    LEDGER_WRITE_NOW             /* not left behind: the server refused such data lately */
};

/*
 * Finds or makes the entry of a file, by its handle. An entry with the same device and inode but
 * another handle is of another file, and stays.
 *
 * But since that entry was made the export's root may have got another handle. Then the server may
 * have given all files new ones, and the entry may be of this very file. `ctime` is what the
 * server says now: if just one such entry has it as its last change time, it is the same file, and
 * its entry gets the new handle. If that is not proven, the uncommitted data of such entries
 * counts as lost: *lost bytes, which the next fsync reports. False: no room for the entry.
 */
bool ledger_file_attach(struct ledger_file *file, const struct ledger_file_key *key,
                        const struct timespec *ctime, uint64_t *lost);

/*
 * The file that `file` stands for has the handle and the root of `key` by now, as the caller has
 * proven. Its entry gets them; others who know the entry go on with it. *lost as for
 * ledger_file_attach(). False: no room for the entry.
 */
bool ledger_file_rename(struct ledger_file *file, const struct ledger_file_key *key,
                        const struct timespec *ctime, uint64_t *lost);

/* The root under which the file's handle was got. */
static inline uint64_t ledger_file_root(const struct ledger_file *file)
{
    return __atomic_load_n(&file->key.root, __ATOMIC_RELAXED);
}

/*
 * The files that `key` may name, one after the other, of those that any process of the host knows:
 * with its device and inode and, unless that has no length, its handle, or one of another root of
 * the same export, which may be what it had before. *cursor starts at 0. False at the end.
 */
bool ledger_file_find(const struct ledger_file_key *key, uint32_t *cursor,
                      struct ledger_file *file);

/* What this process knows of the file belongs to the registry that it has left. */
static inline void ledger_file_moved(struct ledger_file *file)
{
    file->generation = 0;
    file->losses_known = 0;
}

#endif
