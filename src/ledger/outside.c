/*
 * The registry as a file, for a process that has no room in its address space to map it.
 */
#include <stddef.h>

#include "ledger/entries.h"
#include "ledger/outside.h"
#include "sys/sys.h"
#include "run/directory.h"

struct look {
    int fd; /* of the registry */
    enum ledger_outside result;
};

/* False: it cannot be read now; or the file is shorter, so that no process can use it. pread(), not
 * mmap(): if the file shrinks meanwhile, only the reading ends. */
static bool read_at(struct look *look, void *memory, size_t size, uint64_t offset)
{
    ssize_t length = sys_pread(look->fd, memory, size, (off_t)offset);
    if (length < 0)
        look->result = LEDGER_OUTSIDE_UNKNOWN;
    return length == (ssize_t)size;
}

/* Reads a member of struct ledger_shared, which is too large for the stack. */
#define READ_MEMBER(look, member, to) \
    read_at(look, to, sizeof(*(to)), offsetof(struct ledger_shared, member))

static bool usable(const struct ledger_head *head)
{
    return head->magic == LEDGER_REGISTRY_MAGIC && head->layout == LEDGER_REGISTRY_LAYOUT &&
           head->header_size == sizeof(struct ledger_shared);
}

/* Is a file with this number dirty in the set that is at this offset? */
static void look_at_set(struct look *look, uint64_t at, uint64_t device, uint64_t inode)
{
    struct ledger_entry set[LEDGER_SET_SIZE];
    if (!read_at(look, set, sizeof(set), at))
        return;
    for (int i = 0; i < LEDGER_SET_SIZE; i++) {
        if (atomic_load(&set[i].device) == device && atomic_load(&set[i].inode) == inode &&
            atomic_load(&set[i].dirty) > 0)
            look->result = LEDGER_OUTSIDE_DIRTY;
    }
}

static void look_for(struct look *look, uint64_t device, uint64_t inode)
{
    const uint32_t stripe = ledger_stripe_of_inode(device, inode);
    uint64_t at[LEDGER_PARTS], dirty;
    struct ledger_counts counts;
    struct ledger_head head;
    uint8_t used;
    if (!READ_MEMBER(look, head, &head) || !usable(&head) ||
        !READ_MEMBER(look, stripes[stripe].dirty, &dirty) || dirty == 0 ||
        !READ_MEMBER(look, chunk_count, &counts.chunks) ||
        !READ_MEMBER(look, record_count, &counts.records) ||
        !READ_MEMBER(look, bucket_count, &counts.buckets) ||
        !READ_MEMBER(look, group_count, &counts.groups))
        return;
    ledger_map_lay_out(counts, at);
    for (uint32_t set = stripe; set < LEDGER_SETS && look->result == LEDGER_OUTSIDE_CLEAN;
         set += LEDGER_STRIPES) {
        if (READ_MEMBER(look, set_state[set], &used) && used)
            look_at_set(look, at[4] + set * sizeof(struct ledger_entry) * LEDGER_SET_SIZE, device,
                        inode);
    }
}

enum ledger_outside ledger_outside_look(uint64_t device, uint64_t inode)
{
    struct look look = {.fd = run_open_named("registry", O_RDONLY)};
    if (look.fd == -EMFILE || look.fd == -ENFILE || look.fd == -ENOMEM)
        return LEDGER_OUTSIDE_UNKNOWN;
    if (look.fd < 0)
        return LEDGER_OUTSIDE_CLEAN; /* there is none, or none that a process may use */
    look_for(&look, device, inode);
    sys_close(look.fd);
    return look.result;
}
