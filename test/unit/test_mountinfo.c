/* The kernel's mount table: fields, escapes, options, and text that is none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "config/mountinfo.h"
#include "unit.h"

static void parse(struct conf_mountinfo *info, const char *text)
{
    assert_int_equal(conf_mountinfo_parse(info, text, strlen(text)), 0);
}

UNIT_TEST(fields_are_taken_apart)
{
    struct conf_mountinfo info;
    parse(&info,
          "36 35 98:17 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=remount\n");
    assert_int_equal(info.count, 1);
    assert_int_equal(info.malformed, 0);
    const struct conf_mount *mount = &info.mounts[0];
    assert_int_equal(mount->id, 36);
    assert_int_equal(mount->parent, 35);
    assert_int_equal(mount->major, 98);
    assert_int_equal(mount->minor, 17);
    assert_string_equal(mount->root, "/mnt1");
    assert_string_equal(mount->mount_point, "/mnt2");
    assert_string_equal(mount->options, "rw,noatime");
    assert_string_equal(mount->type, "ext3");
    assert_string_equal(mount->source, "/dev/root");
    assert_string_equal(mount->super_options, "rw,errors=remount");
    assert_int_equal(mount->line, 1);
    conf_mountinfo_free(&info);
}

UNIT_TEST(optional_fields_may_be_none_or_many)
{
    struct conf_mountinfo info;
    parse(&info, "1 0 0:1 / /a rw - tmpfs none rw\n"
                 "2 0 0:2 / /b rw shared:1 master:2 propagate_from:3 unbindable - tmpfs t2 ro\n");
    assert_int_equal(info.count, 2);
    assert_string_equal(info.mounts[0].source, "none");
    assert_string_equal(info.mounts[1].source, "t2");
    assert_string_equal(info.mounts[1].super_options, "ro");
    assert_int_equal(info.mounts[1].line, 2);
    conf_mountinfo_free(&info);
}

UNIT_TEST(escapes_are_undone)
{
    struct conf_mountinfo info;
    parse(&info, "1 0 0:1 / /a\\040b\\011c\\134d\\012e rw - nfs srv:/x\\040y rw\n"
                 "2 0 0:2 / /no\\04 rw - nfs srv:/\\9 rw\n");
    assert_int_equal(info.count, 2);
    assert_string_equal(info.mounts[0].mount_point, "/a b\tc\\d\ne");
    assert_string_equal(info.mounts[0].source, "srv:/x y");
    assert_string_equal(info.mounts[1].mount_point, "/no\\04");
    assert_string_equal(info.mounts[1].source, "srv:/\\9");
    conf_mountinfo_free(&info);
}

UNIT_TEST(lines_of_another_format_are_left_out)
{
    static const char *const lines[] = {
        "",
        "x",
        "1 0 0:1 / /a rw",
        "1 0 0:1 / /a rw -",
        "1 0 0:1 / /a rw - nfs",
        "1 0 0:1 / /a rw - nfs source",
        "1 0 0:1 / /a rw shared:1 nfs source rw",
        "-1 0 0:1 / /a rw - nfs source rw",
        "1 y 0:1 / /a rw - nfs source rw",
        "1 0 0-1 / /a rw - nfs source rw",
        "1 0 :1 / /a rw - nfs source rw",
        "1 0 0: / /a rw - nfs source rw",
        "1 0 0:4294967296 / /a rw - nfs source rw",
        "1 0 0:1 / /a\\000b rw - nfs source rw",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[256];
        struct conf_mountinfo info;
        snprintf(text, sizeof(text), "%s\n7 0 0:7 / /good rw - nfs source rw\n", lines[i]);
        parse(&info, text);
        assert_int_equal(info.malformed, 1);
        assert_int_equal(info.count, 1);
        assert_string_equal(info.mounts[0].mount_point, "/good");
        assert_int_equal(info.mounts[0].line, 2);
        conf_mountinfo_free(&info);
    }
}

UNIT_TEST(nul_bytes_do_not_hide_the_next_line)
{
    static const char text[] = "1 0 0:1 / /a rw - nfs s\0 rw\n7 0 0:7 / /good rw - nfs source rw";
    struct conf_mountinfo info;
    assert_int_equal(conf_mountinfo_parse(&info, text, sizeof(text) - 1), 0);
    assert_int_equal(info.malformed, 1);
    assert_int_equal(info.count, 1);
    assert_string_equal(info.mounts[0].super_options, "rw");
    conf_mountinfo_free(&info);
}

UNIT_TEST(the_last_of_stacked_mounts_is_seen)
{
    struct conf_mountinfo info;
    parse(&info, "1 0 0:1 / /a rw - nfs one rw\n2 1 0:2 / /a rw - nfs two rw\n"
                 "3 1 0:3 / /a/b rw - nfs three rw\n");
    assert_string_equal(conf_mountinfo_at(&info, "/a")->source, "two");
    assert_string_equal(conf_mountinfo_at(&info, "/a/b")->source, "three");
    assert_null(conf_mountinfo_at(&info, "/"));
    conf_mountinfo_free(&info);
}

UNIT_TEST(options_are_found_whole)
{
    const char *options = "rw,vers=3,mountaddr=10.0.0.9,addr=10.0.0.1,hard,port=,x=1,x=2";
    char value[16];
    assert_true(conf_mount_option(options, "addr", value, sizeof(value)));
    assert_string_equal(value, "10.0.0.1");
    assert_true(conf_mount_option(options, "hard", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_true(conf_mount_option(options, "port", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_true(conf_mount_option(options, "x", value, sizeof(value)));
    assert_string_equal(value, "2");
    assert_true(conf_mount_option(options, "rw", NULL, 0));
    assert_false(conf_mount_option(options, "ver", value, sizeof(value)));
    assert_false(conf_mount_option(options, "versx", value, sizeof(value)));
    assert_false(conf_mount_option("", "rw", value, sizeof(value)));
    assert_true(conf_mount_option(options, "addr", value, 4));
    assert_string_equal(value, "10.");
}

UNIT_TEST(the_own_table_is_read)
{
    struct conf_mountinfo info;
    assert_int_equal(conf_mountinfo_load(&info, "/proc/self/mountinfo"), 0);
    assert_true(info.count > 0);
    assert_int_equal(info.malformed, 0);
    assert_non_null(conf_mountinfo_at(&info, "/proc"));
    assert_string_equal(conf_mountinfo_at(&info, "/proc")->type, "proc");
    conf_mountinfo_free(&info);
}

UNIT_TEST(a_missing_table_is_an_errno_value)
{
    struct conf_mountinfo info;
    assert_int_equal(conf_mountinfo_load(&info, "/nowhere/mountinfo"), -ENOENT);
    conf_mountinfo_free(&info);
}

/* Under a sanitizer this shows that nothing is read or written out of bounds. */
UNIT_TEST(random_text_does_no_harm)
{
    static const char alphabet[] = "0123456789:/ -,=\\\n\n\t\0a\xff";
    uint32_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        char text[400];
        size_t length = (size_t)(round % (int)sizeof(text));
        for (size_t i = 0; i < length; i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
        }
        char *exact = malloc(length + 1);
        memcpy(exact, text, length);
        exact = realloc(exact, length > 0 ? length : 1);
        struct conf_mountinfo info;
        assert_int_equal(conf_mountinfo_parse(&info, exact, length), 0);
        size_t lines = 0;
        for (size_t i = 0; i < length; i++)
            lines += text[i] == '\n' || i == length - 1;
        assert_int_equal(info.count + info.malformed, lines);
        conf_mountinfo_free(&info);
        free(exact);
    }
}

UNIT_TEST(layouts_of_a_mount_are_found)
{
    static const char stats[] =
        "device rootfs mounted on / with fstype rootfs\n"
        "device nas:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n"
        "\topts:\trw,vers=4.1\n"
        "\tnfsv4:\tbm0=0xfdffbfff,acl=0x3,sessions,pnfs=not configured,lease_time=90\n"
        "\tper-op statistics\n\t        NULL: 1 1 0 44 24\n"
        "device nas:/b mounted on /mnt/b\\040c with fstype nfs4 statvers=1.1\n"
        "\tnfsv4:\tbm0=0xfdffbfff,acl=0x3,sessions,pnfs=LAYOUT_FLEX_FILES,lease_time=90\n"
        "device nas:/d mounted on /mnt/d with fstype nfs statvers=1.1\n"
        "\topts:\trw,vers=3\n"
        "device nas:/e mounted on /mnt/e with fstype nfs4 statvers=1.1\n"
        "\tnfsv4:\tsessions,pnfs=LAYOUT_NFSV4_1_FILES\n";
    static const struct {
        const char *mount_point, *type;
    } mounts[] = {{"/mnt/a", NULL}, {"/mnt/b c", "LAYOUT_FLEX_FILES"},
                  {"/mnt/d", NULL}, {"/mnt/e", "LAYOUT_NFSV4_1_FILES"},
                  {"/mnt/b", NULL}, {"/", NULL}};
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        char type[48], text[sizeof(stats)];
        memcpy(text, stats, sizeof(stats));
        bool found = conf_mount_layout(text, mounts[i].mount_point, type, sizeof(type));
        assert_int_equal(found, mounts[i].type != NULL);
        if (found)
            assert_string_equal(type, mounts[i].type);
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
