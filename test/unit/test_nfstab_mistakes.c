/* nfstab: every mistake with its place, and input that nobody should write. */
#include <errno.h>

#include "nfstab_helpers.h"

struct expected {
    unsigned line, column;
    const char *text;
};

/* Parses a text that must have exactly these mistakes. */
static void assert_mistakes(const char *text, size_t count, const struct expected *expected)
{
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, strlen(text), &d), -EINVAL);
    if (d.count != count)
        print_diagnostics(&d);
    assert_int_equal(d.count, count);
    assert_int_equal(d.errors, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(d.list[i].at.file, "test");
        assert_string_equal(d.list[i].text, expected[i].text);
        assert_int_equal(d.list[i].at.line, expected[i].line);
        assert_int_equal(d.list[i].at.column, expected[i].column);
    }
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

static void assert_mistake(const char *text, unsigned line, unsigned column, const char *message)
{
    struct expected expected = {line, column, message};
    assert_mistakes(text, 1, &expected);
}

/* --- mistakes ------------------------------------------------------------------------------ */

#define KEYS                                                                               \
    "server, path, local, dontroute, export, mount, kernel, security, security_default, "  \
    "krb5_keytab, krb5_principal, tls, tls_direct, tls_ca, tls_crl, tls_cert, tls_key, "   \
    "tls_name, nfs_version, fence, mnt_timeout, connections, nfsport, mntport, uid, gid, " \
    "management or community"

UNIT_TEST(unknown_keys)
{
    assert_mistake("server: s export: /a mount: /b\nhello big world\n", 2, 1,
                   "found 'hello', expected a key: " KEYS);
    assert_mistake("server: s\npath: 10.0.0.1 10.0.0.2\nexport: /a mount: /b\n", 2, 16,
                   "found '10.0.0.2', expected a key: " KEYS);
    assert_mistake("server: s\n: /x\nexport: /a mount: /b\n", 2, 1,
                   "found ':', expected a key: " KEYS);
    assert_mistake("server: s export: /a mount: /b\n\t\x01\xff\n", 2, 2,
                   "found '\\x01\\xff', expected a key: " KEYS);
}

/* A key that is misspelt is one mistake: what follows from it is none. */
UNIT_TEST(misspelt_keys)
{
    assert_mistake("server: s.\n  paht: 10.0.0.1\nexport: /a mount: /b\n", 2, 3,
                   "found 'paht', expected a key such as 'path'");
    assert_mistake("server: s\nexprot: /a mount: /b\n", 2, 1,
                   "found 'exprot', expected a key such as 'export'");
    assert_mistake("server: s\nexport: /a Mout: /b\n", 2, 12,
                   "found 'Mout', expected a key such as 'mount'");
    assert_mistake("sever: s\npath: 10.0.0.1\nexport: /a mount: /b\n", 1, 1,
                   "found 'sever', expected a key such as 'server'");
    assert_mistake("server: s\nsecurity-default: sys\nexport: /a mount: /b\n", 2, 1,
                   "found 'security-default', expected a key such as 'security_default'");
    assert_mistake("server: s\nnfs: 3\nexport: /a mount: /b\n", 2, 1,
                   "found 'nfs', expected a key: " KEYS);
}

UNIT_TEST(missing_colons_and_values)
{
    assert_mistake("server: s\npath 10.0.0.1\nexport: /a mount: /b\n", 2, 6,
                   "found '10.0.0.1' after 'path', expected ':'");
    assert_mistake("server s\nexport: /a mount: /b\n", 1, 8,
                   "found 's' after 'server', expected ':'");
    assert_mistake("server: s\npath = 10.0.0.1\nexport: /a mount: /b\n", 2, 6,
                   "found '=' after 'path', expected ':'");
    assert_mistake("server: s\npath\nexport: /a mount: /b\n", 2, 5,
                   "found the end of the line after 'path', expected ':'");
    assert_mistake("server: s\npath: # none\nexport: /a mount: /b\n", 2, 7,
                   "found a comment after 'path:', expected an address or a host name");
    assert_mistake("server: s\npath: local: 10.0.0.1\nexport: /a mount: /b\npath: s\n", 2, 7,
                   "found 'local:' after 'path:', expected an address or a host name");
    assert_mistake("server: s\nexport: mount: /b\n", 2, 9,
                   "found 'mount:' after 'export:', expected a directory of the server");
    assert_mistake("server:\nexport: /a mount: /b", 1, 8,
                   "found the end of the line after 'server:', expected a name");
    assert_mistake("server: s\nexport: /a mount:", 2, 18,
                   "found the end of the line after 'mount:', expected a directory");
    assert_mistake("server: s\ndontroute: yes\nexport: /a mount: /b\n", 2, 10,
                   "found ':' after 'dontroute', expected none: it is a flag");
}

UNIT_TEST(items_before_a_server)
{
    static const struct expected expected[] = {
        {1, 1, "found 'path' before any server, expected 'server:' first"},
        {2, 2, "found 'dontroute' before any server, expected 'server:' first"},
        {3, 1, "found 'export' before any server, expected 'server:' first"},
        {3, 12, "found 'mount' before any server, expected 'server:' first"},
    };
    assert_mistakes("path: 10.0.0.1\n dontroute\nexport: /a mount: /b\n", 4, expected);
}

UNIT_TEST(exports_and_mounts_that_do_not_pair)
{
    assert_mistake("server: s\nexport: /x mount: /y mount: /b\n", 2, 29,
                   "found mount '/b' without an export, expected 'export:' before it");
    assert_mistake("server: s\nexport: /x\nexport: /a mount: /b\n", 2, 9,
                   "found export '/x' without a mount, expected 'mount:' after it");
    assert_mistake("server: s\nexport: /x", 2, 9,
                   "found export '/x' without a mount, expected 'mount:' after it");
    assert_mistake("server: s\npath: a\n", 1, 9,
                   "found server 's' without an export, expected 'export:' and 'mount:'");
    assert_mistake("server: s\nkernel: no\nexport: /a mount: /b", 2, 9,
                   "found 'kernel' without an export, expected 'export:' before it");
}

UNIT_TEST(two_mounts_at_one_place)
{
    assert_mistake("server: s\nexport: /a mount: /m\nserver: t\nexport: /b mount: //m/./\n", 4, 19,
                   "found a second mount at '/m', expected one (the first is in line 2)");
}

UNIT_TEST(directories_that_are_not_absolute)
{
    assert_mistake("server: s\nexport: vol mount: /m\n", 2, 9,
                   "found 'vol', expected an absolute directory (starting with '/')");
    assert_mistake("server: s\nexport: /vol mount: mnt\n", 2, 21,
                   "found 'mnt', expected an absolute directory (starting with '/')");
    assert_mistake("server: s\nexport: /vol mount: /mnt/../m\n", 2, 21,
                   "found '/mnt/../m', expected a directory without '..'");
    assert_mistake("server: s\nexport: /v\\000ol mount: /m\n", 2, 9,
                   "found the escape of a NUL byte, expected a directory of the server");
}

UNIT_TEST(directories_that_are_too_long)
{
    char text[8192] = "server: s\nexport: /";
    memset(text + strlen(text), 'x', 1024);
    strcat(text, " mount: /m\n");
    assert_mistake(text, 2, 9, "found a directory of 1025 bytes, expected at most 1024");

    memset(text, 0, sizeof(text));
    strcpy(text, "server: s\nexport: /a mount: /");
    memset(text + strlen(text), 'y', 4095);
    assert_mistake(text, 2, 19, "found a directory of 4096 bytes, expected at most 4095");
}

UNIT_TEST(addresses)
{
    static const struct {
        const char *address, *expected;
    } wrong[] = {
        {"10.0.0.256", "an IPv4 address such as 192.0.2.1"},
        {"10.0.0", "an IPv4 address such as 192.0.2.1"},
        {"[::1", "an IPv6 address with ']' at its end"},
        {"[]", "an IPv6 address such as [2001:db8::1]"},
        {"[10.0.0.1]", "an IPv6 address such as [2001:db8::1]"},
        {"1::2::3", "an IPv6 address such as [2001:db8::1]"},
        {"host:2049", "an IPv6 address such as [2001:db8::1]"},
        {"fe80::1%", "an IPv6 address such as [2001:db8::1]"},
        {"[fe80::1]", "the interface of a link-local address too, as in fe80::1%eth0"},
        {"-host", "an IPv4 address, an IPv6 address or a host name"},
        {"a/b", "an IPv4 address, an IPv6 address or a host name"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[256], message[256];
        snprintf(message, sizeof(message), "found '%s', expected %s", wrong[i].address,
                 wrong[i].expected);
        snprintf(text, sizeof(text), "server: s\npath: %s\nexport: /a mount: /b", wrong[i].address);
        assert_mistake(text, 2, 7, message);
        snprintf(text, sizeof(text), "server: s\n local: %s\nexport: /a mount: /b",
                 wrong[i].address);
        assert_mistake(text, 2, 9, message);
    }
}

UNIT_TEST(a_server_without_path_whose_name_is_none)
{
    assert_mistake("server: my/filer\nexport: /a mount: /b\n", 1, 9,
                   "found server 'my/filer' without a path, and the name is not an address or a "
                   "host name, expected 'path:'");
}

UNIT_TEST(more_locals_than_paths)
{
    assert_mistake("server: s\nlocal: 10.0.0.1 path: 10.0.0.2\nlocal: 10.0.0.3\n"
                   "export: /a mount: /b\n",
                   3, 8,
                   "found local '10.0.0.3', the 2. of a server with 1 path, "
                   "expected a path for each local");
}

UNIT_TEST(more_paths_or_locals_than_there_is_room_for)
{
    char text[2048] = "server: s export: /a mount: /b\n";
    for (int i = 0; i < CONF_PATHS_MAX; i++)
        sprintf(text + strlen(text), "path: 10.0.0.%d local: 10.0.1.%d\n", i, i);
    size_t length = strlen(text);
    strcpy(text + length, "path: 10.0.0.32\n");
    assert_mistake(text, 34, 7, "found another path, expected at most 32 for a server");
    strcpy(text + length, "local: 10.0.1.32\n");
    assert_mistake(text, 34, 8, "found another local, expected at most 32 for a server");
}

UNIT_TEST(the_same_path_twice)
{
    static const struct {
        const char *first, *second;
    } same[] = {
        {"10.0.0.1", "10.0.0.1"},           {"[::1]", "::1"},
        {"2001:db8:0::1", "2001:DB8::1"},   {"10.0.0.1", "[::ffff:10.0.0.1]"},
        {"filer.example", "Filer.Example"}, {"fe80::1%eth0", "[fe80:0:0::1%eth0]"},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        char text[256], message[256];
        snprintf(text, sizeof(text),
                 "server: s export: /a mount: /b\npath: 10.0.0.9 path: %s\n path: %s\n",
                 same[i].first, same[i].second);
        /* Brackets are no part of an address. */
        const char *start = same[i].second + (same[i].second[0] == '[');
        snprintf(message, sizeof(message),
                 "found path '%.*s' a second time, expected each path once (the first is in line "
                 "2, column 22)",
                 (int)strcspn(start, "]"), start);
        assert_mistake(text, 3, 8, message);
    }
    assert_mistake("server: s export: /a mount: /b\nlocal: ::2 path: ::1\n"
                   "local: ::3 path: ::1\nlocal: 0::2 path: 0::1",
                   4, 19,
                   "found path '0::1' a second time with the same local, expected each path once "
                   "(the first is in line 2, column 18)");
}

UNIT_TEST(every_path_that_is_there_already)
{
    static const struct expected expected[] = {
        {3, 7,
         "found path 'a' a second time, expected each path once (the first is in line 2, "
         "column 7)"},
        {4, 7,
         "found path 'a' a second time, expected each path once (the first is in line 2, "
         "column 7)"},
    };
    assert_mistakes("server: s export: /a mount: /b\npath: a\npath: a\npath: a\n", 2, expected);
}

UNIT_TEST(path_and_local_of_two_families)
{
    assert_mistake("server: s export: /a mount: /b\npath: 10.0.0.1 path: 10.0.0.2\n"
                   "local: 10.0.1.1\nlocal: [::2]\n",
                   4, 8,
                   "found local '::2' of IPv6, expected an IPv4 address as its path '10.0.0.2' in "
                   "line 2, column 22 is one");
    assert_mistake("server: s export: /a mount: /b\nlocal: 10.0.0.1 path: fe80::1%eth0\n", 2, 8,
                   "found local '10.0.0.1' of IPv4, expected an IPv6 address as its path "
                   "'fe80::1%eth0' in line 2, column 23 is one");
}

UNIT_TEST(numbers)
{
    static const struct {
        const char *key, *value;
        unsigned long minimum, maximum;
    } wrong[] = {
        {"connections", "0", 1, 64},
        {"connections", "65", 1, 64},
        {"connections", "4x", 1, 64},
        {"connections", "-1", 1, 64},
        {"nfsport", "0", 1, 65535},
        {"nfsport", "65536", 1, 65535},
        {"mntport", "99999999999999999999999999", 1, 65535},
        {"mnt_timeout", "0", 1, 86400},
        {"mnt_timeout", "86401", 1, 86400},
        {"uid", "0", 1, 4294967294},
        {"uid", "000", 1, 4294967294},
        {"uid", "4294967295", 1, 4294967294},
        {"gid", "0", 1, 4294967294},
        {"gid", "users", 1, 4294967294},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[256], message[256];
        snprintf(text, sizeof(text), "server: s\nexport: /a mount: /b\n%s: %s", wrong[i].key,
                 wrong[i].value);
        snprintf(message, sizeof(message), "found '%s', expected a number from %lu to %lu",
                 wrong[i].value, wrong[i].minimum, wrong[i].maximum);
        assert_mistake(text, 3, (unsigned)strlen(wrong[i].key) + 3, message);
    }
}

UNIT_TEST(items_that_are_allowed_once)
{
    static const char *const keys[] = {"mnt_timeout", "connections", "nfsport",
                                       "mntport",     "uid",         "gid"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char text[256], message[256];
        snprintf(text, sizeof(text), "server: s export: /a mount: /b\n%s:5\n%s:6\n", keys[i],
                 keys[i]);
        snprintf(message, sizeof(message),
                 "found a second '%s', expected one (the first is in line 2)", keys[i]);
        assert_mistake(text, 3, (unsigned)strlen(keys[i]) + 2, message);
    }
}

UNIT_TEST(versions_that_are_not_supported)
{
    static const char *const versions[] = {"nfsv4.0", "NFSv4.0", "pNFS"};
    char text[256], message[256];
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "server: s export: /a mount: /b\nnfs_version: %s\n",
                 versions[i]);
        snprintf(message, sizeof(message),
                 "found '%s', which is not supported yet, expected nfsv3 or nfsv4.1", versions[i]);
        assert_mistake(text, 2, 14, message);
    }
    assert_mistake("server: s export: /a mount: /b\nnfs_version: 3\n", 2, 14,
                   "found '3', expected nfsv3 or nfsv4.1");
    assert_mistake("server: s export: /a mount: /b kernel: maybe", 1, 40,
                   "found 'maybe', expected auto, yes or no");
}

UNIT_TEST(protection_that_is_no_protection)
{
    assert_mistake("server: s export: /a mount: /b security: none", 1, 42,
                   "found 'none', expected sys, krb5, krb5i or krb5p");
    assert_mistake("server: s export: /a mount: /b\nsecurity_default: auto", 2, 19,
                   "found 'auto', expected sys, krb5, krb5i or krb5p");
    assert_mistake("server: s export: /a mount: /b tls: yes", 1, 37,
                   "found 'yes', expected no, prefer or require");
    assert_mistake("server: s export: /a mount: /b tls_ca: ca.pem", 1, 40,
                   "found 'ca.pem', expected the absolute name of a file");
    assert_mistake("server: s export: /a mount: /b krb5_keytab: k", 1, 45,
                   "found 'k', expected the absolute name of a file");
    assert_mistake("server: s export: /a mount: /b tls_direct: yes", 1, 42,
                   "found ':' after 'tls_direct', expected none: it is a flag");
    assert_mistake("server: s export: /a mount: /b security: krb5 security: sys", 1, 57,
                   "found a second 'security', expected one (the first is in line 1)");
    assert_mistake("server: s export: /a mount: /b\ntls_name: a\ntls_name: b", 3, 11,
                   "found a second 'tls_name', expected one (the first is in line 2)");
}

UNIT_TEST(protection_that_does_not_fit_together)
{
    assert_mistake("server: 10.0.0.1 export: /a mount: /b security: krb5i", 1, 49,
                   "found security krb5i for the server '10.0.0.1', expected the host name of its "
                   "service principal nfs/NAME after 'server:' (and 'path:' with its address)");
    assert_mistake("server: ::1 export: /a mount: /b\nsecurity_default: krb5p", 2, 19,
                   "found security krb5p for the server '::1', expected the host name of its "
                   "service principal nfs/NAME after 'server:' (and 'path:' with its address)");
    assert_mistake("server: s export: /a mount: /b tls_cert: /c", 1, 9,
                   "found 'tls_cert' without 'tls_key' for server 's', expected both a certificate "
                   "and its key");
    assert_mistake("server: s export: /a mount: /b tls_key: /c", 1, 9,
                   "found 'tls_key' without 'tls_cert' for server 's', expected both a certificate "
                   "and its key");
    assert_mistake("server: s export: /a mount: /b tls: prefer tls_direct", 1, 37,
                   "found 'tls: prefer' with 'tls_direct', expected 'tls: require': a server that "
                   "begins with TLS cannot refuse it");
}

UNIT_TEST(a_fence_needs_sessions_and_a_name_of_its_own)
{
    assert_mistake("server: s export: /a mount: /b nfs_version: nfsv4.1 fence: db security: krb5",
                   1, 60,
                   "found fence 'db' for a server with Kerberos, expected one or the other ('tls: "
                   "require' protects a fence as well)");
    assert_mistake("server: s export: /a mount: /b fence: db", 1, 39,
                   "found fence 'db' for a server without sessions, expected 'nfs_version: "
                   "nfsv4.1' in its stanza");
    assert_mistake("server: s export: /a mount: /b nfs_version: nfsv4.1 fence: d/b", 1, 60,
                   "found 'd/b', expected a name of letters, digits, '.', '_' and '-'");
    assert_mistake("server: s export: /a mount: /b nfs_version: nfsv4.1 fence: db\n"
                   "server: t export: /a mount: /c nfs_version: nfsv4.1 fence: db",
                   2, 60,
                   "found a second fence 'db', expected another name (the first is in line 1)");
}

UNIT_TEST(all_mistakes_are_found)
{
    static const struct expected expected[] = {
        {2, 1, "found 'foo', expected a key: " KEYS},
        {3, 7, "found '1.2.3', expected an IPv4 address such as 192.0.2.1"},
        {4, 14, "found '100', expected a number from 1 to 64"},
        {5, 21, "found 'm', expected an absolute directory (starting with '/')"},
        {7, 14, "found 'nfsv5', expected nfsv3 or nfsv4.1"},
        {6, 9, "found server 't' without an export, expected 'export:' and 'mount:'"},
    };
    assert_mistakes("server: s\nfoo: bar\npath: 1.2.3\nconnections: 100\nexport: /vol mount: m\n"
                    "server: t\nnfs_version: nfsv5\n",
                    6, expected);
}

UNIT_TEST(nul_bytes_are_a_mistake)
{
    static const char text[] = "server: s\nexport: /a\0 mount: /b\n\0\n";
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, sizeof(text) - 1, &d), -EINVAL);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.list[0].text, "found a NUL byte, expected text");
    assert_int_equal(d.list[0].at.line, 2);
    assert_int_equal(d.list[0].at.column, 11);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

UNIT_TEST(a_message_names_file_line_and_column)
{
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    char line[256];
    conf_nfstab_parse(&tab, "/etc/nfstab", "uid: 0", 6, &d);
    assert_string_equal(conf_diagnostic_format(&d.list[0], line, sizeof(line)),
                        "/etc/nfstab:1:6: error: found '0', "
                        "expected a number from 1 to 4294967294");
    conf_nfstab_free(&tab);
    conf_diagnostics_free(&d);
}

/* --- hostile input ------------------------------------------------------------------------- */

static void garbage(unsigned rounds, const char *const *pieces, size_t piece_count)
{
    uint32_t seed = 3;
    for (unsigned round = 0; round < rounds; round++) {
        char text[600];
        size_t length = 0;
        for (unsigned i = 0; i < round % 60; i++) {
            seed = seed * 1664525 + 1013904223;
            const char *piece = pieces[(seed >> 16) % piece_count];
            char byte = (char)(seed >> 8);
            size_t size = piece == NULL ? 1 : strlen(piece);
            if (length + size > sizeof(text))
                break;
            memcpy(text + length, piece == NULL ? &byte : piece, size);
            length += size;
        }
        /* In memory that ends where the text ends, so that a sanitizer sees a read beyond. */
        char *exact = malloc(length > 0 ? length : 1);
        memcpy(exact, text, length);
        struct conf_nfstab tab = {0};
        struct conf_diagnostics d = {0};
        int result = conf_nfstab_parse(&tab, "test", exact, length, &d);
        assert_true(result == 0 ? d.errors == 0 : result == -EINVAL && d.errors > 0);
        if (result == 0)
            assert_round_trip(&tab);
        free(conf_nfstab_print(&tab));
        conf_diagnostics_free(&d);
        conf_nfstab_free(&tab);
        free(exact);
    }
}

UNIT_TEST(random_bytes_do_no_harm)
{
    static const char *const bytes[] = {NULL};
    garbage(2000, bytes, 1);
}

UNIT_TEST(random_items_do_no_harm)
{
    static const char *const pieces[] = {
        "server",
        "server: s\n",
        "path",
        "path: h ",
        "path: ::2 ",
        "path: 10.0.0.1 ",
        "local: ::1 ",
        "dontroute",
        "export: /a ",
        "mount: /b\n",
        "mount: /c\n",
        "export: /d mount: /e ",
        "kernel: no\n",
        "uid: 7\n",
        ":",
        " ",
        "\n",
        "#",
        "/",
        "..",
        "\\040",
        "\\000",
        "[",
        "::1",
        "]",
        "connections:2\n",
        NULL,
    };
    garbage(3000, pieces, sizeof(pieces) / sizeof(pieces[0]));
}

UNIT_TEST(a_very_long_line_is_read_and_quoted_short)
{
    size_t length = 900 * 1024;
    char *text = malloc(length + 1);
    memset(text, 'x', length);
    text[length] = '\0';
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, length, &d), -EINVAL);
    assert_int_equal(d.count, 1);
    assert_true(strlen(d.list[0].text) < 600);
    assert_non_null(strstr(d.list[0].text, "xxx...'"));
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);

    memcpy(text, "server: ", 8);
    memcpy(text + length - 22, "\nexport: /a mount: /b\n", 22);
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, length, &d), -EINVAL);
    assert_non_null(strstr(d.list[0].text, "expected at most 255"));
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
    free(text);
}

UNIT_TEST(too_large_a_text_is_refused)
{
    char *text = malloc(CONF_NFSTAB_SIZE_MAX + 1);
    memset(text, '\n', CONF_NFSTAB_SIZE_MAX + 1);
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, CONF_NFSTAB_SIZE_MAX, &d), 0);
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, CONF_NFSTAB_SIZE_MAX + 1, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
    free(text);
}

UNIT_TEST(countless_mistakes_are_counted_but_not_kept)
{
    char text[4000];
    for (size_t i = 0; i < sizeof(text); i += 2)
        memcpy(text + i, "z\n", 2);
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, sizeof(text), &d), -EINVAL);
    assert_int_equal(d.errors, 2000);
    assert_int_equal(d.count, CONF_DIAGNOSTICS_MAX);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
}

UNIT_TEST(too_many_exports_are_refused)
{
    size_t size = (CONF_EXPORTS_MAX + 2) * 40, length = 0;
    char *text = malloc(size);
    length += (size_t)sprintf(text, "server: s\n");
    for (int i = 0; i <= CONF_EXPORTS_MAX; i++)
        length += (size_t)sprintf(text + length, "export: /a mount: /m%d\n", i);
    struct conf_nfstab tab = {0};
    struct conf_diagnostics d = {0};
    assert_int_equal(conf_nfstab_parse(&tab, "test", text, length, &d), -EINVAL);
    assert_int_equal(d.errors, 1);
    assert_int_equal(d.list[0].at.line, CONF_EXPORTS_MAX + 2);
    assert_int_equal(tab.servers[0].export_count, CONF_EXPORTS_MAX);
    conf_diagnostics_free(&d);
    conf_nfstab_free(&tab);
    free(text);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
