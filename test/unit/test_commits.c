/* Several COMMITs of a file at once: one that failed, or whose answer nobody will hear. */
#include <pthread.h>

#include "dirty_scene.h"

enum { BYTES = 5000 };

static struct ledger_file file;
static int to_child[2], to_parent[2];

static void tell(int pipe[2])
{
    must(write(pipe[1], "", 1) == 1);
}

static void hear(int pipe[2])
{
    char byte;
    must(read(pipe[0], &byte, 1) == 1);
}

static int scene(void **state)
{
    static uint64_t inode = 100;
    (void)state;
    if (pipe(to_child) != 0 || pipe(to_parent) != 0)
        return -1;
    attach(&file, ++inode);
    write_kept(&file, 0, BYTES, 1, first_verifier);
    return 0;
}

static int end_scene(void **state)
{
    (void)state;
    ledger_file_forget(&file, false);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
    check_invariants();
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, scene, end_scene)

/* Sends a COMMIT, waits until the parent has sent another, and hears that it failed when the
 * parent's was answered already. */
static int commit_that_fails(void *unused)
{
    struct ledger_commit commit;
    (void)unused;
    ledger_commit_begin(&file, &commit);
    tell(to_parent);
    hear(to_child);
    usleep(50000);
    ledger_commit_failed(&file, &commit);
    return 0;
}

TEST(one_that_failed_before_is_heard_of)
{
    struct ledger_commit commit;
    pid_t child = start_child(commit_that_fails, NULL);
    hear(to_parent);
    ledger_commit_begin(&file, &commit);
    tell(to_child);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
    assert_int_equal(end_child(child), 0);
}

static int commit_that_nobody_ends(void *unused)
{
    struct ledger_commit commit;
    (void)unused;
    ledger_commit_begin(&file, &commit);
    return 0;
}

TEST(of_a_process_that_was_killed_counts_as_failed)
{
    struct ledger_commit commit;
    assert_int_equal(run_child(commit_that_nobody_ends, NULL), 0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
}

TEST(one_that_is_not_answered_is_not_waited_for_long)
{
    struct ledger_commit never, commit;
    ledger_commit_begin(&file, &never);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
    assert_int_equal(ledger_commit_end(&file, &never, first_verifier), BYTES);
}

static void *end_commit(void *commit)
{
    assert_int_equal(ledger_commit_end(&file, commit, first_verifier), 0);
    return NULL;
}

TEST(two_that_end_together_do_not_wait_for_each_other)
{
    struct ledger_commit commits[2];
    pthread_t thread;
    ledger_commit_begin(&file, &commits[0]);
    ledger_commit_begin(&file, &commits[1]);
    assert_int_equal(pthread_create(&thread, NULL, end_commit, &commits[0]), 0);
    end_commit(&commits[1]);
    pthread_join(thread, NULL);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
}

TEST(one_that_began_after_the_answer_is_not_waited_for)
{
    struct ledger_commit first, second;
    ledger_commit_begin(&file, &first);
    assert_int_equal(ledger_commit_end(&file, &first, first_verifier), 0);
    write_kept(&file, 0, BYTES, 2, first_verifier);
    ledger_commit_begin(&file, &second);
    ledger_commit_failed(&file, &second);
    assert_int_equal(ledger_file_uncommitted(&file), BYTES);
    ledger_commit_begin(&file, &first);
    assert_int_equal(ledger_commit_end(&file, &first, first_verifier), BYTES);
}

/* The server met the error while it had data that was acknowledged after the COMMIT was sent, and
 * data whose answer was on its way. */
TEST(one_that_failed_takes_what_was_written_meanwhile)
{
    struct ledger_commit failed, commit;
    struct ledger_write write;
    ledger_commit_begin(&file, &failed);
    write_kept(&file, BYTES, 100, 2, first_verifier);
    assert_int_equal(begin(&file, 2 * BYTES, 10, true, &write), 0);
    ledger_commit_failed(&file, &failed);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    write_kept(&file, 3 * BYTES, 1, 3, first_verifier);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES + 100 + 10);
}

/* It was sent when nothing was uncommitted. */
TEST(one_that_vouches_for_nothing_may_fail)
{
    struct ledger_commit failed, commit;
    ledger_file_forget(&file, false);
    ledger_commit_begin(&file, &failed);
    write_kept(&file, 0, BYTES, 1, first_verifier);
    ledger_commit_failed(&file, &failed);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
}

/* A COMMIT is waited for that was sent before, even if all it was to vouch for is written over. */
TEST(one_whose_data_was_written_over_may_fail)
{
    struct ledger_commit never, commit;
    ledger_commit_begin(&file, &never);
    write_kept(&file, 0, BYTES, 2, first_verifier);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
}

/* A write to the disk, as a COMMIT, is told the server's error for all data of the file. */
TEST(a_doubtful_write_takes_what_was_written_before)
{
    struct ledger_commit commit;
    struct ledger_write write;
    assert_int_equal(begin(&file, BYTES, 100, false, &write), 0);
    write.doubtful = true;
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
}

/* When there is no place to note one for long, the oldest counts as failed. */
TEST(more_than_are_noted)
{
    enum { FILES = LEDGER_COMMITS / 2 + 1, OF_EACH = 2 };
    struct ledger_file files[FILES];
    struct ledger_commit commits[FILES][OF_EACH];
    uint64_t inode = 7000000;
    for (int i = 0; i < FILES; i++) {
        while (ledger_stripe_of_inode(77, ++inode) != 5)
            ;
        attach(&files[i], inode);
        write_kept(&files[i], 0, BYTES, 1, first_verifier);
        for (int k = 0; k < (i < FILES - 1 ? OF_EACH : 1); k++)
            assert_true(ledger_commit_begin(&files[i], &commits[i][k]));
    }
    ledger_commit_over(&files[0], &commits[0][1], false);
    assert_int_equal(ledger_commit_end(&files[0], &commits[0][0], first_verifier), BYTES);
    assert_int_equal(ledger_commit_end(&files[FILES - 1], &commits[FILES - 1][0], first_verifier),
                     0);
    for (int i = 0; i < FILES; i++) {
        for (int k = 0; k < OF_EACH && i < FILES - 1; k++)
            ledger_commit_failed(&files[i], &commits[i][k]);
        ledger_file_forget(&files[i], false);
    }
}

/* A server that carries out one COMMIT after the other. */
static pthread_mutex_t server = PTHREAD_MUTEX_INITIALIZER;

static void *write_and_commit(void *number)
{
    struct ledger_file own;
    struct ledger_write write;
    struct ledger_commit commit;
    uint8_t data[100] = {0};
    struct iovec vector = {data, sizeof(data)};
    attach(&own, file.key.inode);
    must(ledger_write_begin(&own, (uint64_t)(uintptr_t)number * 65536, &vector, 1, sizeof(data),
                            true, &write) == 0);
    ledger_write_end(&own, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    if (!ledger_commit_begin(&own, &commit))
        return NULL;
    pthread_mutex_lock(&server);
    usleep(60000);
    pthread_mutex_unlock(&server);
    must(ledger_commit_end(&own, &commit, first_verifier) == 0);
    return NULL;
}

TEST(many_writers_share_commits_and_none_counts_as_failed)
{
    enum { WRITERS = 60 };
    pthread_t threads[WRITERS];
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_commit, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
}

struct joiner {
    struct ledger_commit commit;
    _Atomic bool began, sends;
    pthread_t thread;
};

static void *join(void *argument)
{
    struct joiner *joiner = argument;
    joiner->sends = ledger_commit_begin(&file, &joiner->commit);
    joiner->began = true;
    return NULL;
}

static uint32_t waiters(struct ledger_file *of)
{
    uint32_t number = ledger_stripe_of_file(of);
    ledger_stripe_lock(number);
    uint32_t waiting = ledger_map.shared->stripes[number].commit_waiters;
    ledger_stripe_unlock(number);
    return waiting;
}

/* Returns when it waits for a COMMIT, as one of so many. */
static void start_joiner(struct joiner *joiner, uint32_t waiting)
{
    *joiner = (struct joiner){.began = false};
    assert_int_equal(pthread_create(&joiner->thread, NULL, join, joiner), 0);
    while (waiters(&file) < waiting)
        usleep(1000);
    assert_false(joiner->began);
}

/* Those that are on their way were sent before it was acknowledged what two threads wait for. */
static struct joiner *two_wait(struct ledger_commit commits[2], struct joiner joiners[2])
{
    for (int i = 0; i < 2; i++)
        assert_true(ledger_commit_begin(&file, &commits[i]));
    write_kept(&file, BYTES, 10, 2, first_verifier);
    /* So that a slow machine does not end their wait. */
    ledger_map.shared->stripes[ledger_stripe_of_file(&file)].commit_took_ns = UINT64_C(60000000000);
    start_joiner(&joiners[0], 1);
    start_joiner(&joiners[1], 2);
    ledger_commit_over(&file, &commits[1], true);
    while ((!joiners[0].began && !joiners[1].began) || waiters(&file) < 1)
        usleep(1000);
    struct joiner *first = &joiners[joiners[1].began];
    assert_true(first->sends);
    assert_false(joiners[0].began && joiners[1].began);
    return first;
}

TEST(one_commit_for_two_that_wait)
{
    struct ledger_commit commits[2];
    struct joiner joiners[2];
    struct joiner *first = two_wait(commits, joiners);
    ledger_commit_over(&file, &commits[0], true);
    assert_int_equal(ledger_commit_end(&file, &first->commit, first_verifier), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(joiners[i].thread, NULL);
    assert_false(joiners[0].sends && joiners[1].sends);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
}

TEST(one_commit_for_two_of_which_one_looks_while_it_ends)
{
    struct ledger_commit commits[2];
    struct joiner joiners[2];
    struct joiner *first = two_wait(commits, joiners), *second = &joiners[first == joiners];
    ledger_commit_over(&file, &commits[0], true);
    /* What it vouches for is dropped, and it is not over yet. */
    struct ledger_commit unnoted = first->commit;
    unnoted.ticket = 0;
    assert_int_equal(ledger_commit_end(&file, &unnoted, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    usleep(LEDGER_WAIT_NS / 1000 * 3);
    assert_false(second->began);
    ledger_commit_over(&file, &first->commit, true);
    for (int i = 0; i < 2; i++)
        pthread_join(joiners[i].thread, NULL);
    assert_false(second->sends);
}

TEST(one_commit_that_fails_for_two_that_wait)
{
    struct ledger_commit commits[2];
    struct joiner joiners[2];
    struct joiner *first = two_wait(commits, joiners);
    ledger_commit_over(&file, &commits[0], true);
    ledger_commit_failed(&file, &first->commit);
    for (int i = 0; i < 2; i++)
        pthread_join(joiners[i].thread, NULL);
    struct joiner *second = &joiners[first == joiners];
    assert_true(second->sends);
    assert_int_equal(ledger_commit_end(&file, &second->commit, first_verifier), BYTES + 10);
}

TEST(data_is_distrusted_until_it_is_written_again)
{
    struct ledger_commit commit;
    struct ledger_write write;
    ledger_commit_begin(&file, &commit);
    ledger_commit_failed(&file, &commit);
    assert_true(ledger_file_distrusted(&file));
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
    assert_true(ledger_file_distrusted(&file));
    while (ledger_replay_next(&file, &commit, true, &write) == 1)
        ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_false(ledger_file_distrusted(&file));
}

/* The server may have had the new copy already when it told the error. */
TEST(what_is_written_again_while_another_fails_stays_distrusted)
{
    struct ledger_commit other, commit;
    struct ledger_write write;
    ledger_commit_begin(&file, &other);
    ledger_commit_failed(&file, &other);
    for (int fails = 1; fails >= 0; fails--) {
        ledger_commit_begin(&file, &commit);
        assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
        assert_int_equal(ledger_replay_next(&file, &commit, true, &write), 1);
        if (fails) {
            ledger_commit_begin(&file, &other);
            ledger_commit_failed(&file, &other);
        }
        ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    }
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
}

/* Nothing of the data that it was sent for is left to vouch for, but what took its place is not on
 * stable storage either: who waits for it must not be told that it is. */
TEST(one_is_made_again_when_what_a_restart_lost_was_written_over)
{
    struct ledger_commit commit;
    ledger_commit_begin(&file, &commit);
    write_kept(&file, 0, BYTES, 2, second_verifier);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 0);
    assert_true(commit.again);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 0);
    assert_false(commit.again);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
}

TEST(one_is_made_again_when_distrusted_data_was_written_over)
{
    struct ledger_commit failed, commit;
    ledger_commit_begin(&file, &failed);
    ledger_commit_failed(&file, &failed);
    ledger_commit_begin(&file, &commit);
    write_kept(&file, 0, BYTES, 2, first_verifier);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_true(commit.again);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_false(commit.again);
}

static void *end_slow_commit(void *commit)
{
    usleep(1200000);
    assert_int_equal(ledger_commit_end(&file, commit, first_verifier), 0);
    return NULL;
}

/* A server that takes its time for one COMMIT does so for others. */
TEST(one_is_waited_for_as_long_as_this_one_took)
{
    struct ledger_commit slow, commit;
    pthread_t thread;
    ledger_commit_begin(&file, &slow);
    ledger_commit_begin(&file, &commit);
    commit.began_ns -= UINT64_C(3600000000000);
    assert_int_equal(pthread_create(&thread, NULL, end_slow_commit, &slow), 0);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    pthread_join(thread, NULL);
}

/* Another failed meanwhile, and then a write ended that goes on where the data of this one ends. */
TEST(one_does_not_miss_what_is_distrusted_and_was_joined)
{
    struct ledger_commit failed, commit;
    struct ledger_write write;
    ledger_commit_begin(&file, &commit);
    ledger_commit_begin(&file, &failed);
    must(begin(&file, BYTES, 10, true, &write) == 0);
    ledger_commit_failed(&file, &failed);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    uint64_t differing = ledger_commit_end(&file, &commit, first_verifier);
    assert_true(differing >= BYTES || commit.again);
}

/* ---- WRITEs that are to reach the disk at once: they may be told the error as well ---- */

static int stable_write_that_fails(void *unused)
{
    struct ledger_write write;
    (void)unused;
    must(begin(&file, BYTES, 100, false, &write) == 0);
    tell(to_parent);
    hear(to_child);
    usleep(50000);
    write.doubtful = true;
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    return 0;
}

TEST(a_stable_write_that_failed_before_is_heard_of)
{
    struct ledger_commit commit;
    pid_t child = start_child(stable_write_that_fails, NULL);
    hear(to_parent);
    ledger_commit_begin(&file, &commit);
    commit.began_ns -= UINT64_C(3600000000000);
    tell(to_child);
    uint64_t lost = ledger_commit_end(&file, &commit, first_verifier);
    assert_int_equal(end_child(child), 0);
    assert_int_equal(lost, BYTES);
}

static int stable_write_that_nobody_ends(void *unused)
{
    struct ledger_write write;
    (void)unused;
    must(begin(&file, BYTES, 100, false, &write) == 0);
    kill(getpid(), SIGKILL);
    return 0;
}

TEST(a_stable_write_of_a_process_that_was_killed_counts_as_failed)
{
    struct ledger_commit commit;
    assert_int_equal(run_child(stable_write_that_nobody_ends, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
}

static struct ledger_write before, later;

/* When the COMMIT was answered, and waits for the first. */
static void *begin_another_and_end_the_first(void *waiting)
{
    while (!atomic_load((_Atomic uint32_t *)waiting))
        usleep(1000);
    must(begin(&file, BYTES + 100, 100, false, &later) == 0);
    ledger_write_end(&file, &before, LEDGER_WRITE_STABLE, 0);
    return NULL;
}

/* What began since the answer came cannot have been told an error of before. */
TEST(later_stable_writes_are_not_waited_for)
{
    struct ledger_commit commit;
    pthread_t thread;
    must(begin(&file, BYTES, 100, false, &before) == 0);
    ledger_commit_begin(&file, &commit);
    commit.began_ns -= UINT64_C(3600000000000); /* so that a slow machine has its time */
    _Atomic uint32_t *waiting = &ledger_map.shared->stripes[ledger_stripe_of_file(&file)].waiting;
    atomic_store(waiting, 0);
    assert_int_equal(pthread_create(&thread, NULL, begin_another_and_end_the_first, waiting), 0);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(before.record_count, 0);
    pthread_join(thread, NULL);
    ledger_write_end(&file, &later, LEDGER_WRITE_STABLE, 0);
}

/* It may be of a process that is stopped. */
TEST(a_stable_write_that_does_not_end_is_not_waited_for_for_ever)
{
    struct ledger_commit commit;
    must(begin(&file, BYTES, 100, false, &before) == 0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
    ledger_write_end(&file, &before, LEDGER_WRITE_STABLE, 0);
}

/* Since then many more began, of other files of the stripe. */
TEST(a_stable_write_is_waited_for_however_many_began_since)
{
    struct ledger_commit commit;
    must(begin(&file, BYTES, 100, false, &before) == 0);
    ledger_map.shared->stripes[ledger_stripe_of_file(&file)].commits += 40000;
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
    ledger_write_end(&file, &before, LEDGER_WRITE_STABLE, 0);
}

TEST(no_commit_waits_again_for_what_one_gave_up_on)
{
    struct ledger_commit commit;
    must(begin(&file, BYTES, 100, false, &before) == 0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), BYTES);
    struct ledger_write write;
    commit.most = BYTES;
    assert_int_equal(ledger_replay_next(&file, &commit, false, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0); /* nor distrusts all */
    ledger_write_end(&file, &before, LEDGER_WRITE_STABLE, 0);
}

/* As fsync(2) sends dirty data that is all there is. */
TEST(dirty_data_that_goes_to_the_disk_may_be_told_an_error_as_well)
{
    struct ledger_commit commit;
    struct ledger_sending sending;
    ledger_file_forget(&file, true);
    write_dirty(&file, 0, 100, 1);
    sending = ledger_dirty_now(&file, MOST);
    sending.syncs = true;
    assert_int_equal(ledger_dirty_take(&file, &sending, false, &before), 1);
    assert_true(sending.all);
    write_kept(&file, BYTES, 100, 2, first_verifier);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 100);
    ledger_write_end(&file, &before, LEDGER_WRITE_STABLE, 0);
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
