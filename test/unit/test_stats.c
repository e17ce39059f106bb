/* Statistics in shared memory: src/stats. Each test runs in a child: a process has one. */
#include <pthread.h>
#include <sched.h>

#include "stats/segment.h"
#include "stats_scene.h"

static int counts_before_and_after_open(void *unused)
{
    struct stats_snapshot list = {0};
    (void)unused;
    stats_call(6, 3000, false);
    unsigned server = add_server("one");
    must(server == 0 && add_server("two") == 1 && add_server("one") == 0);
    must(stats_open() == 0 && stats_open() == 0);
    stats_call(6, 5000, true);
    stats_call(DIRECTNFS_PROCEDURE_MOUNT, 1, false);
    stats_call(DIRECTNFS_PROCEDURES, 1, false); /* no such procedure */
    struct directnfs_channel_stats *channel = stats_channel(1, "10.0.0.1", "10.0.0.2");
    stats_add(&channel->sends, 7);
    stats_set(&channel->state, DIRECTNFS_CHANNEL_UP);
    struct directnfs_file_stats *file =
        stats_file("/mnt/a", server, 100, DIRECTNFS_FILE_DIRECT, NULL);
    must(stats_file("/mnt/a", server, 100, DIRECTNFS_FILE_DIRECT, NULL) == file);
    stats_file_state(file, DIRECTNFS_FILE_KERNEL, "mmap");
    stats_file_read(file, 100, 3000);
    stats_file_read(file, 50, 1000);
    stats_file_written(file, 7, 5000);

    struct directnfs_mount_stats *mount = stats_mount(server);
    must(mount != NULL && stats_mount(DIRECTNFS_SERVERS) == NULL);
    stats_mount_call(mount, DIRECTNFS_READ,
                     &(struct stats_answer){.bytes = 100, .rtt_ns = 20, .queue_ns = 5});
    stats_together_begin();
    stats_mount_call(mount, DIRECTNFS_READ, &(struct stats_answer){.bytes = 10, .rtt_ns = 2});
    stats_mount_call(mount, DIRECTNFS_WRITE, &(struct stats_answer){.rtt_ns = 7, .error = true});
    stats_together_end();

    must(stats_snapshot_read(&list, NULL) == 0);
    must(list.count == 1 && list.problem_count == 0);
    const struct directnfs_stats *stats = list.processes[0];
    must(stats->mount_count == 2 && strcmp(stats->mounts[0].mount, "/mnt") == 0);
    const struct directnfs_operation_stats *on_mount = stats->mounts[0].operations;
    must(on_mount[DIRECTNFS_READ].calls == 2 && on_mount[DIRECTNFS_READ].bytes == 110);
    must(on_mount[DIRECTNFS_READ].rtt_ns == 22 && on_mount[DIRECTNFS_READ].queue_ns == 5);
    must(on_mount[DIRECTNFS_WRITE].calls == 1 && on_mount[DIRECTNFS_WRITE].errors == 1);
    must(stats->files[0].read_ns == 4000 && stats->files[0].write_ns == 5000);
    must(stats->pid == (uint32_t)getpid() && stats->ended_ns == 0 && stats->started_ns);
    must(strcmp(stats->program, "test_stats") == 0 || stats->program[0]);
    must(stats->counters.procedures[6].latency.calls == 2 &&
         stats->counters.procedures[6].errors == 1);
    must(stats->counters.procedures[6].latency.total_ns == 8000);
    must(stats->counters.procedures[6].latency.max_ns == 5000);
    must(stats->counters.procedures[6].latency.histogram[2] == 1);
    must(stats->counters.procedures[6].latency.histogram[3] == 1);
    must(stats->counters.procedures[22].latency.histogram[0] == 1);
    must(stats->server_count == 2 && strcmp(stats->servers[1].name, "two") == 0);
    must(stats->servers[0].nfsport == 2049 && stats->servers[0].version == 3);
    must(stats->channel_count == 1 && stats->channels[0].sends == 7);
    must(stats->channels[0].server == 1 && strcmp(stats->channels[0].path, "10.0.0.1") == 0);
    must(stats->channels[0].state == DIRECTNFS_CHANNEL_UP && stats->channels[0].id == 1);
    must(stats->file_count == 1 && stats->files[0].opens == 2);
    must(strcmp(stats->files[0].name, "/mnt/a") == 0);
    must(stats->files[0].reads == 2 && stats->files[0].read_bytes == 150);
    must(stats->files[0].writes == 1 && stats->files[0].write_bytes == 7);
    must(stats->files[0].state == DIRECTNFS_FILE_KERNEL);
    must(strcmp(stats->files[0].reason, "mmap") == 0);
    must(stats->counters.files_direct == 2 && stats->counters.files_kernel == 1);
    stats_snapshot_free(&list);
    return 0;
}

UNIT_TEST(counting_shows_up_at_a_reader)
{
    run_afresh(counts_before_and_after_open, NULL);
}

static int forks(void *unused)
{
    struct stats_snapshot list = {0};
    int status;
    (void)unused;
    must(stats_open() == 0);
    add_server("server");
    struct directnfs_channel_stats *channel = stats_channel(0, "a", "b");
    struct directnfs_file_stats *file = stats_file("/mnt/f", 0, 5, DIRECTNFS_FILE_DIRECT, NULL);
    stats_call(6, 1000, false);
    stats_add(&channel->sends, 1);
    pid_t child = fork();
    if (child == 0) {
        stats_after_fork();
        must(stats_own->counters.procedures[6].latency.calls == 0);
        must(count_run_files() == 1); /* none of its own before it is used */
        stats_file_close(file);
        struct directnfs_channel_stats *own = stats_channel(0, "c", "d");
        stats_add(&own->sends, 10);
        stats_call(6, 1000, false);
        stats_call(6, 1000, false);
        must(stats_snapshot_read(&list, NULL) == 0 && list.count == 2);
        for (unsigned i = 0; i < 2; i++) {
            const struct directnfs_stats *stats = list.processes[i];
            bool mine = stats->pid == (uint32_t)getpid();
            must(stats->counters.procedures[6].latency.calls == (mine ? 2 : 1));
            must(stats->channels[0].sends == (mine ? 10 : 1));
            must(stats->files[0].slot == (mine ? DIRECTNFS_SLOT_CLOSED : DIRECTNFS_SLOT_USED));
            must(strcmp(stats->servers[0].name, "server") == 0);
        }
        stats_snapshot_free(&list);
        stats_finish();
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    must(stats_own->counters.procedures[6].latency.calls == 1 && channel->sends == 1);
    must(file->slot == DIRECTNFS_SLOT_USED);
    stats_finish();
    must(read_ended(&ended) == 0);
    must(ended.processes == 2 && ended.counters.procedures[6].latency.calls == 3);
    return 0;
}

UNIT_TEST(a_child_counts_for_itself)
{
    run_afresh(forks, NULL);
}

static int fills_tables(void *unused)
{
    char name[2000];
    (void)unused;
    must(stats_open() == 0);
    for (int i = 0; i < DIRECTNFS_SERVERS + 3; i++) {
        snprintf(name, sizeof(name), "server%d", i);
        must(add_server(name) == (unsigned)(i < DIRECTNFS_SERVERS ? i : DIRECTNFS_SERVERS));
    }
    struct directnfs_channel_stats *channels[DIRECTNFS_CHANNELS + 1];
    for (int i = 0; i <= DIRECTNFS_CHANNELS; i++) {
        channels[i] = stats_channel(DIRECTNFS_SERVERS, "a", "b");
        must(channels[i] != NULL);
        stats_add(&channels[i]->sends, 1);
    }
    must(stats_own->counters.channels_not_shown == 1);
    stats_channel_free(channels[DIRECTNFS_CHANNELS]);
    stats_channel_free(channels[5]);
    must(stats_channel(0, "c", "d") == channels[5] && channels[5]->sends == 0);
    must(channels[5]->id == DIRECTNFS_CHANNELS + 1);

    for (int i = 0; i <= DIRECTNFS_PATHS; i++) {
        snprintf(name, sizeof(name), "10.0.0.%d", i);
        struct directnfs_path_stats *path = stats_path(0, name, NULL);
        stats_path_state(path, DIRECTNFS_CHANNEL_UP, NULL);
        path_answered(path, 1);
    }
    must(stats_own->path_count == DIRECTNFS_PATHS);
    must(stats_own->counters.paths_not_shown == 1);

    struct directnfs_file_stats *files[DIRECTNFS_FILES];
    for (int i = 0; i < DIRECTNFS_FILES; i++) {
        snprintf(name, sizeof(name), "/mnt/%d", i);
        files[i] = stats_file(name, 0, 1, DIRECTNFS_FILE_DIRECT, NULL);
    }
    struct directnfs_file_stats *unshown = stats_file("/mnt/x", 0, 1, DIRECTNFS_FILE_DIRECT, NULL);
    must(stats_own->counters.files_not_shown == 1);
    stats_file_state(unshown, DIRECTNFS_FILE_KERNEL, "reason");
    stats_file_close(unshown);
    stats_file_close(files[9]);
    usleep(1000);
    stats_file_close(files[3]);
    memset(name, 'n', 1000);
    strcpy(name + 1000, "/end");
    must(stats_file(name, 0, 1, DIRECTNFS_FILE_KERNEL, "O_APPEND") == files[9]);
    must(strlen(files[9]->name) == DIRECTNFS_FILE_NAME_BYTES - 1);
    must(strncmp(files[9]->name, "...n", 4) == 0);
    must(strcmp(files[9]->name + DIRECTNFS_FILE_NAME_BYTES - 5, "/end") == 0);
    must(files[9]->opens == 1);
    return 0;
}

static int uses_paths(void *unused)
{
    struct stats_snapshot list = {0};
    (void)unused;
    unsigned server = add_server("nas");
    struct directnfs_path_stats *path = stats_path(server, "10.0.0.1", NULL);
    must(stats_open() == 0);
    must(stats_path(server, "10.0.0.1", NULL) == path);
    must(stats_path(server, "10.0.0.1", "10.0.0.9") != path);
    must(path->state == DIRECTNFS_CHANNEL_DOWN && path->downs == 0 && path->since_ns);
    stats_path_state(path, DIRECTNFS_CHANNEL_UP, NULL);
    uint64_t up_ns = path->since_ns;
    stats_path_state(path, DIRECTNFS_CHANNEL_UP, NULL);
    must(path->since_ns == up_ns);
    stats_path_state(path, DIRECTNFS_CHANNEL_DOWN, "no route");
    stats_path_state(path, DIRECTNFS_CHANNEL_DOWN, "no route");
    path_answered(path, 3000);
    path_answered(path, 500);
    stats_add(&path->reissued, 4);

    pid_t child = fork();
    if (child == 0) {
        stats_after_fork();
        must(stats_path(server, "10.0.0.1", NULL) == path);
        must(path->latency.calls == 0 && path->downs == 0 && path->reissued == 0);
        must(path->state == DIRECTNFS_CHANNEL_DOWN && strcmp(path->reason, "no route") == 0);
        must(stats_open() == 0);
        path_answered(path, 9000);
        stats_path_state(path, DIRECTNFS_CHANNEL_UP, NULL);
        stats_finish();
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);

    must(stats_snapshot_read(&list, NULL) == 0 && list.count == 1);
    const struct directnfs_stats *stats = list.processes[0];
    must(stats->path_count == 2 && strcmp(stats->paths[0].name, "nas") == 0);
    must(strcmp(stats->paths[1].local, "10.0.0.9") == 0);
    must(stats->paths[0].downs == 1 && strcmp(stats->paths[0].reason, "no route") == 0);
    must(stats->paths[0].latency.calls == 2 && stats->paths[0].latency.max_ns == 3000);
    must(stats->paths[0].latency.histogram[0] == 1 && stats->paths[0].latency.histogram[2] == 1);
    stats_snapshot_free(&list);

    stats_finish();
    must(read_ended(&ended) == 0 && ended.path_count == 2);
    must(ended.paths[0].latency.calls == 3 && ended.paths[0].latency.max_ns == 9000);
    must(ended.paths[0].latency.total_ns == 12500 && ended.paths[0].reissued == 4);
    must(ended.paths[0].downs == 1 && ended.paths[0].state == DIRECTNFS_CHANNEL_UP);
    return 0;
}

UNIT_TEST(paths_are_found_dated_and_summed)
{
    run_afresh(uses_paths, NULL);
}

UNIT_TEST(full_tables_reuse_the_oldest_closed_slot)
{
    run_afresh(fills_tables, NULL);
}

UNIT_TEST(file_names_are_parsed_strictly)
{
    struct run_identity process;
    assert_true(stats_parse_name("stats.12.345", &process));
    assert_int_equal(process.pid, 12);
    assert_int_equal(process.starttime, 345);
    assert_false(stats_parse_name("stats.ended", &process));
    assert_false(stats_parse_name("stats.lock", &process));
    assert_false(stats_parse_name("stats.12", &process));
    assert_false(stats_parse_name("stats.12.", &process));
    assert_false(stats_parse_name("stats.12.3x", &process));
    assert_false(stats_parse_name("stats.-1.3", &process));
    assert_false(stats_parse_name("stats.99999999999.3", &process));
    assert_false(stats_parse_name("registry", &process));
}

UNIT_TEST(percentiles_come_from_the_histogram)
{
    struct directnfs_latency counted = {0};
    struct stats_latency latency;
    stats_latency(&counted, &latency);
    assert_true(latency.mean == 0 && latency.p50 == 0 && latency.p99 == 0 && latency.max == 0);
    counted.calls = 100;
    counted.histogram[4] = 90;  /* 8 to 16 us */
    counted.histogram[11] = 10; /* 1,024 to 2,048 us */
    counted.total_ns = 90 * 10000 + 10 * 1500000;
    counted.max_ns = 1600000;
    stats_latency(&counted, &latency);
    assert_true(latency.mean > 158.9 && latency.mean < 159.1);
    assert_true(latency.p50 >= 8 && latency.p50 <= 16);
    assert_true(latency.p90 >= 8 && latency.p90 <= 16);
    assert_true(latency.p99 >= 1024 && latency.p99 <= 1600);
    assert_true(latency.max > 1599 && latency.max < 1601);
}

UNIT_TEST(procedures_have_the_names_of_the_views)
{
    assert_string_equal(stats_procedure_name(0), "NFS_NULL");
    assert_string_equal(stats_procedure_name(1), "NFS_GETATTR");
    assert_string_equal(stats_procedure_name(6), "NFS_READ");
    assert_string_equal(stats_procedure_name(7), "NFS_WRITE");
    assert_string_equal(stats_procedure_name(17), "NFS_READDIRPLUS");
    assert_string_equal(stats_procedure_name(21), "NFS_COMMIT");
    assert_string_equal(stats_procedure_name(22), "NFS_MOUNT");
    assert_null(stats_procedure_name(DIRECTNFS_PROCEDURES));
}

static void *count_in_thread(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20000; i++)
        stats_call(6, 1000, false);
    return NULL;
}

static int counts_in_threads(void *unused)
{
    pthread_t threads[4];
    (void)unused;
    must(stats_open() == 0);
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, count_in_thread, NULL) == 0);
    for (int i = 0; i < 4; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(stats_own->counters.procedures[6].latency.calls == 80000);
    must(stats_own->counters.procedures[6].latency.histogram[1] == 80000);
    return 0;
}

UNIT_TEST(threads_count_exactly)
{
    run_afresh(counts_in_threads, NULL);
}

static _Atomic bool counting;

static void *count_on(void *argument)
{
    struct directnfs_channel_stats *channel = argument;
    for (;;) {
        stats_call(6, 1000, false);
        stats_add(&channel->sends, 1);
        counting = true;
    }
    return NULL;
}

static int ends_while_a_thread_counts(void *unused)
{
    pthread_t thread;
    (void)unused;
    must(stats_open() == 0);
    stats_file("/mnt/a", add_server("one"), 100, DIRECTNFS_FILE_DIRECT, NULL);
    struct directnfs_channel_stats *channel = stats_channel(0, "10.0.0.1", "10.0.0.2");
    must(pthread_create(&thread, NULL, count_on, channel) == 0);
    while (!counting)
        sched_yield();
    stats_finish();
    return 0;
}

UNIT_TEST(threads_may_count_to_the_end)
{
    run_afresh(ends_while_a_thread_counts, NULL);
    assert_int_equal(read_ended(&ended), 0);
    assert_true(ended.counters.procedures[6].latency.calls > 0);
    assert_true(ended.channels[0].sends > 0);
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
