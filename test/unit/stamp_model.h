/*
 * A model of one file, for test_ledger_stamp.c: what a server has of it, and what the programs of
 * this host have; reads and writes that are under way; and the oracle, which knows what the file
 * may have at any moment. Include once.
 */
#ifndef STAMP_MODEL_H
#define STAMP_MODEL_H

#include "ledger_test.h"

#include "ledger/cache.h"
#include "ledger/stamp.h"

enum {
    CELL = 2048, /* the model's unit: all of it has one value, 0 where nothing was written */
    CELLS = 80,
    PROCESSES = 3,
    WRITES = 5,
    READS = 12,
    LONGEST = 12, /* cells of a write, or a read */
    MAY = 24,     /* values that a cell may have */
    STEP_NS = 1000000
};

/* A value that a cell may have; `until` another host replaced it, or 0. */
struct value {
    uint32_t value;
    uint64_t until;
};

struct values {
    unsigned count;
    struct value of[MAY];
};

/* What the server said of the file, when it said it. */
struct told {
    uint64_t at;
    uint32_t size;
    int64_t ctime;
    uint64_t verifier;
};

struct flight {
    enum { NO_FLIGHT, WRITE, PROMISED, REPLAY } kind;
    struct ledger_file *file;
    struct ledger_write write;
    struct ledger_stamp stamp;
    uint32_t first, count, values[LONGEST];
    bool kept, stable, executed;
    uint64_t epoch, asked;
    int64_t before;
    struct told told;
};

struct reading {
    enum { NO_READING, READ, AHEAD, GETATTR } kind;
    bool slow, answered, held, dirty, keeps, ends;
    struct ledger_file *file;
    uint32_t first, count, got[LONGEST];
    struct ledger_stamp stamp, quiet; /* an ordinary read's; what may be kept or given later */
    uint64_t epoch, asked, changes;
    struct told told;
    /* What it may bring; and what it may if no write that began after it is in it. */
    struct values may[LONGEST], whole[LONGEST];
};

static struct {
    uint64_t now;
    struct ledger_file file[PROCESSES], other;
    struct told server;
    uint32_t bytes[CELLS], stable[CELLS], stable_size;
    /* As the programs of this host have it. */
    struct values may[CELLS];
    uint32_t dirty[CELLS], size, version;
    struct values sizes; /* others that it had, until another host changed it */
    bool size_unknown;   /* that the server told since */
    uint64_t synced;     /* what another host changed until then is known to this one */
    uint64_t opened, changes;
    struct flight flights[WRITES];
    struct reading readings[READS];
    struct {
        bool active, executed, adds[CELLS];
        uint32_t size;
    } cut;
    struct {
        enum { NO_COMMIT, SENT, ANSWERED, REPLAYS } state;
        struct ledger_file *file;
        struct ledger_commit commit;
        bool stable; /* its replays are */
        uint64_t verifier;
    } commit;
} m;

/* ---- the oracle ---- */

static bool has(const struct values *values, uint32_t value, uint64_t since)
{
    for (unsigned i = 0; i < values->count; i++) {
        if (values->of[i].value == value &&
            (values->of[i].until == 0 || values->of[i].until > since))
            return true;
    }
    return false;
}

static void add(struct values *values, uint32_t value, uint64_t until)
{
    if (until == 0 && has(values, value, UINT64_MAX - 1))
        return;
    must(values->count < MAY);
    values->of[values->count++] = (struct value){value, until};
}

static void forget(struct values *values, uint32_t value)
{
    for (unsigned i = 0; i < values->count; i++) {
        if (values->of[i].value == value)
            values->of[i--] = values->of[--values->count];
    }
}

/* Reads that are under way may bring this value as well. `later`: a write that begins now. */
static void reads_may(uint32_t cell, uint32_t value, bool later)
{
    for (unsigned i = 0; i < READS; i++) {
        struct reading *r = &m.readings[i];
        if (r->kind != READ || cell < r->first || cell >= r->first + r->count)
            continue;
        add(&r->may[cell - r->first], value, 0);
        if (!later)
            add(&r->whole[cell - r->first], value, 0);
    }
}

static void may_be(uint32_t cell, uint32_t value, bool later)
{
    add(&m.may[cell], value, 0);
    reads_may(cell, value, later);
}

static void is_only(uint32_t cell, uint32_t value)
{
    m.may[cell].count = 0;
    may_be(cell, value, true);
}

static bool all_have(const struct values *values, const uint32_t *got, unsigned count,
                     uint64_t since)
{
    for (unsigned i = 0; i < count; i++) {
        if (!has(&values[i], got[i], since))
            return false;
    }
    return true;
}

static bool file_has(const struct reading *r, unsigned from, unsigned to, uint64_t since)
{
    return all_have(&m.may[r->first + from], &r->got[from], to - from, since);
}

static bool size_may_be(uint32_t size)
{
    bool legal =
        size == m.size || has(&m.sizes, size, m.synced) || (m.cut.active && size == m.cut.size);
    for (unsigned i = 0; i < WRITES; i++)
        legal |= m.flights[i].kind == WRITE && m.flights[i].first + m.flights[i].count == size;
    return legal;
}

/* ---- what is there ---- */

static struct ledger_file *any_file(void)
{
    return &m.file[random_below(PROCESSES)];
}

static bool overlaps(uint32_t first, uint32_t count, const struct flight *f)
{
    return f->kind != NO_FLIGHT && f->first < first + count && first < f->first + f->count;
}

static bool is_flying(uint32_t first, uint32_t count)
{
    bool flying = false;
    for (unsigned i = 0; i < WRITES; i++)
        flying |= overlaps(first, count, &m.flights[i]);
    return flying;
}

static bool is_idle(void)
{
    return !is_flying(0, CELLS) && !m.cut.active && m.commit.state == NO_COMMIT;
}

static bool is_in_ledger(uint32_t first, uint32_t count)
{
    uint64_t start = (uint64_t)first * CELL, end = start + (uint64_t)count * CELL;
    bool found = false;
    struct ledger_entry *entry = ledger_entry_lock(&m.file[0], true, NULL);
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next)
        found |= ledger_record_start(ledger_record(i)) < end &&
                 ledger_record_end(ledger_record(i)) > start;
    found |= ledger_dirty_overlaps(entry, start, end);
    ledger_entry_unlock(&m.file[0]);
    return found;
}

static struct flight *free_flight(void)
{
    for (unsigned i = 0; i < WRITES; i++) {
        if (m.flights[i].kind == NO_FLIGHT)
            return memset(&m.flights[i], 0, sizeof(m.flights[i]));
    }
    return NULL;
}

static struct reading *free_reading(void)
{
    for (unsigned i = 0; i < READS; i++) {
        if (m.readings[i].kind == NO_READING) {
            memset(&m.readings[i], 0, offsetof(struct reading, may));
            return &m.readings[i];
        }
    }
    return NULL;
}

static uint32_t any_range(uint32_t *first)
{
    uint32_t count = 1 + random_below(LONGEST);
    *first = random_below(CELLS - count + 1);
    return count;
}

static void tell(struct told *told)
{
    *told = m.server;
    told->at = m.now;
}

static struct ledger_attributes attributes_of(const struct told *told)
{
    struct ledger_attributes attributes = {.size = (uint64_t)told->size * CELL};
    attributes.mtime.tv_nsec = attributes.ctime.tv_nsec = told->ctime;
    return attributes;
}

#endif
