/*
 * What a registry tells of itself, whatever its layout is: whether this version can use it, and
 * whether it holds data that is on no stable storage. It is read as a file, so that one that is
 * damaged does no harm.
 */
#ifndef LEDGER_LEFT_H
#define LEDGER_LEFT_H

#include <stdbool.h>
#include <stdint.h>

enum { LEDGER_HEAD_SINCE = 15, LEDGER_LEFT_TEXT = 160 };

/*
 * What registries of all layouts from LEDGER_HEAD_SINCE on begin with. A new layout may add to it,
 * and change nothing.
 *
 * What the registry holds is the sum of what it says in `sum_count` places, the first at `sums_at`
 * in the file and each `sum_step` behind the one before. A place begins with the word of a robust
 * mutex, which is not 0 while a thread has it, and when one died with it: then its sums are not
 * certain. Two sums of bytes follow, `sum_offset` behind that word: acknowledged and not committed;
 * dirty.
 */
struct ledger_head {
    uint64_t magic;
    uint32_t layout;
    uint32_t header_size;          /* of all the header in this layout */
    _Atomic uint64_t outside_pins; /* changes when a process without a registry pins a file */
    uint64_t boot_id;              /* run_boot_id() */
    _Atomic uint64_t namespaces;   /* of its processes: run_namespaces() */
    uint64_t sums_at;
    uint32_t sum_count, sum_step, sum_offset, unused;
};

enum ledger_left_what {
    LEDGER_LEFT_USABLE, /* by processes of its namespaces */
    LEDGER_LEFT_STRANGE,
    LEDGER_LEFT_OTHER_LAYOUT,
    LEDGER_LEFT_OTHER_BOOT,
    LEDGER_LEFT_DAMAGED
};

struct ledger_left {
    enum ledger_left_what what;
    uint32_t layout;
    uint64_t size;       /* of the file */
    uint64_t namespaces; /* of its processes; 0: not told */
    uint64_t bytes;      /* that it holds */
    bool certain;        /* if no process uses it, it holds no more */
};

/* Examines the file of a registry, which is open for reading. 0; -errno: it could not be examined,
 * and nothing is known of it. */
int ledger_left_examine(int fd, struct ledger_left *left);

/* If no process uses it: does it hold nothing that somebody may miss? */
static inline bool ledger_left_is_empty(const struct ledger_left *left)
{
    return left->certain && left->bytes == 0;
}

/* Completes the sentence "it ...". Returns `text`. */
const char *ledger_left_text(const struct ledger_left *left, char text[LEDGER_LEFT_TEXT]);

#endif
