/*
 * What the torture program knows of the blocks that it writes, shared by its processes and outside
 * of what is tested: of each block, which writes were begun, acknowledged and made stable.
 *
 * A block has one owner at a time, who writes it again and again with growing sequence numbers.
 * Each of its 8-byte words carries the number, the writer and a check, masked with a hash of file,
 * block and place: a word that is read tells by itself whether it belongs there and how old it is.
 */
#ifndef FAULT_JOURNAL_H
#define FAULT_JOURNAL_H

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "loop.h"

enum {
    FILES = 4,
    BLOCKS = 256,
    RUN_MOST = 8,
    BLOCK_MOST = 1300000,
    SLOTS_MOST = 64,
    FAILURE_MOST = 600
};

/* What a write or read goes through. */
#define APIS \
    X(pwrite) X(write) X(writev) X(pwritev) X(pwritev2) X(dsync) X(libaio) X(posix_aio) X(io_uring)

enum api {
#define X(name) API_##name,
    APIS
#undef X
        API_COUNT
};

__attribute__((unused)) static const char *const api_names[API_COUNT] = {
#define X(name) #name,
    APIS
#undef X
};

/*
 * Blocks that are not whole pages lie with their neighbours, of other owners, on the same ones.
 * The huge ones need several calls of NFS each.
 */
static const struct {
    const char *name;
    unsigned size, count, stripe; /* bytes of a block; blocks; blocks of one owner in a row */
    unsigned share;               /* of the operations, of 16 */
} files_of_test[FILES] = {{"small", 4096, 256, 8, 6},
                          {"odd", 12344, 64, 4, 5},
                          {"large", 65536, 24, 2, 4},
                          {"huge", BLOCK_MOST, 5, 1, 1}};

struct block {
    _Atomic uint32_t issued, acked, synced; /* sequence numbers; all only grow */
};

enum phase { PHASE_WAIT, PHASE_RUN, PHASE_SETTLE, PHASE_END };

struct journal {
    uint64_t seed;
    unsigned processes, threads; /* threads of each process */
    char directory[256];
    bool apis[API_COUNT];

    _Atomic uint32_t step; /* round * 4 + phase; a futex that the workers wait on */
    _Atomic uint32_t arrived, stop;
    _Atomic bool settle_sync; /* PHASE_SETTLE makes everything stable */
    _Atomic uint64_t writes[API_COUNT], reads[API_COUNT], syncs;

    _Atomic bool failed;
    char failure[FAILURE_MOST];
    struct block blocks[FILES][BLOCKS];
};

static struct journal *journal;

static inline struct journal *journal_map(const char *path, bool make)
{
    int fd = open(path, make ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || (make && ftruncate(fd, sizeof(struct journal)) < 0))
        die("%s: %s", path, strerror(errno));
    void *map = mmap(NULL, sizeof(struct journal), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        die("%s: %s", path, strerror(errno));
    close(fd);
    return map;
}

/* The first failure counts. */
__attribute__((format(printf, 1, 2))) static inline void failed(const char *format, ...)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    va_list arguments;
    pthread_mutex_lock(&once);
    va_start(arguments, format);
    if (!journal->failure[0])
        vsnprintf(journal->failure, sizeof journal->failure, format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&once);
    atomic_store(&journal->failed, true);
}

static inline unsigned round_of_step(uint32_t step)
{
    return step / 4;
}

static inline unsigned slots(void)
{
    return journal->processes * journal->threads;
}

/* Who may write a block in a round. */
static inline unsigned owner_of(unsigned file, unsigned block, unsigned round)
{
    return (block / files_of_test[file].stripe + round * 7 + file) % slots();
}

/* ---- stamps ---- */

#define STAMP_CHECK UINT64_C(0x7a5c)

static inline uint64_t stamp_mask(unsigned file, unsigned block, unsigned word)
{
    return mix((uint64_t)file << 56 ^ (uint64_t)block << 32 ^ word);
}

static inline void stamp(void *to, unsigned file, unsigned block, uint32_t sequence,
                         unsigned writer)
{
    uint64_t value = STAMP_CHECK << 48 | (uint64_t)(writer & 0xffff) << 32 | sequence;
    unsigned char *bytes = to;
    for (unsigned i = 0; i < files_of_test[file].size / 8; i++) {
        uint64_t word = value ^ stamp_mask(file, block, i);
        memcpy(bytes + 8 * (size_t)i, &word, 8);
    }
}

/*
 * Does every word of a block come from one of the writes least..most? Else says what is wrong.
 * With least == most the block is exactly that write.
 */
static inline bool stamp_check(const void *from, unsigned file, unsigned block, uint32_t least,
                               uint32_t most, const char *when)
{
    const unsigned char *bytes = from;
    for (unsigned i = 0; i < files_of_test[file].size / 8; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * (size_t)i, 8);
        uint64_t value = word ^ stamp_mask(file, block, i);
        uint32_t sequence = (uint32_t)value;
        if (value >> 48 == STAMP_CHECK && sequence >= least && sequence <= most)
            continue;
        char found[96];
        if (value >> 48 != STAMP_CHECK)
            snprintf(found, sizeof found, "%016llx, which nobody wrote there",
                     (unsigned long long)word);
        else
            snprintf(found, sizeof found, "write %u of writer %u (%s)", sequence,
                     (unsigned)(value >> 32 & 0xffff),
                     sequence < least ? "LOST or STALE" : "too new");
        failed("%s: file %s block %u byte %u: found %s, expected %u..%u", when,
               files_of_test[file].name, block, i * 8, found, least, most);
        return false;
    }
    return true;
}

static inline void raise_to(_Atomic uint32_t *number, uint32_t value)
{
    uint32_t old = atomic_load(number);
    while (old < value && !atomic_compare_exchange_weak(number, &old, value))
        ;
}

#endif
