/*
 * What the torture program knows of the blocks that it writes, shared by its processes and outside
 * of what is tested: of each block, which writes were begun, acknowledged and made stable.
 *
 * A block has one owner at a time, who writes it again and again with growing sequence numbers.
 * Each of its 8-byte words carries the number, the writer and a check, masked with a hash of file,
 * block and place: a word that is read tells by itself whether it belongs there and how old it is.
 *
 * Where a call may fail (enum effect), nothing is acknowledged by one that did: what it was to do
 * is done, in part or not at all.
 *
 * The sized files change their size. Everybody may write them, append to them and cut them, one
 * after the other; their operations have numbers, and what they did is known of each word.
 *
 * To the files of records everybody appends at any time: see records.h.
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
    VISITORS = 2, /* at a time, see visitor.h */
    SIZED = 4,
    WORDS = 16384, /* of a sized file, at most */
    LOGS = 2,      /* files of records, see records.h */
    ALL_FILES = FILES + SIZED + LOGS,
    RECORD_WORDS = 25,
    RECORDS_MOST = 8192, /* of a writer, between cuts */
    LOG_BYTES = 2 << 20, /* it gets hardly longer */
    LOG_ROOM = 8 << 20,
    FAILURE_MOST = 600
};

/* What a write or read goes through; maps and streams are those of visitors. */
#define APIS  \
    X(pwrite) \
    X(write)  \
    X(writev) \
    X(pwritev) X(pwritev2) X(dsync) X(sendfile) X(map) X(stream) X(libaio) X(posix_aio) X(io_uring)

enum api {
#define X(name) API_##name,
    APIS
#undef X
        API_COUNT
};

extern const char *const api_names[API_COUNT];

/*
 * Blocks that are not whole pages lie with their neighbours, of other owners, on the same ones.
 * The huge ones need several calls of NFS each.
 */
struct files_of_test {
    const char *name;
    unsigned size, count, stripe; /* bytes of a block; blocks; blocks of one owner in a row */
    unsigned share;               /* of the operations, of 16 */
};
extern const struct files_of_test files_of_test[FILES];

struct block {
    _Atomic uint32_t issued, acked, synced; /* sequence numbers; all only grow */
};

/* Eight bytes of a sized file: numbers of operations; all only grow. */
struct word {
    _Atomic uint32_t issued, acked, synced;
    _Atomic uint32_t zeroed; /* the last one that made it zeros, done or not */
    _Atomic uint32_t full;   /* the last cut that found certain bytes there, and no zeros */
};

/* How sizes change; `killed`: by a process that was killed meanwhile, done or not. */
#define CHANGES X(append) X(overwrite) X(beyond) X(fallocate) X(shrink) X(grow) X(o_trunc) X(killed)

enum change {
#define X(name) CHANGE_##name,
    CHANGES
#undef X
        CHANGE_COUNT
};

extern const char *const change_names[CHANGE_COUNT];

/* For people who look for the reason of a failure. */
struct history {
    uint32_t number, slot, from, to;
    enum change change;
    uint64_t begun_ns, done_ns; /* 0: not done */
};

enum { HISTORY = 32 };

struct sized {
    _Atomic uint32_t holder;      /* slot + 1 of the thread that changes it now; 0: none */
    _Atomic uint32_t issued;      /* operations; of the holder */
    _Atomic uint32_t under_way;   /* one of them; 0: none */
    _Atomic uint32_t least, most; /* the size is in between; of the holder */
    _Atomic uint32_t half; /* a cut whose process was killed in it, not judged yet; 0: none */
    /* Cuts begun << 32 | the size of what is on stable storage, at least. */
    _Atomic uint64_t stable;
    struct word words[WORDS];
    struct history history[HISTORY]; /* by number; of the holder */
};

enum record_state { RECORD_ISSUED, RECORD_ACKED, RECORD_STABLE };

/* The records of one thread; their numbers only grow, over cuts as well. */
struct log_writer {
    _Atomic uint32_t base;                /* the last one before the last cut of the file */
    _Atomic uint32_t issued, done;        /* the calls for those have begun, and have ended */
    _Atomic uint32_t synced;              /* were acknowledged before a sync that succeeded began */
    _Atomic uint8_t states[RECORDS_MOST]; /* by number less base: enum record_state */
};

struct log_file {
    _Atomic uint64_t bytes;
    _Atomic bool burned; /* a call failed, or its process was killed in it */
    struct log_writer writers[SLOTS_MOST];
};

/* What may happen in a round, by the faults that are planned for it. */
enum effect {
    CALLS_FAIL = 1,  /* with an error of the server */
    DATA_FORGET = 2, /* until they are synced, data may become older than what was acknowledged */
    ALWAYS_FAIL = 4, /* calls time out, and not only before everything is healed (--soft) */
    NO_OTHERS = 8,   /* no other fault is planned for the round */
    /* Files move between the worlds. A COMMIT that fails on the way loses data, so none does. */
    MOVES_FILES = 16,
    MOSTLY_APPENDS = 32, /* this is what the threads do */
    /* Not both at once: a process that comes after the files got new handles cannot prove that what
     * is not committed under the old ones is theirs, should they have changed meanwhile. */
    NEW_HANDLES = 64,
    NEW_PROCESSES = 128,
    /* The server refuses WRITEs. What a write left behind may be lost then, which the next sync of
     * each process says, see sync_vouches(). */
    DATA_REFUSED = 256,
    OF_V3 = 512,        /* a proxy cannot do it to NFSv4.1 */
    OF_SESSIONS = 1024, /* only NFSv4.1 has them */
    OF_CLEAR = 2048,    /* a proxy cannot do it under Kerberos, which signs what replies say */
    OF_TLS = 4096,
    OF_KERBEROS = 8192,
    OF_SEALED = 16384, /* only where what is changed on the way is noticed: TLS, krb5i, krb5p */
    /* Not both at once, but in the kind kill-both: a sync may tell a loss then. */
    KILLS = 32768,
    KILLS_AGENT = 65536,
};

enum phase { PHASE_WAIT, PHASE_RUN, PHASE_SETTLE, PHASE_END };

struct journal {
    uint64_t seed;
    unsigned processes, threads; /* threads of each process */
    char directory[256];
    bool apis[API_COUNT];
    bool keeps_user; /* no process becomes another one */
    bool no_agent;   /* it does not see to what the dead left: a sync of others may tell a loss */

    _Atomic uint32_t step; /* round * 4 + phase; a futex that the workers wait on */
    _Atomic uint32_t arrived, stop;
    _Atomic bool settle_sync; /* PHASE_SETTLE makes everything stable */
    _Atomic unsigned effects; /* of enum effect */
    _Atomic uint64_t errors, forks;
    _Atomic uint32_t hand_over; /* 1 + process * FILES + file: see plan_hand_over(); 0: nothing */
    _Atomic bool moved[ALL_FILES]; /* since the last processes began: may be the kernel's */
    _Atomic uint64_t beside;       /* writes and reads of those */
    _Atomic bool visit_ends[VISITORS];
    _Atomic uint32_t visited[VISITORS]; /* what they did in this round */
    _Atomic uint64_t visits;
    _Atomic uint64_t writes[API_COUNT], reads[API_COUNT], syncs;
    _Atomic uint64_t changes[CHANGE_COUNT], records;
    _Atomic uint64_t longest; /* write by one call: milliseconds << 32 | round */

    _Atomic bool failed;
    char failure[FAILURE_MOST];
    struct block blocks[FILES][BLOCKS];
    struct sized sized[SIZED];
    struct log_file logs[LOGS];
};

extern struct journal *journal;

extern size_t root_length; /* of the name of the root directory, if it is not that of all */

struct journal *journal_map(const char *path, bool make);

/* The first failure counts. */
__attribute__((format(printf, 1, 2))) void failed(const char *format, ...);
bool is_refusal(ssize_t result);

/* Is this a call that was allowed to fail? `result`: what it returned, or -errno; not all of it was
 * done. */
bool failed_as_planned(ssize_t result);
const char *file_path(unsigned file, char path[512]);
unsigned round_of_step(uint32_t step);
unsigned worker_slots(void);

/* The last ones are the visitors'. */
unsigned slots(void);

/* Who may write a block in a round. */
unsigned owner_of(unsigned file, unsigned block, unsigned round);

/* ---- stamps ---- */

#define STAMP_CHECK UINT64_C(0x7a5c)
uint64_t stamp_mask(unsigned file, unsigned block, unsigned word);
void stamp(void *to, unsigned file, unsigned block, uint32_t sequence, unsigned writer);

/*
 * Does every word of a block come from one of the writes least..most? Else says what is wrong.
 * With least == most the block is exactly that write.
 */
bool stamp_check(const void *from, unsigned file, unsigned block, uint32_t least, uint32_t most,
                 const char *when);

/* ---- sized files ---- */

uint64_t sized_stamp(unsigned file, unsigned word, uint32_t number, unsigned writer);

/* What was known before something was read, or lost. */
struct sized_view {
    uint64_t stable;
    uint32_t least, most;
    uint32_t words[WORDS]; /* at least this operation is in a word */
};

uint32_t sized_cuts(uint64_t stable);

enum bound { BOUND_SYNCED, BOUND_ACKED };

/* What a program must read now, at least. */
enum bound bound_of_reads(void);

/* Of a file whose data the server forgets the size stays. */
enum bound bound_of_sizes(void);
void sized_look(unsigned file, enum bound bound, unsigned from, unsigned to,
                struct sized_view *view);

/* Is this a size that the file may have had since `view`? */
bool sized_check_size(unsigned file, const struct sized_view *view, uint64_t least, uint64_t most,
                      const char *when);

/* Words [from, to) were read, after `view` was taken of them. */
bool sized_check_words(unsigned file, const struct sized_view *view, const void *bytes,
                       unsigned from, unsigned to, const char *when);

/*
 * After a round in which the server refused data, when nobody writes: what was not synced may be
 * lost. To the files of records this does not matter, as they are cut.
 */
void journal_forget(void);
void raise_to(_Atomic uint32_t *number, uint32_t value);

#endif
