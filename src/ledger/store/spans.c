/*
 * The tree is a treap. A record stands above another one if its rank is smaller, and the ranks are
 * as good as random. So the tree is flat, in whatever order the records come and go: with n records
 * a look takes about 2 log n steps.
 */
#include "ledger/store/spans.h"

/* Mixes all bits of the index, as records that follow one another in the file have indexes that do,
 * too. */
static uint32_t rank(uint32_t index)
{
    index = (index ^ index >> 16) * UINT32_C(0x7feb352d);
    index = (index ^ index >> 15) * UINT32_C(0x846ca68b);
    return index ^ index >> 16;
}

static uint64_t end_of(const struct ledger_record *record)
{
    return record->base + record->span_to;
}

static bool comes_before(uint32_t left, uint32_t right)
{
    uint64_t a = ledger_span_start(ledger_record(left)),
             b = ledger_span_start(ledger_record(right));
    return a != b ? a < b : left < right;
}

static struct ledger_bucket *bucket_of(const struct ledger_record *record)
{
    return ledger_bucket(ledger_record_file(record), record->base);
}

/* What refers to the record: the one above it, or the bucket. */
static uint32_t *reference(uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    if (!record->above)
        return &bucket_of(record)->root;
    struct ledger_record *above = ledger_record(record->above);
    return above->left == index ? &above->left : &above->right;
}

static uint64_t farther(uint64_t end, uint32_t below)
{
    return below && ledger_record(below)->reach > end ? ledger_record(below)->reach : end;
}

static void measure(struct ledger_record *record)
{
    record->reach = farther(farther(end_of(record), record->left), record->right);
}

/* The spans at or below a record have changed. */
static void measure_up(uint32_t index)
{
    while (index) {
        struct ledger_record *record = ledger_record(index);
        uint64_t reach = record->reach;
        measure(record);
        if (record->reach == reach)
            return;
        index = record->above;
    }
}

/* Exchanges a record with the one above it. */
static void rise(uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t upper = record->above;
    struct ledger_record *above = ledger_record(upper);
    uint32_t *from_top = reference(upper);
    bool is_left = above->left == index;
    uint32_t between = is_left ? record->right : record->left;
    *(is_left ? &above->left : &above->right) = between;
    *(is_left ? &record->right : &record->left) = upper;
    if (between)
        ledger_record(between)->above = upper;
    record->above = above->above;
    above->above = index;
    *from_top = index;
    record->reach = above->reach;
    measure(above);
}

static uint32_t from_of(const struct ledger_record *record)
{
    uint32_t from = ledger_record_from(record);
    return record->held_until && record->held_from < from ? record->held_from : from;
}

static uint32_t to_of(const struct ledger_record *record)
{
    uint32_t to = ledger_record_to(record);
    return record->held_until && record->held_to > to ? record->held_to : to;
}

void ledger_span_enter(uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    record->span_from = from_of(record);
    record->span_to = to_of(record);
    uint32_t *place = &bucket_of(record)->root, above = 0;
    uint64_t end = end_of(record);
    while (*place) {
        above = *place;
        struct ledger_record *other = ledger_record(above);
        if (other->reach < end)
            other->reach = end;
        place = comes_before(index, above) ? &other->left : &other->right;
    }
    record->left = record->right = 0;
    record->above = above;
    record->reach = end;
    *place = index;
    for (uint32_t own = rank(index); record->above && own < rank(record->above);)
        rise(index);
}

/* The record sinks until nothing is below it. */
void ledger_span_leave(uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    while (record->left && record->right)
        rise(rank(record->left) < rank(record->right) ? record->left : record->right);
    uint32_t below = record->left ? record->left : record->right;
    *reference(index) = below;
    if (below)
        ledger_record(below)->above = record->above;
    measure_up(record->above);
}

void ledger_span_fit(uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    if (record->span_from == from_of(record)) {
        record->span_to = to_of(record);
        measure_up(index);
    } else {
        ledger_span_leave(index);
        ledger_span_enter(index);
    }
}

/* ---- looking ---- */

/* The first record at or below `index` that overlaps; 0: none. If one on the left reaches beyond
 * `start`, the first of those either overlaps, or begins too late, and so do all that follow. */
static uint32_t first_below(uint32_t index, uint64_t start, uint64_t end)
{
    while (index && ledger_record(index)->reach > start) {
        const struct ledger_record *record = ledger_record(index);
        if (record->left && ledger_record(record->left)->reach > start)
            index = record->left;
        else if (ledger_span_start(record) >= end)
            return 0;
        else if (end_of(record) > start)
            return index;
        else
            index = record->right;
    }
    return 0;
}

static uint32_t next(uint32_t index, uint64_t start, uint64_t end)
{
    while (index) {
        const struct ledger_record *record = ledger_record(index);
        if (record->right && ledger_record(record->right)->reach > start)
            return first_below(record->right, start, end);
        uint32_t from = index;
        for (index = record->above; index && ledger_record(index)->right == from;
             index = ledger_record(index)->above)
            from = index;
        if (!index || ledger_span_start(ledger_record(index)) >= end)
            return 0;
        if (end_of(ledger_record(index)) > start)
            return index;
    }
    return 0;
}

static uint32_t of_file(uint32_t index, uint32_t file, uint64_t start, uint64_t end)
{
    while (index && ledger_record_file(ledger_record(index)) != file)
        index = next(index, start, end);
    return index;
}

uint32_t ledger_span_first_of(uint32_t root, uint32_t file, uint64_t start, uint64_t end)
{
    return of_file(first_below(root, start, end), file, start, end);
}

uint32_t ledger_span_next_of(uint32_t index, uint64_t start, uint64_t end)
{
    uint32_t file = ledger_record_file(ledger_record(index));
    return of_file(next(index, start, end), file, start, end);
}

uint32_t ledger_bucket_first(const struct ledger_bucket *bucket)
{
    return first_below(bucket->root, 0, UINT64_MAX);
}

static uint32_t child(const struct ledger_record *record, bool before)
{
    return before ? record->left : record->right;
}

uint32_t ledger_bucket_beside(uint32_t index, bool before)
{
    uint32_t below = child(ledger_record(index), before), above;
    if (below) {
        for (uint32_t last = below; last; last = child(ledger_record(last), !before))
            below = last;
        return below;
    }
    while ((above = ledger_record(index)->above) && child(ledger_record(above), before) == index)
        index = above;
    return above;
}
