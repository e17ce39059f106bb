/* Dirty data: src/ledger/dirty.c. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "dirty_scene.h"
#include "ledger/outside.h"
#include "no_descriptors.h"

/* ---- writing, reading, sending ---- */

UNIT_TEST(what_was_written_is_read_before_it_is_sent)
{
    struct ledger_file file;
    size_t done;
    attach(&file, 500);
    write_dirty(&file, 100000, 70000, 'a');
    write_dirty(&file, 120000, 10, 'b');
    expect_dirty(&file, 100000, 20000, 'a');
    expect_dirty(&file, 120000, 10, 'b');
    expect_dirty(&file, 120010, 49990, 'a');
    assert_int_equal(ledger_file_dirty(&file), 70000);
    assert_int_equal(ledger_file_least_size(&file), 170000);
    assert_int_equal(read_dirty(&file, 0, 1000, &done), LEDGER_DIRTY_NONE);
    assert_int_equal(read_dirty(&file, 99999, 2, &done), LEDGER_DIRTY_SOME);
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(what_is_dirty_does_not_make_what_the_server_told_old)
{
    struct ledger_file file;
    struct ledger_attributes told = {.size = 100, .ctime = {1, 5}}, known;
    uint64_t epoch, verified_ns = 0;
    attach(&file, 560);
    ledger_file_learned(&file, ledger_file_asking(&file), &told, 1);
    write_dirty(&file, 50, 5000, 'c');
    ledger_file_confirmed(&file, &told, 10);
    assert_true(ledger_file_attributes(&file, &known, &verified_ns));
    assert_int_equal(verified_ns, 10);
    assert_int_equal(known.size, 5050);
    assert_int_equal(ledger_key_confirmed(&file.key, &told, 20, &epoch), LEDGER_CONFIRMED);
    told.ctime.tv_nsec++;
    assert_int_equal(ledger_key_confirmed(&file.key, &told, 30, &epoch), LEDGER_OTHER);
    assert_int_equal(epoch, ledger_file_asking(&file));
    file.key.root++;
    assert_int_equal(ledger_key_confirmed(&file.key, &told, 30, &epoch), LEDGER_UNKNOWN);
    file.key.root--;
    ledger_file_forget(&file, false);
}

UNIT_TEST(a_read_ends_at_the_end_of_a_file_that_ends_dirty)
{
    struct ledger_file file;
    struct ledger_attributes told = {.ctime = {1, 5}};
    size_t done = 0;
    attach(&file, 501);
    write_dirty(&file, 0, 5000, 'e');
    assert_int_equal(read_dirty(&file, 1000, 8192, &done), LEDGER_DIRTY_SOME); /* is it the end? */
    ledger_file_learned(&file, ledger_file_asking(&file), &told, 1);
    assert_int_equal(read_dirty(&file, 1000, 8192, &done), LEDGER_DIRTY_ALL);
    assert_int_equal(done, 4000);
    assert_int_equal(read_dirty(&file, 5000, 8192, &done), LEDGER_DIRTY_NONE);
    ledger_file_forget(&file, false);
}

UNIT_TEST(writes_that_follow_one_another_are_one_run)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 502);
    for (uint64_t i = 64; i-- > 0;) /* backwards, to be no matter of order */
        write_dirty(&file, i * 8192, 8192, (uint8_t)i);
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.offset, 0);
    assert_int_equal(write.length, 64 * 8192);
    assert_int_equal(take(&file, &(struct ledger_write){0}), -EAGAIN);
    expect_dirty(&file, 8192, 8192, 1); /* it is in flight */
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(ledger_file_dirty(&file), 0);
    assert_int_equal(ledger_file_acknowledged(&file), 64 * 8192);
    assert_int_equal(take(&file, &write), 0);
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(a_run_is_no_longer_than_one_write)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 503);
    for (uint64_t i = 0; i < 32; i++)
        write_dirty(&file, i * 8192, 8192, 'l');
    struct ledger_sending sending = ledger_dirty_now(&file, 100000);
    assert_int_equal(ledger_dirty_take(&file, &sending, false, &write), 1);
    assert_int_equal(write.length, 98304);
    assert_false(sending.all);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_file_dirty(&file), 32 * 8192 - 98304);
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(a_write_goes_on_over_what_is_in_flight)
{
    struct ledger_file file;
    struct ledger_write first, second;
    attach(&file, 504);
    write_dirty(&file, 0, 8192, '1');
    assert_int_equal(take(&file, &first), 1);
    write_dirty(&file, 4096, 100, '2');
    expect_dirty(&file, 0, 4096, '1');
    expect_dirty(&file, 4096, 100, '2');
    expect_dirty(&file, 4196, 3996, '1');
    assert_int_equal(take(&file, &second), -EAGAIN); /* not before the first one is over */
    ledger_write_end(&file, &first, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(take(&file, &second), 1);
    assert_int_equal(second.length, 100);
    ledger_write_end(&file, &second, LEDGER_WRITE_UNSTABLE, first_verifier);
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(a_write_into_a_record_leaves_what_is_around_it)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 516);
    for (uint64_t page = 0; page < 8; page++)
        write_dirty(&file, page * 8192, 8192, 'o');
    write_dirty(&file, 16384, 8192, 'p'); /* one chunk of the record */
    write_dirty(&file, 30000, 9000, 'q'); /* parts of chunks, too much to be copied */
    write_dirty(&file, 50000, 100, 'r');  /* not too much */
    write_dirty(&file, 0, 5000, 's');
    write_dirty(&file, 60000, 10000, 't'); /* the end of it, and more */
    expect_dirty(&file, 0, 5000, 's');
    expect_dirty(&file, 5000, 11384, 'o');
    expect_dirty(&file, 16384, 8192, 'p');
    expect_dirty(&file, 24576, 5424, 'o');
    expect_dirty(&file, 30000, 9000, 'q');
    expect_dirty(&file, 39000, 11000, 'o');
    expect_dirty(&file, 50000, 100, 'r');
    expect_dirty(&file, 50100, 9900, 'o');
    expect_dirty(&file, 60000, 10000, 't');
    assert_int_equal(ledger_file_dirty(&file), 70000);
    check_invariants();
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.length, 70000);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

UNIT_TEST(what_failed_is_dirty_again_below_what_is_newer)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 505);
    write_dirty(&file, 0, 30000, 'o');
    assert_int_equal(take(&file, &write), 1);
    write_dirty(&file, 10000, 5000, 'n');
    write_dirty(&file, 29000, 5000, 'n');
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    check_invariants();
    expect_dirty(&file, 0, 10000, 'o');
    expect_dirty(&file, 10000, 5000, 'n');
    expect_dirty(&file, 15000, 14000, 'o');
    expect_dirty(&file, 29000, 5000, 'n');
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.length, 34000);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

UNIT_TEST(what_is_lost_is_told_and_the_next_writes_go_out_at_once)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 506);
    write_dirty(&file, 0, 100, 'x');
    assert_int_equal(take(&file, &write), 1);
    struct ledger_ending ending = {
        .file = &file, .write = &write, .outcome = LEDGER_WRITE_LOST, .error = ENOSPC};
    ledger_writes_end(&ending, 1);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    assert_true(ledger_file_lost(&file));
    assert_false(ledger_file_lost(&file));
    assert_int_equal(write_behind(&file, 0, 100), LEDGER_WRITE_NOW);
    write_stable(&file, 0, 100);
    assert_int_equal(write_behind(&file, 0, 100), 0);
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(another_write_waits_until_dirty_data_below_it_is_sent)
{
    struct ledger_file file;
    struct ledger_write run, write;
    attach(&file, 507);
    write_dirty(&file, 0, 8192, 'd');
    assert_int_equal(begin(&file, 8191, 10, true, &write), LEDGER_IS_DIRTY);
    assert_int_equal(begin(&file, 8192, 10, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(take(&file, &run), 1);
    ledger_write_end(&file, &run, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(begin(&file, 8191, 10, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(a_truncation_cuts_dirty_data)
{
    struct ledger_file file;
    attach(&file, 508);
    write_dirty(&file, 0, 100000, 'c');
    assert_int_equal(ledger_file_truncate_begin(&file, 50000), 0);
    assert_int_equal(write_behind(&file, 49999, 2), -EAGAIN);
    ledger_file_truncate_end(&file, 50000, true);
    assert_int_equal(ledger_file_dirty(&file), 50000);
    assert_int_equal(ledger_file_least_size(&file), 50000);
    expect_dirty(&file, 0, 50000, 'c');
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(no_answer_of_the_server_makes_the_file_shorter_than_what_is_dirty)
{
    struct ledger_file file;
    struct ledger_write write;
    struct ledger_attributes attributes = {.size = 10}, known;
    uint64_t verified;
    attach(&file, 509);
    write_dirty(&file, 0, 5000, 's');
    for (int i = 0; i < 2; i++) {
        ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
        assert_true(ledger_file_attributes(&file, &known, &verified));
        assert_int_equal(known.size, 5000);
        if (i == 0)
            assert_int_equal(take(&file, &write), 1);
    }
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    ledger_file_forget(&file, false);
}

UNIT_TEST(small_writes_that_follow_one_another_take_little_room)
{
    struct ledger_file file;
    attach(&file, 510);
    for (uint64_t i = 0; i < 1000; i++)
        write_dirty(&file, i * 100, 100, (uint8_t)i);
    assert_true(ledger_map.entries[file.index].records < 100);
    for (uint64_t i = 0; i < 1000; i++)
        expect_dirty(&file, i * 100, 100, (uint8_t)i);
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(who_cannot_map_the_registry_sees_in_its_file_what_is_dirty)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 516);
    assert_int_equal(ledger_outside_look(77, 516), LEDGER_OUTSIDE_CLEAN);
    write_dirty(&file, 0, 8192, 'o');
    assert_int_equal(ledger_outside_look(77, 516), LEDGER_OUTSIDE_DIRTY);
    assert_int_equal(ledger_outside_look(77, 517), LEDGER_OUTSIDE_CLEAN);
    assert_int_equal(ledger_outside_look(78, 516), LEDGER_OUTSIDE_CLEAN);
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(ledger_outside_look(77, 516), LEDGER_OUTSIDE_DIRTY);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(ledger_outside_look(77, 516), LEDGER_OUTSIDE_CLEAN);
    ledger_file_forget(&file, false);
}

static int looks_without_a_descriptor(void *file)
{
    write_dirty(file, 0, 8192, 'o');
    must(ledger_outside_look(77, 519) == LEDGER_OUTSIDE_DIRTY);
    no_descriptors_begin();
    must(ledger_outside_look(77, 519) == LEDGER_OUTSIDE_UNKNOWN);
    return 0;
}

UNIT_TEST(who_has_no_descriptor_for_that_does_not_know)
{
    struct ledger_file file;
    attach(&file, 519);
    assert_int_equal(run_child(looks_without_a_descriptor, &file), 0);
    ledger_process_sweep(0);
    ledger_file_forget(&file, false);
    assert_int_equal(ledger_outside_look(77, 519), LEDGER_OUTSIDE_CLEAN);
}

/* ---- fsync, close, handles ---- */

UNIT_TEST(a_flush_finds_what_was_written_before_it_though_it_was_written_over)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 515);
    write_dirty(&file, 0, 512, '1');
    struct ledger_sending sending = ledger_dirty_now(&file, MOST);
    write_dirty(&file, 0, 1024, '2');
    assert_int_equal(ledger_dirty_take(&file, &sending, false, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    ledger_file_forget(&file, false);
}

UNIT_TEST(a_close_sends_what_was_joined_to_data_of_another_process)
{
    struct ledger_file file;
    attach(&file, 516);
    write_dirty(&file, 0, 100, '1');
    uint32_t first = ledger_map.entries[file.index].dirty_first;
    uint32_t own = atomic_exchange(&ledger_record(first)->owner, 77);
    write_dirty(&file, 100, 100, '2');
    assert_true(ledger_file_uncommitted_here(&file, false));
    atomic_store(&ledger_record(first)->owner, own);
    ledger_file_forget(&file, false);
}

UNIT_TEST(dirty_data_of_an_older_handle_is_a_loss)
{
    struct ledger_file file, again;
    uint64_t lost;
    attach(&file, 517);
    write_dirty(&file, 0, 100, '1');
    struct ledger_file_key key = file.key;
    key.root++;
    key.handle[0]++;
    assert_true(ledger_file_attach(&again, &key, &(struct timespec){12345, 0}, &lost));
    assert_int_equal(lost, 100);
    assert_true(ledger_file_has_loss(&again));
    ledger_file_forget(&file, false);
}

/* ---- a model ---- */

enum { UNDER_WAY = 4 };

struct model {
    struct ledger_file file;
    uint8_t program[MODEL_BYTES], server[MODEL_BYTES]; /* what each believes */
    uint64_t size;
    struct ledger_write writes[UNDER_WAY]; /* that are on their way */
    uint8_t data[UNDER_WAY][LEDGER_WRITE_MAX];
};

static void model_write(struct model *m, uint8_t fill)
{
    uint64_t offset = random_below(MODEL_BYTES - 1);
    size_t length = 1 + random_below(random_below(4) ? 9000 : 100000);
    if (offset + length > MODEL_BYTES)
        length = MODEL_BYTES - offset;
    write_dirty(&m->file, offset, length, fill);
    memset(m->program + offset, fill, length);
    if (offset + length > m->size)
        m->size = offset + length;
}

/* What the server gets. */
static void model_copy(struct model *m, unsigned i)
{
    struct iovec vectors[LEDGER_WRITE_VECTORS];
    int count = ledger_write_data(&m->writes[i], 0, m->writes[i].length, vectors);
    size_t length = 0;
    for (int k = 0; k < count; k++) {
        memcpy(m->data[i] + length, vectors[k].iov_base, vectors[k].iov_len);
        length += vectors[k].iov_len;
    }
    assert_int_equal(length, m->writes[i].length);
}

static void model_take(struct model *m)
{
    unsigned i = 0;
    while (i < UNDER_WAY && m->writes[i].record_count)
        i++;
    struct ledger_sending sending = ledger_dirty_now(&m->file, 1 + random_below(200000));
    if (random_below(3) == 0) {
        sending.start = random_below(MODEL_BYTES - 1);
        sending.end = sending.start + 1 + random_below(random_below(2) ? 9000 : 300000);
    }
    if (i == UNDER_WAY)
        return;
    int result = ledger_dirty_take(&m->file, &sending, false, &m->writes[i]);
    if (result == 1)
        model_copy(m, i);
    else if (result == 0 && sending.end <= MODEL_BYTES)
        assert_int_equal(ledger_dirty_read(&m->file, sending.start, sending.end - sending.start,
                                           NULL, &(size_t){0}),
                         LEDGER_DIRTY_NONE);
}

/* Outcomes: acknowledged either way, or failed though the server may have it. */
static void model_end(struct model *m)
{
    unsigned i = random_below(UNDER_WAY);
    struct ledger_write *write = &m->writes[i];
    if (!write->record_count)
        return;
    enum ledger_outcome outcome = random_below(3) == 0   ? LEDGER_WRITE_FAILED
                                  : random_below(2) == 0 ? LEDGER_WRITE_STABLE
                                                         : LEDGER_WRITE_UNSTABLE;
    if (outcome != LEDGER_WRITE_FAILED || random_below(2))
        memcpy(m->server + write->offset, m->data[i], write->length);
    ledger_write_end(&m->file, write, outcome, first_verifier);
}

/* As of a process that is stopped: what one of the writes has is sent a second time. */
static void model_twin(struct model *m)
{
    unsigned i = random_below(UNDER_WAY), k = 0;
    uint32_t first = m->writes[i].record_count ? m->writes[i].first_record : 0;
    while (k < UNDER_WAY && m->writes[k].record_count)
        k++;
    if (!first || k == UNDER_WAY || !ledger_record_is_promised(ledger_record(first)))
        return;
    struct ledger_entry *entry = ledger_entry_lock(&m->file, false, NULL);
    assert_true(ledger_twins_take(entry, first, 1 + random_below(200000), &m->writes[k]));
    ledger_entry_unlock(&m->file);
    model_copy(m, k);
    size_t own = m->writes[i].length, length = m->writes[k].length;
    assert_memory_equal(m->data[i], m->data[k], own < length ? own : length);
}

static void model_read(struct model *m)
{
    uint64_t offset = random_below(MODEL_BYTES - 1);
    size_t length = 1 + random_below(20000), done = 0;
    if (offset + length > MODEL_BYTES)
        length = MODEL_BYTES - offset;
    int result = read_dirty(&m->file, offset, length, &done);
    assert_int_equal(ledger_file_least_size(&m->file), m->size);
    if (result == LEDGER_DIRTY_ALL)
        assert_memory_equal(buffer, m->program + offset, done);
    if (result == LEDGER_DIRTY_NONE)
        assert_memory_equal(m->server + offset, m->program + offset, length);
}

static void model_cut(struct model *m)
{
    for (unsigned i = 0; i < UNDER_WAY; i++) {
        if (m->writes[i].record_count)
            return; /* it would wait */
    }
    uint64_t size = random_below(MODEL_BYTES);
    assert_int_equal(ledger_file_truncate_begin(&m->file, size), 0);
    ledger_file_truncate_end(&m->file, size, true);
    memset(m->program + size, 0, MODEL_BYTES - size);
    memset(m->server + size, 0, MODEL_BYTES - size);
    m->size = size;
}

UNIT_TEST(random_work_is_as_in_a_model)
{
    static struct model m;
    attach(&m.file, 513);
    for (unsigned i = 0; i < rounds_of(20000); i++) {
        uint32_t choice = random_below(20);
        if (choice < 8)
            model_write(&m, (uint8_t)(1 + i % 255));
        else if (choice < 13)
            model_take(&m);
        else if (choice < 16)
            model_end(&m);
        else if (choice < 17)
            model_twin(&m);
        else if (choice < 19 || i % 50)
            model_read(&m);
        else
            model_cut(&m);
        if (i % 500 == 0)
            check_invariants();
        if (ledger_file_acknowledged(&m.file) > UNCOMMITTED_MAX / 4) {
            struct ledger_commit commit;
            ledger_commit_begin(&m.file, &commit);
            assert_int_equal(ledger_commit_end(&m.file, &commit, first_verifier), 0);
        }
    }
    for (unsigned i = 0; i < UNDER_WAY; i++)
        ledger_write_end(&m.file, &m.writes[i], LEDGER_WRITE_FAILED, 0);
    while (ledger_file_dirty(&m.file) > 0) {
        model_take(&m);
        model_end(&m);
    }
    assert_memory_equal(m.server, m.program, MODEL_BYTES);
    check_invariants();
    ledger_file_forget(&m.file, false);
}

/* As if a data base had tens of thousands of files, one of which one process syncs after another.
 */
UNIT_TEST(each_open_file_hears_of_a_loss_though_many_files_were_used_since)
{
    enum { MANY = 150000 };
    struct ledger_file file, other;
    struct ledger_write write;
    struct ledger_seen one, two;
    struct ledger_seen *_Atomic first = &one, *_Atomic second = &two;
    attach(&file, 540);
    ledger_seen_begin(&file, &one);
    ledger_seen_begin(&file, &two);
    write_dirty(&file, 0, 8192, 'x');
    assert_int_equal(take(&file, &write), 1);
    struct ledger_ending ending = {
        .file = &file, .write = &write, .outcome = LEDGER_WRITE_LOST, .error = ENOSPC};
    ledger_writes_end(&ending, 1);
    assert_true(ledger_file_lost_by(&file, &second));
    for (uint64_t inode = 1000000; inode < 1000000 + MANY; inode++)
        attach(&other, inode);
    assert_true(ledger_file_lost_by(&file, &first));
    assert_false(ledger_file_lost_by(&file, &first));
}

/* A write between the copies of two pieces: the memory for the second is away until then. */
struct away {
    struct ledger_file file;
    struct uffdio_zeropage zeros;
    int faults;
};

static int writes_and_brings_it(void *argument)
{
    struct away *away = argument;
    struct uffd_msg fault;
    must(read(away->faults, &fault, sizeof(fault)) == sizeof(fault));
    write_dirty(&away->file, 0, 2 * LEDGER_CHUNK, 'n');
    must(ioctl(away->faults, UFFDIO_ZEROPAGE, &away->zeros) == 0);
    return 0;
}

UNIT_TEST(what_is_read_is_not_half_of_a_write)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    struct away away = {.faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC)};
    size_t done;
    if (away.faults < 0)
        return; /* not permitted here */
    uint8_t *memory =
        mmap(NULL, 2 * LEDGER_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    area.range = (struct uffdio_range){(uintptr_t)memory + LEDGER_CHUNK, LEDGER_CHUNK};
    away.zeros.range = area.range;
    assert_int_equal(ioctl(away.faults, UFFDIO_API, &api), 0);
    assert_int_equal(ioctl(away.faults, UFFDIO_REGISTER, &area), 0);
    attach(&away.file, 542);
    write_dirty(&away.file, 0, 2 * LEDGER_CHUNK, 'o');
    pid_t child = start_child(writes_and_brings_it, &away);
    assert_int_equal(ledger_dirty_read(&away.file, 0, 2 * LEDGER_CHUNK, memory, &done),
                     LEDGER_DIRTY_ALL);
    for (unsigned i = 0; i < 2 * LEDGER_CHUNK; i++)
        assert_int_equal(memory[i], 'n');
    assert_int_equal(end_child(child), 0);
    munmap(memory, 2 * LEDGER_CHUNK);
    close(away.faults);
    ledger_file_forget(&away.file, false);
}

/* The late copy of the longer record would undo them. */
UNIT_TEST(what_follows_data_that_is_held_is_not_joined_to_it)
{
    struct ledger_file file, again;
    struct ledger_write write, late;
    attach(&file, 541);
    write_dirty(&file, 0, 1000, 'a');
    assert_int_equal(take(&file, &write), 1);
    write.unsettled = true;
    ledger_hold_set(UINT64_C(3600000000000));
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    ledger_hold_set(0);
    assert_true(ledger_file_truncated_by_kernel(&file.key, 500, &again));
    write_dirty(&file, 500, 100, 'b');
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.length, 500);
    assert_int_equal(take(&file, &late), -EAGAIN);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(take(&file, &late), -EAGAIN);
    expect_dirty(&file, 500, 100, 'b');
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
