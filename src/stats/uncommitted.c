/*
 * What is uncommitted, as the registry's file tells a reader that is no process of it.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/file.h>

#include "ledger/stripes.h"
#include "run/identity.h"
#include "stats/segment.h"
#include "sys/sys.h"

/* read(), not mmap(): a file that shrinks meanwhile ends the reading; it is no SIGBUS. */
static bool usable(int fd, struct ledger_shared *shared)
{
    return stats_read_at(fd, shared, offsetof(struct ledger_shared, processes), 0) == 0 &&
           shared->magic == LEDGER_REGISTRY_MAGIC && shared->layout == LEDGER_REGISTRY_LAYOUT &&
           shared->header_size == sizeof(*shared);
}

int stats_registry_usable(int run)
{
    int fd = run_open_file(run, "registry", O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT || fd == -EBADMSG ? 0 : fd;
    struct ledger_shared *shared = malloc(sizeof(*shared));
    int error = shared ? 0 : -ENOMEM;
    if (!error && (!usable(fd, shared) || shared->namespaces != run_namespaces())) {
        /* Who starts sets it aside, or takes it over, unless somebody uses it. */
        error = (int)sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB);
        error = error == -EWOULDBLOCK ? -EBUSY : 0;
    }
    free(shared);
    sys_close(fd);
    return error;
}

static int add_file(struct stats_snapshot *snapshot, const struct ledger_entry *entry)
{
    unsigned count = snapshot->uncommitted_count;
    struct stats_uncommitted *more =
        reallocarray(snapshot->uncommitted_files, count + 1, sizeof(*more));
    if (!more)
        return -ENOMEM;
    snapshot->uncommitted_files = more;
    more[snapshot->uncommitted_count++] =
        (struct stats_uncommitted){entry->device, entry->inode, entry->uncommitted + entry->dirty};
    return 0;
}

static uint64_t of_stripe(const struct ledger_stripe *stripe)
{
    return stripe->uncommitted + stripe->dirty;
}

/* The sets in use, of stripes with something uncommitted; as ledger_uncommitted_next(). */
static int read_entries(struct stats_snapshot *snapshot, int fd, const struct ledger_shared *shared)
{
    struct ledger_entry set[LEDGER_SET_SIZE];
    uint64_t at = ledger_registry_entries_at(shared);
    int error = 0;
    for (uint32_t i = 0; !error && i < LEDGER_SETS; i++) {
        if (!shared->set_state[i] ||
            !of_stripe(&shared->stripes[ledger_stripe_of(i * LEDGER_SET_SIZE)]))
            continue;
        if (stats_read_at(fd, set, sizeof(set), at + i * sizeof(set)) != 0)
            return -EBADMSG;
        for (int k = 0; !error && k < LEDGER_SET_SIZE; k++) {
            if (set[k].uncommitted + set[k].dirty)
                error = add_file(snapshot, &set[k]);
        }
    }
    return error;
}

int stats_read_uncommitted(int run, struct stats_snapshot *snapshot)
{
    int fd = run_open_file(run, "registry", O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd == -EPERM ? -EBADMSG : fd;
    struct ledger_shared *shared = malloc(sizeof(*shared));
    int error = !shared ? -ENOMEM : usable(fd, shared) ? 0 : -EBADMSG;
    for (int i = 0; !error && i < LEDGER_STRIPES; i++)
        snapshot->uncommitted += of_stripe(&shared->stripes[i]);
    if (!error)
        error = read_entries(snapshot, fd, shared);
    free(shared);
    sys_close(fd);
    return error;
}
