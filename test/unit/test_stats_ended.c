/* What processes counted that ended, in whatever way, and what is counted meanwhile: src/stats. */
#include <sys/stat.h>

#include "stats/segment.h"
#include "stats_scene.h"

static int work_and_end(void *argument)
{
    must(stats_open() == 0);
    for (int i = 0; i < *(int *)argument; i++)
        stats_call(7, (uint64_t) * (int *)argument * 1000, false);
    stats_add(&stats_own->counters.write_bytes, 8192);
    stats_finish();
    stats_finish();
    stats_call(7, 1, false); /* harmless; counted where another process adds it all up later */
    return 0;
}

UNIT_TEST(no_count_of_ended_processes_is_lost)
{
    pid_t children[60];
    uint64_t calls = 0;
    remove_contents(test_directory);
    assert_int_equal(read_ended(&ended), -ENOENT);
    for (int i = 0; i < 60; i++) {
        int count = i + 1;
        children[i] = start_child(work_and_end, &count);
        calls += (uint64_t)count;
    }
    for (int i = 0; i < 60; i++)
        assert_int_equal(end_child(children[i]), 0);
    assert_int_equal(read_ended(&ended), 0);
    assert_int_equal(ended.processes, 60);
    assert_in_range(ended.counters.procedures[7].latency.calls, calls, calls + 60);
    assert_int_equal(ended.counters.procedures[7].latency.max_ns, 60000);
    assert_int_equal(ended.counters.write_bytes, 60 * 8192);
    assert_int_equal(count_run_files(), 2); /* the sum and its lock */
}

static int work_and_be_killed(void *unused)
{
    (void)unused;
    must(stats_open() == 0);
    add_server("server");
    stats_file("/mnt/killed", 0, 5, DIRECTNFS_FILE_DIRECT, NULL);
    stats_call(6, 1000, false);
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(a_killed_process_is_added_up_by_a_reader)
{
    struct stats_snapshot list = {0};
    int one = 1;
    remove_contents(test_directory);
    assert_int_equal(run_child(work_and_be_killed, NULL), 128 + SIGKILL);
    assert_int_equal(count_run_files(), 1);
    assert_int_equal(stats_snapshot_read(&list, NULL), 0);
    assert_int_equal(list.count, 0);
    stats_snapshot_free(&list);
    /* A later process without files leaves the tables for --last. */
    assert_int_equal(run_child(work_and_end, &one), 0);
    assert_int_equal(read_ended(&ended), 0);
    assert_int_equal(ended.processes, 2);
    assert_int_equal(ended.counters.procedures[6].latency.calls, 1);
    assert_int_equal(ended.counters.procedures[7].latency.calls, 1);
    assert_int_equal(ended.file_count, 1);
    assert_string_equal(ended.files[0].name, "/mnt/killed");
    assert_string_equal(ended.servers[0].name, "server");
    assert_int_equal(count_run_files(), 2);
}

static int wait_and_be_killed(void *unused)
{
    (void)unused;
    must(stats_open() == 0);
    struct directnfs_path_stats *path = stats_path(add_server("server"), "10.0.0.1", NULL);
    stats_path_state(path, DIRECTNFS_CHANNEL_SILENT, "calls wait");
    stats_set(&path->oldest_ns, 1);
    stats_set(&stats_channel(0, "10.0.0.1", NULL)->oldest_ns, 1);
    pid_t child = fork();
    if (child == 0) { /* the calls that wait are its parent's */
        stats_after_fork();
        must(path->state == DIRECTNFS_CHANNEL_UP && path->oldest_ns == 0);
        _exit(0);
    }
    must(end_child(child) == 0 && path->state == DIRECTNFS_CHANNEL_SILENT);
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(who_was_killed_while_it_waited_waits_no_longer)
{
    struct stats_snapshot list = {0};
    remove_contents(test_directory);
    assert_int_equal(run_child(wait_and_be_killed, NULL), 128 + SIGKILL);
    assert_int_equal(stats_snapshot_read(&list, NULL), 0);
    stats_snapshot_free(&list);
    assert_int_equal(read_ended(&ended), 0);
    assert_int_equal(ended.path_count, 1);
    assert_int_equal(ended.paths[0].state, DIRECTNFS_CHANNEL_UP);
    assert_string_equal(ended.paths[0].reason, "");
    assert_int_equal(ended.paths[0].oldest_ns, 0);
}

UNIT_TEST(processes_that_start_clean_up_now_and_then)
{
    char lock[200];
    int one = 1;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    snprintf(lock, sizeof(lock), "%s/stats.lock", test_directory);
    remove_contents(test_directory);
    assert_int_equal(run_child(work_and_be_killed, NULL), 128 + SIGKILL);
    assert_int_equal(run_child(work_and_end, &one), 0);
    assert_int_equal(count_run_files(), 2);

    unsigned killed = 1;
    do { /* again if the machine is so slow that more than a second goes by */
        assert_int_equal(run_child(work_and_be_killed, NULL), 128 + SIGKILL);
        assert_int_equal(utimensat(AT_FDCWD, lock, NULL, 0), 0);
        assert_int_equal(run_child(work_and_end, &one), 0);
    } while (++killed < 10 && count_run_files() != 3);
    assert_int_equal(count_run_files(), 3);

    assert_int_equal(utimensat(AT_FDCWD, lock, long_ago, 0), 0);
    assert_int_equal(run_child(work_and_end, &one), 0);
    assert_int_equal(count_run_files(), 2);
    assert_int_equal(read_ended(&ended), 0);
    assert_int_equal(ended.counters.procedures[6].latency.calls, killed);
}

/* Dying between adding up and removing the file must not count twice. */
static int fold_twice(void *unused)
{
    struct run_identity self;
    int run = run_open();
    (void)unused;
    must(stats_open() == 0);
    stats_call(1, 1000, false);
    must(run_identity_self(&self) == 0);
    must(stats_fold(run, &self, stats_own, 1) == 0);
    must(stats_fold(run, &self, stats_own, 1) == -ENOENT);
    must(read_ended(&ended) == 0);
    must(ended.processes == 1 && ended.counters.procedures[1].latency.calls == 1);
    return 0;
}

UNIT_TEST(a_segment_is_never_added_twice)
{
    run_afresh(fold_twice, NULL);
}

/* The same after somebody else was added in between. */
static int die_before_removing(void *unused)
{
    char name[STATS_NAME];
    struct run_identity self;
    int run = run_open();
    (void)unused;
    must(stats_open() == 0);
    stats_call(1, 1000, false);
    must(run_identity_self(&self) == 0);
    stats_segment_name(name, &self);
    must(linkat(run, name, run, "kept", 0) == 0);
    must(stats_fold(run, &self, stats_own, 1) == 0);
    must(renameat(run, "kept", run, name) == 0);
    _exit(0);
}

UNIT_TEST(what_died_before_it_was_removed_counts_once)
{
    int one = 1;
    remove_contents(test_directory);
    assert_int_equal(run_child(die_before_removing, NULL), 0);
    assert_int_equal(count_run_files(), 3);
    assert_int_equal(run_child(work_and_end, &one), 0);
    assert_int_equal(read_ended(&ended), 0);
    assert_int_equal(ended.processes, 2);
    assert_int_equal(ended.counters.procedures[1].latency.calls, 1);
    assert_int_equal(count_run_files(), 2);
}

static int work_and_wait(void *go)
{
    char byte;
    must(stats_open() == 0);
    for (int i = 0; i < 5; i++)
        stats_call(7, 1000, false);
    path_answered(stats_path(0, "10.0.0.1", NULL), 1000);
    must(read(*(int *)go, &byte, 1) == 0);
    stats_finish();
    return 0;
}

static uint64_t calls_of_all(uint64_t *on_path)
{
    struct stats_snapshot snapshot = {0};
    assert_int_equal(stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.problem_count, 0);
    struct directnfs_stats *sum = stats_snapshot_sum(&snapshot);
    uint64_t calls = sum->counters.procedures[7].latency.calls;
    *on_path = sum->path_count ? sum->paths[0].latency.calls : 0;
    free(sum);
    stats_snapshot_free(&snapshot);
    return calls;
}

UNIT_TEST(a_snapshot_while_processes_end_is_exact)
{
    enum { CHILDREN = 40 };
    pid_t children[CHILDREN];
    int go[2];
    uint64_t on_path;
    remove_contents(test_directory);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            close(go[1]);
            in_child = true;
            _exit(work_and_wait(&go[0]));
        }
    }
    while (calls_of_all(&on_path) != 5 * CHILDREN || on_path != CHILDREN)
        usleep(1000);
    close(go[1]);
    for (int ended_ones = 0; ended_ones < CHILDREN;) {
        assert_int_equal(calls_of_all(&on_path), 5 * CHILDREN);
        assert_int_equal(on_path, CHILDREN);
        while (ended_ones < CHILDREN && waitpid(children[ended_ones], NULL, WNOHANG))
            ended_ones++;
    }
    close(go[0]);
    assert_int_equal(count_run_files(), 2);
}

static void check_read(struct stats_snapshot *snapshot)
{
    must(stats_snapshot_read(snapshot, NULL) == 0);
}

static int differs(void *unused)
{
    struct stats_snapshot before = {0}, now = {0};
    int three = 3;
    (void)unused;
    stats_call(7, 1000000, false);
    must(stats_open() == 0);
    struct directnfs_path_stats *path = stats_path(0, "10.0.0.1", NULL);
    struct directnfs_channel_stats *channel = stats_channel(0, "10.0.0.1", NULL);
    path_answered(path, 9000);
    stats_add(&channel->sends, 5);
    int status, go[2];
    must(pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        stats_after_fork();
        _exit(work_and_wait(&go[0]));
    }
    while (check_read(&before), before.count != 2 || before.processes[1]->path_count == 0 ||
                                    before.processes[1]->paths[0].latency.calls == 0)
        stats_snapshot_free(&before);
    close(go[1]);
    must(waitpid(child, &status, 0) == child && status == 0);

    stats_call(7, 3000, false);
    path_answered(path, 1000);
    stats_add(&channel->sends, 2);
    stats_set(&channel->outstanding, 4);
    if (fork() == 0) {
        stats_after_fork();
        _exit(work_and_end(&three));
    }
    must(wait(&status) > 0 && status == 0);
    must(stats_snapshot_read(&now, NULL) == 0 && now.count == 1 && now.ended_count == 1);
    stats_snapshot_subtract(&now, &before);
    must(now.seconds > 0);
    const struct directnfs_stats *self = now.processes[0];
    must(self->counters.procedures[7].latency.calls == 1);
    must(self->counters.procedures[7].latency.total_ns == 3000);
    must(self->counters.procedures[7].latency.histogram[2] == 1);
    /* The longest call was before: only the bucket bounds it. */
    must(self->counters.procedures[7].latency.max_ns == 4000);
    must(self->paths[0].latency.calls == 1 && self->channels[0].sends == 2);
    must(self->channels[0].outstanding == 4);
    must(now.ended[0]->processes == 2);
    must(now.ended[0]->counters.procedures[7].latency.calls == 3);
    struct directnfs_stats *sum = stats_snapshot_sum(&now);
    must(sum->counters.procedures[7].latency.calls == 4);
    must(sum->paths[0].latency.calls == 1);
    free(sum);
    stats_snapshot_free(&now);
    stats_snapshot_free(&before);
    return 0;
}

UNIT_TEST(a_difference_is_what_was_counted_in_between)
{
    run_afresh(differs, NULL);
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
