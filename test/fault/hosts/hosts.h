/*
 * What the programs of hosts.c know of the blocks that they write, in memory that they share and
 * that is outside of what is tested: of each block, which versions were begun, were written, and
 * were made stable by an fsync that succeeded.
 *
 * Each 8-byte word of a block carries the version, masked with a hash of file and place: a word
 * that is read tells by itself whether it belongs there and how old it is. Versions of a block only
 * grow, whichever host writes them.
 */
#ifndef FAULT_HOSTS_H
#define FAULT_HOSTS_H

#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "control.h"

enum {
    HOSTS = 2,
    PROGRAMS = 2, /* of a host */
    FILES = 3,
    BLOCKS_MOST = 64,
    BLOCK_MOST = 16384,
    RUN_MOST = 4, /* blocks that one call writes */
    WORD = 8,
    FAILURE_MOST = 600,
    PATIENCE_S = 60
};

/* Small ones share their pages with neighbours, of another program as well. */
static const struct {
    const char *name;
    unsigned size, count; /* bytes of a block; blocks, as many for each program of a host */
} files_of_hosts[FILES] = {{"pages", 4096, 32}, {"small", 1000, 64}, {"large", BLOCK_MOST, 12}};

/* Versions; all only grow. */
struct block {
    _Atomic uint32_t issued, written, synced;
    _Atomic uint32_t written_turn, synced_turn; /* in which that was */
};

/* What a program does in a turn. */
struct turn {
    unsigned number, host, operations;
    unsigned sync_every; /* operations; 0: only the last ones are followed by an fsync */
    bool warms;          /* it waits until writes are left behind */
    bool lingers;        /* no fsync at its end, until `release` */
};

struct program {
    _Atomic uint32_t done; /* the last turn that it ended */
    _Atomic uint32_t operations;
    /* A word of its own in the file "warm": what it wrote last; and of which the driver said that
     * the server has it, or has not. */
    _Atomic uint32_t warm, at_server, behind;
    _Atomic bool is_warm; /* its writes are left behind, in the care of an agent */
};

struct journal {
    uint64_t seed;
    char directory[256];
    _Atomic uint32_t step; /* futex: the number of the turn; 0: none; UINT32_MAX: the end */
    _Atomic bool release;  /* who lingers goes on */
    struct turn turns[4];  /* by number */
    struct program programs[HOSTS][PROGRAMS];
    _Atomic uint64_t writes, reads, syncs, errors, behind;
    struct block blocks[FILES][BLOCKS_MOST];
    _Atomic bool failed;
    char failure[FAILURE_MOST];
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
    static _Thread_local char text[FAILURE_MOST];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!atomic_exchange(&journal->failed, true))
        memcpy(journal->failure, text, sizeof text);
}

static inline struct turn *turn_of(uint32_t number)
{
    return &journal->turns[number % 4];
}

static inline const char *file_path(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", journal->directory, name);
    return path;
}

static inline void wait_on(_Atomic uint32_t *word, uint32_t value, long ns)
{
    struct timespec pause = {.tv_nsec = ns};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &pause);
}

/* ---- stamps ---- */

static inline uint64_t word_mask(unsigned file, uint64_t offset)
{
    return mix((uint64_t)(file + 1) << 48 ^ offset);
}

static inline void block_fill(unsigned char *bytes, unsigned file, unsigned block, uint32_t version)
{
    unsigned size = files_of_hosts[file].size;
    for (unsigned at = 0; at < size; at += WORD) {
        uint64_t word = word_mask(file, (uint64_t)block * size + at) ^ version;
        memcpy(bytes + at, &word, WORD);
    }
}

/* The version of a word; UINT64_MAX: it is none. */
static inline uint64_t word_version(const unsigned char *bytes, unsigned file, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, bytes, WORD);
    word ^= word_mask(file, offset);
    return word > UINT32_MAX ? UINT64_MAX : word;
}

/* The oldest and the newest version of a block's words. */
struct versions {
    uint64_t least, most;
};

static inline struct versions block_versions(const unsigned char *bytes, unsigned file,
                                             unsigned block)
{
    struct versions found = {UINT64_MAX, 0};
    unsigned size = files_of_hosts[file].size;
    for (unsigned at = 0; at < size; at += WORD) {
        uint64_t version = word_version(bytes + at, file, (uint64_t)block * size + at);
        found.least = version < found.least ? version : found.least;
        found.most = version > found.most ? version : found.most;
    }
    return found;
}

/* `least` is what was stable before it was read. False, and it is said: it is older, or garbage. */
static inline bool block_check(const unsigned char *bytes, unsigned file, unsigned block,
                               uint32_t least, const char *who)
{
    struct versions found = block_versions(bytes, file, block);
    uint32_t issued = atomic_load(&journal->blocks[file][block].issued);
    if (found.most == UINT64_MAX)
        failed("TORN: %s: file %s block %u has bytes that nobody wrote there", who,
               files_of_hosts[file].name, block);
    else if (found.least < least)
        failed("LOST: %s: file %s block %u has version %llu; %u was made stable, lately in turn %u",
               who, files_of_hosts[file].name, block, (unsigned long long)found.least, least,
               atomic_load(&journal->blocks[file][block].synced_turn));
    else if (found.most > issued)
        failed("TORN: %s: file %s block %u has version %llu; the last one is %u", who,
               files_of_hosts[file].name, block, (unsigned long long)found.most, issued);
    return !atomic_load(&journal->failed);
}

#endif
