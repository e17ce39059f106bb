/* nfstab: where it is looked for, the kernel's mounts, and the addresses of names. */
#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#include "config/mountinfo.h"
#include "nfstab_helpers.h"

/* Files of a test lie in a directory of its own. */
static char directory[] = "/tmp/test_nfstab.XXXXXX";

static const char *path_of(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
    return path;
}

static const char *write_file(const char *name, const char *text)
{
    const char *path = path_of(name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    return path;
}

/* --- where it is looked for ---------------------------------------------------------------- */

static void set_sources(struct conf_sources *sources, const char *first, const char *second,
                        const char *third, const char *mountinfo)
{
    memset(sources, 0, sizeof(*sources));
    strcpy(sources->files[0], first);
    strcpy(sources->files[1], second);
    strcpy(sources->files[2], third);
    strcpy(sources->mountinfo, mountinfo);
}

UNIT_TEST(the_environment_names_the_sources)
{
    struct conf_sources sources;
    setenv("DIRECTNFS_NFSTAB", "", 1);
    setenv("DIRECTNFS_HOME", "/opt/d", 1);
    conf_sources_default(&sources);
    assert_string_equal(sources.only, "");
    assert_string_equal(sources.files[0], "/opt/d/nfstab");
    assert_string_equal(sources.files[1], "/etc/directnfs/nfstab");
    assert_string_equal(sources.files[2], "/etc/oranfstab");
    assert_string_equal(sources.mountinfo, "/proc/self/mountinfo");
    unsetenv("DIRECTNFS_HOME");
    conf_sources_default(&sources);
    assert_string_equal(sources.files[0], "");
    setenv("DIRECTNFS_NFSTAB", "/my/tab", 1);
    conf_sources_default(&sources);
    assert_string_equal(sources.only, "/my/tab");
    assert_string_equal(sources.files[1], "");
    assert_string_equal(sources.mountinfo, "");
    unsetenv("DIRECTNFS_NFSTAB");
}

UNIT_TEST(the_first_entry_for_a_mount_wins)
{
    struct conf_sources sources;
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    const char *one = write_file("one", "uid: 11\nserver: s1\nexport: /1 mount: /m/a\n");
    const char *two = write_file("two", "server: s2\n path: 10.0.0.2\nexport: /2 mount: /m/a/\n"
                                        "export: /22 mount: /m/b\n");
    const char *three = write_file("three", "server: s3\nexport: /3 mount: /m/b\n"
                                            "server: s4\nexport: /4 mount: /m/c\n");
    const char *mounts =
        write_file("mounts", "9 1 0:9 / /m/c rw - nfs k:/c rw,vers=3,addr=10.0.0.9\n"
                             "8 1 0:8 / /m/d rw - nfs k:/d rw,vers=3,addr=10.0.0.9\n");
    set_sources(&sources, one, two, three, mounts);
    assert_int_equal(conf_nfstab_load(&tab, &sources, &d), 0);
    assert_int_equal(d.count, 0);

    assert_int_equal(tab.server_count, 4);
    static const char *const servers[] = {"s1", "s2", "s4", "k"};
    static const char *const mount_points[] = {"/m/a", "/m/b", "/m/c", "/m/d"};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(tab.servers[i].name, servers[i]);
        assert_int_equal(tab.servers[i].export_count, 1);
        assert_string_equal(tab.servers[i].exports[0].mount, mount_points[i]);
    }
    assert_int_equal(tab.servers[0].uid, 11);
    assert_true(tab.servers[1].uid == CONF_ID_PROCESS);
    assert_string_equal(tab.servers[3].exports[0].at.file, mounts);

    assert_int_equal(tab.overridden_count, 3);
    assert_string_equal(tab.overridden[0].server, "s2");
    assert_string_equal(tab.overridden[0].directory, "/2");
    assert_string_equal(tab.overridden[0].mount, "/m/a");
    assert_string_equal(tab.overridden[0].at.file, two);
    assert_int_equal(tab.overridden[0].at.line, 3);
    assert_int_equal(tab.overridden[0].at.column, 9);
    assert_string_equal(tab.overridden[0].by.file, one);
    assert_int_equal(tab.overridden[0].by.line, 3);
    assert_string_equal(tab.overridden[1].server, "s3");
    assert_string_equal(tab.overridden[1].by.file, two);
    assert_int_equal(tab.overridden[1].by.line, 4);
    assert_string_equal(tab.overridden[2].server, "k");
    assert_string_equal(tab.overridden[2].by.file, three);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(only_the_file_of_the_environment_is_read)
{
    struct conf_sources sources;
    struct conf_nfstab tab = {0};
    set_sources(&sources, write_file("one", "garbage"), "", "", "/proc/self/mountinfo");
    strcpy(sources.only, write_file("only", "server: o\nexport: /o mount: /o\n"));
    assert_int_equal(conf_nfstab_load(&tab, &sources, NULL), 0);
    assert_int_equal(tab.server_count, 1);
    assert_string_equal(tab.servers[0].name, "o");
    conf_nfstab_free(&tab);
}

UNIT_TEST(files_that_do_not_exist_are_passed_over)
{
    struct conf_sources sources;
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    set_sources(&sources, path_of("absent"), "/dev/null/x", path_of("absent/too"),
                write_file("mounts", ""));
    assert_int_equal(conf_nfstab_load(&tab, &sources, &d), 0);
    assert_int_equal(d.count, 0);
    assert_int_equal(tab.server_count, 0);
    conf_nfstab_free(&tab);
}

UNIT_TEST(the_only_file_must_exist)
{
    struct conf_sources sources = {0};
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    char line[256];
    strcpy(sources.only, "/nowhere/nfstab");
    assert_int_equal(conf_nfstab_load(&tab, &sources, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    assert_string_equal(conf_diagnostic_format(&d.list[0], line, sizeof(line)),
                        "/nowhere/nfstab: error: cannot be read: No such file or directory, "
                        "expected an nfstab");
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

UNIT_TEST(what_is_no_file_is_an_error)
{
    static const char *const strange[] = {"/tmp", "/dev/null"};
    for (size_t i = 0; i < 2; i++) {
        struct conf_sources sources;
        struct conf_nfstab tab = {0};
        struct conf_diagnostics d = {0};
        set_sources(&sources, strange[i], "", "", "");
        assert_int_equal(conf_nfstab_load(&tab, &sources, &d), -EINVAL);
        assert_int_equal(d.errors, 1);
        assert_string_equal(d.list[0].at.file, strange[i]);
        conf_diagnostics_free(&d);
        conf_nfstab_free(&tab);
    }
}

UNIT_TEST(mistakes_of_all_files_are_found)
{
    struct conf_sources sources;
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    const char *one = write_file("one", "server: a\nexport: /1 mount: /1\nuid: 0\n");
    const char *two = write_file("two", "server: b\nexport: /2\n");
    set_sources(&sources, one, two, "", "");
    assert_int_equal(conf_nfstab_load(&tab, &sources, &d), -EINVAL);
    assert_int_equal(d.errors, 2);
    assert_string_equal(d.list[0].at.file, one);
    assert_int_equal(d.list[0].at.line, 3);
    assert_string_equal(d.list[1].at.file, two);
    assert_int_equal(d.list[1].at.line, 2);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

/* --- the kernel's mounts ------------------------------------------------------------------- */

static void load_mounts(struct conf_nfstab *tab, const char *text, struct conf_diagnostics *d)
{
    struct conf_sources sources;
    set_sources(&sources, "", "", "", write_file("mounts", text));
    *tab = (struct conf_nfstab){0};
    assert_int_equal(conf_nfstab_load(tab, &sources, d), 0);
}

UNIT_TEST(an_nfs3_mount_gives_an_export)
{
    struct conf_nfstab tab;
    struct conf_diagnostics d = {0};
    load_mounts(&tab,
                "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                "30 20 0:30 / /mnt/my\\040data rw,relatime shared:3 - nfs filer:/vol/my\\040data "
                "rw,vers=3,rsize=1048576,hard,proto=tcp,port=12049,sec=sys,mountaddr=192.0.2.8,"
                "mountvers=3,mountport=12050,mountproto=tcp,local_lock=none,addr=192.0.2.9\n"
                "31 20 0:31 / /mnt/six rw - nfs [2001:db8::9]:/six "
                "rw,vers=3,mountport=20048,addr=2001:db8::9\n",
                &d);
    assert_int_equal(d.count, 0);
    assert_int_equal(tab.server_count, 2);
    const struct conf_server *server = &tab.servers[0];
    assert_string_equal(server->name, "filer");
    assert_int_equal(server->path_count, 1);
    assert_string_equal(server->paths[0].peer, "192.0.2.9");
    assert_string_equal(server->paths[0].local, "");
    assert_int_equal(server->nfsport, 12049);
    assert_int_equal(server->mntport, 12050);
    assert_int_equal(server->mnt_timeout, 600);
    assert_int_equal(server->export_count, 1);
    assert_string_equal(server->exports[0].directory, "/vol/my data");
    assert_string_equal(server->exports[0].mount, "/mnt/my data");
    assert_int_equal(server->exports[0].kernel, CONF_KERNEL_YES);
    assert_int_equal(server->exports[0].at.line, 2);
    assert_string_equal(tab.servers[1].name, "[2001:db8::9]");
    assert_string_equal(tab.servers[1].paths[0].peer, "2001:db8::9");
    assert_int_equal(tab.servers[1].nfsport, 0);
    assert_int_equal(tab.servers[1].mntport, 0);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(mounts_of_one_server_share_a_stanza)
{
    struct conf_nfstab tab;
    load_mounts(&tab,
                "30 1 0:30 / /a rw - nfs f:/a rw,vers=3,addr=10.0.0.1\n"
                "31 1 0:31 / /b rw - nfs f:/b rw,vers=3,addr=10.0.0.1\n"
                "32 1 0:32 / /c rw - nfs f:/c rw,vers=3,addr=10.0.0.2\n",
                NULL);
    assert_int_equal(tab.server_count, 2);
    assert_int_equal(tab.servers[0].export_count, 2);
    assert_string_equal(tab.servers[1].exports[0].mount, "/c");
    conf_nfstab_free(&tab);
}

UNIT_TEST(other_mounts_give_nothing)
{
    struct conf_nfstab tab;
    struct conf_diagnostics d = {0};
    load_mounts(&tab,
                "30 1 0:30 / /a rw - nfs4 f:/a rw,vers=4.3,addr=10.0.0.1\n"
                "31 1 0:31 / /b rw - ext4 f:/b rw,vers=4.1,addr=10.0.0.1\n"
                "32 1 0:32 / /c rw - nfs f:/c rw,vers=2,addr=10.0.0.1\n"
                "33 1 0:33 / /d rw - nfsd nfsd rw,vers=3\n"
                "34 1 0:34 / /e rw - nfs f:/e rw,vers=3,addr=10.0.0.1\n"
                "35 34 0:35 / /e rw - tmpfs none rw\n"
                "nonsense\n",
                &d);
    assert_int_equal(d.count, 0);
    assert_int_equal(tab.server_count, 0);
    conf_nfstab_free(&tab);
}

UNIT_TEST(mounts_of_each_version_are_a_server_of_their_own)
{
    struct conf_nfstab tab;
    struct conf_diagnostics d = {0};
    load_mounts(&tab,
                "30 1 0:30 / /a rw - nfs f:/a rw,vers=3,addr=10.0.0.1\n"
                "31 1 0:31 / /b rw - nfs4 f:/b rw,vers=4.1,addr=10.0.0.1\n"
                "32 1 0:32 / /c rw - nfs4 f:/c rw,vers=4.2,addr=10.0.0.1\n"
                "33 1 0:33 / /d rw - nfs4 f:/d rw,vers=4.0,addr=10.0.0.1\n",
                &d);
    assert_int_equal(d.notices, 1);
    assert_int_equal(d.list[0].at.line, 4);
    assert_non_null(strstr(d.list[0].text, "mount '/d' with NFSv4.0"));
    assert_int_equal(tab.server_count, 2);
    assert_int_equal(tab.servers[0].version, CONF_VERSION_3);
    assert_int_equal(tab.servers[0].export_count, 1);
    assert_int_equal(tab.servers[1].version, CONF_VERSION_41);
    assert_int_equal(tab.servers[1].export_count, 2);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

UNIT_TEST(mounts_that_cannot_be_served_give_a_notice)
{
    struct conf_nfstab tab;
    struct conf_diagnostics d = {0};
    load_mounts(&tab,
                "30 1 0:30 / /a rw - nfs f:/a rw,vers=3,sec=lkey,addr=10.0.0.1\n"
                "31 1 0:31 / /b rw - nfs f:/b rw,vers=3\n"
                "32 1 0:32 / /c rw - nfs nothing rw,vers=3,addr=10.0.0.1\n"
                "33 1 0:33 / /d rw - nfs f:/d rw,vers=3,addr=10.0.0\n"
                "34 1 0:34 / /f rw - nfs4 f:/f rw,vers=4.2,sec=sys,xprtsec=mtls,addr=10.0.0.1\n",
                &d);
    assert_int_equal(tab.server_count, 0);
    assert_int_equal(d.errors, 0);
    assert_int_equal(d.notices, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(d.list[i].at.line, i + 1);
    assert_non_null(strstr(d.list[0].text, "'lkey', which is not known"));
    assert_non_null(strstr(d.list[4].text, "xprtsec=mtls, and no nfstab that names"));
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

UNIT_TEST(how_the_kernel_protects_its_mounts)
{
    static const struct {
        const char *options;
        enum conf_security security;
        bool tls, mutual;
    } mounts[] = {{"rw,vers=3", CONF_SECURITY_SYS, false, false},
                  {"rw,vers=3,sec=sys,xprtsec=none", CONF_SECURITY_SYS, false, false},
                  {"rw,vers=3,sec=sys,xprtsec=tls", CONF_SECURITY_SYS, true, false},
                  {"rw,vers=4.2,sec=krb5", CONF_SECURITY_KRB5, false, false},
                  {"rw,vers=4.2,sec=krb5i,xprtsec=mtls", CONF_SECURITY_KRB5I, true, true},
                  {"rw,vers=4.2,sec=krb5p", CONF_SECURITY_KRB5P, false, false},
                  {"rw,vers=4.2,sec=null", CONF_SECURITY_AUTO, false, false},
                  {"rw,vers=4.2,sec=auto", CONF_SECURITY_AUTO, false, false}};
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        const struct conf_mount mount = {.type = "nfs", .super_options = mounts[i].options};
        struct conf_mount_protection found = conf_mount_protection(&mount);
        assert_int_equal(found.security, mounts[i].security);
        assert_int_equal(found.tls, mounts[i].tls);
        assert_int_equal(found.mutual, mounts[i].mutual);
    }
}

UNIT_TEST(mounts_that_are_protected_are_found)
{
    struct conf_nfstab tab;
    struct conf_diagnostics d = {0};
    load_mounts(&tab,
                "30 1 0:30 / /a rw - nfs f:/a rw,vers=3,sec=krb5p,addr=10.0.0.1\n"
                "31 1 0:31 / /b rw - nfs f:/b rw,vers=3,xprtsec=tls,addr=10.0.0.1\n",
                &d);
    assert_int_equal(d.notices, 0);
    assert_int_equal(tab.server_count, 1);
    assert_int_equal(tab.servers[0].export_count, 2);
    assert_int_equal(tab.servers[0].tls, CONF_TLS_AUTO);
    assert_int_equal(tab.servers[0].exports[0].security, CONF_SECURITY_AUTO);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

/* --- names --------------------------------------------------------------------------------- */

UNIT_TEST(numeric_addresses_of_a_path)
{
    struct conf_nfstab tab;
    struct conf_addresses found;
    char text[INET6_ADDRSTRLEN];
    parse(&tab, "server: s export: /a mount: /b\npath: 192.0.2.7 local: 192.0.2.8\npath: [::1]\n");
    struct conf_path *paths = tab.servers[0].paths;
    assert_int_equal(conf_path_addresses(&paths[0], &found, NULL), 0);

    assert_int_equal(found.count, 1);
    const struct sockaddr_in *address = (const void *)&found.peers[0];
    assert_int_equal(address->sin_family, AF_INET);
    assert_int_equal(address->sin_port, 0);
    assert_string_equal(inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)), "192.0.2.7");
    address = (const void *)&found.local;
    assert_int_equal(address->sin_family, AF_INET);
    assert_string_equal(inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)), "192.0.2.8");

    assert_int_equal(conf_path_addresses(&paths[1], &found, NULL), 0);
    assert_int_equal(found.peers[0].ss_family, AF_INET6);
    assert_int_equal(found.local.ss_family, AF_UNSPEC);
    conf_nfstab_free(&tab);
}

/* On every host localhost is 127.0.0.1, and on most also ::1. */
UNIT_TEST(a_name_takes_the_family_of_its_local)
{
    struct conf_nfstab tab;
    struct conf_addresses found;
    parse(&tab, "server: s export: /a mount: /b\npath: localhost local: 127.0.0.2\n");
    assert_int_equal(conf_path_addresses(&tab.servers[0].paths[0], &found, NULL), 0);
    for (size_t i = 0; i < found.count; i++)
        assert_int_equal(found.peers[i].ss_family, AF_INET);
    conf_nfstab_free(&tab);
}

UNIT_TEST(equal_addresses)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } pairs[] = {
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.2", false},
        {"::1", "0:0::1", true},
        {"::1", "::2", false},
        {"::ffff:10.0.0.1", "10.0.0.1", true},
        {"::10.0.0.1", "10.0.0.1", false},
        {"fe80::1%lo", "fe80::1%1", true},
        {"fe80::1%1", "fe80::1%2", false},
    };
    struct sockaddr_storage a, b, none = {0};
    size_t count;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_int_equal(conf_path_resolve(pairs[i].a, AF_UNSPEC, &a, 1, &count), 0);
        assert_int_equal(conf_path_resolve(pairs[i].b, AF_UNSPEC, &b, 1, &count), 0);
        assert_int_equal(conf_address_equal(&a, &b), pairs[i].equal);
        assert_false(conf_address_equal(&a, &none));
    }
    assert_true(conf_address_equal(&none, &none));
}

UNIT_TEST(a_name_is_resolved)
{
    struct sockaddr_storage address;
    size_t count;
    assert_int_equal(conf_path_resolve("localhost", AF_INET, &address, 1, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(address.ss_family, AF_INET);
    assert_int_equal(((struct sockaddr_in *)&address)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

/* The top-level domain "invalid" is reserved for names that never resolve, RFC 2606. */
UNIT_TEST(what_does_not_resolve_is_an_error_with_its_place)
{
    static const struct {
        const char *item, *text;
        unsigned column;
    } wrong[] = {
        {"path: nas.invalid", "found path 'nas.invalid', which does not resolve: ", 7},
        {"path: 192.0.2.1 local: me.invalid", "found local 'me.invalid', which does not ", 24},
        {"local: ::1 path: v4.invalid", "an IPv6 address, as its local has", 18},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct conf_nfstab tab;
        struct conf_diagnostics d = {0};
        struct conf_addresses found;
        char text[128];
        snprintf(text, sizeof(text), "server: s export: /a mount: /b\n%s\n", wrong[i].item);
        parse(&tab, text);
        assert_int_equal(conf_path_addresses(&tab.servers[0].paths[0], &found, &d), -EHOSTUNREACH);
        assert_int_equal(d.errors, 1);
        assert_string_equal(d.list[0].at.file, "test");
        assert_int_equal(d.list[0].at.line, 2);
        assert_int_equal(d.list[0].at.column, wrong[i].column);
        assert_non_null(strstr(d.list[0].text, wrong[i].text));
        conf_diagnostics_free(&d);
        conf_nfstab_free(&tab);
    }
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int remove_directory(void **state)
{
    static const char *const names[] = {"one", "two", "three", "only", "mounts"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_of(names[i]));
    return rmdir(directory);
}

int main(void)
{
    return unit_run(make_directory, remove_directory);
}
