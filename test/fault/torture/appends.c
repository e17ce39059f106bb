/* See appends.h. */
#include "appends.h"

static struct log_file *log_of(const struct operation *op)
{
    return &journal->logs[op->file - FILES - SIZED];
}

static void append_end(struct worker *w, struct operation *op, enum api api, ssize_t result)
{
    struct log_writer *writer = &log_of(op)->writers[w->slot];
    char when[96];
    operation_name(w, op, api, when);
    op->result = result;
    if (!op->writes && result > 0)
        memcpy(w->log + op->offset, op->buffer, (size_t)result);
    if (op->writes && result == (ssize_t)op->length) {
        for (uint32_t i = 0; i < op->count; i++)
            atomic_store(&writer->states[op->first + i - atomic_load(&writer->base)],
                         op->stable ? RECORD_STABLE : RECORD_ACKED);
        atomic_fetch_add(&journal->records, op->count);
    } else if ((op->writes || result < 0) && failed_as_planned(result)) {
        atomic_store(&log_of(op)->burned, op->writes || atomic_load(&log_of(op)->burned));
    } else if (op->writes || result < 0) {
        failed("%s: records%u: %s", when, op->file - FILES - SIZED,
               result < 0 ? strerror((int)-result) : "short");
    }
    if (op->writes)
        atomic_store(&writer->done, op->first + op->count - 1);
}

/* Behind an append the offset is where it ends. */
static void append_look(struct worker *w, unsigned log, uint32_t first, uint32_t count)
{
    static const char *const what = "what was appended is not before the offset (LOST)";
    unsigned char expected[RECORD * LOOK_MOST];
    int fd = w->plain[FILES + SIZED + log];
    off_t end = lseek(fd, 0, SEEK_CUR), size = (off_t)count * RECORD;
    if ((size_t)size > sizeof expected || bound_of_reads() != BOUND_ACKED)
        return;
    records_stamp(expected, log, w->slot, first, count);
    ssize_t got = end < size ? 0 : pread(fd, w->log, (size_t)size, end - size);
    if (got < 0 && failed_as_planned(-errno))
        return;
    if ((got != size && !failed_as_planned(got)) ||
        (got == size && memcmp(w->log, expected, (size_t)size) != 0))
        failed("round %u, slot %u, records%u byte %lld: %s", w->round, w->slot, log, (long long)end,
               got < 0 ? strerror(errno) : what);
}

static void append_prepare(struct worker *w, unsigned log, bool writes, off_t offset)
{
    struct operation *op = &w->operations[0];
    op->writes = writes;
    op->end = append_end;
    op->file = FILES + SIZED + log;
    op->offset = offset;
    operation_begin(w, op);
}

static void append(struct worker *w, unsigned log)
{
    struct log_file *file = &journal->logs[log];
    struct log_writer *writer = &file->writers[w->slot];
    struct operation *op = &w->operations[0];
    uint32_t number = atomic_load(&writer->issued);
    enum api api;
    do
        api = pick_api(w);
    while (api == API_sendfile); /* which does not append */
    op->count = 1 + pick(w, pick(w, 8) ? LOOK_MOST : CALL_MOST);
    op->length = (size_t)op->count * RECORD;
    if (number + op->count - atomic_load(&writer->base) >= RECORDS_MOST ||
        atomic_fetch_add(&file->bytes, op->length) >= LOG_BYTES)
        return;
    append_prepare(w, log, true, 0);
    op->first = number + 1;
    records_stamp(op->buffer, log, w->slot, op->first, op->count);
    atomic_store(&writer->issued, number + op->count);
    carry_out(w, api, 1);
    if ((api == API_write || api == API_writev) && op->result == (ssize_t)op->length)
        append_look(w, log, op->first, op->count);
}

/* All of it. False: it could not be read. */
static bool records_read(struct worker *w, unsigned log, size_t *length)
{
    struct operation *op = &w->operations[0];
    *length = 0;
    do {
        op->length = LOG_ROOM - *length < BUFFER_MOST ? LOG_ROOM - *length : BUFFER_MOST;
        append_prepare(w, log, false, (off_t)*length);
        carry_out(w, pick_api(w), 1);
        if (op->result < 0)
            return false;
        *length += (size_t)op->result;
    } while (op->result > 0);
    return true;
}

static void records_look_at(struct worker *w, unsigned log, bool quiet)
{
    struct log_view view;
    size_t length;
    char when[96];
    records_look(log, bound_of_reads(), quiet, &view);
    snprintf(when, sizeof when, "round %u, read by slot %u", w->round, w->slot);
    if (records_read(w, log, &length) && !(atomic_load(&journal->effects) & CALLS_FAIL))
        records_check(log, &view, w->log, length, when);
}

void records_sync(struct worker *w, unsigned log)
{
    struct log_view view;
    records_look(log, BOUND_ACKED, false, &view);
    if (!sync_vouches(w, FILES + SIZED + log, pick(w, SYNCS)))
        return;
    for (unsigned slot = 0; slot < slots(); slot++)
        raise_to(&journal->logs[log].writers[slot].synced, view.done[slot]);
}

void records_act(struct worker *w)
{
    unsigned log = pick(w, LOGS), what = pick(w, 100);
    if (w->lacks[FILES + SIZED + log])
        return;
    if (what < 2)
        records_look_at(w, log, false);
    else if (what < 10)
        records_sync(w, log);
    for (unsigned n = 1 + pick(w, 4); n > 0 && what >= 10 && !atomic_load(&journal->failed); n--)
        append(w, log);
}

void records_settle(struct worker *w, unsigned log)
{
    if (bound_of_reads() != BOUND_ACKED || atomic_load(&journal->settle_sync))
        records_sync(w, log);
    if (!atomic_load(&journal->failed))
        records_look_at(w, log, true);
}

void records_cut(struct worker *w, unsigned log)
{
    struct log_file *file = &journal->logs[log];
    for (unsigned slot = 0; slot < slots(); slot++) {
        struct log_writer *writer = &file->writers[slot];
        uint32_t issued = atomic_load(&writer->issued);
        for (unsigned i = 0; i < RECORDS_MOST; i++)
            atomic_store(&writer->states[i], RECORD_ISSUED);
        atomic_store(&writer->base, issued);
        atomic_store(&writer->synced, issued);
        atomic_store(&writer->done, issued);
    }
    atomic_store(&file->bytes, 0);
    atomic_store(&file->burned, false);
    if (ftruncate(w->plain[FILES + SIZED + log], 0) != 0)
        failed("round %u, ftruncate of records%u: %s", w->round, log, strerror(errno));
}

int records_open(const struct worker *w, const char *path, int flags)
{
    bool later = w->slot % 3 == 2;
    int fd = open(path, later ? flags : flags | O_APPEND);
    if (fd >= 0 && later && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_APPEND) != 0)
        failed("round %u, F_SETFL of %s: %s", w->round, path, strerror(errno));
    return fd;
}
