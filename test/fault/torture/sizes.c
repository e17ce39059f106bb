/* See sizes.h. */
#include "sizes.h"

static struct sized *sized_of(const struct operation *op)
{
    return &journal->sized[op->file - FILES];
}

/* ---- the journal ---- */

/* Under the hold: the next operation. It is under way until sized_done(). */
static uint32_t sized_begin(struct worker *w, struct sized *sized, enum change change,
                            uint32_t from, uint32_t to)
{
    uint32_t number = atomic_load(&sized->issued) + 1;
    sized->history[number % HISTORY] = (struct history){.number = number,
                                                        .slot = w->slot,
                                                        .from = from,
                                                        .to = to,
                                                        .change = change,
                                                        .begun_ns = clock_ns()};
    journal->changes[change]++;
    atomic_store(&sized->issued, number);
    atomic_store(&sized->under_way, number);
    return number;
}

static void sized_done(struct sized *sized, uint32_t number)
{
    sized->history[number % HISTORY].done_ns = clock_ns();
    atomic_store(&sized->under_way, 0);
}

static void sized_grows(struct sized *sized, uint32_t end)
{
    if (atomic_load(&sized->most) < end)
        atomic_store(&sized->most, end);
}

/* The file is at least so long, after all cuts that the caller knew of. */
static void sized_is_stable(struct sized *sized, uint32_t cuts, uint32_t size)
{
    uint64_t old = atomic_load(&sized->stable);
    while (sized_cuts(old) == cuts && (uint32_t)old < size &&
           !atomic_compare_exchange_weak(&sized->stable, &old, (uint64_t)cuts << 32 | size))
        ;
}

void sized_write_begin(struct worker *w, struct operation *op, enum change change)
{
    struct sized *sized = sized_of(op);
    unsigned first = (unsigned)op->offset / 8, count = (unsigned)op->length / 8;
    operation_begin(w, op);
    op->least[0] = sized_begin(w, sized, change, first * 8, (first + count) * 8);
    sized_grows(sized, (first + count) * 8);
    for (unsigned i = 0; i < count; i++) {
        uint64_t word = sized_stamp(op->file - FILES, first + i, op->least[0], w->slot);
        memcpy(op->buffer + 8 * (size_t)i, &word, 8);
        atomic_store(&sized->words[first + i].issued, op->least[0]);
    }
}

static void sized_write_end(struct operation *op)
{
    struct sized *sized = sized_of(op);
    unsigned first = (unsigned)op->offset / 8, count = (unsigned)op->length / 8;
    uint32_t end = (first + count) * 8;
    for (unsigned i = first; i < first + count; i++) {
        atomic_store(&sized->words[i].acked, op->least[0]);
        if (op->stable)
            raise_to(&sized->words[i].synced, op->least[0]);
    }
    if (atomic_load(&sized->least) < end)
        atomic_store(&sized->least, end);
    if (op->stable)
        sized_is_stable(sized, sized_cuts(atomic_load(&sized->stable)), end);
    sized_done(sized, op->least[0]);
}

/* The size becomes `size`; what lies beyond is zeros from now on. */
static uint32_t sized_cut_begin(struct worker *w, struct sized *sized, uint32_t size,
                                enum change change)
{
    uint32_t most = atomic_load(&sized->most);
    uint32_t number = sized_begin(w, sized, change, most, size);
    uint64_t stable = atomic_load(&sized->stable), cut;
    for (unsigned i = size / 8; i < most / 8; i++) {
        struct word *word = &sized->words[i];
        uint32_t acked = atomic_load(&word->acked);
        if (acked > atomic_load(&word->zeroed) && acked == atomic_load(&word->issued))
            atomic_store(&word->full, number);
        atomic_store(&sized->words[i].zeroed, number);
        atomic_store(&sized->words[i].issued, number);
    }
    if (size < atomic_load(&sized->least)) /* before the others learn of a cut */
        atomic_store(&sized->least, size);
    sized_grows(sized, size);
    do
        cut = (uint64_t)(sized_cuts(stable) + 1) << 32 |
              ((uint32_t)stable < size ? (uint32_t)stable : size);
    while (!atomic_compare_exchange_weak(&sized->stable, &stable, cut));
    return number;
}

static void sized_cut_end(struct sized *sized, uint32_t size, uint32_t number)
{
    uint32_t most = atomic_load(&sized->most);
    for (unsigned i = size / 8; i < most / 8; i++) {
        atomic_store(&sized->words[i].acked, number);
        raise_to(&sized->words[i].synced, number);
    }
    atomic_store(&sized->least, size);
    atomic_store(&sized->most, size);
    sized_is_stable(sized, sized_cuts(atomic_load(&sized->stable)), size);
    sized_done(sized, number);
}

/* ---- operations ---- */

static void sized_read_begin(struct operation *op, struct sized_view *view)
{
    unsigned first = (unsigned)op->offset / 8;
    sized_look(op->file - FILES, bound_of_reads(), first, first + (unsigned)op->length / 8, view);
}

/* A read may end early where the file ends. */
static bool sized_read_end(struct operation *op, const struct sized_view *view, ssize_t result,
                           const char *when)
{
    unsigned file = op->file - FILES, first = (unsigned)op->offset / 8;
    uint64_t end = (uint64_t)op->offset + (uint64_t)result;
    if (result < 0 && failed_as_planned(result))
        return true;
    /* The rest may not be there, or could not be read. */
    bool unclear = (size_t)result != op->length && (journal->effects & CALLS_FAIL);
    if (result < 0 || (result % 8 != 0 && !unclear)) {
        failed("%s: sized file %u bytes %llu..%llu: %s", when, file, (unsigned long long)op->offset,
               (unsigned long long)op->offset + op->length,
               result < 0 ? strerror((int)-result) : "torn");
        return false;
    }
    if (!sized_check_words(file, view, op->buffer, first, first + (unsigned)result / 8, when))
        return false;
    if (unclear)
        return true;
    if ((size_t)result == op->length)
        return sized_check_size(file, view, end, UINT64_MAX, when);
    return sized_check_size(file, view, result ? end : 0, end, when);
}

void sized_end(struct worker *w, struct operation *op, enum api api, ssize_t result)
{
    char when[96];
    operation_name(w, op, api, when);
    if (!op->writes)
        sized_read_end(op, w->view, result, when);
    else if (result != (ssize_t)op->length && failed_as_planned(result))
        sized_done(sized_of(op), op->least[0]);
    else if (result != (ssize_t)op->length)
        failed("%s: sized file %u bytes %llu..%llu: %s", when, op->file - FILES,
               (unsigned long long)op->offset, (unsigned long long)op->offset + op->length,
               result < 0 ? strerror((int)-result) : "short");
    else
        sized_write_end(op);
}

void sized_failed(struct worker *w, unsigned file, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    failed("round %u, slot %u, sized file %u: %s", w->round, w->slot, file, text);
}

off_t sized_size(struct worker *w, unsigned file)
{
    struct sized_view *view = w->view;
    struct stat st;
    char when[96];
    int fd = w->plain[FILES + file];
    bool seek = pick(w, 2);
    snprintf(when, sizeof when, "round %u, %s by slot %u", w->round, seek ? "SEEK_END" : "fstat",
             w->slot);
    sized_look(file, bound_of_sizes(), 0, 0, view);
    off_t size = seek ? lseek(fd, 0, SEEK_END) : fstat(fd, &st) ? -1 : st.st_size;
    if (size < 0 && failed_as_planned(-errno))
        return -1;
    if (size < 0) {
        failed("%s: sized file %u: %s", when, file, strerror(errno));
        return -1;
    }
    return sized_check_size(file, view, (uint64_t)size, (uint64_t)size, when) ? size : -1;
}

/* Several writes at once, each behind the other. */
static void sized_write(struct worker *w, unsigned file, off_t offset, unsigned most,
                        enum change change)
{
    enum api api = pick_api(w);
    unsigned count = api >= API_libaio ? 1 + pick(w, DEPTH) : 1, n = 0;
    for (; n < count && offset < SIZED_BYTES; n++) {
        struct operation *op = &w->operations[n];
        size_t length = 8 * (1 + (size_t)pick(w, most / 8));
        op->writes = true;
        op->end = sized_end;
        op->file = FILES + file;
        op->offset = offset;
        op->length =
            length > (size_t)(SIZED_BYTES - offset) ? (size_t)(SIZED_BYTES - offset) : length;
        offset += (off_t)op->length;
        sized_write_begin(w, op, change);
    }
    if (n > 0)
        carry_out(w, api, n);
}

static void sized_cut(struct worker *w, unsigned file, uint32_t size, enum change change)
{
    struct sized *sized = &journal->sized[file];
    char path[512];
    uint32_t number = sized_cut_begin(w, sized, size, change);
    int result;
    if (change == CHANGE_o_trunc) {
        int fd = open(file_path(FILES + file, path), O_RDWR | O_TRUNC | O_CLOEXEC);
        result = fd < 0 ? -1 : close(fd);
    } else {
        result = pick(w, 3) ? ftruncate(w->plain[FILES + file], (off_t)size)
                            : truncate(file_path(FILES + file, path), (off_t)size);
    }
    if (result < 0 && failed_as_planned(-errno))
        sized_done(sized, number);
    else if (result < 0)
        sized_failed(w, file, "%s to %u: %s", change_names[change], size, strerror(errno));
    else
        sized_cut_end(sized, size, number);
}

/* Zeros where nothing was: only the size changes. */
static void sized_allocate(struct worker *w, unsigned file, uint32_t offset, uint32_t end)
{
    struct sized *sized = &journal->sized[file];
    uint32_t number = sized_begin(w, sized, CHANGE_fallocate, offset, end);
    sized_grows(sized, end);
    int error = posix_fallocate(w->plain[FILES + file], (off_t)offset, (off_t)(end - offset));
    if (error && failed_as_planned(-error)) {
        sized_done(sized, number);
        return;
    }
    if (error) {
        sized_failed(w, file, "posix_fallocate to %u: %s", end, strerror(error));
        return;
    }
    if (atomic_load(&sized->least) < end)
        atomic_store(&sized->least, end);
    sized_done(sized, number);
}

static void sized_change(struct worker *w, unsigned file)
{
    off_t size = sized_size(w, file);
    if (size < 0)
        return;
    unsigned what = pick(w, 100), at = (unsigned)size / 8, room = WORDS - at;
    unsigned near = room < 2000 ? room + 1 : 2000;
    if (room < WORDS / 8 && what < 75)
        what = 75 + pick(w, 12); /* it gets too long */
    if (what < 40) {
        sized_write(w, file, size, PIECE_MOST, CHANGE_append);
    } else if (what < 55) {
        sized_write(w, file, 8 * (off_t)pick(w, at + 1), PIECE_MOST / 4, CHANGE_overwrite);
    } else if (what < 65) {
        sized_write(w, file, size + 8 * (off_t)pick(w, near), PIECE_MOST / 4, CHANGE_beyond);
    } else if (what < 75) {
        unsigned from = pick(w, at + 1), end = at + pick(w, near);
        sized_allocate(w, file, 8 * from, 8 * (end > from ? end : from + 1));
    } else if (what < 87) {
        sized_cut(w, file, 8 * pick(w, at + 1), CHANGE_shrink);
    } else if (what < 95) {
        sized_cut(w, file, 8 * (at + pick(w, near)), CHANGE_grow);
    } else {
        sized_cut(w, file, 0, CHANGE_o_trunc);
    }
}

static void sized_read(struct worker *w, unsigned file, unsigned from, unsigned length)
{
    struct operation *op = &w->operations[0];
    op->writes = false;
    op->end = sized_end;
    op->file = FILES + file;
    op->offset = 8 * (off_t)from;
    op->length = 8 * (size_t)length;
    operation_begin(w, op);
    sized_read_begin(op, w->view);
    carry_out(w, pick_api(w), 1);
}

void sized_sync(struct worker *w, unsigned file)
{
    struct sized_view *view = w->view;
    sized_look(file, BOUND_ACKED, 0, WORDS, view);
    if (!sync_vouches(w, FILES + file, pick(w, SYNCS)))
        return;
    for (unsigned i = 0; i < WORDS; i++) {
        if (view->words[i])
            raise_to(&journal->sized[file].words[i].synced, view->words[i]);
    }
    sized_is_stable(&journal->sized[file], sized_cuts(view->stable), view->least);
}

/*
 * A process was killed as it cut the file: it is cut, or as it was. What the server had when it was
 * asked is not to be mixed with what it was not sent until then, or has lost since. By the holder,
 * before he changes it.
 */
static void sized_judge_cut(struct worker *w, unsigned file)
{
    static _Thread_local unsigned char bytes[SIZED_BYTES];
    struct sized *sized = &journal->sized[file];
    uint32_t number = atomic_load(&sized->half);
    const struct history *cut = &sized->history[number % HISTORY];
    unsigned there = 0, gone = 0, first = 0, last = 0;
    atomic_store(&sized->half, 0);
    ssize_t got = fsync(w->plain[FILES + file]) == 0
                      ? pread(w->plain[FILES + file], bytes, sizeof bytes, 0)
                      : -1;
    if (got < 0) /* that is for others to judge */
        return;
    for (unsigned i = cut->to / 8; i < cut->from / 8; i++) {
        uint64_t word = 0;
        if (atomic_load(&sized->words[i].full) != number)
            continue;
        if (8 * i + 8 <= (size_t)got)
            memcpy(&word, bytes + 8 * (size_t)i, 8);
        there += word != 0;
        gone += word == 0;
        *(word ? &first : &last) = i * 8;
    }
    if (there > 0 && gone > 0)
        sized_failed(
            w, file,
            "a cut from %u to %u whose process was killed is half done (LOST): bytes at %u "
            "are there, bytes at %u are not",
            cut->from, cut->to, first, last);
}

void sized_act(struct worker *w)
{
    unsigned file = pick(w, SIZED), what = pick(w, 100);
    struct sized *sized = &journal->sized[file];
    uint32_t nobody = 0;
    if (w->lacks[FILES + file])
        return;
    if (what < 8) {
        sized_sync(w, file);
    } else if (what < 20) {
        sized_size(w, file);
    } else if (what < 30 || !atomic_compare_exchange_strong(&sized->holder, &nobody, w->slot + 1)) {
        unsigned from = pick(w, (atomic_load(&sized->most) + 4096) / 8);
        from = from < WORDS ? from : WORDS - 1;
        unsigned length = 1 + pick(w, WORDS - from < 8000 ? WORDS - from : 8000);
        sized_read(w, file, from, length);
    } else {
        if (atomic_load(&sized->half))
            sized_judge_cut(w, file);
        for (unsigned n = 1 + pick(w, 5); n > 0 && !atomic_load(&journal->failed); n--)
            sized_change(w, file);
        atomic_store(&sized->holder, 0);
    }
}

void sized_settle(struct worker *w, unsigned file)
{
    if (bound_of_reads() != BOUND_ACKED || atomic_load(&journal->settle_sync))
        sized_sync(w, file);
    if (sized_size(w, file) >= 0)
        sized_read(w, file, 0, WORDS);
}
