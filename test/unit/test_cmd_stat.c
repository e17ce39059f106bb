/* The views of `directnfs stat` over statistics that another process wrote, whatever they hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/cmd/stat_counters.c"
#undef LENGTH
#include "../../src/cmd/stat_view.c"
#include "../../src/cmd/text.c"

void cmd_complain(const char *command, const char *format, ...)
{
    (void)command;
    fail_msg("%s", format);
}

bool cmd_parse_number(const char *text, bool fraction, double low, double high, double *value)
{
    (void)text, (void)fraction, (void)low, (void)high, (void)value;
    return false;
}

/* ---- a set of two processes ---- */

static struct directnfs_stats first, second;
static struct directnfs_stats *processes[] = {&first, &second};
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
    first.pid = 11;
    second.pid = 22;
    set = (struct stat_set){.processes = processes, .count = 2};
    return 0;
}

static int free_set(void **state)
{
    (void)state;
    free(set.servers);
    return 0;
}

/* The output of one view, as people see it or as JSON. */
static char *view(const char *name, bool is_json)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct cmd_json json = {.out = out};
    for (size_t i = 0; i < STAT_VIEWS; i++) {
        if (strcmp(stat_views[i].name, name) != 0)
            continue;
        if (is_json)
            stat_views[i].print_json(&set, &json, NULL);
        else
            stat_views[i].print(&set, 0, out);
    }
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

/* ---- sums ---- */

static void sums_add_counters_and_compare_maxima(void **state)
{
    (void)state;
    first.counters.procedures[6] = (struct directnfs_procedure_stats){
        .latency = {.calls = 3, .total_ns = 3000, .max_ns = 9000}};
    second.counters.procedures[6] = (struct directnfs_procedure_stats){
        .latency = {.calls = 1, .total_ns = 9000, .max_ns = 2000}};
    first.counters.read_bytes = 5;
    second.counters.read_bytes = 7;
    stat_set_servers(&set);
    char *text = view("stats", false);
    const char *sum = strstr(text, "Sum of 2 processes");
    assert_non_null(sum);
    assert_non_null(strstr(sum, "NFS_READ       4       0      3.0"));
    assert_non_null(strstr(sum, " 9.0\n"));
    assert_non_null(strstr(sum, "NFS_READBYTES 12"));
    free(text);
}

/* ---- servers ---- */

static void servers_of_all_processes_are_merged(void **state)
{
    (void)state;
    add_server(&first, "one");
    add_server(&second, "two");
    add_server(&second, "one");
    stat_set_servers(&set);
    assert_int_equal(set.server_count, 2);

    /* The second process's channel of its server 1 belongs to the first server of the view. */
    second.channel_count = 1;
    second.channels[0] =
        (struct directnfs_channel_stats){.slot = DIRECTNFS_SLOT_USED, .server = 1, .id = 9};
    view_has("channels", true, "\"svrname\": \"one\"");
    view_has("channels", true, "\"svr_id\": 1");
}

static void unknown_server_is_shown_as_none(void **state)
{
    (void)state;
    stat_set_servers(&set);
    first.file_count = 1;
    first.files[0] = (struct directnfs_file_stats){
        .slot = DIRECTNFS_SLOT_USED, .server = 4000000000u, .name = "f"};
    view_has("files", true, "\"svr_id\": 0");
}

/* ---- files ---- */

static void file_states_are_told(void **state)
{
    (void)state;
    stat_set_servers(&set);
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

/* ---- memory that somebody else wrote ---- */

/* Every byte the same: counts beyond all tables, no string terminated, no state known. */
static void garbage_is_bounded(void **state)
{
    (void)state;
    static const int bytes[] = {0xff, 0x01, 0x1b, 0x41, 0x80};
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        memset(&first, bytes[i], sizeof(first));
        memset(&second, bytes[i], sizeof(second));
        free(set.servers);
        stat_set_servers(&set);
        for (size_t v = 0; v < STAT_VIEWS; v++) {
            for (int is_json = 0; is_json < 2; is_json++) {
                char *text = view(stat_views[v].name, is_json);
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_set, free_set)
    const struct CMUnitTest tests[] = {
        TEST(sums_add_counters_and_compare_maxima),
        TEST(servers_of_all_processes_are_merged),
        TEST(unknown_server_is_shown_as_none),
        TEST(file_states_are_told),
        TEST(garbage_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
