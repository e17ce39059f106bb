/* Sizes and times of files in the registry: src/ledger/attributes.c. */
#include "entries_scene.h"

#include "ledger/stamp.h"

UNIT_TEST(what_was_learned_is_known_to_all)
{
    struct ledger_file file, other;
    struct ledger_attributes attributes;
    uint64_t verified;
    attach(&file, 1);
    assert_false(ledger_file_attributes(&file, &attributes, &verified));
    assert_false(ledger_file_peek(77, 1, &attributes));
    learn_now(&file, 1234, 100);
    attach(&other, 1);
    assert_true(ledger_file_attributes(&other, &attributes, &verified));
    assert_int_equal(attributes.size, 1234);
    assert_int_equal(attributes.used, 2468);
    assert_int_equal(attributes.ctime.tv_sec, 100);
    assert_int_equal(attributes.ctime.tv_nsec, 5);
    assert_int_equal(attributes.mtime.tv_nsec, 7);
    assert_int_equal(verified, 100);
    assert_true(ledger_file_peek(77, 1, &attributes));
    assert_int_equal(attributes.size, 1234);
    assert_false(ledger_file_peek(78, 1, &attributes));
}

UNIT_TEST(the_size_grows_with_a_write_that_succeeds)
{
    struct ledger_file file;
    attach_learned(&file, 2, 100, 1);
    write_bytes(&file, 50, 10, LEDGER_WRITE_STABLE);
    assert_int_equal(size_of(&file), 100);
    write_bytes(&file, 100, 10, LEDGER_WRITE_STABLE);
    assert_int_equal(size_of(&file), 110);
    write_bytes(&file, 200, 10, LEDGER_WRITE_FAILED);
    assert_int_equal(size_of(&file), 110);
}

UNIT_TEST(a_reply_from_before_a_write_does_not_shrink)
{
    struct ledger_file file;
    attach_learned(&file, 3, 100, 1);
    uint64_t epoch = ledger_file_asking(&file);
    write_bytes(&file, 100, 50, LEDGER_WRITE_STABLE);
    learn(&file, epoch, 100, 2);
    assert_int_equal(size_of(&file), 150);
    epoch = ledger_file_asking(&file);
    write_bytes(&file, 0, 1, LEDGER_WRITE_STABLE);
    learn(&file, epoch, 400, 3);
    assert_int_equal(size_of(&file), 400);
    learn_now(&file, 80, 4); /* nothing of ours meanwhile: someone elsewhere truncated it */
    assert_int_equal(size_of(&file), 80);
}

/* Another host may have cut the file: the server must be asked again. */
UNIT_TEST(a_shorter_reply_that_a_write_met_confirms_nothing)
{
    struct ledger_file file;
    struct ledger_attributes attributes;
    uint64_t verified;
    attach_learned(&file, 22, 100, 1);
    uint64_t epoch = ledger_file_asking(&file);
    write_bytes(&file, 0, 10, LEDGER_WRITE_STABLE);
    learn(&file, epoch, 50, 2);
    assert_true(ledger_file_attributes(&file, &attributes, &verified));
    assert_int_equal(attributes.size, 100);
    assert_int_equal(verified, 1);
}

UNIT_TEST(a_reply_from_before_a_truncation_changes_no_size)
{
    struct ledger_file file;
    attach_learned(&file, 4, 1000, 1);
    uint64_t epoch = ledger_file_asking(&file);
    ledger_file_truncate_begin(&file, 10);
    ledger_file_truncate_end(&file, 10, true);
    assert_int_equal(size_of(&file), 10);
    learn(&file, epoch, 1000, 2);
    assert_int_equal(size_of(&file), 10);
}

UNIT_TEST(after_a_truncation_that_failed_the_size_is_asked_for)
{
    struct ledger_file file;
    attach_learned(&file, 81, 10, 1);
    ledger_file_truncate_begin(&file, 5);
    ledger_file_truncate_end(&file, 5, false);
    assert_int_equal(size_of(&file), UINT64_MAX);
    struct ledger_attributes attributes = {.size = 5, .ctime = {2, 0}};
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
    assert_int_equal(size_of(&file), 5);
}

UNIT_TEST(a_reply_that_was_overtaken_changes_no_size)
{
    struct ledger_file file;
    attach_learned(&file, 82, 100, 1);
    learn_now(&file, 200, 3); /* someone elsewhere writes to it */
    learn_now(&file, 100, 2);
    assert_int_equal(size_of(&file), 200);
    uint64_t epoch = ledger_file_asking(&file);
    write_bytes(&file, 0, 1, LEDGER_WRITE_STABLE);
    learn_now(&file, 50, 4); /* and cuts it */
    learn(&file, epoch, 200, 3);
    assert_int_equal(size_of(&file), 50);
}

static void learn_asked(struct ledger_file *file, uint64_t size, long ctime, uint64_t asked_ns)
{
    struct ledger_attributes attributes = {.size = size, .ctime = {ctime, 0}, .mtime = {ctime, 0}};
    ledger_file_learned(file, ledger_file_asking(file), &attributes, asked_ns);
}

UNIT_TEST(of_two_answers_the_later_question_may_have_the_older_one)
{
    struct ledger_file file;
    attach_learned(&file, 83, 100, 1);
    learn_asked(&file, 200, 3, 10); /* someone elsewhere wrote to it between the two answers */
    learn_asked(&file, 100, 1, 20);
    assert_int_equal(size_of(&file), UINT64_MAX);
    learn_asked(&file, 100, 1, 30); /* asked before that was known */
    assert_int_equal(size_of(&file), UINT64_MAX);
    learn_asked(&file, 200, 3, sys_now_ns());
    assert_int_equal(size_of(&file), 200);
}

UNIT_TEST(a_server_whose_clock_was_set_back_is_believed_when_it_is_asked_again)
{
    struct ledger_file file;
    struct ledger_attributes attributes;
    uint64_t verified;
    attach_learned(&file, 84, 100, 1000);
    learn_asked(&file, 50, 900, 1001);
    uint64_t now = sys_now_ns();
    learn_asked(&file, 50, 900, now);
    assert_true(ledger_file_attributes(&file, &attributes, &verified));
    assert_int_equal(attributes.size, 50);
    assert_int_equal(attributes.ctime.tv_sec, 900);
    learn_asked(&file, 60, 901, now + 1);
    assert_int_equal(size_of(&file), 60);
}

/* What was told does not become what this host did itself. */
UNIT_TEST(who_doubts_the_size_still_sees_that_somebody_else_changed_the_file)
{
    struct ledger_file file;
    attach_learned(&file, 85, 100, 1);
    struct ledger_attributes now = {.size = 100, .ctime = {3, 0}, .mtime = {3, 0}};
    learn_asked(&file, 100, 3, 10);
    learn_asked(&file, 100, 2, 20);
    learn_asked(&file, 100, 3, sys_now_ns());
    assert_int_equal(ledger_file_changed_by_other(&file, ledger_file_asking(&file), &now),
                     LEDGER_CHANGE_TIME);
}

/* The answer is older than the doubt, so it tells nothing else. */
UNIT_TEST(an_answer_to_a_write_tells_what_this_host_did_though_the_size_is_in_doubt)
{
    struct ledger_file file;
    struct ledger_write write;
    struct ledger_attributes now = {.size = 100, .ctime = {5, 0}, .mtime = {5, 0}};
    attach_learned(&file, 86, 100, 1);
    struct iovec vector = {(char[]){"0123456789"}, 10};
    assert_int_equal(ledger_write_begin(&file, 0, &vector, 1, 10, true, &write), 0);
    struct ledger_ending ending = {.file = &file,
                                   .write = &write,
                                   .outcome = LEDGER_WRITE_UNSTABLE,
                                   .verifier = verifier,
                                   .attributes_known = true,
                                   .epoch = ledger_file_asking(&file),
                                   .asked_ns = 5,
                                   .attributes = now};
    learn_asked(&file, 100, 3, 10);
    learn_asked(&file, 100, 2, 20);
    ledger_writes_end(&ending, 1);
    learn_asked(&file, 100, 5, sys_now_ns());
    assert_int_equal(size_of(&file), 100);
    assert_int_equal(ledger_file_changed_by_other(&file, ledger_file_asking(&file), &now),
                     LEDGER_CHANGE_NONE);
}

UNIT_TEST(the_size_never_falls_below_uncommitted_data)
{
    struct ledger_file file;
    struct ledger_commit commit;
    attach_learned(&file, 5, 0, 1);
    write_bytes(&file, 1000, 24, LEDGER_WRITE_UNSTABLE);
    learn_now(&file, 0, 2); /* the server was restarted and lost it */
    assert_int_equal(size_of(&file), 1024);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, verifier), 0);
    learn_now(&file, 7, 3);
    assert_int_equal(size_of(&file), 7);
}

UNIT_TEST(times_follow_the_later_ctime)
{
    struct ledger_file file;
    struct ledger_attributes attributes;
    uint64_t verified;
    attach_learned(&file, 6, 1, 50);
    learn_now(&file, 2, 40); /* a reply that was overtaken */
    assert_true(ledger_file_attributes(&file, &attributes, &verified));
    assert_int_equal(attributes.ctime.tv_sec, 50);
    assert_int_equal(verified, 50);
}

UNIT_TEST(a_truncation_drops_data_beyond)
{
    struct ledger_file file;
    attach(&file, 7);
    write_bytes(&file, 0, 30000, LEDGER_WRITE_UNSTABLE);
    ledger_file_truncate_begin(&file, 10000);
    ledger_file_truncate_end(&file, 10000, true);
    assert_int_equal(ledger_file_uncommitted(&file), 10000);
    struct ledger_stamp stamp;
    uint64_t replays = ledger_file_replays(&file);
    ledger_stamp_take(&file, 0, 0, &stamp);
    assert_true(ledger_stamp_lasts(&file, &stamp, LEDGER_STAMP_REWRITTEN, 0, 0));
    struct ledger_file again;
    assert_false(ledger_file_truncated_by_kernel(NUMBER_KEY(7), 0, &again));
    assert_int_equal(again.index, file.index);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    /* Who reads now finds no trace of what a server that restarted has lost. */
    assert_false(ledger_stamp_lasts(&file, &stamp, LEDGER_STAMP_REWRITTEN, 0, 0));
    assert_int_equal(ledger_file_replays(&file), replays);
    assert_false(ledger_file_truncated_by_kernel(NUMBER_KEY(4711), 0, &again));
    assert_int_equal(again.generation, 0);
    check_invariants();
}

static _Atomic int wrote;
static void *write_beyond(void *argument)
{
    write_bytes(argument, 500, 10, LEDGER_WRITE_STABLE);
    atomic_store(&wrote, 1);
    return NULL;
}

UNIT_TEST(writes_beyond_wait_for_a_truncation)
{
    struct ledger_file file;
    pthread_t thread;
    attach(&file, 8);
    ledger_file_truncate_begin(&file, 100);
    assert_int_equal(pthread_create(&thread, NULL, write_beyond, &file), 0);
    write_bytes(&file, 0, 100, LEDGER_WRITE_STABLE); /* below it does not wait */
    usleep(150000);
    assert_int_equal(wrote, 0);
    ledger_file_truncate_end(&file, 100, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrote, 1);
}

static int child_dies_truncating(void *argument)
{
    ledger_file_truncate_begin(argument, 0);
    return 0;
}

UNIT_TEST(a_dead_process_truncates_no_more)
{
    struct ledger_file file;
    attach_learned(&file, 9, 100, 1);
    assert_int_equal(run_child(child_dies_truncating, &file), 0);
    write_bytes(&file, 0, 10, LEDGER_WRITE_STABLE); /* does not wait for ever */
    assert_int_equal(size_of(&file), UINT64_MAX);   /* and the size must be asked for */
}

static uint64_t verified_at(struct ledger_file *file)
{
    struct ledger_attributes attributes;
    uint64_t verified = 0;
    assert_true(ledger_file_attributes(file, &attributes, &verified));
    return verified;
}

enum { SECOND = 1000000000 };

/* Does what the kernel was told of this size and time of change, `seconds` later, become what is
 * known? */
static bool is_taken(struct ledger_file *file, uint64_t size, long nanoseconds, unsigned seconds)
{
    struct ledger_attributes told = {.size = size,
                                     .ctime = {1 + nanoseconds / SECOND, nanoseconds % SECOND}};
    ledger_file_kernel_told(file, &told, verified_at(file) + seconds * UINT64_C(1000000000) + 1);
    return size_of(file) == size;
}

UNIT_TEST(what_the_kernel_was_told_of_a_change_by_another_host_is_taken)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    attach_learned(&file, 522, 100, 1);
    assert_true(ledger_stamp_take_quiet(&file, 0, 10, &stamp));
    assert_true(is_taken(&file, 50, 6, 1)); /* it was cut */
    /* What was read before is old. */
    assert_false(ledger_stamp_lasts(&file, &stamp, LEDGER_STAMP_GIVEN, 0, 10));
}

UNIT_TEST(what_the_kernel_was_told_before_a_change_by_this_host_is_not_taken)
{
    struct ledger_file file;
    struct ledger_write write;
    attach_learned(&file, 523, 100, 1);
    assert_true(is_taken(&file, 60, 6, 1));
    assert_false(is_taken(&file, 50, 6, 1)); /* as old as what is known */
    assert_false(is_taken(&file, 50, 5, 1));
    assert_false(is_taken(&file, 50, 7, 0)); /* this host may have changed it since the question */
    uint8_t data[10] = {0};
    struct iovec vector = {data, sizeof(data)};
    assert_int_equal(ledger_write_begin(&file, 0, &vector, 1, sizeof(data), true, &write), 0);
    assert_false(is_taken(&file, 50, 7, 1)); /* it does so now */
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, verifier);
    assert_false(is_taken(&file, 50, 7, 1)); /* and was not told what time that made */
    learn(&file, ledger_file_asking(&file), 60, 2);
    assert_false(is_taken(&file, 50, SECOND + 7, 1)); /* it may have to do it again */
    attach_learned(&file, 524, 60, 1);
    write_bytes(&file, 0, 10, LEDGER_WRITE_STABLE);
    assert_false(is_taken(&file, 50, 7, 1)); /* not told, either */
    assert_int_equal(size_of(&file), 60);
}

UNIT_TEST(what_the_kernel_was_told_is_as_good_as_asked_for)
{
    struct ledger_file file;
    struct ledger_attributes same = {.size = 100, .ctime = {1, 5}}, other = same;
    attach(&file, 21);
    ledger_file_confirmed(&file, &same, 1);
    assert_int_equal(size_of(&file), UINT64_MAX); /* nothing was known */
    ledger_file_learned(&file, ledger_file_asking(&file), &same, 1);
    ledger_file_confirmed(&file, &same, 10);
    assert_int_equal(verified_at(&file), 10);
    other.ctime.tv_nsec = 6;
    ledger_file_confirmed(&file, &other, 20);
    other = same;
    other.size = 101;
    ledger_file_confirmed(&file, &other, 20);
    ledger_file_confirmed(&file, &same, 5);
    assert_int_equal(verified_at(&file), 10);
    /* An answer that is on its way since before that still tells what is newer. */
    other.ctime.tv_nsec = 7;
    ledger_file_learned(&file, ledger_file_asking(&file), &other, 9);
    assert_int_equal(size_of(&file), 101);
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
