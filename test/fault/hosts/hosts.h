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

#include "agents.h"
#include "control.h"

enum {
    HOSTS = 2,
    PROGRAMS = 2, /* of a host */
    FILES = 3,
    BLOCKS_MOST = 64,
    BLOCK_MOST = 16384,
    RUN_MOST = 4, /* blocks that one call writes */
    WORD = 8,
    FAILURE_MOST = 600
};

/* Small ones share their pages with neighbours, of another program as well. */
struct files_of_hosts {
    const char *name;
    unsigned size, count; /* bytes of a block; blocks, as many for each program of a host */
};
extern const struct files_of_hosts files_of_hosts[FILES];

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

extern struct journal *journal;

struct journal *journal_map(const char *path, bool make);

/* The first failure counts. */
__attribute__((format(printf, 1, 2))) void failed(const char *format, ...);
struct turn *turn_of(uint32_t number);
const char *file_path(const char *name, char path[512]);
void wait_on(_Atomic uint32_t *word, uint32_t value, long ns);

/* ---- stamps ---- */

void block_fill(unsigned char *bytes, unsigned file, unsigned block, uint32_t version);

/* The version of a word; UINT64_MAX: it is none. */
uint64_t word_version(const unsigned char *bytes, unsigned file, uint64_t offset);

/* The oldest and the newest version of a block's words. */
struct versions {
    uint64_t least, most;
};

struct versions block_versions(const unsigned char *bytes, unsigned file, unsigned block);

/* `least` is what was stable before it was read. False, and it is said: it is older, or garbage. */
bool block_check(const unsigned char *bytes, unsigned file, unsigned block, uint32_t least,
                 const char *who);

#endif
