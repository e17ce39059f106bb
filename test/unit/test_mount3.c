/* The procedures of MOUNT and of the port mapper: what is sent, and what replies mean. */
#include <stdio.h>
#include "mount3_scene.h"

/* MNT */

UNIT_TEST(mnt_yields_the_root_handle_and_the_flavours)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct mount3_target target;
    struct nfs_fh root;
    uint32_t flavors[4], count = 4;

    responder_start(&responder);
    target = target_of(&responder);
    assert_int_equal(mount3_mount(&target, "/export", &root, flavors, &count), 0);
    responder_stop(&responder);
    assert_int_equal(root.len, 6);
    assert_memory_equal(root.data, "\x0a\x0b\x0c\x0d\x0e\x0f", 6);
    assert_int_equal(count, 2);
    assert_int_equal(flavors[0], MOUNT3_AUTH_SYS);
    assert_int_equal(flavors[1], 390003);
}

UNIT_TEST(flavours_beyond_the_capacity_are_dropped)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct mount3_target target;
    struct nfs_fh root;
    uint32_t flavors[2] = {77, 77}, count = 1;

    responder_start(&responder);
    target = target_of(&responder);
    assert_int_equal(mount3_mount(&target, "/export", &root, flavors, &count), 0);
    responder_stop(&responder);
    assert_int_equal(count, 1);
    assert_int_equal(flavors[0], MOUNT3_AUTH_SYS);
    assert_int_equal(flavors[1], 77);
}

UNIT_TEST(mnt_sends_the_path_with_auth_sys)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct nfs_fh root;
    const uint8_t *call = responder.calls[0], *at;
    uint32_t name, body;

    assert_int_equal(mount_once(&responder, &root), 0);
    assert_int_equal(word(call + 4), 0); /* CALL */
    assert_int_equal(word(call + 8), 2); /* RPC version */
    assert_int_equal(word(call + 12), 100005);
    assert_int_equal(word(call + 16), 3);
    assert_int_equal(word(call + 20), 1);
    assert_int_equal(word(call + 24), 1); /* AUTH_SYS */
    body = word(call + 28);
    name = word(call + 36);
    assert_true(name <= 255);
    at = call + 40 + (name + 3) / 4 * 4;
    assert_int_equal(word(at), 1000);
    assert_int_equal(word(at + 4), 1001);
    assert_int_equal(word(at + 8), 3);
    assert_int_equal(word(at + 12), 7);
    assert_int_equal(word(at + 16), 8);
    assert_int_equal(word(at + 20), 9);
    assert_ptr_equal(at + 24, call + 32 + body);
    at += 24;
    assert_memory_equal(at, "\0\0\0\0\0\0\0\0\0\0\0\7/export\0", 20);
    assert_ptr_equal(at + 20, call + responder.call_size[0]);
}

UNIT_TEST(every_mountstat3_has_its_errno)
{
    static const struct {
        const char *reply;
        int error;
    } table[] = {
        {ACCEPTED "00000001", -EPERM},        {ACCEPTED "00000002", -ENOENT},
        {ACCEPTED "00000005", -EIO},          {ACCEPTED "0000000d", -EACCES},
        {ACCEPTED "00000014", -ENOTDIR},      {ACCEPTED "00000016", -EINVAL},
        {ACCEPTED "0000003f", -ENAMETOOLONG}, {ACCEPTED "00002714", -EOPNOTSUPP},
        {ACCEPTED "00002716", -EREMOTEIO},    {ACCEPTED "00000063", -EIO},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(mount_answered(ANSWER, table[i].reply), table[i].error);
}

UNIT_TEST(a_path_too_long_is_not_sent)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct mount3_target target;
    struct nfs_fh root;
    char path[MOUNT3_PATH_MAX + 2];

    memset(path, 'p', sizeof(path));
    path[MOUNT3_PATH_MAX + 1] = '\0';
    responder_start(&responder);
    target = target_of(&responder);
    assert_int_equal(mount3_mount(&target, path, &root, NULL, NULL), -ENAMETOOLONG);
    assert_int_equal(mount3_umount(&target, path), -ENAMETOOLONG);
    path[MOUNT3_PATH_MAX] = '\0';
    assert_int_equal(mount3_mount(&target, path, &root, NULL, NULL), 0);
    responder_stop(&responder);
    assert_int_equal(responder.connections, 1);
}

/* The other procedures of MOUNT. */

UNIT_TEST(null_calls_procedure_0_without_credentials)
{
    struct responder responder = {.replies = {ACCEPTED}};

    assert_int_equal(null_within(&responder, PATIENCE_MS), 0);
    assert_int_equal(responder.call_size[0], 40);
    assert_int_equal(word(responder.calls[0] + 12), 100005);
    assert_int_equal(word(responder.calls[0] + 20), 0);
    assert_int_equal(word(responder.calls[0] + 24), 0); /* AUTH_NONE */
}

UNIT_TEST(umount_sends_the_path)
{
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;

    responder_start(&responder);
    target = target_of(&responder);
    assert_int_equal(mount3_umount(&target, "/export"), 0);
    responder_stop(&responder);
    assert_int_equal(word(responder.calls[0] + 20), 3);
    assert_memory_equal(responder.calls[0] + responder.call_size[0] - 12, "\0\0\0\7/export\0", 12);
}

static void collect_export(void *arg, const char *directory, const char *groups)
{
    char *text = arg;

    snprintf(text + strlen(text), 256 - strlen(text), "%s=%s;", directory, groups);
}

static int list_exports(const char *reply, char text[256])
{
    struct responder responder = {.replies = {reply}};
    struct mount3_target target;
    int rc;

    text[0] = '\0';
    responder_start(&responder);
    target = target_of(&responder);
    rc = mount3_exports(&target, collect_export, text);
    responder_stop(&responder);
    return rc;
}

UNIT_TEST(exports_are_listed_with_their_groups)
{
    char text[256];

    assert_int_equal(list_exports(ACCEPTED "00000001 00000002 2f61 0000 " /* /a: h1, *.b */
                                           "00000001 00000002 6831 0000 "
                                           "00000001 00000003 2a2e62 00 00000000 "
                                           "00000001 00000004 2f622f63 00000000 " /* /b/c: all */
                                           "00000000",
                                  text),
                     0);
    assert_string_equal(text, "/a=h1 *.b;/b/c=;");
    assert_int_equal(list_exports(ACCEPTED "00000000", text), 0);
    assert_string_equal(text, "");
}

UNIT_TEST(a_malformed_list_of_exports_is_refused)
{
    char text[256];

    assert_int_equal(list_exports(ACCEPTED "00000001 00000401 2f61", text), -EBADMSG);
    assert_int_equal(list_exports(ACCEPTED "00000001 00000002 2f61 0000 00000000", text), -EBADMSG);
    assert_int_equal(list_exports(ACCEPTED "00000001 00000002 2f61 0000 00000001 00000100", text),
                     -EBADMSG);
    assert_int_equal(list_exports(ACCEPTED "00000002 00000002 2f61 0000 00000000 00000000", text),
                     -EBADMSG);
}

/* The port mapper. */

static int getport_answered(const char *reply, struct responder *responder, uint16_t *port)
{
    struct mount3_target target;
    int rc;

    responder->replies[0] = reply;
    responder_start(responder);
    target = target_of(responder);
    rc = mount3_portmap(&target, MOUNT3_PROGRAM, 3, port);
    responder_stop(responder);
    return rc;
}

UNIT_TEST(getport_yields_the_port)
{
    struct responder responder = {0};
    uint16_t port = 0;

    assert_int_equal(getport_answered(ACCEPTED "00007d30", &responder, &port), 0);
    assert_int_equal(port, 32048);
    /* Program 100000 version 2 procedure 3, AUTH_NONE twice; 100005, 3, TCP, 0. */
    assert_int_equal(responder.call_size[0], 56);
    assert_memory_equal(responder.calls[0] + 4,
                        "\0\0\0\0\0\0\0\2\0\1\x86\xa0\0\0\0\2\0\0\0\3"
                        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                        "\0\1\x86\xa5\0\0\0\3\0\0\0\6\0\0\0\0",
                        52);
}

UNIT_TEST(a_program_not_registered_is_enoent)
{
    struct responder responder = {0};
    uint16_t port = 7;

    assert_int_equal(getport_answered(ACCEPTED "00000000", &responder, &port), -ENOENT);
    assert_int_equal(port, 7);
}

UNIT_TEST(a_port_beyond_65535_is_refused)
{
    struct responder responder = {0};
    uint16_t port = 7;

    assert_int_equal(getport_answered(ACCEPTED "00010000", &responder, &port), -EBADMSG);
}

/* Asks over IPv6; false if this machine has no IPv6 loopback. */
static bool getaddr_answered(struct responder *responder, int *rc, uint16_t *port)
{
    struct mount3_target target;

    if (!responder_start_on(responder, AF_INET6))
        return false;
    target = target_of(responder);
    *rc = mount3_portmap(&target, MOUNT3_PROGRAM, 3, port);
    responder_stop(responder);
    return true;
}

UNIT_TEST(getaddr_yields_the_port_of_the_universal_address)
{
    static const struct {
        const char *reply;
        int rc;
        uint16_t port;
    } table[] = {
        {ACCEPTED "0000000a 3a3a312e3132352e3438 0000", 0, 32048}, /* ::1.125.48 */
        {ACCEPTED "00000006 3a3a2e382e31 0000", 0, 2049},          /* ::.8.1 */
        {ACCEPTED "00000000", -ENOENT, 0},
        {ACCEPTED "00000006 3a3a2e302e30 0000", -ENOENT, 0},          /* ::.0.0 */
        {ACCEPTED "0000000a 3a3a312e3330302e3438 0000", -EBADMSG, 0}, /* ::1.300.48 */
        {ACCEPTED "00000003 312e32 00", -EBADMSG, 0},                 /* 1.2 */
        {ACCEPTED "00000004 3a3a2e38", -EBADMSG, 0},                  /* ::.8 */
        {ACCEPTED "00000006 3a3a2e2e2e2e 0000", -EBADMSG, 0},         /* ::.... */
        {ACCEPTED "00000041 3a3a312e3132352e3438", -EBADMSG, 0},      /* 65 bytes */
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct responder responder = {.replies = {table[i].reply}};
        uint16_t port = 0;
        int rc;

        if (!getaddr_answered(&responder, &rc, &port)) {
            print_message("skip: no IPv6 loopback address\n");
            skip();
        }
        assert_int_equal(rc, table[i].rc);
        assert_int_equal(port, table[i].port);
    }
}

UNIT_TEST(getaddr_falls_back_to_version_3)
{
    struct responder responder = {
        .replies = {"X 00000001 00000000 00000000 00000000 00000002 00000002 00000003",
                    ACCEPTED "0000000a 3a3a312e3132352e3438 0000"}};
    uint16_t port = 0;
    int rc;

    if (!getaddr_answered(&responder, &rc, &port)) {
        print_message("skip: no IPv6 loopback address\n");
        skip();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(port, 32048);
    assert_int_equal(word(responder.calls[0] + 16), 4);
    assert_int_equal(word(responder.calls[1] + 16), 3);
    /* Procedure 3; 100005, 3, "tcp6", "", "". */
    assert_int_equal(responder.call_size[1], 64);
    assert_memory_equal(responder.calls[1] + 40, "\0\1\x86\xa5\0\0\0\3\0\0\0\4tcp6\0\0\0\0\0\0\0\0",
                        24);
}
int main(void)
{
    return unit_run(NULL, NULL);
}
