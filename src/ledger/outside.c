/*
 * The registry as a file, for a process that has no room in its address space to map it.
 */
#include <stddef.h>

#include "ledger/entries.h"
#include "ledger/outside.h"
#include "sys/sys.h"
#include "run/directory.h"

/* pread(), not mmap(): if the file shrinks meanwhile, only the reading ends. */
static bool read_at(int fd, void *memory, size_t size, uint64_t offset)
{
    return sys_pread(fd, memory, size, (off_t)offset) == (ssize_t)size;
}

static bool usable(const struct ledger_shared *shared)
{
    return shared->head.magic == LEDGER_REGISTRY_MAGIC &&
           shared->head.layout == LEDGER_REGISTRY_LAYOUT &&
           shared->head.header_size == sizeof(*shared);
}

static bool is_dirty(int fd, const struct ledger_shared *shared, uint64_t device, uint64_t inode)
{
    struct ledger_entry set[LEDGER_SET_SIZE];
    uint32_t stripe = ledger_stripe_of_inode(device, inode);
    uint64_t at = ledger_registry_entries_at(shared);
    if (atomic_load(&shared->stripes[stripe].dirty) == 0)
        return false;
    for (uint32_t number = stripe; number < LEDGER_SETS; number += LEDGER_STRIPES) {
        if (!atomic_load(&shared->set_state[number]) ||
            !read_at(fd, set, sizeof(set), at + number * sizeof(set)))
            continue;
        for (int i = 0; i < LEDGER_SET_SIZE; i++) {
            if (atomic_load(&set[i].device) == device && atomic_load(&set[i].inode) == inode &&
                atomic_load(&set[i].dirty) > 0)
                return true;
        }
    }
    return false;
}

bool ledger_outside_dirty(uint64_t device, uint64_t inode)
{
    struct ledger_shared *shared = NULL; /* large */
    size_t size = offsetof(struct ledger_shared, processes);
    bool dirty = false;
    int fd = run_open_named("registry", O_RDONLY);
    if (fd < 0)
        return false;
    shared = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!sys_mmap_failed(shared)) {
        dirty =
            read_at(fd, shared, size, 0) && usable(shared) && is_dirty(fd, shared, device, inode);
        sys_munmap(shared, size);
    }
    sys_close(fd);
    return dirty;
}
