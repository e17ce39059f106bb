/* Strays that were set aside: files of the run directory, as this library writes them, and as
 * anybody may. */
#include "host_test.h"

#include "run/directory.h"
#include "run/strays.h"
#include "stats/read.h"

static const struct run_stray of_file = {.server = "filer",
                                         .mount = "/srv/pg",
                                         .path = "/srv/pg/base/1",
                                         .device = 0x2f,
                                         .inode = 4711,
                                         .since_s = 1764166808};

static char bytes[RUN_STRAY_PIECE], text[RUN_STRAY_TEXT];

/* Sets aside `count` pieces of some lengths; returns the name. */
static const char *set_aside(unsigned count)
{
    static struct run_stray_file file;
    assert_int_equal(run_stray_begin(&file, &of_file), 0);
    for (unsigned i = 0; i < count; i++) {
        memset(bytes, 'a' + (int)i, sizeof(bytes));
        assert_int_equal(run_stray_piece(&file, UINT64_C(1000000) * i, bytes, 8192 * (i + 1)), 0);
    }
    assert_int_equal(run_stray_end(&file, true), 0);
    return file.name;
}

static int read_one(const char *name, struct run_stray_file *file, struct run_stray *stray)
{
    int run = run_open(), result = run_stray_read(file, run, name, text, stray);
    run_close(run);
    return result;
}

/* 0: all of it can be used. */
static int use(const char *name)
{
    struct run_stray_file file;
    struct run_stray stray;
    uint64_t offset;
    ssize_t length;
    int result = read_one(name, &file, &stray);
    if (result)
        return result;
    result = run_stray_check(&file);
    while (!result && (length = run_stray_next(&file, &offset, bytes)) != 0)
        result = length < 0 ? (int)length : 0;
    run_stray_close(&file);
    return result;
}

static int open_raw(const char *name, int flags)
{
    int run = run_open(), fd = run_open_file(run, name, flags);
    run_close(run);
    assert_true(fd >= 0);
    return fd;
}

static void put_raw(const char *name, const void *data, size_t length, off_t offset)
{
    int fd = open_raw(name, O_RDWR | O_CREAT);
    assert_int_equal(pwrite(fd, data, length, offset), length);
    close(fd);
}

static off_t size_of(const char *name)
{
    int fd = open_raw(name, O_RDONLY);
    off_t size = lseek(fd, 0, SEEK_END);
    close(fd);
    return size;
}

UNIT_TEST_WITH(what_was_set_aside_is_read_again, make_run_directory, remove_run_directory)
{
    struct run_stray_file file;
    struct run_stray stray;
    uint64_t offset;
    const char *name = set_aside(3);
    assert_string_equal(name, "stray.2f.4711.1");
    assert_int_equal(read_one(name, &file, &stray), 0);
    assert_string_equal(stray.server, "filer");
    assert_string_equal(stray.mount, "/srv/pg");
    assert_string_equal(stray.path, "/srv/pg/base/1");
    assert_int_equal(stray.device, 0x2f);
    assert_int_equal(stray.inode, 4711);
    assert_int_equal(stray.since_s, of_file.since_s);
    assert_int_equal(stray.bytes, 6 * 8192);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(run_stray_check(&file), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(run_stray_next(&file, &offset, bytes), 8192 * (i + 1));
        assert_int_equal(offset, UINT64_C(1000000) * i);
        assert_int_equal(bytes[8192 * (i + 1) - 1], 'a' + (int)i);
    }
    assert_int_equal(run_stray_next(&file, &offset, bytes), 0);
    run_stray_close(&file);
}

UNIT_TEST_WITH(what_is_newer_has_a_higher_number, make_run_directory, remove_run_directory)
{
    int run = run_open();
    set_aside(1);
    assert_string_equal(set_aside(1), "stray.2f.4711.2");
    assert_int_equal(run_stray_remove(run, "stray.2f.4711.1"), 0);
    assert_string_equal(set_aside(1), "stray.2f.4711.3");
    /* The mount had another device then. */
    assert_int_equal(renameat(run, "stray.2f.4711.3", run, "stray.30.4711.9"), 0);
    assert_string_equal(set_aside(1), "stray.2f.4711.10");
    run_close(run);
}

UNIT_TEST_WITH(one_without_bytes_is_whole, make_run_directory, remove_run_directory)
{
    assert_int_equal(use(set_aside(0)), 0);
}

UNIT_TEST_WITH(one_that_is_given_up_is_gone, make_run_directory, remove_run_directory)
{
    struct run_stray_file file;
    assert_int_equal(run_stray_begin(&file, &of_file), 0);
    assert_int_equal(run_stray_piece(&file, 0, bytes, 8192), 0);
    run_stray_end(&file, false);
    assert_int_equal(use("stray.2f.4711.1"), -ENOENT);
}

/* As of a process that died meanwhile, and of zeros, which look like an end. */
UNIT_TEST_WITH(one_that_is_not_finished_is_not_used, make_run_directory, remove_run_directory)
{
    const char *name = set_aside(2);
    char whole[4 * 8192] = {0};
    off_t size = size_of(name);
    int fd = open_raw(name, O_RDWR);
    assert_int_equal(pread(fd, whole, sizeof(whole), 0), size);
    memset(whole + size - 12 - 16384, 0, 16384);
    for (off_t length = size - 1; length >= 0; length--) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, whole, (size_t)length, 0), length);
        if (use(name) != -EBADMSG)
            fail_msg("%ld of %ld bytes are used", (long)length, (long)size);
    }
    close(fd);
}

UNIT_TEST_WITH(one_with_something_behind_its_end_is_not_used, make_run_directory,
               remove_run_directory)
{
    const char *name = set_aside(2);
    put_raw(name, "x", 1, size_of(name));
    assert_int_equal(use(name), -EBADMSG);
    put_raw(name, bytes, 4096, size_of(name));
    assert_int_equal(use(name), -EBADMSG);
}

/* Each byte of the heads and the text, one after the other: what is used is as it was. */
UNIT_TEST_WITH(one_whose_heads_are_damaged_is_not_used, make_run_directory, remove_run_directory)
{
    const char *name = set_aside(2);
    off_t size = size_of(name), heads[] = {size - 12, size - 24 - 16384, size - 36 - 16384 - 8192};
    for (unsigned h = 0; h < 3; h++) {
        for (off_t at = heads[h] + (h ? 8 : 0); at < heads[h] + 12;
             at++) { /* an offset may be any */
            unsigned char was, is;
            int fd = open_raw(name, O_RDWR);
            assert_int_equal(pread(fd, &was, 1, at), 1);
            is = (unsigned char)~was;
            assert_int_equal(pwrite(fd, &is, 1, at), 1);
            if (use(name) != -EBADMSG)
                fail_msg("byte %ld of %ld", (long)at, (long)size);
            assert_int_equal(pwrite(fd, &was, 1, at), 1);
            close(fd);
        }
    }
    assert_int_equal(use(name), 0);
}

UNIT_TEST_WITH(an_offset_beyond_all_files_is_not_used, make_run_directory, remove_run_directory)
{
    const char *name = set_aside(1);
    const uint64_t beyond = UINT64_MAX - 100;
    put_raw(name, &beyond, 8, size_of(name) - 24 - 8192);
    assert_int_equal(use(name), -EBADMSG);
}

UNIT_TEST_WITH(what_is_of_another_file_than_its_name_says_is_not_used, make_run_directory,
               remove_run_directory)
{
    int run = run_open();
    assert_int_equal(renameat(run, set_aside(1), run, "stray.2f.4712.1"), 0);
    assert_int_equal(use("stray.2f.4712.1"), -EBADMSG);
    run_close(run);
}

UNIT_TEST_WITH(only_names_of_strays_are_names, make_run_directory, remove_run_directory)
{
    static const char *const wrong[] = {"stray.",
                                        "stray.2f.4711",
                                        "stray.2f.4711.1.1",
                                        "stray.2F.4711.1",
                                        "stray.2f.4711.01",
                                        "stray.2f.-1.1",
                                        "stray.2f.4711.1/",
                                        "../stray.2f.4711.1",
                                        "registry",
                                        "stray.0x2f.1.1",
                                        "stray. 2f.4711.1",
                                        "stray.2f.4711.+1",
                                        "stray.fffffffffffffffff.1.1"};
    struct run_stray_name parsed;
    int run = run_open();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (run_stray_parse(wrong[i], &parsed) || run_stray_remove(run, wrong[i]) != -EINVAL)
            fail_msg("%s", wrong[i]);
    }
    run_close(run);
    assert_true(run_stray_parse("stray.ffffffffffffffff.18446744073709551615.4294967295", &parsed));
}

UNIT_TEST_WITH(one_that_is_being_written_is_not_removed, make_run_directory, remove_run_directory)
{
    struct run_stray_file file;
    int run = run_open();
    assert_int_equal(run_stray_begin(&file, &of_file), 0);
    assert_int_equal(run_stray_remove(run, file.name), -EBUSY);
    assert_int_equal(run_stray_end(&file, true), 0);
    assert_int_equal(run_stray_remove(run, "stray.2f.4711.1"), 0);
    assert_int_equal(run_stray_remove(run, "stray.2f.4711.1"), -ENOENT);
    run_close(run);
}

UNIT_TEST_WITH(names_of_any_length_are_kept, make_run_directory, remove_run_directory)
{
    char path[4096], mount[4096];
    struct run_stray long_names = of_file, stray;
    struct run_stray_file file;
    memset(path, 'p', sizeof(path) - 1);
    memset(mount, 'm', sizeof(mount) - 1);
    path[sizeof(path) - 1] = mount[sizeof(mount) - 1] = '\0';
    long_names.path = path;
    long_names.mount = mount;
    assert_int_equal(run_stray_begin(&file, &long_names), 0);
    assert_int_equal(run_stray_piece(&file, 0, bytes, 8192), 0);
    assert_int_equal(run_stray_end(&file, true), 0);
    assert_int_equal(read_one("stray.2f.4711.1", &file, &stray), 0);
    assert_string_equal(stray.path, path);
    run_stray_close(&file);
}

/* What somebody put there is shown as what it is, and nothing of it reaches a terminal. */
UNIT_TEST_WITH(a_snapshot_has_what_is_whole_and_what_is_not, make_run_directory,
               remove_run_directory)
{
    struct stats_snapshot snapshot = {0};
    struct run_stray evil = of_file;
    struct run_stray_file file;
    int run = run_open();
    set_aside(2);
    evil.inode = 5000;
    evil.path = "/srv/\33[31mred";
    assert_int_equal(run_stray_begin(&file, &evil), 0);
    assert_int_equal(run_stray_end(&file, true), 0);
    put_raw("stray.2f.4000.1", "directnfs stray 1\nserver filer\n", 31, 0);
    put_raw("stray.2f.x.1", "", 0, 0);
    assert_int_equal(symlinkat("/dev/zero", run, "stray.2f.4001.1"), 0);
    assert_int_equal(mkfifoat(run, "stray.2f.4002.1", 0600), 0);
    assert_int_equal(stats_read_strays(run, NULL, &snapshot), 0);
    assert_int_equal(snapshot.stray_count, 5);
    for (unsigned i = 0; i < 3; i++)
        assert_false(snapshot.strays[i].whole);
    assert_int_equal(snapshot.strays[0].inode, 4000);
    assert_string_equal(snapshot.strays[0].server, "filer");
    assert_true(snapshot.strays[3].whole);
    assert_int_equal(snapshot.strays[3].bytes, 3 * 8192);
    assert_int_equal(snapshot.strays[4].inode, 5000);
    assert_string_equal(snapshot.strays[4].path, "/srv/?[31mred");
    stats_snapshot_free(&snapshot);
    run_close(run);
}

/* Thousands of them, of somebody else, cost who reads them no more than some. */
UNIT_TEST_WITH(of_somebody_else_not_all_are_read, make_run_directory, remove_run_directory)
{
    const struct stats_bounds bounds = {
        .cpu_ns = UINT64_C(60000000000), .lock_ms = 1000, .bytes = 1 << 26};
    struct stats_snapshot snapshot = {0};
    int run = run_open();
    for (unsigned i = 0; i < 1500; i++) {
        char name[RUN_STRAY_NAME];
        snprintf(name, sizeof(name), "stray.2f.%u.1", i);
        put_raw(name, "", 0, 0);
    }
    assert_int_equal(stats_read_strays(run, &bounds, &snapshot), -E2BIG);
    assert_int_equal(snapshot.stray_count, 1000);
    stats_snapshot_free(&snapshot);
    assert_int_equal(stats_snapshot_read(&snapshot, &bounds), 0);
    assert_int_equal(snapshot.problem_count, 1);
    stats_snapshot_free(&snapshot);
    run_close(run);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
