#include "ledger/store/map.h"

#include "sys/fd.h"
#include "sys/sys.h"

enum { PAGE = 4096 };

struct ledger_map ledger_map = {.fd = -1, .mark = -1};

static uint64_t align_page(uint64_t value)
{
    return (value + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static struct ledger_counts counts_of(const struct ledger_shared *head)
{
    return (struct ledger_counts){head->chunk_count, head->record_count, head->bucket_count,
                                  head->group_count};
}

uint64_t ledger_map_lay_out(struct ledger_counts counts, uint64_t at[LEDGER_PARTS])
{
    uint64_t chunks = counts.chunks, records = counts.records, groups = counts.groups;
    at[0] = align_page(sizeof(struct ledger_shared));
    at[1] = at[0] +
            align_page((uint64_t)LEDGER_STRIPES * counts.buckets * sizeof(struct ledger_bucket));
    at[2] = at[1] + align_page(chunks * sizeof(uint32_t));
    at[3] = at[2] + align_page(records * sizeof(uint32_t));
    at[4] = at[3] + align_page(chunks * sizeof(uint16_t));
    at[5] = at[4] + (uint64_t)LEDGER_FILES * sizeof(struct ledger_entry);
    at[6] = at[5] + align_page(records * sizeof(struct ledger_record));
    at[7] = align_page(at[6] + chunks * LEDGER_CHUNK);
    at[8] = at[7] + groups * LEDGER_GROUP_FRAMES * sizeof(struct ledger_frame);
    return at[8] + groups * LEDGER_GROUP;
}

uint64_t ledger_registry_entries_at(const struct ledger_shared *shared)
{
    uint64_t at[LEDGER_PARTS];
    ledger_map_lay_out(counts_of(shared), at);
    return at[4];
}

int ledger_registry_back(uint64_t offset, uint64_t length)
{
    int result = sys_fd_reserve(ledger_map.fd, offset, length);
    return result ? -ENOSPC : 0;
}

void ledger_map_set(struct ledger_shared *shared, int fd)
{
    uint64_t at[LEDGER_PARTS];
    uint8_t *base = (uint8_t *)shared;
    ledger_map_lay_out(counts_of(shared), at);
    ledger_map.buckets = (struct ledger_bucket *)(base + at[0]);
    ledger_map.free_chunks = (uint32_t *)(base + at[1]);
    ledger_map.free_records = (uint32_t *)(base + at[2]);
    ledger_map.chunk_users = (uint16_t *)(base + at[3]);
    ledger_map.entries = (struct ledger_entry *)(base + at[4]);
    ledger_map.records = (struct ledger_record *)(base + at[5]);
    ledger_map.chunks = base + at[6];
    ledger_map.entries_at = at[4];
    ledger_map.records_at = at[5];
    ledger_map.chunks_at = at[6];
    ledger_map.frames = (struct ledger_frame *)(base + at[7]);
    ledger_map.frame_bytes = base + at[8];
    ledger_map.frames_at = at[7];
    ledger_map.frame_bytes_at = at[8];
    ledger_map.fd = fd;
    __atomic_store_n(&ledger_map.shared, shared, __ATOMIC_RELEASE);
}

bool ledger_registry_fits(const struct ledger_shared *start, uint64_t size)
{
    uint64_t at[LEDGER_PARTS];
    return start->head.header_size == sizeof(struct ledger_shared) &&
           start->chunk_count >= LEDGER_CHUNKS_MIN && start->chunk_count <= LEDGER_CHUNKS_MAX &&
           start->record_count == start->chunk_count + LEDGER_RECORDS_EXTRA &&
           start->bucket_count >= 16 && start->bucket_count <= (1u << 24) &&
           !(start->bucket_count & (start->bucket_count - 1)) &&
           start->group_count <= LEDGER_GROUPS_MAX &&
           start->total_size == ledger_map_lay_out(counts_of(start), at) &&
           start->total_size == size;
}
