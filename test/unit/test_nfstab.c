/* nfstab: what is accepted, and that what is printed parses to the same. */
#include "nfstab_helpers.h"

static const char oranfstab[] = "server: FilerOne\n"
                                "local: 10.1.1.1\n"
                                "path: 10.1.1.2\n"
                                "local: 10.1.2.1\n"
                                "path: 10.1.2.2\n"
                                "nfs_version: NFSv3\n"
                                "dontroute\n"
                                "export: /vol/data1 mount: /mnt/data1\n"
                                "\n"
                                "server: FilerTwo\n"
                                "local: ClientPath1\n"
                                "path: FilerPath1\n"
                                "local: ClientPath2\n"
                                "path: FilerPath2\n"
                                "local: ClientPath3\n"
                                "path: FilerPath3\n"
                                "local: ClientPath4\n"
                                "path: FilerPath4\n"
                                "donotroute\n"
                                "export: /vol/data2 mount: /mnt/data2\n"
                                "export: /vol/data3 mount: /mnt/data3\n"
                                "security_default: sys\n"
                                "export: /vol/data4 mount: /mnt/data4 security: sys\n"
                                "mnt_timeout: 60\n";

UNIT_TEST(each_word_for_a_version_is_accepted)
{
    static const struct {
        const char *line;
        enum conf_version version;
    } words[] = {{"", CONF_VERSION_AUTO},
                 {"nfs_version: nfsv3", CONF_VERSION_3},
                 {"nfs_version: NFSv4", CONF_VERSION_41},
                 {"nfs_version: nfsv4.1", CONF_VERSION_41},
                 {"nfs_version: nfsv4.2", CONF_VERSION_41}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct conf_nfstab tab;
        char text[128];
        snprintf(text, sizeof(text), "server: s\n%s\nexport: /a mount: /b\n", words[i].line);
        parse(&tab, text);
        assert_int_equal(tab.servers[0].version, words[i].version);
        conf_nfstab_free(&tab);
    }
}

UNIT_TEST(a_fence_is_printed_as_it_was_read)
{
    struct conf_nfstab tab;
    parse(&tab, "server: s\nfence: db_1.a-B nfs_version: nfsv4.1\nexport: /a mount: /b\n");
    assert_string_equal(tab.servers[0].fence, "db_1.a-B");
    char *text = conf_nfstab_print(&tab);
    assert_non_null(strstr(text, "    fence: db_1.a-B\n"));
    free(text);
    conf_nfstab_free(&tab);
    parse(&tab, "server: s\nexport: /a mount: /b\n");
    assert_null(tab.servers[0].fence);
    conf_nfstab_free(&tab);
}

/* As it was read, it is printed, and read again. */
static void read_again(struct conf_nfstab *tab, const char *text)
{
    struct conf_nfstab first;
    parse(&first, text);
    char *printed = conf_nfstab_print(&first);
    assert_non_null(printed);
    parse(tab, printed);
    free(printed);
    conf_nfstab_free(&first);
}

UNIT_TEST(each_export_has_its_security)
{
    static const char *const texts[] = {
        "server: s export: /a mount: /a security: krb5 export: /b mount: /b "
        "export: /c mount: /c security: SYS security_default: krb5p",
        "server: s security: krb5p export: /a mount: /a security: krb5 export: /b mount: /b "
        "export: /c mount: /c security: sys",
    };
    for (size_t i = 0; i < 2; i++) {
        struct conf_nfstab tab;
        read_again(&tab, texts[i]);
        assert_int_equal(tab.servers[0].exports[0].security, CONF_SECURITY_KRB5);
        assert_int_equal(tab.servers[0].exports[1].security, CONF_SECURITY_KRB5P);
        assert_int_equal(tab.servers[0].exports[2].security, CONF_SECURITY_SYS);
        conf_nfstab_free(&tab);
    }
}

UNIT_TEST(what_protects_the_calls)
{
    struct conf_nfstab tab;
    read_again(&tab, "server: s tls: require tls_direct tls_ca: /a tls_crl: /b\\040 tls_cert: /c "
                     "tls_key: /d tls_name: nfs.example krb5_keytab: /e\n"
                     "krb5_principal: db/host@REALM export: /a mount: /b security: krb5i\n"
                     "server: t export: /a mount: /c tls: prefer\n"
                     "server: u export: /a mount: /d tls: no");
    const struct conf_server *s = &tab.servers[0];
    assert_int_equal(s->tls, CONF_TLS_REQUIRE);
    assert_true(s->tls_direct);
    assert_string_equal(s->tls_ca, "/a");
    assert_string_equal(s->tls_crl, "/b ");
    assert_string_equal(s->tls_cert, "/c");
    assert_string_equal(s->tls_key, "/d");
    assert_string_equal(s->tls_name, "nfs.example");
    assert_string_equal(s->krb5_keytab, "/e");
    assert_string_equal(s->krb5_principal, "db/host@REALM");
    assert_int_equal(s->exports[0].security, CONF_SECURITY_KRB5I);
    assert_int_equal(tab.servers[1].tls, CONF_TLS_PREFER);
    assert_int_equal(tab.servers[1].exports[0].security, CONF_SECURITY_AUTO);
    assert_false(tab.servers[1].tls_direct);
    assert_null(tab.servers[1].tls_ca);
    assert_int_equal(tab.servers[2].tls, CONF_TLS_NO);
    conf_nfstab_free(&tab);
}

UNIT_TEST(an_oranfstab_is_accepted)
{
    struct conf_nfstab tab;
    parse(&tab, oranfstab);
    assert_int_equal(tab.server_count, 2);

    const struct conf_server *one = &tab.servers[0], *two = &tab.servers[1];
    assert_string_equal(one->name, "FilerOne");
    assert_int_equal(one->path_count, 2);
    assert_string_equal(one->paths[0].peer, "10.1.1.2");
    assert_string_equal(one->paths[0].local, "10.1.1.1");
    assert_string_equal(one->paths[1].peer, "10.1.2.2");
    assert_string_equal(one->paths[1].local, "10.1.2.1");
    assert_true(one->paths[0].dontroute && one->paths[1].dontroute);
    assert_int_equal(one->mnt_timeout, 600);
    assert_int_equal(one->connections, 0);
    assert_int_equal(one->nfsport, 0);
    assert_int_equal(one->mntport, 0);
    assert_true(one->uid == CONF_ID_PROCESS && one->gid == CONF_ID_PROCESS);
    assert_int_equal(one->export_count, 1);
    assert_string_equal(one->exports[0].directory, "/vol/data1");
    assert_string_equal(one->exports[0].mount, "/mnt/data1");
    assert_int_equal(one->exports[0].kernel, CONF_KERNEL_AUTO);
    assert_string_equal(one->exports[0].at.file, "test");
    assert_int_equal(one->exports[0].at.line, 8);
    assert_int_equal(one->exports[0].at.column, 9);
    assert_int_equal(one->exports[0].mount_at.column, 27);

    assert_int_equal(two->path_count, 4);
    assert_string_equal(two->paths[3].peer, "FilerPath4");
    assert_string_equal(two->paths[3].local, "ClientPath4");
    assert_int_equal(two->paths[3].local_at.line, 17);
    assert_int_equal(two->paths[3].local_at.column, 8);
    assert_true(two->paths[0].dontroute);
    assert_int_equal(two->export_count, 3);
    assert_string_equal(two->exports[2].mount, "/mnt/data4");
    assert_int_equal(two->mnt_timeout, 60);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(blanks_case_and_comments_mean_nothing)
{
    struct conf_nfstab tab, plain;
    parse(&tab, "# one\r\n\n  \t\nSERVER:nas#two\n\tLocal :10.0.0.1 PATH:10.0.0.2 local : 10.0.1.1 "
                "path: 10.0.1.2\r\n DontRoute  Export:/a   Mount :/b Kernel:YES # three\n"
                "connections:3 nfsport :2049 MNTPORT: 20048");
    parse(&plain, "server: nas\npath: 10.0.0.2\nlocal: 10.0.0.1\npath: 10.0.1.2\nlocal: 10.0.1.1\n"
                  "dontroute\nexport: /a mount: /b kernel: yes\nconnections: 3\nnfsport: 2049\n"
                  "mntport: 20048\n");
    assert_int_equal(tab.servers[0].connections, 3);
    assert_int_equal(tab.servers[0].nfsport, 2049);
    assert_int_equal(tab.servers[0].mntport, 20048);
    assert_int_equal(tab.servers[0].exports[0].kernel, CONF_KERNEL_YES);
    assert_same(&tab, &plain);
    conf_nfstab_free(&tab);
    conf_nfstab_free(&plain);
}

UNIT_TEST(the_name_is_the_path_if_there_is_none)
{
    struct conf_nfstab tab;
    parse(&tab, "server: nas.example.com\nlocal: 10.0.0.1\nexport: /a mount: /b\n"
                "server: [::1]\nexport: /a mount: /c\n");
    assert_int_equal(tab.servers[0].path_count, 1);
    assert_string_equal(tab.servers[0].paths[0].peer, "nas.example.com");
    assert_string_equal(tab.servers[0].paths[0].local, "10.0.0.1");
    assert_int_equal(tab.servers[0].paths[0].at.line, 1);
    assert_int_equal(tab.servers[0].paths[0].at.column, 9);
    assert_string_equal(tab.servers[1].name, "[::1]");
    assert_string_equal(tab.servers[1].paths[0].peer, "::1");
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(ipv6_needs_no_brackets_and_may_have_a_scope)
{
    struct conf_nfstab tab;
    parse(&tab, "server: s\npath:[2001:db8::1]\npath:::1\npath: [fe80::1%eth0]\n"
                "export: /a mount: /b");
    assert_string_equal(tab.servers[0].paths[0].peer, "2001:db8::1");
    assert_string_equal(tab.servers[0].paths[1].peer, "::1");
    assert_string_equal(tab.servers[0].paths[2].peer, "fe80::1%eth0");
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(thirty_two_paths_are_accepted)
{
    char text[2048] = "server: s export: /a mount: /b\n";
    for (int i = 0; i < CONF_PATHS_MAX; i++)
        sprintf(text + strlen(text), "path: 10.0.0.%d local: 10.0.1.%d\n", i, i);
    struct conf_nfstab tab;
    parse(&tab, text);
    assert_int_equal(tab.servers[0].path_count, CONF_PATHS_MAX);
    assert_string_equal(tab.servers[0].paths[31].peer, "10.0.0.31");
    assert_string_equal(tab.servers[0].paths[31].local, "10.0.1.31");
    conf_nfstab_free(&tab);
}

UNIT_TEST(a_path_may_come_again_with_another_local)
{
    struct conf_nfstab tab;
    parse(&tab, "server: s export: /a mount: /b\npath: ::1 local: ::2\npath: ::1 local: ::3\n"
                "path: ::1\nserver: t export: /c mount: /d\npath: ::1 local: ::2\n");
    assert_int_equal(tab.servers[0].path_count, 3);
    assert_int_equal(tab.servers[1].path_count, 1);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(mounts_are_normalised)
{
    struct conf_nfstab tab;
    parse(&tab, "server: s\nexport: /a// mount: //mnt///x/./y/\nexport: / mount: /./\n");
    assert_string_equal(tab.servers[0].exports[0].directory, "/a//");
    assert_string_equal(tab.servers[0].exports[0].mount, "/mnt/x/y");
    assert_string_equal(tab.servers[0].exports[1].mount, "/");
    conf_nfstab_free(&tab);
}

UNIT_TEST(escapes_stand_for_any_byte)
{
    struct conf_nfstab tab;
    parse(&tab, "server: s\nexport: /a\\040b mount: /c\\043d\\134e\\09\n");
    assert_string_equal(tab.servers[0].exports[0].directory, "/a b");
    assert_string_equal(tab.servers[0].exports[0].mount, "/c#d\\e\\09");
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(kernel_is_of_the_export_before_it)
{
    struct conf_nfstab tab;
    parse(&tab, "server: s\nexport: /a mount: /a kernel: no\nexport: /b mount: /b kernel: auto\n"
                "export: /c mount: /c\nkernel: yes\n");
    assert_int_equal(tab.servers[0].exports[0].kernel, CONF_KERNEL_NO);
    assert_int_equal(tab.servers[0].exports[1].kernel, CONF_KERNEL_AUTO);
    assert_int_equal(tab.servers[0].exports[2].kernel, CONF_KERNEL_YES);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(an_identity_is_of_the_whole_file)
{
    struct conf_nfstab tab;
    parse(&tab, "uid: 1001\nserver: a\nexport: /a mount: /a\n"
                "server: b\nexport: /b mount: /b\ngid: 2002\n"
                "server: c\nexport: /c mount: /c\nuid: 3003 gid: process\n");
    assert_int_equal(tab.servers[0].uid, 1001);
    assert_int_equal(tab.servers[1].uid, 1001);
    assert_int_equal(tab.servers[2].uid, 3003);
    assert_int_equal(tab.servers[0].gid, 2002);
    assert_int_equal(tab.servers[1].gid, 2002);
    assert_true(tab.servers[2].gid == CONF_ID_PROCESS);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(snmp_is_ignored_with_one_notice)
{
    static const char text[] = "server: s\n export: /a mount: /b\n  management: mgmt\n"
                               "community: private\n";
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, strlen(text), &d), 0);
    assert_int_equal(d.errors, 0);
    assert_int_equal(d.notices, 1);
    assert_int_equal(d.list[0].severity, CONF_NOTICE);
    assert_int_equal(d.list[0].at.line, 3);
    assert_int_equal(d.list[0].at.column, 3);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

UNIT_TEST(the_sample_is_valid)
{
    char text[8192] = "";
    FILE *in = fopen("conf/nfstab", "r");
    if (in == NULL)
        fail_msg("conf/nfstab: run the test in the top directory of the source");
    assert_true(fread(text, 1, sizeof(text) - 1, in) > 0);
    fclose(in);
    struct conf_nfstab tab;
    parse(&tab, text);
    assert_int_equal(tab.server_count, 2);
    assert_int_equal(tab.servers[0].path_count, 2);
    assert_int_equal(tab.servers[1].nfsport, 2049);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(an_empty_file_has_no_server)
{
    struct conf_nfstab tab;
    parse(&tab, "");
    assert_int_equal(tab.server_count, 0);
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

UNIT_TEST(a_strange_name_is_printed_so_that_it_parses)
{
    struct conf_nfstab tab;
    parse(&tab, "server: \\145xport:x path: a export: /e mount: /m\n"
                "server: \\357\\273\\277\\040\\177 path: b export: /f mount: /n\n");
    assert_string_equal(tab.servers[0].name, "export:x");
    assert_round_trip(&tab);
    conf_nfstab_free(&tab);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
