/* See records.h. */
#include "records.h"

struct record_word {
    unsigned slot, index;
    uint32_t number;
    bool continues; /* the record before is of the same call */
};

static uint64_t record_pack(unsigned log, const struct record_word *word)
{
    return (STAMP_CHECK << 48 | (uint64_t)(word->slot << 1 | word->continues) << 40 |
            (uint64_t)word->index << 32 | word->number) ^
           stamp_mask(FILES + SIZED + log, 0, 0);
}

static bool record_unpack(unsigned log, uint64_t packed, struct record_word *word)
{
    uint64_t value = packed ^ stamp_mask(FILES + SIZED + log, 0, 0);
    word->slot = (unsigned)(value >> 41 & 0x7f);
    word->continues = value >> 40 & 1;
    word->index = (unsigned)(value >> 32 & 0xff);
    word->number = (uint32_t)value;
    return value >> 48 == STAMP_CHECK && word->slot < slots() && word->index < RECORD_WORDS;
}

void records_stamp(unsigned char *to, unsigned log, unsigned slot, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count * RECORD_WORDS; i++) {
        const struct record_word word = {.slot = slot,
                                         .index = i % RECORD_WORDS,
                                         .number = first + i / RECORD_WORDS,
                                         .continues = i >= RECORD_WORDS};
        uint64_t packed = record_pack(log, &word);
        memcpy(to + 8 * (size_t)i, &packed, 8);
    }
}

void records_look(unsigned log, enum bound bound, bool quiet, struct log_view *view)
{
    struct log_file *file = &journal->logs[log];
    view->bound = bound;
    view->quiet = quiet && bound == BOUND_ACKED && !atomic_load(&file->burned);
    for (unsigned slot = 0; slot < slots(); slot++) {
        view->synced[slot] = atomic_load(&file->writers[slot].synced);
        view->done[slot] = atomic_load(&file->writers[slot].done);
    }
}

static bool record_needed(unsigned log, const struct log_view *view, unsigned slot, uint32_t number)
{
    struct log_writer *writer = &journal->logs[log].writers[slot];
    enum record_state state = atomic_load(&writer->states[number - atomic_load(&writer->base)]);
    return number <= view->done[slot] &&
           (state == RECORD_STABLE || (state == RECORD_ACKED && (view->bound == BOUND_ACKED ||
                                                                 number <= view->synced[slot])));
}

/* ---- what lies in a file ---- */

struct log_scan {
    unsigned log;
    const struct log_view *view;
    const char *when;
    uint32_t last[SLOTS_MOST]; /* the whole records end with these */
    struct record_word before;
    bool follows;   /* the word behind `before` is next */
    unsigned whole; /* words of the record so far; 0: its beginning is not there */
    uint64_t zeros, hole;
};

__attribute__((format(printf, 3, 4))) static bool
record_failed(const struct log_scan *scan, uint64_t at, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    failed("%s: records%u byte %llu: %s", scan->when, scan->log, (unsigned long long)at, text);
    return false;
}

/* Is none missing before this one? */
static bool record_is_next(struct log_scan *scan, unsigned slot, uint32_t number, uint64_t at)
{
    for (uint32_t n = scan->last[slot] + 1; n < number; n++) {
        if (record_needed(scan->log, scan->view, slot, n))
            return record_failed(scan, at, "record %u of writer %u is not whole before this (LOST)",
                                 n, slot);
    }
    return true;
}

static bool record_whole(struct log_scan *scan, const struct record_word *word, uint64_t at)
{
    if (word->number <= scan->last[word->slot])
        return record_failed(scan, at, "record %u of writer %u is there twice, or after %u (STALE)",
                             word->number, word->slot, scan->last[word->slot]);
    if (!record_is_next(scan, word->slot, word->number, at))
        return false;
    scan->last[word->slot] = word->number;
    return true;
}

static bool record_scan_word(struct log_scan *scan, uint64_t packed, uint64_t at)
{
    const struct record_word before = scan->before;
    struct record_word word;
    bool follows = scan->follows;
    scan->follows = packed != 0;
    if (packed == 0) {
        scan->hole = scan->zeros++ ? scan->hole : at;
        return true;
    }
    if (!record_unpack(scan->log, packed, &word))
        return record_failed(scan, at, "found %016llx, which nobody wrote there",
                             (unsigned long long)packed);
    struct log_writer *writer = &journal->logs[scan->log].writers[word.slot];
    if (word.number > atomic_load(&writer->issued) || word.number <= atomic_load(&writer->base))
        return record_failed(scan, at, "record %u of writer %u, of %u..%u (%s)", word.number,
                             word.slot, atomic_load(&writer->base) + 1,
                             atomic_load(&writer->issued),
                             word.number > atomic_load(&writer->base) ? "too new" : "STALE");
    bool same = follows && before.slot == word.slot;
    if (word.index == 0 && word.continues && follows &&
        !(same && before.number + 1 == word.number && before.index + 1 == RECORD_WORDS) &&
        record_needed(scan->log, scan->view, word.slot, word.number))
        return record_failed(scan, at,
                             "record %u of writer %u is apart from those of its call (TORN)",
                             word.number, word.slot);
    if (word.index == 0)
        scan->whole = 1;
    else if (same && before.number == word.number && before.index + 1 == word.index && scan->whole)
        scan->whole++;
    else
        scan->whole = 0;
    scan->before = word;
    return scan->whole < RECORD_WORDS || record_whole(scan, &word, at);
}

bool records_check(unsigned log, const struct log_view *view, const void *bytes, size_t length,
                   const char *when)
{
    struct log_scan scan = {.log = log, .view = view, .when = when};
    for (unsigned slot = 0; slot < slots(); slot++)
        scan.last[slot] = atomic_load(&journal->logs[log].writers[slot].base);
    for (size_t at = 0; at + 8 <= length; at += 8) {
        uint64_t packed;
        memcpy(&packed, (const unsigned char *)bytes + at, 8);
        if (!record_scan_word(&scan, packed, at))
            return false;
    }
    for (unsigned slot = 0; slot < slots(); slot++) {
        if (!record_is_next(&scan, slot, view->done[slot] + 1, length))
            return false;
    }
    if (view->quiet && (scan.zeros > 0 || length % RECORD != 0))
        return record_failed(&scan, scan.zeros ? scan.hole : length,
                             "%llu zeros, or a part of a record, which nobody wrote there (STALE)",
                             (unsigned long long)scan.zeros);
    return true;
}
