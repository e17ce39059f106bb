/* A file of which a dead process left something, and the writes of this host that prove it. Include
 * once per test program. */
#ifndef STRAY_SCENE_H
#define STRAY_SCENE_H

#include "agent_scene.h"
#include "ledger/commits.h"
#include "ledger/store/hold.h"
#include "ledger/strays.h"

static struct ledger_file file;
static uint8_t bytes[LEDGER_STRAY_MAX];

/* So that it is known what the file is at the server. */
static inline void learn(int64_t mtime)
{
    const struct ledger_attributes attributes = {
        .size = 1 << 20, .mtime = {.tv_nsec = mtime}, .ctime = {.tv_nsec = mtime}};
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
}

static inline enum ledger_stray_proof prove(int64_t ctime)
{
    const struct ledger_attributes now = {
        .size = 1 << 20, .mtime = {.tv_nsec = 1000}, .ctime = {.tv_nsec = ctime}};
    return ledger_file_prove_strays(&file, ledger_file_asking(&file), &now, false);
}

/* All that was left is proven if the file has this ctime, and nothing if it has another one. */
static inline void expect_proof_of_all(int64_t ctime)
{
    assert_int_equal(prove(ctime), LEDGER_STRAY_PROVEN);
    assert_int_equal(ledger_file_mark_strays(&file, LEDGER_STRAYS_UNPROVEN), 0);
    assert_int_equal(prove(ctime + 1), LEDGER_STRAY_NOT_PROVEN);
    assert_int_equal(prove(ctime - 1), LEDGER_STRAY_NOT_PROVEN);
}

/* *watched: it asks first. It leaves 8 KiB. */
static inline int dies_with_dirty_data(void *watched)
{
    if (*(bool *)watched)
        be_watched();
    write_dirty(&file, 0, 8192, 'd');
    kill(getpid(), SIGKILL);
    return 1;
}

static inline void leave(bool watched)
{
    assert_int_equal(run_child(dies_with_dirty_data, &watched), 128 + SIGKILL);
    ledger_process_sweep(0);
}

static inline void open_file(uint64_t inode)
{
    attach(&file, inode);
    learn(1000);
}

static inline void forget_file(void)
{
    ledger_file_forget(&file, false);
    check_invariants();
}

/* A write of this host at `offset`. */
static inline void begin_write(uint64_t offset, struct ledger_write *write)
{
    memset(buffer, 'w', 100);
    must(ledger_write_try(&file, offset, &(struct iovec){buffer, 100}, 1, 100, true, write) == 0);
}

/* The server tells the ctimes of before and after it. */
static inline void end_write_as(struct ledger_write *write, enum ledger_outcome outcome,
                                int64_t before, int64_t after)
{
    struct ledger_ending ending = {
        .file = &file,
        .write = write,
        .outcome = outcome,
        .verifier = 5,
        .epoch = ledger_file_asking(&file),
        .asked_ns = sys_now_ns(),
        .before_ctime = before,
        .attributes_known = true,
        .attributes = {.size = 1 << 20, .mtime = {.tv_nsec = after}, .ctime = {.tv_nsec = after}}};
    ledger_writes_end(&ending, 1);
}

static inline void end_write(struct ledger_write *write, int64_t before, int64_t after)
{
    end_write_as(write, LEDGER_WRITE_STABLE, before, after);
}

static inline void write_at(uint64_t offset, int64_t before, int64_t after)
{
    struct ledger_write write;
    begin_write(offset, &write);
    end_write(&write, before, after);
}

/* The first one that is marked, from an offset on. */
static inline void expect_stray(uint64_t mark, uint64_t from, uint64_t offset, uint32_t length)
{
    struct ledger_stray stray = ledger_file_stray(&file, mark, false, from, bytes);
    assert_int_equal(stray.length, length);
    assert_int_equal(stray.offset, offset);
}

static inline int dies_with_acked_data(void *in_flight)
{
    struct ledger_write write, other;
    begin_write(700000, &write);
    end_write_as(&write, LEDGER_WRITE_UNSTABLE, 1000, 1001);
    if (in_flight)
        begin_write(800000, &other);
    kill(getpid(), SIGKILL);
    return 1;
}

#endif
