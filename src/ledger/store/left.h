/*
 * What a registry of any layout tells of itself: whether this version can use it, and whether it
 * holds data that is on no stable storage. It is read as a file, so that a damaged one does no
 * harm.
 */
#ifndef LEDGER_LEFT_H
#define LEDGER_LEFT_H

#include <stdbool.h>
#include <stdint.h>

enum { LEDGER_HEAD_SINCE = 15, LEDGER_LEFT_TEXT = 160 };

/*
 * The beginning of all registries from layout LEDGER_HEAD_SINCE on. A new layout may add to it, and
 * must change nothing.
 *
 * The registry holds the sum of what it says in `sum_count` places. The first is at offset
 * `sums_at` of the file, and each further one `sum_step` bytes behind the one before. A place
 * begins with the word of a robust mutex. It is not 0 while a thread has the mutex, or when one
 * died with it: then the sums of the place are not certain. Two sums of bytes are `sum_offset`
 * behind that word: acknowledged and not committed; dirty.
 */
struct ledger_head {
    uint64_t magic;
    uint32_t layout;
    uint32_t header_size;          /* of the whole header, in this layout */
    _Atomic uint64_t outside_pins; /* changes when a process without a registry pins a file */
    uint64_t boot_id;              /* run_boot_id() */
    _Atomic uint64_t namespaces;   /* of the processes that use it: run_namespaces() */
    uint64_t sums_at;
    uint32_t sum_count, sum_step, sum_offset, unused;
};

enum ledger_left_what {
    LEDGER_LEFT_USABLE, /* processes of its namespaces can use it */
    LEDGER_LEFT_STRANGE,
    LEDGER_LEFT_OTHER_LAYOUT,
    LEDGER_LEFT_OTHER_BOOT,
    LEDGER_LEFT_DAMAGED
};

struct ledger_left {
    enum ledger_left_what what;
    uint32_t layout;
    uint64_t size;       /* of the file */
    uint64_t namespaces; /* of the processes that use it; 0: not told */
    uint64_t bytes;      /* acknowledged and not committed, or dirty */
    bool certain;        /* it holds no more than that, if no process uses it */
};

/* Examines the file of a registry, which is open for reading. 0; -errno: nothing is known of it. */
int ledger_left_examine(int fd, struct ledger_left *left);

/* The same without the sums, whose reading takes long: it is not certain what the registry holds. */
int ledger_left_look(int fd, struct ledger_left *left);

/* Does it hold nothing that somebody may miss, if no process uses it? */
static inline bool ledger_left_is_empty(const struct ledger_left *left)
{
    return left->certain && left->bytes == 0;
}

/* Completes the sentence "it ...". Returns `text`. */
const char *ledger_left_text(const struct ledger_left *left, char text[LEDGER_LEFT_TEXT]);

#endif
