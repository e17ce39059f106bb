/*
 * "Has it changed since?", at random, against an oracle that knows all (stamp_model.h). A read
 * begins at one step, is answered at another, and is judged at a third. Whatever the ledger does
 * not call changed must be what the file may have then.
 */
#include "stamp_changes.h"

enum { STEPS = 3000, ROUNDS = 600 };

/* How often something was asked, and called changed; and how often that without need. */
enum question { SUSPECT, MIXED, GIVEN, END, COPIED, QUESTIONS };
static struct {
    const char *name;
    unsigned needless_most; /* of a hundred that are asked */
    unsigned asked, changed, needless;
} questions[] = {
    [SUSPECT] = {.name = "across a restart", .needless_most = 60},
    [MIXED] = {.name = "half of a write", .needless_most = 60},
    [GIVEN] = {.name = "read ahead", .needless_most = 70},
    [END] = {.name = "end of file", .needless_most = 60},
    [COPIED] = {.name = "cache", .needless_most = 98},
};

/* The ledger's answer, and the truth. */
static void judge(enum question question, bool changed, bool legal)
{
    questions[question].asked++;
    questions[question].changed += changed;
    questions[question].needless += changed && legal;
    if (!changed && !legal)
        fail_msg("%s: it is old, and not called changed", questions[question].name);
}

/* ---- reads ---- */

static void begin_read(void)
{
    struct reading *r = free_reading();
    size_t done;
    if (!r)
        return;
    r->file = any_file();
    r->count = any_range(&r->first);
    if (random_below(4) == 0) /* where the file ends */
        r->first = m.size > r->count / 2 ? m.size - r->count / 2 : 0;
    if (r->first + r->count > CELLS)
        r->count = CELLS - r->first;
    if (r->count == 0)
        return;
    uint64_t start = (uint64_t)r->first * CELL, length = (uint64_t)r->count * CELL;
    uint32_t what = random_below(5);
    r->slow = random_below(4) == 0;
    r->asked = m.now;
    r->changes = m.changes;
    r->epoch = ledger_file_asking(r->file);
    if (what == 0) {
        r->kind = GETATTR;
        return;
    }
    ledger_stamp_take(r->file, start, start + length, &r->stamp);
    r->dirty = ledger_file_dirty(r->file) > 0;
    r->keeps = ledger_stamp_take_quiet(r->file, start, start + length, &r->quiet);
    if (what > 2) {
        r->kind = r->keeps ? AHEAD : NO_READING;
        return;
    }
    if (r->dirty && ledger_dirty_read(r->file, start, length, NULL, &done) != LEDGER_DIRTY_NONE)
        return;
    r->kind = READ;
    for (uint32_t i = 0; i < r->count; i++) {
        r->may[i].count = r->whole[i].count = 0;
        for (unsigned k = 0; k < m.may[r->first + i].count; k++) {
            if (m.may[r->first + i].of[k].until == 0)
                add(&r->may[i], m.may[r->first + i].of[k].value, 0);
        }
        r->whole[i] = r->may[i];
    }
}

static void answer(struct reading *r)
{
    tell(&r->told);
    r->answered = true;
    for (uint32_t i = 0; r->kind != GETATTR && i < r->count; i++)
        r->got[i] = m.bytes[r->first + i];
}

/* Did it lead the ledger to see that another host changed the file? `always`: whatever this host
 * does meanwhile. */
static void learns(const struct reading *r, bool always)
{
    const struct ledger_entry *entry = ledger_entry_peek(r->file);
    bool later = entry && (atomic_load(&entry->flags) & LEDGER_ENTRY_KNOWN) &&
                 r->told.ctime > atomic_load(&entry->ctime);
    bool alone = r->changes == m.changes && !is_flying(0, CELLS) && !m.cut.active;
    if (later && (always || alone) && m.synced < r->told.at)
        m.synced = r->told.at;
}

static void end_getattr(struct reading *r)
{
    struct ledger_attributes attributes = attributes_of(&r->told);
    learns(r, true);
    ledger_file_learned(r->file, r->epoch, &attributes, r->asked);
    r->kind = NO_READING;
}

/* As file_answer_judge() does it. */
static bool is_suspect(const struct reading *r)
{
    return (ledger_file_acknowledged(r->file) > 0 &&
            (ledger_file_distrusted(r->file) ||
             ledger_file_verifier_differs(r->file, r->told.verifier))) ||
           !ledger_stamp_lasts(r->file, &r->stamp, LEDGER_STAMP_REWRITTEN, 0, 0);
}

static void hear(struct reading *r)
{
    struct ledger_attributes attributes = attributes_of(&r->told);
    learns(r, false);
    ledger_cache_told(r->file, r->epoch, &attributes, r->asked);
    ledger_file_saw(r->file, r->epoch, &attributes, r->asked);
    if (random_below(2))
        ledger_file_confirmed(r->file, &attributes, r->asked);
}

static void keep(const struct reading *r)
{
    uint32_t end = r->first + r->count < r->told.size ? r->first + r->count : r->told.size;
    if (!r->keeps || end <= r->first)
        return;
    struct iovec data = {buffer, (size_t)(end - r->first) * CELL};
    for (uint32_t i = 0; i < end - r->first; i++)
        memcpy(&buffer[i * CELL], &r->got[i], sizeof(r->got[i]));
    ledger_cache_keep(r->file, &r->quiet, (uint64_t)r->first * CELL, &data, data.iov_len);
}

static void end_read(struct reading *r)
{
    uint64_t start = (uint64_t)r->first * CELL, length = (uint64_t)r->count * CELL;
    uint64_t end = (uint64_t)r->told.size * CELL;
    bool suspect = is_suspect(r);
    bool mixed = !ledger_stamp_lasts(r->file, &r->stamp, 0, start, start + length);
    bool cut_short = r->dirty && end < start + length;
    r->kind = NO_READING;
    if (cut_short)
        return;
    judge(SUSPECT, suspect, all_have(r->may, r->got, r->count, 0));
    if (suspect)
        return;
    judge(MIXED, mixed, all_have(r->whole, r->got, r->count, 0));
    if (mixed)
        return;
    hear(r);
    keep(r);
    r->ends = r->held = r->first <= r->told.size && r->told.size <= r->first + r->count &&
                        ledger_stamp_end_lasts(r->file, &r->stamp, end);
    r->kind = r->held ? READ : NO_READING;
    r->count = 0; /* nothing of it is watched any more */
}

static void give(struct reading *r)
{
    uint64_t size = ledger_file_least_size(r->file);
    uint32_t from = random_below(r->count), to = from + 1 + random_below(r->count - from);
    if (to > r->told.size - r->first)
        to = r->told.size - r->first;
    if (to > size / CELL - r->first)
        to = (uint32_t)(size / CELL) - r->first;
    if (size / CELL <= r->first + from || to <= from)
        return;
    uint64_t start = (uint64_t)r->first * CELL;
    bool changed = !ledger_stamp_lasts(r->file, &r->quiet, LEDGER_STAMP_REWRITTEN, 0, 0) ||
                   !ledger_stamp_lasts(r->file, &r->quiet, LEDGER_STAMP_SIZE | LEDGER_STAMP_FRESH,
                                       start + from * CELL, start + to * CELL);
    judge(GIVEN, changed, file_has(r, from, to, m.synced));
    if (!changed && random_below(4) == 0)
        keep(r);
    if (changed)
        r->kind = NO_READING;
}

static void end_ahead(struct reading *r)
{
    if (is_suspect(r) || r->told.size <= r->first) {
        r->kind = NO_READING;
        return;
    }
    hear(r);
    r->held = true;
}

static void ask_end(struct reading *r)
{
    bool lasts = ledger_stamp_end_lasts(r->file, &r->stamp, (uint64_t)r->told.size * CELL);
    judge(END, !lasts, size_may_be(r->told.size));
    if (!lasts)
        r->kind = NO_READING;
}

static void go_on_with_read(void)
{
    struct reading *r = &m.readings[random_below(READS)];
    if (r->kind == NO_READING || (r->slow && random_below(8) > 0))
        return;
    if (r->held && random_below(20) == 0)
        r->kind = NO_READING;
    else if (r->held && r->ends)
        ask_end(r);
    else if (r->held)
        give(r);
    else if (!r->answered)
        answer(r);
    else if (r->kind == GETATTR)
        end_getattr(r);
    else if (r->kind == AHEAD)
        end_ahead(r);
    else
        end_read(r);
}

static void read_cache(void)
{
    struct ledger_stamp stamp;
    struct ledger_file *file = any_file();
    struct reading r = {.file = file, .kind = GETATTR};
    r.count = any_range(&r.first);
    uint64_t start = (uint64_t)r.first * CELL, since = m.now - random_below(50) * STEP_NS;
    if (since < m.opened)
        since = m.opened;
    size_t had = ledger_cache_copy(file, start, (size_t)r.count * CELL, buffer, &stamp);
    r.count = (uint32_t)(had / CELL);
    for (uint32_t i = 0; i < r.count; i++)
        memcpy(&r.got[i], &buffer[i * CELL], sizeof(r.got[i]));
    if (had == 0)
        return;
    enum ledger_cache_state state = ledger_cache_judge_copy(file, &stamp, start, had, since);
    if (state == LEDGER_CACHE_UNSEEN) {
        r.asked = m.now;
        r.changes = m.changes;
        r.epoch = ledger_file_asking(file);
        answer(&r);
        end_getattr(&r);
        state = ledger_cache_judge_copy(file, &stamp, start, had, since);
    }
    judge(COPIED, state != LEDGER_CACHE_GOOD, file_has(&r, 0, r.count, since));
}

/* ---- the walk ---- */

/* An answer that is not judged yet may be of a time before another host changed the size. */
static bool is_answered_before(uint64_t at)
{
    bool found = false;
    for (unsigned i = 0; i < READS; i++)
        found |= m.readings[i].kind != NO_READING && m.readings[i].answered &&
                 !m.readings[i].held && m.readings[i].told.at < at;
    return found;
}

/* What is known of the size is what it is. */
static void check_size(void)
{
    struct ledger_attributes attributes;
    uint64_t verified_ns;
    if (is_flying(0, CELLS) || m.cut.active ||
        !ledger_file_attributes(any_file(), &attributes, &verified_ns))
        return;
    if (attributes.size == (uint64_t)m.size * CELL)
        m.size_unknown = m.size_unknown && is_answered_before(m.now);
    else if (!m.size_unknown)
        fail_msg("the size is %u cells, and known as %u", m.size,
                 (unsigned)(attributes.size / CELL));
}

static void step(void)
{
    static const struct {
        unsigned often, calm;
        void (*act)(void);
    } acts[] = {{30, 30, begin_read},
                {80, 80, go_on_with_read},
                {15, 15, read_cache},
                {6, 1, begin_write},
                {20, 20, go_on_with_write},
                {4, 0, write_behind},
                {8, 8, send_dirty},
                {20, 20, go_on_with_commit},
                {1, 2, commit_all},
                {2, 3, go_on_with_cut},
                {1, 2, cut_and_grow},
                {1, 0, kernel_cuts},
                {2, 2, restart},
                {2, 6, other_host_writes},
                {1, 2, open_it},
                {1, 2, lose},
                {0, 4, recycle},
                {1, 0, rebuild}};
    static bool calm;
    unsigned sum = 0, at = 0;
    if (random_below(100) == 0)
        calm = !calm;
    for (unsigned i = 0; i < sizeof(acts) / sizeof(*acts); i++)
        sum += calm ? acts[i].calm : acts[i].often;
    for (unsigned left = random_below(sum);; at++) {
        unsigned often = calm ? acts[at].calm : acts[at].often;
        if (left < often)
            break;
        left -= often;
    }
    acts[at].act();
    m.now += STEP_NS;
    check_size();
}

/* As in src/ledger/entries.c: one of the files is to get the place of the other. */
static uint32_t home_set(uint64_t inode)
{
    uint64_t hash = (inode ^ 77 * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 31) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(hash >> 40) % LEDGER_SETS;
}

static void begin_round(unsigned round)
{
    uint64_t inode = 1 + (uint64_t)round * 100000, other = inode + 1;
    seed = round;
    memset(&m, 0, sizeof(m));
    m.now = sys_now_ns();
    m.server.verifier = first_verifier;
    m.server.ctime = 1000;
    while (home_set(other) != home_set(inode))
        other++;
    for (unsigned i = 0; i < PROCESSES; i++)
        attach(&m.file[i], inode);
    attach(&m.other, other);
    for (uint32_t i = 0; i < CELLS; i++)
        is_only(i, 0);
}

static void end_round(void)
{
    for (unsigned i = 0; i < WRITES; i++) {
        if (m.flights[i].kind != NO_FLIGHT)
            end_write(&m.flights[i]);
    }
    if (m.cut.active)
        ledger_file_truncate_end(&m.file[0], 0, true);
    if (m.commit.state == SENT || m.commit.state == ANSWERED)
        ledger_commit_failed(m.commit.file, &m.commit.commit);
    ledger_file_forget(&m.file[0], false);
    check_invariants();
}

UNIT_TEST(nothing_is_called_the_same_that_changed)
{
    for (unsigned round = 0; round < rounds_of(ROUNDS); round++) {
        begin_round(round);
        for (unsigned i = 0; i < STEPS; i++)
            step();
        end_round();
    }
    for (unsigned i = 0; i < QUESTIONS; i++) {
        print_message("%s: asked %u times, changed %u, without need %u\n", questions[i].name,
                      questions[i].asked, questions[i].changed, questions[i].needless);
        assert_true(questions[i].needless < questions[i].changed);
        assert_in_range(questions[i].needless, 0,
                        questions[i].asked * questions[i].needless_most / 100);
    }
}

static int open_with_cache(void **state)
{
    ledger_cache_set(1 << 20);
    return open_registry(state);
}

int main(void)
{
    return unit_run(open_with_cache, remove_run_directory);
}
