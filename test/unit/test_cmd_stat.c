/* The views of `directnfs stat` over statistics that another process wrote, whatever they hold. */
#include <stdlib.h>
#include <string.h>

#include "rounds.h"

#include "../../src/cmd/files.c"
#include "../../src/cmd/index.c"
#include "../../src/cmd/mounts.c"
#include "../../src/cmd/stat/counters.c"
#include "../../src/cmd/stat/files.c"
#include "../../src/cmd/stat/latency.c"
#include "../../src/cmd/stat/left.c"
#include "../../src/cmd/stat/mounts.c"
#include "../../src/cmd/stat/null.c"
#include "../../src/cmd/stat/prometheus.c"
#include "../../src/cmd/stat/set.c"
#include "../../src/cmd/stat/view.c"
#include "../../src/cmd/print.c"
#include "../../src/cmd/table.c"
#include "unit.h"

/* ---- a set of two processes ---- */

static struct directnfs_stats first, second, gone;
static struct directnfs_stats *processes[] = {&first, &second}, *ended[] = {&gone};
static struct stats_snapshot snapshot;
static struct stat_filter filter;
static struct stat_set set;

static void add_server(struct directnfs_stats *stats, const char *name)
{
    struct directnfs_server_stats *server = &stats->servers[stats->server_count++];
    server->slot = DIRECTNFS_SLOT_USED;
    server->version = 3;
    strcpy(server->name, name);
    strcpy(server->directory, "/export");
    strcpy(server->mount, "/mount");
}

static int make_set(void **state)
{
    (void)state;
    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    memset(&gone, 0, sizeof(gone));
    first.pid = 11;
    second.pid = 22;
    snapshot = (struct stats_snapshot){.processes = processes, .count = 2};
    filter = (struct stat_filter){0};
    set = (struct stat_set){0};
    return 0;
}

static int free_set(void **state)
{
    (void)state;
    stat_set_free(&set);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, make_set, free_set)

static void make(void)
{
    stat_set_free(&set);
    stat_set_make(&set, &snapshot, &filter);
}

static const char *sort;

/* The output of one view, as people see it or as JSON. */
static char *view(const char *name, bool is_json)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct cmd_json json = {.out = out};
    if (is_json)
        stat_view_print_json(stat_view_find(name), &set, sort, &json, NULL);
    else
        stat_view_print(stat_view_find(name), &set, 0, sort, out);
    fclose(out);
    return text;
}

static void view_has(const char *name, bool is_json, const char *expected)
{
    char *text = view(name, is_json);
    if (strstr(text, expected) == NULL)
        fail_msg("'%s' is not in:\n%s", expected, text);
    free(text);
}

/* The metrics have these bytes. */
static void metrics_have(const char *expected)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    stat_prometheus_print(&set, out);
    fclose(out);
    if (strstr(text, expected) == NULL)
        fail_msg("'%s' is not in:\n%s", expected, text);
    free(text);
}

/* ---- sums ---- */

TEST(sums_add_counters_and_compare_maxima)
{
    first.counters.procedures[6] = (struct directnfs_procedure_stats){
        .latency = {.calls = 3, .total_ns = 3000, .max_ns = 9000}};
    second.counters.procedures[6] = (struct directnfs_procedure_stats){
        .latency = {.calls = 1, .total_ns = 9000, .max_ns = 2000}};
    first.counters.read_bytes = 5;
    second.counters.read_bytes = 7;
    gone.counters.procedures[6] = (struct directnfs_procedure_stats){
        .latency = {.calls = 2, .total_ns = 8000, .max_ns = 7000}};
    gone.processes = 1;
    snapshot.ended = ended;
    snapshot.ended_count = 1;
    make();
    char *text = view("stats", false);
    const char *sum = strstr(text, "Sum of 2 processes and 1 that has ended");
    assert_non_null(sum);
    assert_non_null(strstr(sum, "NFS_READ       6       0      3.3"));
    assert_non_null(strstr(sum, " 9.0\n"));
    assert_non_null(strstr(sum, "NFS_READBYTES 12"));
    free(text);
}

/* ---- servers ---- */

TEST(servers_of_all_processes_are_merged)
{
    add_server(&first, "one");
    add_server(&second, "two");
    add_server(&second, "one");
    make();
    assert_int_equal(set.server_count, 2);

    /* The second process's channel of its server 1 belongs to the first server of the view. */
    second.channel_count = 1;
    second.channels[0] =
        (struct directnfs_channel_stats){.slot = DIRECTNFS_SLOT_USED, .server = 1, .id = 9};
    view_has("channels", true, "\"svrname\": \"one\"");
    view_has("channels", true, "\"svr_id\": 1");
}

TEST(unknown_server_is_shown_as_none)
{
    first.file_count = 1;
    first.files[0] = (struct directnfs_file_stats){
        .slot = DIRECTNFS_SLOT_USED, .server = 4000000000u, .name = "f"};
    make();
    view_has("files", true, "\"svr_id\": 0");
}

/* ---- files ---- */

TEST(file_states_are_told)
{
    make();
    first.file_count = 4;
    first.files[0] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_USED, .name = "a"};
    first.files[1] = (struct directnfs_file_stats){
        .slot = DIRECTNFS_SLOT_USED, .state = DIRECTNFS_FILE_KERNEL, .reason = "mmap", .name = "b"};
    first.files[2] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_CLOSED, .name = "c"};
    first.files[3] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_FREE, .name = "hidden"};
    view_has("files", true, "\"state\": \"direct\"");
    view_has("files", true, "\"state\": \"kernel: mmap\"");
    view_has("files", true, "\"state\": \"direct (closed)\"");
    char *text = view("files", false);
    assert_null(strstr(text, "hidden"));
    free(text);
}

TEST(a_file_is_one_row_however_many_processes_have_it)
{
    add_server(&first, "one");
    add_server(&second, "one");
    first.file_count = second.file_count = 3;
    first.files[0] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_USED,
                                                   .size = 10,
                                                   .name = "/t",
                                                   .reads = 3,
                                                   .syncs = 1,
                                                   .sync_ns = 9000000};
    second.files[1] = first.files[0];
    second.files[1].syncs = 2;
    first.files[1] = (struct directnfs_file_stats){
        .slot = DIRECTNFS_SLOT_CLOSED, .state = DIRECTNFS_FILE_KERNEL, .name = "k"};
    strcpy(first.files[1].reason, "stdio");
    second.files[0] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_USED, .name = "k"};
    second.files[2] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_CLOSED, .name = "k2"};
    make();
    view_has("files", false, "\n/t              10          2            0       0  direct ");
    view_has("files", false, "kernel: stdio (for 1 of 2)");
    view_has("files", false, "direct (closed)");
    /* Programs have each process, and the same as people of the sum. */
    view_has("files", true, "\"pnum\": 22");
    view_has("files", true, "\"sync_us\": 9000.0");
    set.only_sum = true;
    view_has("files", true, "\"processes\": 2");
    view_has("files", true, "\"reads\": 6");
    view_has("files", true, "\"syncs\": 3");
    view_has("files", true, "\"sync_us\": 6000.0");
    view_has("files", false, " 6,000.0 "); /* thousands are marked */
    char *text = view("files", true);
    assert_null(strstr(text, "pnum"));
    free(text);
}

/* The size of what the kernel serves is the kernel's. */
TEST(the_kernel_is_asked_for_the_sizes_of_its_files)
{
    char name[] = "/tmp/test_cmd_stat.XXXXXX";
    int fd = mkstemp(name);
    struct stat status;
    assert_int_equal(pwrite(fd, "x", 1, 4321), 1);
    assert_int_equal(fstat(fd, &status), 0);
    first.uid = geteuid();
    first.file_count = 1;
    first.files[0] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_CLOSED,
                                                   .state = DIRECTNFS_FILE_KERNEL,
                                                   .size = 5,
                                                   .device = status.st_dev,
                                                   .inode = status.st_ino};
    strcpy(first.files[0].name, name);
    make();
    view_has("files", false, "  4322 ");
    first.files[0].inode++; /* another file has its name now */
    view_has("files", false, "     5 ");
    close(fd);
    unlink(name);
}

/* ---- connections ---- */

TEST(a_connection_on_which_a_call_waits_is_silent_with_its_path)
{
    add_server(&first, "one");
    first.path_count = 1;
    first.paths[0] = (struct directnfs_path_stats){.slot = DIRECTNFS_SLOT_USED,
                                                   .state = DIRECTNFS_CHANNEL_SILENT,
                                                   .name = "one",
                                                   .path = "10.0.0.1"};
    first.channel_count = 2;
    for (int i = 0; i < 2; i++)
        first.channels[i] = (struct directnfs_channel_stats){.slot = DIRECTNFS_SLOT_USED,
                                                             .id = 7,
                                                             .state = DIRECTNFS_CHANNEL_UP,
                                                             .oldest_ns = i ? 0 : 5,
                                                             .path = "10.0.0.1"};
    make();
    char *text = view("channels", true), *silent = strstr(text, "\"state\": \"silent\"");
    assert_non_null(silent);
    assert_non_null(strstr(silent, "\"state\": \"up\"")); /* the idle one */
    free(text);
}

static void protected_by(const char *expected, uint32_t security)
{
    char text[STATS_SECURITY_BYTES];
    assert_string_equal(stats_security_text(security, text), expected);
}

TEST(it_is_told_how_a_connection_is_protected)
{
    protected_by("", 0);
    protected_by("sys", DIRECTNFS_SECURITY_SYS);
    protected_by("krb5i", DIRECTNFS_SECURITY_KRB5I);
    protected_by("tls", DIRECTNFS_SECURITY_TLS);
    protected_by("krb5+tls", DIRECTNFS_SECURITY_KRB5 | DIRECTNFS_SECURITY_TLS);
    protected_by("sys,krb5,krb5i,krb5p+mtls", DIRECTNFS_SECURITY_ALL);
    add_server(&first, "one");
    first.channel_count = 3;
    for (int i = 0; i < 3; i++)
        first.channels[i] = (struct directnfs_channel_stats){
            .slot = DIRECTNFS_SLOT_USED,
            .state = i < 2 ? DIRECTNFS_CHANNEL_UP : DIRECTNFS_CHANNEL_DOWN,
            .security = DIRECTNFS_SECURITY_KRB5P};
    make();
    view_has("channels", true, "\"security\": \"krb5p\"");
    metrics_have("\ndirectnfs_server_connections{server=\"one\",security=\"krb5p\"} 2\n");
    first.channels[0].security |= DIRECTNFS_SECURITY_TLS | DIRECTNFS_SECURITY_MTLS;
    metrics_have("{server=\"one\",security=\"krb5p+mtls\"} 1\n");
}

/* ---- what is seen of a path ---- */

TEST(the_sum_of_a_path_is_up_since_the_path_is)
{
    for (int i = 0; i < 2; i++) {
        processes[i]->path_count = 1;
        processes[i]->paths[0] = (struct directnfs_path_stats){.slot = DIRECTNFS_SLOT_USED,
                                                               .state = DIRECTNFS_CHANNEL_UP,
                                                               .since_ns = i ? 90 : 70,
                                                               .path = "10.0.0.1"};
    }
    gone = first;
    gone.paths[0].state = DIRECTNFS_CHANNEL_DOWN; /* which was long ago */
    snapshot.ended = ended;
    snapshot.ended_count = 1;
    make();
    assert_int_equal(set.sum->paths[0].state, DIRECTNFS_CHANNEL_UP);
    assert_int_equal(set.sum->paths[0].since_ns, 70);
    strcpy(second.paths[0].reason, "was down 1.0 s: reset");
    make();
    assert_int_equal(set.sum->paths[0].since_ns, 90);
}

/* ---- filters, order, intervals, width ---- */

static void two_servers(void)
{
    add_server(&first, "one");
    add_server(&second, "two");
    add_server(&second, "one");
    second.file_count = 2;
    second.files[0] =
        (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_USED, .server = 0, .name = "of two"};
    second.files[1] =
        (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_USED, .server = 1, .name = "of one"};
    second.path_count = 2;
    second.paths[0] = (struct directnfs_path_stats){
        .slot = DIRECTNFS_SLOT_USED, .name = "two", .path = "10.0.0.2", .latency = {.calls = 3}};
    second.paths[1] = (struct directnfs_path_stats){
        .slot = DIRECTNFS_SLOT_USED, .server = 1, .name = "one", .path = "10.0.0.1"};
}

TEST(a_server_filters_what_is_not_its_own)
{
    two_servers();
    filter.server = "two";
    make();
    assert_int_equal(set.count, 1);
    assert_int_equal(set.server_count, 1);
    view_has("files", true, "of two");
    view_has("paths", true, "10.0.0.2");
    char *files = view("files", true), *paths = view("paths", false);
    assert_null(strstr(files, "of one"));
    assert_null(strstr(paths, "10.0.0.1"));
    free(files);
    free(paths);
}

TEST(a_process_filters_the_sum_too)
{
    first.counters.read_bytes = 5;
    second.counters.read_bytes = 7;
    filter.pid = 22;
    make();
    assert_int_equal(set.count, 1);
    assert_int_equal(set.sum->counters.read_bytes, 7);
}

TEST(rows_are_sorted_by_a_column)
{
    first.counters.procedures[6].latency.calls = 9;
    second.counters.procedures[6].latency.calls = 10;
    make();
    sort = "pid"; /* as people see it, and as programs have it */
    free(view("processes", false));
    sort = "pnum";
    free(view("processes", true));
    sort = "reads";
    char *text = view("processes", false);
    sort = NULL;
    const char *larger = strstr(text, "\n 22 "), *smaller = strstr(text, "\n 11 ");
    assert_true(larger && smaller && larger < smaller);
    assert_true(strstr(text, "\nsum ") > smaller);
    free(text);
}

TEST(an_interval_shows_counts_per_second)
{
    first.counters.procedures[6].latency.calls = 9;
    snapshot.seconds = 2;
    make();
    view_has("stats", false, "NFS_READ     4.5");
    view_has("stats", true, "\"nfs_read\": 9");
}

TEST(long_texts_are_cut_to_fit)
{
    char *text;
    size_t size;
    first.file_count = 1;
    first.files[0] =
        (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_USED, .state = DIRECTNFS_FILE_KERNEL};
    memset(first.files[0].name, 'n', 400);
    strcpy(first.files[0].name + 400, "/end");
    memset(first.files[0].reason, 'r', 90);
    make();
    FILE *out = open_memstream(&text, &size);
    stat_view_print(stat_view_find("files"), &set, 100, NULL, out);
    fclose(out);
    assert_non_null(strstr(text, "\n...nnn"));
    assert_non_null(strstr(text, "/end "));
    assert_non_null(strstr(text, "kernel: rrr"));
    assert_non_null(strstr(text, "rrr...\n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_in_range(strlen(line), 1, 100);
    free(text);
}

/* ---- mounts ---- */

static void add_mount(struct directnfs_stats *stats, const char *mount, uint64_t reads)
{
    struct directnfs_mount_stats *one = &stats->mounts[stats->mount_count++];
    *one = (struct directnfs_mount_stats){.slot = DIRECTNFS_SLOT_USED, .name = "filer"};
    snprintf(one->mount, sizeof(one->mount), "%s", mount);
    one->operations[DIRECTNFS_READ] = (struct directnfs_operation_stats){
        .calls = reads, .bytes = reads * 8192, .rtt_ns = reads * 50000, .queue_ns = reads * 1000};
}

TEST(a_mount_is_the_sum_of_the_processes_of_a_user)
{
    add_mount(&first, "/a", 3);
    add_mount(&second, "/b", 5);
    add_mount(&second, "/a", 4);
    add_mount(&gone, "/a", 100);
    snapshot.ended = ended;
    snapshot.ended_count = 1;
    make();
    assert_int_equal(set.mounts.count, 2);
    assert_int_equal(set.mounts.list[0].processes, 2);
    assert_int_equal(set.mounts.list[0].sum.operations[DIRECTNFS_READ].calls, 107);
    view_has("mounts", true, "\"calls\": 107");
    view_has("mounts", true, "\"kb_call\": 8.0");
    view_has("mounts", true, "\"rtt_us\": 50.0");
    view_has("mounts", true, "\"exe_us\": 51.0");
    filter.pid = second.pid;
    make();
    assert_int_equal(set.mounts.list[1].sum.operations[DIRECTNFS_READ].calls, 4);
    filter = (struct stat_filter){.server = "another"};
    make();
    assert_int_equal(set.mounts.count, 0);
}

TEST(mounts_of_another_user_are_others)
{
    second.uid = 7;
    add_mount(&first, "/a", 3);
    add_mount(&second, "/a", 4);
    make();
    assert_int_equal(set.mounts.count, 2);
}

TEST(a_user_has_a_bounded_number_of_mounts)
{
    char name[16];
    for (int i = 0; i < 2 * DIRECTNFS_MOUNTS; i++) {
        snprintf(name, sizeof(name), "/%d", i);
        add_mount(i < DIRECTNFS_MOUNTS ? &first : &second, name, 1);
    }
    make();
    assert_int_equal(set.mounts.count, DIRECTNFS_MOUNTS);
    const struct directnfs_mount_stats *others = &set.mounts.list[DIRECTNFS_MOUNTS - 1].sum;
    assert_string_equal(others->mount, "others");
    assert_int_equal(others->operations[DIRECTNFS_READ].calls, DIRECTNFS_MOUNTS + 1);
}

/* ---- Prometheus ---- */

TEST(histograms_are_cumulative_and_in_seconds)
{
    char *text;
    size_t size;
    first.counters.procedures[6].latency = (struct directnfs_latency){
        .calls = 3, .total_ns = 3000000, .histogram = {[0] = 1, [11] = 2}};
    first.path_count = 1;
    first.paths[0] = (struct directnfs_path_stats){.slot = DIRECTNFS_SLOT_USED,
                                                   .state = DIRECTNFS_CHANNEL_UP,
                                                   .name = "a\"b\\c\n",
                                                   .path = "10.0.0.1"};
    make();
    FILE *out = open_memstream(&text, &size);
    stat_prometheus_print(&set, out);
    fclose(out);
#define HAS(line) assert_non_null(strstr(text, line "\n"))
    HAS("# TYPE directnfs_call_duration_seconds histogram");
    HAS("directnfs_call_duration_seconds_bucket{procedure=\"read\",le=\"1e-06\"} 1");
    HAS("directnfs_call_duration_seconds_bucket{procedure=\"read\",le=\"0.001024\"} 1");
    HAS("directnfs_call_duration_seconds_bucket{procedure=\"read\",le=\"0.002048\"} 3");
    HAS("directnfs_call_duration_seconds_bucket{procedure=\"read\",le=\"+Inf\"} 3");
    HAS("directnfs_call_duration_seconds_sum{procedure=\"read\"} 0.003000000");
    HAS("directnfs_call_duration_seconds_count{procedure=\"read\"} 3");
    HAS("directnfs_processes 2");
    HAS("directnfs_path_processes{server=\"a\\\"b\\\\c\\\\x0a\",path=\"10.0.0.1\",local=\"\","
        "state=\"up\"} 1");
    free(text);
}

/* ---- memory that somebody else wrote ---- */

/* Every byte the same: counts beyond all tables, no string terminated, no state known. */
TEST(garbage_is_bounded)
{
    static const int bytes[] = {0xff, 0x01, 0x1b, 0x41, 0x80};
    for (size_t i = 0; i < rounds_of(sizeof(bytes) / sizeof(bytes[0])); i++) {
        memset(&first, bytes[i], sizeof(first));
        memset(&second, bytes[i], sizeof(second));
        make();
        for (size_t v = 0; v < STAT_VIEWS; v++) {
            for (int is_json = 0; is_json < 2; is_json++) {
                sort = !is_json && stat_views[v].fields ? stat_views[v].fields->list[0].name : NULL;
                char *text = view(stat_views[v].name, is_json);
                sort = NULL;
                assert_true(strlen(text) > 0);
                for (const char *p = text; *p; p++)
                    if ((unsigned char)*p < 0x20 && *p != '\n')
                        fail_msg("byte %d in the output", *p);
                free(text);
            }
        }
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
