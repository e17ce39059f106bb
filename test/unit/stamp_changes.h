/*
 * What happens to the file of stamp_model.h: writes of this host by the functions of the ledger,
 * COMMITs and replays, changes of size, losses; a server that restarts; another host that writes.
 * Include once.
 */
#ifndef STAMP_CHANGES_H
#define STAMP_CHANGES_H

#include "stamp_model.h"
#include "ledger/rebuild.h"
#include "ledger/store/pocket.h"

/* ---- writes ---- */

static void fill(uint32_t count, uint32_t *values)
{
    for (uint32_t i = 0; i < count; i++) {
        values[i] = ++m.version;
        memcpy(&buffer[i * CELL], &values[i], sizeof(*values));
    }
}

static struct ledger_beginning beginning(uint32_t first, uint32_t count, const struct iovec *data,
                                         struct ledger_write *write)
{
    return (struct ledger_beginning){.offset = (uint64_t)first * CELL,
                                     .data = data,
                                     .count = 1,
                                     .length = (size_t)count * CELL,
                                     .keep = true,
                                     .write = write};
}

static void begin_write(void)
{
    struct flight *f = free_flight();
    struct iovec data = {buffer, sizeof(buffer)};
    if (!f)
        return;
    f->file = any_file();
    f->count = any_range(&f->first);
    f->stable = random_below(4) == 0;
    fill(f->count, f->values);
    f->epoch = ledger_file_asking(f->file);
    f->asked = m.now;
    struct ledger_beginning b = beginning(f->first, f->count, &data, &f->write);
    b.keep = f->kept = !f->stable || random_below(2);
    if (ledger_write_start(f->file, &b, false) != 0)
        return;
    f->kind = WRITE;
    m.changes++;
    for (uint32_t i = 0; i < f->count; i++)
        may_be(f->first + i, f->values[i], true);
}

static void write_behind(void)
{
    struct ledger_write write;
    struct iovec data = {buffer, sizeof(buffer)};
    uint64_t dirty;
    uint32_t values[LONGEST], first, count = any_range(&first);
    fill(count, values);
    struct ledger_beginning b = beginning(first, count, &data, &write);
    if (ledger_write_behind(any_file(), &b, false, &dirty) != 0)
        return;
    m.changes++;
    for (uint32_t i = 0; i < count; i++) {
        is_only(first + i, values[i]);
        m.dirty[first + i] = values[i];
    }
    if (m.size < first + count)
        m.size = first + count;
}

/* The ledger has given out a write: what is in it? */
static void gather(struct flight *f)
{
    struct iovec vectors[LEDGER_WRITE_VECTORS];
    int count = ledger_write_data(&f->write, 0, f->write.length, vectors);
    uint32_t at = 0;
    for (int i = 0; i < count; i++) {
        for (size_t used = 0; used < vectors[i].iov_len; used += CELL)
            memcpy(&f->values[at++], (uint8_t *)vectors[i].iov_base + used, sizeof(f->values[0]));
    }
    f->first = (uint32_t)(f->write.offset / CELL);
    f->count = (uint32_t)(f->write.length / CELL);
    f->kept = true;
    f->asked = m.now;
    f->epoch = ledger_file_asking(f->file);
    f->stable = random_below(4) == 0;
    m.changes++;
}

static void send_dirty(void)
{
    struct flight *f = free_flight();
    struct ledger_file *file = any_file();
    struct ledger_sending sending = ledger_dirty_now(file, (size_t)LONGEST * CELL);
    if (!f)
        return;
    sending.stamp = &f->stamp;
    f->file = file;
    if (ledger_dirty_take(file, &sending, false, &f->write) != 1)
        return;
    f->kind = PROMISED;
    gather(f);
    for (uint32_t i = 0; i < f->count; i++)
        m.dirty[f->first + i] = 0;
}

static void execute(struct flight *f)
{
    uint32_t end = f->first + f->count;
    f->before = m.server.ctime++;
    f->executed = true;
    for (uint32_t i = 0; i < f->count; i++) {
        m.bytes[f->first + i] = f->values[i];
        if (f->stable)
            m.stable[f->first + i] = f->values[i];
    }
    if (m.server.size < end)
        m.server.size = end;
    if (f->stable && m.stable_size < end)
        m.stable_size = end;
    tell(&f->told);
}

static void end_in_model(const struct flight *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t cell = f->first + i;
        if (f->kind == PROMISED && !f->executed && !m.dirty[cell])
            m.dirty[cell] = f->values[i];
        if (f->kind != WRITE || m.dirty[cell])
            continue;
        if (f->executed)
            is_only(cell, f->values[i]);
        else
            forget(&m.may[cell], f->values[i]);
    }
    if (f->executed && f->kind != REPLAY && m.size < f->first + f->count)
        m.size = f->first + f->count;
}

static void end_write(struct flight *f)
{
    struct ledger_ending ending = {.file = f->file,
                                   .write = &f->write,
                                   .outcome = !f->executed ? LEDGER_WRITE_FAILED
                                              : f->stable  ? LEDGER_WRITE_STABLE
                                                           : LEDGER_WRITE_UNSTABLE,
                                   .verifier = f->told.verifier,
                                   .epoch = f->epoch,
                                   .asked_ns = f->asked};
    if (f->executed && random_below(4) > 0) {
        ending.attributes_known = true;
        ending.attributes = attributes_of(&f->told);
        ending.before_ctime = f->before;
    }
    if (f->executed && f->kind == PROMISED) {
        struct iovec vectors[LEDGER_WRITE_VECTORS];
        ledger_write_data(&f->write, 0, f->write.length, vectors);
        ledger_cache_keep(f->file, &f->stamp, f->write.offset, vectors, f->write.length);
    }
    ledger_writes_end(&ending, 1);
    m.changes++;
    end_in_model(f);
    f->kind = NO_FLIGHT;
}

static void go_on_with_write(void)
{
    struct flight *f = &m.flights[random_below(WRITES)];
    if (f->kind == NO_FLIGHT)
        return;
    if (f->executed || random_below(6) == 0)
        end_write(f);
    else
        execute(f);
}

static void commit_server(void)
{
    memcpy(m.stable, m.bytes, sizeof(m.stable));
    m.stable_size = m.server.size;
}

static void go_on_with_commit(void)
{
    struct flight *f = m.commit.state == REPLAYS ? free_flight() : NULL;
    switch (m.commit.state) {
    case NO_COMMIT:
        m.commit.file = any_file();
        m.commit.stable = random_below(2);
        if (ledger_commit_begin(m.commit.file, &m.commit.commit))
            m.commit.state = SENT;
        break;
    case SENT:
        commit_server();
        m.commit.verifier = m.server.verifier;
        m.commit.state = ANSWERED;
        break;
    case ANSWERED: /* it would wait for what goes to the disk */
        if (!ledger_file_to_disk(m.commit.file))
            m.commit.state =
                ledger_commit_end(m.commit.file, &m.commit.commit, m.commit.verifier) > 0
                    ? REPLAYS
                    : NO_COMMIT;
        break;
    case REPLAYS:
        if (!f)
            break;
        f->file = m.commit.file;
        m.commit.commit.most = (size_t)LONGEST * CELL;
        int result = ledger_replay_next(f->file, &m.commit.commit, false, &f->write);
        if (result == 0)
            m.commit.state = NO_COMMIT;
        if (result != 1)
            break;
        f->kind = REPLAY;
        gather(f);
        f->stable = m.commit.stable;
        break;
    }
}

/* All of it, while nothing else happens. */
static void commit_all(void)
{
    for (unsigned i = 0; i < 100; i++) {
        go_on_with_commit();
        go_on_with_write();
    }
}

/* ---- changes of size, and rarer things ---- */

static void cut_server(uint32_t size)
{
    for (uint32_t i = size; i < CELLS; i++)
        m.bytes[i] = m.stable[i] = 0;
    m.server.size = m.stable_size = size;
    m.server.ctime++;
}

static void cut_model(uint32_t size)
{
    for (uint32_t i = size; i < CELLS; i++) {
        m.may[i].count = 0;
        may_be(i, 0, false);
        m.dirty[i] = 0;
    }
    m.size = size;
    m.changes++;
}

static void begin_cut(uint32_t size)
{
    if (m.cut.active || (size < CELLS && is_flying(size, CELLS - size)))
        return; /* it would wait */
    must(ledger_file_truncate_begin(any_file(), (uint64_t)size * CELL) == 0);
    m.cut.active = true;
    m.cut.executed = false;
    m.cut.size = size;
    m.changes++;
    for (uint32_t i = 0; i < CELLS; i++) {
        m.cut.adds[i] = i >= size && !has(&m.may[i], 0, UINT64_MAX - 1);
        if (m.cut.adds[i])
            may_be(i, 0, false);
    }
}

static void go_on_with_cut(void)
{
    struct ledger_file *file = any_file();
    uint64_t size = (uint64_t)m.cut.size * CELL;
    if (!m.cut.active) {
        if (random_below(3) == 0)
            begin_cut(random_below(CELLS + 1));
        return;
    }
    if (!m.cut.executed && random_below(3) > 0) {
        cut_server(m.cut.size);
        m.cut.executed = true;
        return;
    }
    bool lost = !ledger_file_uncommitted_beyond(file, size) && random_below(4) == 0;
    ledger_file_truncate_end(file, size, m.cut.executed && !lost);
    m.cut.active = false;
    m.changes++;
    if (m.cut.executed)
        cut_model(m.cut.size);
    for (uint32_t i = 0; i < CELLS && !m.cut.executed; i++) {
        if (m.cut.adds[i])
            forget(&m.may[i], 0);
    }
}

/* It has other bytes then, and the size that it had. */
static void cut_and_grow(void)
{
    uint32_t size = m.size;
    if (m.cut.active)
        return;
    for (unsigned i = 0; i < 2; i++) {
        begin_cut(i == 0 ? random_below(size + 1) : size);
        while (m.cut.active)
            go_on_with_cut();
    }
}

static void kernel_cuts(void)
{
    struct ledger_file again;
    uint32_t size = random_below(CELLS + 1);
    if (m.cut.active || (size < CELLS && is_flying(size, CELLS - size)) || random_below(2))
        return;
    cut_server(size);
    must(!ledger_file_truncated_by_kernel(&m.file[0].key, (uint64_t)size * CELL, &again));
    cut_model(size);
}

static void restart(void)
{
    if (random_below(4) > 0)
        return;
    memcpy(m.bytes, m.stable, sizeof(m.bytes));
    m.server.size = m.stable_size;
    m.server.verifier++;
}

/* It writes nothing over what this host has not committed. */
static bool other_host_may(uint32_t first, uint32_t count)
{
    uint32_t end = first + count;
    bool full = m.sizes.count == MAY;
    for (uint32_t i = first; i < end; i++)
        full |= m.may[i].count > MAY / 2;
    return !full && !m.cut.active && !is_flying(first, count) && !is_in_ledger(first, count) &&
           (end <= m.server.size ||
            (first <= m.server.size && m.size == m.server.size && !is_flying(end, CELLS)));
}

static void other_host_writes(void)
{
    uint32_t first, count = any_range(&first), end = first + count;
    if (!other_host_may(first, count))
        return;
    m.server.ctime++;
    if (end > m.server.size) {
        add(&m.sizes, m.size, m.now);
        m.server.size = m.stable_size = m.size = end;
        m.size_unknown = true;
    }
    for (uint32_t i = first; i < end; i++) {
        for (unsigned k = 0; k < m.may[i].count; k++) {
            if (m.may[i].of[k].until == 0)
                m.may[i].of[k].until = m.now;
        }
        m.bytes[i] = m.stable[i] = ++m.version;
        may_be(i, m.version, false);
    }
}

static void forget_old(struct values *values)
{
    for (unsigned i = 0; i < values->count; i++) {
        if (values->of[i].until != 0)
            values->of[i--] = values->of[--values->count];
    }
}

static void open_it(void)
{
    ledger_file_refresh(any_file());
    for (uint32_t i = 0; i < CELLS; i++)
        forget_old(&m.may[i]);
    forget_old(&m.sizes);
    m.synced = m.opened = m.now;
}

/* What cannot be sent is dropped; the file has what the server has, which keeps it. */
static void lose(void)
{
    if (!is_idle() || random_below(3) > 0)
        return;
    ledger_file_forget(any_file(), true);
    commit_server();
    m.changes++;
    if (m.sizes.count < MAY)
        add(&m.sizes, m.size, m.now);
    m.size = m.server.size;
    m.size_unknown = true;
    for (uint32_t i = 0; i < CELLS; i++) {
        m.dirty[i] = 0;
        for (unsigned k = 0; k < m.may[i].count; k++) {
            if (m.may[i].of[k].until == 0)
                m.may[i].of[k--] = m.may[i].of[--m.may[i].count];
        }
        may_be(i, m.bytes[i], false);
    }
}

/* The place in the registry becomes another file's, and may be this one's again. */
static void recycle(void)
{
    struct ledger_garbage garbage = {0};
    struct ledger_file_key key = m.file[0].key;
    if (!is_idle() || ledger_file_uncommitted(&m.file[0]) > 0)
        return;
    for (unsigned i = 0; i < 2; i++) {
        struct ledger_file *file = i ? &m.other : &m.file[0];
        struct ledger_entry *entry = ledger_entry_lock(file, true, NULL);
        ledger_entry_retire(entry, &garbage);
        ledger_entry_unlock(file);
    }
    m.changes++;
    m.size_unknown = true; /* nothing is known of it */
    for (unsigned i = random_below(3); i < 2; i++) {
        if (i == 0)
            ledger_file_attach(&m.other, &m.other.key, &(struct timespec){0}, &(uint64_t){0});
        else
            ledger_file_attach(&m.file[1], &key, &(struct timespec){0}, &(uint64_t){0});
    }
    ledger_arena_give(garbage.first);
}

/* Somebody died with the lock. */
static void rebuild(void)
{
    uint32_t stripe = ledger_stripe_of_file(&m.file[0]);
    if (random_below(4) > 0)
        return;
    ledger_stripe_lock(stripe);
    ledger_stripe_rebuild(stripe);
    ledger_stripe_unlock(stripe);
}

#endif
