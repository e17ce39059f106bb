/* The records of a bucket, found by their bytes: src/ledger/store/spans.c. */
#include "ledger_test.h"
#include "ledger/store/spans.h"

enum { UNITS = 4, MANY = 300, SMALL = 4, MOST = LEDGER_UNIT / SMALL };

/* Units of files of one stripe that share a bucket. */
static struct {
    uint32_t file;
    uint64_t base;
} units[UNITS];

static void find_units(void)
{
    unsigned count = 0;
    for (uint64_t n = 0; count < UNITS; n++) {
        uint32_t file = (uint32_t)(n % 3) + (uint32_t)(n % 2) * LEDGER_STRIPES * LEDGER_SET_SIZE;
        uint64_t base = n / 6 * LEDGER_UNIT;
        units[count].file = file;
        units[count].base = base;
        count += ledger_bucket(file, base) == ledger_bucket(units[0].file, units[0].base);
    }
}

/* Gives a record that is in no tree another range, at times with a hold. */
static void set_range(uint32_t index, bool moves)
{
    struct ledger_record *record = ledger_record(index);
    if (moves) {
        unsigned unit = random_below(UNITS);
        atomic_store(&record->file, units[unit].file);
        record->base = units[unit].base + random_below(LEDGER_UNIT - 1);
    }
    uint32_t room = LEDGER_UNIT - (uint32_t)(record->base % LEDGER_UNIT);
    uint32_t from = random_below(room), to = from + 1 + random_below(room - from);
    if (random_below(2)) /* a small one */
        to = to < from + 24 ? to : from + 24;
    atomic_store(&record->range, ledger_range(from, to));
    record->held_from = random_below(room);
    record->held_to = record->held_from + 1 + random_below(room - record->held_from);
    record->held_until = random_below(5) == 0;
}

static bool overlaps(uint32_t index, uint32_t file, uint64_t start, uint64_t end)
{
    const struct ledger_record *record = ledger_record(index);
    uint64_t from = record->base + record->held_from, to = record->base + record->held_to;
    return ledger_record_overlaps(record, file, start, end) ||
           (record->held_until && ledger_record_file(record) == file && from < end && start < to);
}

/* A record may be found that need not be, as its hold and its range are apart: nothing else. */
static void expect_as_looked_at_one_by_one(const uint32_t *records, const bool *is_in)
{
    bool found[MANY] = {false};
    unsigned unit = random_below(UNITS);
    uint32_t file = units[unit].file;
    uint64_t start = units[unit].base + random_below(LEDGER_UNIT - 1), last = 0;
    uint64_t end = start + 1 + random_below(random_below(2) ? 100 : LEDGER_UNIT);
    for (uint32_t i = ledger_span_first(file, start, end); i; i = ledger_span_next(i, start, end)) {
        unsigned k = 0;
        while (k < MANY && records[k] != i)
            k++;
        assert_true(k < MANY && is_in[k] && !found[k]);
        assert_true(ledger_span_start(ledger_record(i)) >= last);
        assert_int_equal(ledger_record_file(ledger_record(i)), file);
        last = ledger_span_start(ledger_record(i));
        found[k] = true;
    }
    for (unsigned k = 0; k < MANY; k++) {
        if (is_in[k] && overlaps(records[k], file, start, end))
            assert_true(found[k]);
    }
}

static void take_records(uint32_t *records, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct ledger_slice slice = {0, 1, 0};
        assert_int_equal(ledger_arena_take(&slice, 1, false, ledger_process_slot()), 0);
        records[i] = slice.record;
    }
}

static void give_records(const uint32_t *records, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        ledger_arena_free(records[i]);
    check_invariants();
}

UNIT_TEST(records_are_found_as_if_one_looked_at_all)
{
    static uint32_t records[MANY];
    static bool is_in[MANY];
    find_units();
    take_records(records, MANY);
    for (unsigned i = 0; i < rounds_of(20000); i++) {
        unsigned k = random_below(MANY);
        if (!is_in[k]) {
            set_range(records[k], true);
            ledger_span_enter(records[k]);
            is_in[k] = true;
        } else if (random_below(3)) {
            set_range(records[k], false);
            ledger_span_fit(records[k]);
        } else {
            ledger_span_leave(records[k]);
            is_in[k] = false;
        }
        expect_as_looked_at_one_by_one(records, is_in);
    }
    for (unsigned k = 0; k < MANY; k++) {
        if (is_in[k])
            ledger_span_leave(records[k]);
    }
    assert_int_equal(ledger_bucket(units[0].file, units[0].base)->root, 0);
    give_records(records, MANY);
}

/* Enters small records, the k-th of them in the place `order` tells. No look takes more steps than
 * the tree is deep. */
static void expect_flat(unsigned (*order)(unsigned k))
{
    static uint32_t records[MOST];
    unsigned deepest = 0;
    find_units();
    take_records(records, MOST);
    for (unsigned k = 0; k < MOST; k++) {
        struct ledger_record *record = ledger_record(records[k]);
        atomic_store(&record->file, units[0].file);
        record->base = units[0].base + order(k) * SMALL;
        ledger_span_enter(records[k]);
    }
    for (unsigned k = 0; k < MOST; k++) {
        unsigned depth = 0;
        for (uint32_t i = records[k]; i; i = ledger_record(i)->above)
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    assert_true(deepest <= 50); /* 14 if it were perfect */
    for (unsigned k = 0; k < MOST; k++)
        ledger_span_leave(records[k]);
    give_records(records, MOST);
}

static unsigned forwards(unsigned k)
{
    return k;
}

static unsigned backwards(unsigned k)
{
    return MOST - 1 - k;
}

static unsigned from_both_ends(unsigned k)
{
    return k % 2 ? MOST - 1 - k / 2 : k / 2;
}

UNIT_TEST(the_tree_is_flat_in_whatever_order_records_come)
{
    expect_flat(forwards);
    expect_flat(backwards);
    expect_flat(from_both_ends);
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
