/* directnfs.conf: defaults, ranges, mistakes with their lines, and the sample that is installed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "config/tunables.h"
#include "unit.h"

/* libconfig 1.5 itself leaks a few bytes when it refuses a text; nothing else may. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so\n";
}

static int parse(struct conf_tunables *tunables, const char *text, struct conf_diagnostics *d)
{
    return conf_tunables_parse(tunables, "test.conf", text, strlen(text), d);
}

static void assert_defaults(const struct conf_tunables *tunables)
{
    assert_int_equal(tunables->connections, 4);
    assert_int_equal(tunables->rsize, 0);
    assert_int_equal(tunables->wsize, 0);
    assert_true(tunables->actimeo == 3.0);
    assert_int_equal(tunables->read_ahead_max, 4194304);
    assert_int_equal(tunables->read_cache_max, 0);
    assert_int_equal(tunables->write_behind_max, 67108864);
    assert_int_equal(tunables->stability, CONF_STABILITY_UNSTABLE);
    assert_int_equal(tunables->uncommitted_max, 268435456);
    assert_int_equal(tunables->uncommitted_file_max, 33554432);
    assert_int_equal(tunables->privileged_port, CONF_PRIVILEGED_PORT_AUTO);
    assert_int_equal(tunables->retransmit_timeout, 60);
    assert_int_equal(tunables->reconnect_max, 5);
    assert_true(tunables->path_timeout == 4.0);
    assert_true(tunables->failover_hold == 3.0);
    assert_true(tunables->silence_warning == 5.0);
    assert_int_equal(tunables->soft_timeout, 0);
    assert_int_equal(tunables->raw_io_uring, CONF_RAW_IO_URING_REFUSE);
    assert_int_equal(tunables->raw_calls, CONF_RAW_CALLS_KERNEL);
    assert_int_equal(tunables->log_level, LOG_LEVEL_NOTICE);
}

/* A text must give exactly one error, in this line, that contains both pieces. */
static void assert_error(const char *text, unsigned line, const char *found, const char *expected)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(parse(&tunables, text, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    assert_string_equal(d.list[0].at.file, "test.conf");
    assert_int_equal(d.list[0].at.line, line);
    assert_non_null(strstr(d.list[0].text, found));
    assert_non_null(strstr(d.list[0].text, expected));
    assert_defaults(&tunables);
    conf_diagnostics_free(&d);
}

UNIT_TEST(an_empty_file_gives_the_defaults)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(parse(&tunables, "", &d), 0);
    assert_int_equal(d.count, 0);
    assert_defaults(&tunables);
}

UNIT_TEST(every_key_is_taken)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(parse(&tunables,
                           "connections = 16; rsize = 65536; wsize = 4096\n"
                           "actimeo = 0.25; read_ahead_max = 16777216; stability = \"stable\";\n"
                           "uncommitted_max = 8589934592L; uncommitted_file_max = 1048576;\n"
                           "privileged_port = \"no\"; retransmit_timeout = 600;\n"
                           "reconnect_max : 1; log_level = \"debug\";\n",
                           &d),
                     0);
    assert_int_equal(d.count, 0);
    assert_int_equal(tunables.connections, 16);
    assert_int_equal(tunables.rsize, 65536);
    assert_int_equal(tunables.wsize, 4096);
    assert_true(tunables.actimeo == 0.25);
    assert_int_equal(tunables.read_ahead_max, 16777216);
    assert_int_equal(tunables.stability, CONF_STABILITY_STABLE);
    assert_int_equal(tunables.uncommitted_max, INT64_C(8589934592));
    assert_int_equal(tunables.uncommitted_file_max, 1048576);
    assert_int_equal(tunables.privileged_port, CONF_PRIVILEGED_PORT_NO);
    assert_int_equal(tunables.retransmit_timeout, 600);
    assert_int_equal(tunables.reconnect_max, 1);
    assert_int_equal(tunables.log_level, LOG_LEVEL_DEBUG);
}

UNIT_TEST(whole_seconds_are_fine_for_actimeo)
{
    struct conf_tunables tunables;
    assert_int_equal(parse(&tunables, "actimeo = 0;", NULL), 0);
    assert_true(tunables.actimeo == 0);
}

UNIT_TEST(an_unknown_key_is_an_error)
{
    assert_error("\n\nconections = 4;", 3, "'conections'", "expected 'connections'");
    assert_error("log = { level = 3; };", 1, "'log'", "expected one of directnfs.conf(5)");
}

UNIT_TEST(a_wrong_type_is_an_error)
{
    assert_error("connections = \"4\";", 1, "\"4\" for 'connections'",
                 "a whole number from 1 to 64");
    assert_error("\nconnections = 4.5;", 2, "4.5", "a whole number from 1 to 64");
    assert_error("connections = 4.0;", 1, "found 4.0 for", "a whole number from 1 to 64");
    assert_error("connections = true;", 1, "true", "a whole number");
    assert_error("connections = { a = 1; };", 1, "a group or a list", "a whole number");
    assert_error("connections = [ 4 ];", 1, "a group or a list", "a whole number");
    assert_error("actimeo = \"3\";", 1, "\"3\" for 'actimeo'", "a number from 0 to 3600");
    assert_error("stability = 1;", 1, "found 1 for 'stability'", "\"unstable\" or \"stable\"");
    assert_error("privileged_port = true;", 1, "true", "\"auto\" or \"yes\" or \"no\"");
}

UNIT_TEST(a_value_out_of_range_is_an_error)
{
    assert_error("connections = 0;", 1, "found 0", "from 1 to 64");
    assert_error("connections = 65;", 1, "found 65", "from 1 to 64");
    assert_error("connections = -1;", 1, "found -1", "from 1 to 64");
    assert_error("connections = 4294967300L;", 1, "found 4294967300", "from 1 to 64");
    assert_error("rsize = 4095;", 1, "found 4095", "0 or a whole number from 4096 to 1048576");
    assert_error("wsize = 1048577;", 1, "found 1048577", "0 or a whole number");
    assert_error("actimeo = 3600.5;", 1, "found 3600.5", "from 0 to 3600");
    assert_error("actimeo = -0.5;", 1, "found -0.5", "from 0 to 3600");
    assert_error("stability = \"datasync\";", 1, "\"datasync\"", "\"unstable\" or \"stable\"");
    assert_error("uncommitted_max = 16777215;", 1, "16777215", "from 16777216");
    assert_error("uncommitted_file_max = 1;", 1, "found 1 ", "from 1048576");
    assert_error("retransmit_timeout = 601;", 1, "601", "from 1 to 600");
    assert_error("reconnect_max = 0;", 1, "found 0", "from 1 to 60");
    assert_error("log_level = \"Debug\";", 1, "\"Debug\"", "\"debug\"");
}

UNIT_TEST(all_mistakes_are_found_and_the_rest_is_taken)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(parse(&tunables, "a = 1;\nconnections = 99;\nrsize = 8192;\nb = 2;", &d),
                     -EINVAL);
    assert_int_equal(d.errors, 3);
    assert_int_equal(d.list[0].at.line, 1);
    assert_int_equal(d.list[1].at.line, 2);
    assert_int_equal(d.list[2].at.line, 4);
    assert_int_equal(tunables.connections, 4);
    assert_int_equal(tunables.rsize, 8192);
    conf_diagnostics_free(&d);
}

UNIT_TEST(a_syntax_error_names_its_line)
{
    assert_error("# fine\n\nconnections = ;\n", 3, "syntax error", "connections = 4;");
    assert_error("stability = stable;\n", 1, "syntax error", "stability = \"stable\";");
    assert_error("connections = 4;\nconnections = 5;\n", 2, "duplicate", "each key once");
    assert_error("\n@include \"/nowhere/more.conf\"\n", 2, "include file", "in the same directory");
}

/* libconfig cuts it to 32 bits, and does not tell. */
UNIT_TEST(a_large_number_without_an_l_is_an_error)
{
    assert_error("connections = 4294967300;", 1, "found 4294967300", "4294967300L");
    assert_error("# 1\n/* 2\n3 */ actimeo = 1; // 9999999999\nuncommitted_max=4563402752", 4,
                 "4563402752", "ends in L");
    assert_error("connections = 0x100000004;", 1, "0x100000004", "ends in L");
    assert_error("connections = 99999999999999999999999;", 1, "found 9999", "ends in L");
    assert_error("log_level = \"9999999999 \\\" 9999999999\";", 1, "found \"9999", "\"debug\"");
    struct conf_tunables tunables;
    assert_int_equal(parse(&tunables,
                           "actimeo = 0.00000000001; path_timeout = 1e1;"
                           "uncommitted_max = 4294967296L;",
                           NULL),
                     0);
    assert_int_equal(tunables.uncommitted_max, INT64_C(4294967296));
}

UNIT_TEST(a_byte_order_mark_is_passed_over)
{
    struct conf_tunables tunables;
    assert_int_equal(parse(&tunables,
                           "\xef\xbb\xbf"
                           "connections = 5;\r\n",
                           NULL),
                     0);
    assert_int_equal(tunables.connections, 5);
}

UNIT_TEST(a_nul_byte_is_an_error)
{
    static const char text[] = "connections = 5;\n\n\0connections = 99;";
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_tunables_parse(&tunables, "f", text, sizeof(text) - 1, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    assert_int_equal(d.list[0].at.line, 3);
    assert_defaults(&tunables);
    conf_diagnostics_free(&d);
}

UNIT_TEST(a_message_reads_as_compilers_write_it)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    char line[256];
    parse(&tunables, "\nconnections = 0;", &d);
    assert_string_equal(conf_diagnostic_format(&d.list[0], line, sizeof(line)),
                        "test.conf:2: error: found 0 for 'connections', "
                        "expected a whole number from 1 to 64");
    conf_diagnostics_free(&d);
}

UNIT_TEST(a_missing_file_gives_the_defaults)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_tunables_load(&tunables, "/nowhere/directnfs.conf", 0, &d), 0);
    assert_int_equal(d.count, 0);
    assert_defaults(&tunables);
}

UNIT_TEST(a_missing_file_that_was_asked_for_is_an_error)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    char line[256];
    assert_int_equal(conf_tunables_load(&tunables, "/nowhere/directnfs.conf", 1, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    assert_string_equal(conf_diagnostic_format(&d.list[0], line, sizeof(line)),
                        "/nowhere/directnfs.conf: error: cannot be read: "
                        "No such file or directory, expected a directnfs.conf");
    assert_defaults(&tunables);
    conf_diagnostics_free(&d);
}

UNIT_TEST(a_directory_is_an_error_even_if_not_asked_for)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_tunables_load(&tunables, "/tmp", 0, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    conf_diagnostics_free(&d);
}

UNIT_TEST(the_environment_chooses_the_file)
{
    char file[PATH_MAX];
    setenv("DIRECTNFS_CONF", "/some/where.conf", 1);
    assert_int_equal(conf_tunables_file(file), 1);
    assert_string_equal(file, "/some/where.conf");
    setenv("DIRECTNFS_CONF", "", 1);
    assert_int_equal(conf_tunables_file(file), 0);
    unsetenv("DIRECTNFS_CONF");
    assert_int_equal(conf_tunables_file(file), 0);
    assert_string_equal(file, "/etc/directnfs/directnfs.conf");
}

UNIT_TEST(an_included_file_is_named_in_its_mistakes)
{
    char directory[] = "/tmp/test_tunables.XXXXXX", main_file[64], included[64];
    assert_non_null(mkdtemp(directory));
    snprintf(main_file, sizeof(main_file), "%s/main.conf", directory);
    snprintf(included, sizeof(included), "%s/more.conf", directory);
    FILE *out = fopen(main_file, "w");
    fputs("@include \"more.conf\"\n", out);
    fclose(out);
    out = fopen(included, "w");
    fputs("rsize = 8192;\nconnections = 0;\n", out);
    fclose(out);

    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_tunables_load(&tunables, main_file, 1, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    /* Newer versions of libconfig name it with its directory. */
    const char *slash = strrchr(d.list[0].at.file, '/');
    assert_string_equal(slash ? slash + 1 : d.list[0].at.file, "more.conf");
    assert_int_equal(d.list[0].at.line, 2);
    assert_int_equal(tunables.rsize, 8192);
    conf_diagnostics_free(&d);

    out = fopen(included, "w");
    fputs("\nconnections = 4294967300;\n", out);
    fclose(out);
    assert_int_equal(conf_tunables_load(&tunables, main_file, 1, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    assert_string_equal(d.list[0].at.file, included);
    assert_int_equal(d.list[0].at.line, 2);
    conf_diagnostics_free(&d);
    unlink(main_file);
    unlink(included);
    rmdir(directory);
}

/* --- the sample ---------------------------------------------------------------------------- */

static char *read_sample(void)
{
    FILE *in = fopen("conf/directnfs.conf", "r");
    if (in == NULL)
        fail_msg("conf/directnfs.conf: run the test in the top directory of the source");
    char *text = calloc(1, 65536);
    assert_true(fread(text, 1, 65535, in) > 0);
    fclose(in);
    return text;
}

/* In the sample a default is a line "#key = value;", prose is "# text". */
static char *uncomment(char *text)
{
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (line[0] == '#' && line[1] >= 'a' && line[1] <= 'z')
            line[0] = ' ';
        if (*line == '\0')
            break;
    }
    return text;
}

UNIT_TEST(the_sample_is_valid_and_changes_nothing)
{
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    char *text = read_sample();
    assert_int_equal(parse(&tunables, text, &d), 0);
    assert_int_equal(d.count, 0);
    assert_defaults(&tunables);
    free(text);
}

UNIT_TEST(the_sample_shows_defaults)
{
    char *text = uncomment(read_sample());
    struct conf_tunables tunables;
    struct conf_diagnostics d = {0};
    int result = parse(&tunables, text, &d);
    if (result != 0)
        fail_msg("%u: %s", d.count > 0 ? d.list[0].at.line : 0,
                 d.count > 0 ? d.list[0].text : "no memory");
    assert_defaults(&tunables);
    free(text);
}

UNIT_TEST(random_text_does_no_harm)
{
    static const char alphabet[] = "connections=4;\n{}[]()\"\"#/*@:.-0xL \xff";
    uint32_t seed = 7;
    for (int round = 0; round < 500; round++) {
        char text[200];
        size_t length = (size_t)round % sizeof(text);
        for (size_t i = 0; i < length; i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
        }
        struct conf_tunables tunables;
        struct conf_diagnostics d = {0};
        int result = conf_tunables_parse(&tunables, "f", text, length, &d);
        assert_true(result == 0 ? d.errors == 0 : d.errors > 0);
        assert_true(tunables.connections >= 1 && tunables.connections <= 64);
        conf_diagnostics_free(&d);
    }
}

UNIT_TEST(what_is_printed_sets_the_same)
{
    static const char text[] = "rsize = 65536; actimeo = 0.1; stability = \"stable\";\n"
                               "uncommitted_max = 4294967296L; log_level = \"debug\";\n";
    struct conf_tunables tunables, again;
    struct conf_diagnostics d = {0};
    char *printed = NULL;
    size_t length = 0;
    assert_int_equal(conf_tunables_parse(&tunables, "c", text, strlen(text), &d), 0);
    FILE *out = open_memstream(&printed, &length);
    assert_non_null(out);
    conf_tunables_print(&tunables, out);
    fclose(out);
    assert_non_null(strstr(printed, "connections = 4;\n"));
    assert_int_equal(conf_tunables_parse(&again, "c", printed, length, &d), 0);
    assert_int_equal(d.count, 0);
    assert_memory_equal(&again, &tunables, sizeof(tunables));
    free(printed);
    conf_diagnostics_free(&d);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
