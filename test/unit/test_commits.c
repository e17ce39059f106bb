/* Several COMMITs of a file at once: one that failed, or whose answer nobody will hear. */
#include <pthread.h>

#include "ledger_test.h"

enum { BYTES = 5000 };

static struct host_file file;
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
    host_file_forget(&file, false);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
    check_invariants();
    return 0;
}

/* Sends a COMMIT, waits until the parent has sent another, and hears that it failed when the
 * parent's was answered already. */
static int commit_that_fails(void *unused)
{
    struct host_commit commit;
    (void)unused;
    host_commit_begin(&file, &commit);
    tell(to_parent);
    hear(to_child);
    usleep(50000);
    host_commit_failed(&file, &commit);
    return 0;
}

static void one_that_failed_before_is_heard_of(void **state)
{
    struct host_commit commit;
    (void)state;
    pid_t child = start_child(commit_that_fails, NULL);
    hear(to_parent);
    host_commit_begin(&file, &commit);
    tell(to_child);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES);
    assert_int_equal(end_child(child), 0);
}

static int commit_that_nobody_ends(void *unused)
{
    struct host_commit commit;
    (void)unused;
    host_commit_begin(&file, &commit);
    return 0;
}

static void of_a_process_that_was_killed_counts_as_failed(void **state)
{
    struct host_commit commit;
    (void)state;
    assert_int_equal(run_child(commit_that_nobody_ends, NULL), 0);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES);
}

static void one_that_is_not_answered_is_not_waited_for_long(void **state)
{
    struct host_commit never, commit;
    (void)state;
    host_commit_begin(&file, &never);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES);
    assert_int_equal(host_commit_end(&file, &never, first_verifier), BYTES);
}

static void *end_commit(void *commit)
{
    assert_int_equal(host_commit_end(&file, commit, first_verifier), 0);
    return NULL;
}

static void two_that_end_together_do_not_wait_for_each_other(void **state)
{
    struct host_commit commits[2];
    pthread_t thread;
    (void)state;
    host_commit_begin(&file, &commits[0]);
    host_commit_begin(&file, &commits[1]);
    assert_int_equal(pthread_create(&thread, NULL, end_commit, &commits[0]), 0);
    end_commit(&commits[1]);
    pthread_join(thread, NULL);
    assert_int_equal(host_file_uncommitted(&file), 0);
}

static void one_that_began_after_the_answer_is_not_waited_for(void **state)
{
    struct host_commit first, second;
    (void)state;
    host_commit_begin(&file, &first);
    assert_int_equal(host_commit_end(&file, &first, first_verifier), 0);
    write_kept(&file, 0, BYTES, 2, first_verifier);
    host_commit_begin(&file, &second);
    host_commit_failed(&file, &second);
    assert_int_equal(host_file_uncommitted(&file), BYTES);
    host_commit_begin(&file, &first);
    assert_int_equal(host_commit_end(&file, &first, first_verifier), BYTES);
}

/* The server met the error while it had data that was acknowledged after the COMMIT was sent, and
 * data whose answer was on its way. */
static void one_that_failed_takes_what_was_written_meanwhile(void **state)
{
    struct host_commit failed, commit;
    struct host_write write;
    (void)state;
    host_commit_begin(&file, &failed);
    write_kept(&file, BYTES, 100, 2, first_verifier);
    assert_int_equal(begin(&file, 2 * BYTES, 10, true, &write), 0);
    host_commit_failed(&file, &failed);
    host_write_end(&file, &write, HOST_WRITE_UNSTABLE, first_verifier);
    write_kept(&file, 3 * BYTES, 1, 3, first_verifier);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES + 100 + 10);
}

/* It was sent when nothing was uncommitted. */
static void one_that_vouches_for_nothing_may_fail(void **state)
{
    struct host_commit failed, commit;
    (void)state;
    host_file_forget(&file, false);
    host_commit_begin(&file, &failed);
    write_kept(&file, 0, BYTES, 1, first_verifier);
    host_commit_failed(&file, &failed);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES);
}

/* A COMMIT is waited for that was sent before, even if all it was to vouch for is written over. */
static void one_whose_data_was_written_over_may_fail(void **state)
{
    struct host_commit never, commit;
    (void)state;
    host_commit_begin(&file, &never);
    write_kept(&file, 0, BYTES, 2, first_verifier);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES);
}

/* A write to the disk, as a COMMIT, is told the server's error for all data of the file. */
static void a_doubtful_write_takes_what_was_written_before(void **state)
{
    struct host_commit commit;
    struct host_write write;
    (void)state;
    assert_int_equal(begin(&file, BYTES, 100, false, &write), 0);
    write.doubtful = true;
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES);
}

/* When there is no place to note one for long, the oldest counts as failed. */
static void more_than_are_noted(void **state)
{
    enum { FILES = HOST_COMMITS / 2 + 1, OF_EACH = 2 };
    struct host_file files[FILES];
    struct host_commit commits[FILES][OF_EACH];
    uint64_t inode = 7000000;
    (void)state;
    for (int i = 0; i < FILES; i++) {
        while (host_stripe_of_inode(77, ++inode) != 5)
            ;
        attach(&files[i], inode);
        write_kept(&files[i], 0, BYTES, 1, first_verifier);
        for (int k = 0; k < (i < FILES - 1 ? OF_EACH : 1); k++)
            assert_true(host_commit_begin(&files[i], &commits[i][k]));
    }
    host_commit_over(&files[0], &commits[0][1], false);
    assert_int_equal(host_commit_end(&files[0], &commits[0][0], first_verifier), BYTES);
    assert_int_equal(host_commit_end(&files[FILES - 1], &commits[FILES - 1][0], first_verifier), 0);
    for (int i = 0; i < FILES; i++) {
        for (int k = 0; k < OF_EACH && i < FILES - 1; k++)
            host_commit_failed(&files[i], &commits[i][k]);
        host_file_forget(&files[i], false);
    }
}

/* A server that carries out one COMMIT after the other. */
static pthread_mutex_t server = PTHREAD_MUTEX_INITIALIZER;

static void *write_and_commit(void *number)
{
    struct host_file own;
    struct host_write write;
    struct host_commit commit;
    uint8_t data[100] = {0};
    struct iovec vector = {data, sizeof(data)};
    attach(&own, file.key.inode);
    must(host_write_begin(&own, (uint64_t)(uintptr_t)number * 65536, &vector, 1, sizeof(data), true,
                          &write) == 0);
    host_write_end(&own, &write, HOST_WRITE_UNSTABLE, first_verifier);
    if (!host_commit_begin(&own, &commit))
        return NULL;
    pthread_mutex_lock(&server);
    usleep(60000);
    pthread_mutex_unlock(&server);
    must(host_commit_end(&own, &commit, first_verifier) == 0);
    return NULL;
}

static void many_writers_share_commits_and_none_counts_as_failed(void **state)
{
    enum { WRITERS = 60 };
    pthread_t threads[WRITERS];
    (void)state;
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_commit, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(host_file_uncommitted(&file), 0);
}

struct joiner {
    struct host_commit commit;
    _Atomic bool begins, began, sends;
    pthread_t thread;
};

static void *join(void *argument)
{
    struct joiner *joiner = argument;
    joiner->begins = true;
    joiner->sends = host_commit_begin(&file, &joiner->commit);
    joiner->began = true;
    return NULL;
}

static void start_joiner(struct joiner *joiner)
{
    *joiner = (struct joiner){.began = false};
    assert_int_equal(pthread_create(&joiner->thread, NULL, join, joiner), 0);
    while (!joiner->begins)
        usleep(1000);
    usleep(50000); /* it waits */
    assert_false(joiner->began);
}

/* Those that are on their way were sent before it was acknowledged what two threads wait for. */
static struct joiner *two_wait(struct host_commit commits[2], struct joiner joiners[2])
{
    for (int i = 0; i < 2; i++)
        assert_true(host_commit_begin(&file, &commits[i]));
    write_kept(&file, BYTES, 10, 2, first_verifier);
    start_joiner(&joiners[0]);
    start_joiner(&joiners[1]);
    host_commit_over(&file, &commits[1], true);
    while (!joiners[0].began && !joiners[1].began)
        usleep(1000);
    usleep(50000);
    struct joiner *first = &joiners[joiners[1].began];
    assert_true(first->sends);
    assert_false(joiners[0].began && joiners[1].began);
    return first;
}

static void one_commit_for_two_that_wait(void **state)
{
    struct host_commit commits[2];
    struct joiner joiners[2];
    (void)state;
    struct joiner *first = two_wait(commits, joiners);
    host_commit_over(&file, &commits[0], true);
    assert_int_equal(host_commit_end(&file, &first->commit, first_verifier), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(joiners[i].thread, NULL);
    assert_false(joiners[0].sends && joiners[1].sends);
    assert_int_equal(host_file_uncommitted(&file), 0);
}

static void one_commit_that_fails_for_two_that_wait(void **state)
{
    struct host_commit commits[2];
    struct joiner joiners[2];
    (void)state;
    struct joiner *first = two_wait(commits, joiners);
    host_commit_over(&file, &commits[0], true);
    host_commit_failed(&file, &first->commit);
    for (int i = 0; i < 2; i++)
        pthread_join(joiners[i].thread, NULL);
    struct joiner *second = &joiners[first == joiners];
    assert_true(second->sends);
    assert_int_equal(host_commit_end(&file, &second->commit, first_verifier), BYTES + 10);
}

static void data_is_distrusted_until_it_is_written_again(void **state)
{
    struct host_commit commit;
    struct host_write write;
    (void)state;
    host_commit_begin(&file, &commit);
    host_commit_failed(&file, &commit);
    assert_true(host_file_distrusted(&file));
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), BYTES);
    assert_true(host_file_distrusted(&file));
    while (host_replay_next(&file, &commit, &write) == 1)
        host_write_end(&file, &write, HOST_WRITE_STABLE, NULL);
    assert_false(host_file_distrusted(&file));
}

static void *end_slow_commit(void *commit)
{
    usleep(1200000);
    assert_int_equal(host_commit_end(&file, commit, first_verifier), 0);
    return NULL;
}

/* A server that takes its time for one COMMIT does so for others. */
static void one_is_waited_for_as_long_as_this_one_took(void **state)
{
    struct host_commit slow, commit;
    pthread_t thread;
    (void)state;
    host_commit_begin(&file, &slow);
    host_commit_begin(&file, &commit);
    commit.began_ns -= UINT64_C(3600000000000);
    assert_int_equal(pthread_create(&thread, NULL, end_slow_commit, &slow), 0);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), 0);
    pthread_join(thread, NULL);
}

/* Another failed meanwhile, and then a write ended that goes on where the data of this one ends. */
static void one_does_not_miss_what_is_distrusted_and_was_joined(void **state)
{
    struct host_commit failed, commit;
    struct host_write write;
    (void)state;
    host_commit_begin(&file, &commit);
    host_commit_begin(&file, &failed);
    must(begin(&file, BYTES, 10, true, &write) == 0);
    host_commit_failed(&file, &failed);
    host_write_end(&file, &write, HOST_WRITE_UNSTABLE, first_verifier);
    uint64_t differing = host_commit_end(&file, &commit, first_verifier);
    assert_true(differing >= BYTES || commit.again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_failed_before_is_heard_of, scene, end_scene),
        cmocka_unit_test_setup_teardown(of_a_process_that_was_killed_counts_as_failed, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(one_that_is_not_answered_is_not_waited_for_long, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(two_that_end_together_do_not_wait_for_each_other, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(one_that_began_after_the_answer_is_not_waited_for, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(one_that_failed_takes_what_was_written_meanwhile, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(one_that_vouches_for_nothing_may_fail, scene, end_scene),
        cmocka_unit_test_setup_teardown(one_whose_data_was_written_over_may_fail, scene, end_scene),
        cmocka_unit_test_setup_teardown(a_doubtful_write_takes_what_was_written_before, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(more_than_are_noted, scene, end_scene),
        cmocka_unit_test_setup_teardown(many_writers_share_commits_and_none_counts_as_failed, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(one_commit_for_two_that_wait, scene, end_scene),
        cmocka_unit_test_setup_teardown(one_commit_that_fails_for_two_that_wait, scene, end_scene),
        cmocka_unit_test_setup_teardown(data_is_distrusted_until_it_is_written_again, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(one_does_not_miss_what_is_distrusted_and_was_joined, scene,
                                        end_scene),
        cmocka_unit_test_setup_teardown(one_is_waited_for_as_long_as_this_one_took, scene,
                                        end_scene),
    };
    return cmocka_run_group_tests(tests, open_registry, remove_run_directory);
}
