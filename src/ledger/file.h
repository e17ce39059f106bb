/*
 * The hold of a process on the entry of a file, which all processes of a host share.
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
 * A process's hold on the entry of a file. The caller keeps it in the process's own memory. The
 * shared entry may be recycled while nothing of it is needed. Every function notices that by
 * `generation`, and finds or makes the entry again.
 */
struct ledger_file {
    struct ledger_file_key key;
    uint32_t index;
    uint32_t losses_known; /* losses of the entry that this process knows of */
    uint64_t generation;
    uint64_t outside_pins; /* of the registry, when this process last asked for a pin */
};

/* Which losses of a file an fsync has told: of the entry with this generation. */
struct ledger_seen {
    _Atomic uint64_t generation;
    _Atomic uint32_t losses;
};

/* Why nothing was begun, beside -errno. These are not numbers of errno. */
enum ledger_verdict {
    LEDGER_OF_KERNEL = -0x20000, /* the file is in the kernel's world (world.h) */
    LEDGER_IS_DIRTY,             /* dirty data overlaps, and must be sent first */
    LEDGER_WRITE_NOW             /* not left behind: the server refused such data lately */
};

/*
 * Finds or makes the entry of a file, by its handle. An entry with the same device and inode but
 * another handle is of another file, and stays.
 *
 * But the export's root may have got another handle since that entry was made. Then the server may
 * have given all files new handles, and the entry may be of this very file. `ctime` is what the
 * server says now. If just one such entry has it as its change time, it is of the same file, and
 * gets the new handle. If that is not proven, the uncommitted data of such entries counts as lost:
 * *lost bytes, which the next fsync reports. False: no room for the entry.
 */
bool ledger_file_attach(struct ledger_file *file, const struct ledger_file_key *key,
                        const struct timespec *ctime, uint64_t *lost);

/*
 * From now on the file that `file` stands for has the handle and the root of `key`, as the caller
 * has proven. Its entry gets them, and other processes go on with it. *lost as for
 * ledger_file_attach(). False: no room for the entry.
 */
bool ledger_file_rename(struct ledger_file *file, const struct ledger_file_key *key,
                        const struct timespec *ctime, uint64_t *lost);

/* The export's root when the file's handle was got: a hash, as in the key. */
static inline uint64_t ledger_file_root(const struct ledger_file *file)
{
    return __atomic_load_n(&file->key.root, __ATOMIC_RELAXED);
}

/*
 * Walks the files that `key` may name, of those that any process of the host knows. They have its
 * device and inode. If the key has a handle, they have it too, or a handle of another root of the
 * same export. That may be an earlier handle of this file. *cursor starts at 0. False at the end.
 */
bool ledger_file_find(const struct ledger_file_key *key, uint32_t *cursor,
                      struct ledger_file *file);

/* The process has left the registry that its hold belongs to: forgets the entry. */
static inline void ledger_file_moved(struct ledger_file *file)
{
    file->generation = 0;
    file->losses_known = 0;
}

#endif
