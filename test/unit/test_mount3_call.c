/* One call of MOUNT: replies that are wrong, waiting, connecting, closing. */
#include <dirent.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include "mount3_scene.h"

/* Replies that are wrong. */

UNIT_TEST(a_reply_cut_anywhere_is_refused)
{
    static const char whole[] = MNT_OK;

    /* Two digits or the X at a time, so that every cut leaves whole bytes. */
    for (size_t i = 0; whole[i];) {
        char cut[sizeof(whole)];

        memcpy(cut, whole, i);
        cut[i] = '\0';
        assert_int_equal(mount_answered(ANSWER, cut), -EBADMSG);
        i += whole[i] == 'X' || whole[i] == ' ' ? 1 : 2;
        while (whole[i] == ' ')
            i++;
    }
}

UNIT_TEST(hostile_replies_are_refused)
{
    static const char *const bad[] = {
        ACCEPTED "00000000 00000000 00000000",          /* a handle of no bytes */
        ACCEPTED "00000000 ffffffff 00000000",          /* of 2^32-1 bytes */
        ACCEPTED "00000000 00000004 01020304 ffffffff", /* 2^32-1 flavours */
        "X 00000000 00000002 000186a5 00000003 00000001 00000000 00000000", /* a call */
        "X 00000001 00000002 00000000 00000000 00000000 00000000",          /* reply_stat 2 */
        "X 00000001 00000000 00000000 00000194",          /* a verifier of 404 bytes */
        "X 00000001 00000000 00000000 ffffffff",          /* of 2^32-1 bytes */
        "X 00000001 00000000 00000000 00000000 00000063", /* accept_stat 99 */
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(mount_answered(ANSWER, bad[i]), -EBADMSG);
}

UNIT_TEST(a_handle_of_65_bytes_is_refused)
{
    assert_int_equal(mount_answered(ANSWER, ACCEPTED
                                    "00000000 00000041 "
                                    "0101010101010101 0101010101010101 0101010101010101 "
                                    "0101010101010101 0101010101010101 0101010101010101 "
                                    "0101010101010101 0101010101010101 01 000000 00000000"),
                     -EBADMSG);
}

UNIT_TEST(garbage_is_refused)
{
    /* "HTTP/1.1 400": as a record mark it announces over a gigabyte. */
    assert_int_equal(mount_answered(ANSWER_RAW, "485454502f312e3120343030"), -EBADMSG);
    assert_int_equal(mount_answered(ANSWER_RAW, "ffffffff X"), -EBADMSG);
}

UNIT_TEST(a_connection_that_ends_within_the_reply_is_a_reset)
{
    assert_int_equal(mount_answered(ANSWER_RAW, "80000030 X 00000001"), -ECONNRESET);
    assert_int_equal(mount_answered(ANSWER_RAW, "8000"), -ECONNRESET);
    assert_int_equal(mount_answered(ANSWER_RAW, ""), -ECONNRESET);
}

UNIT_TEST(a_reply_to_another_call_is_passed_over)
{
    assert_int_equal(mount_answered(ANSWER_RAW, "8000001c 01020304 00000001 00000000 00000000 "
                                                "00000000 00000000 0000000d "
                                                "8000001c " ACCEPTED "00000002"),
                     -ENOENT);
}

UNIT_TEST(a_reply_in_fragments_is_put_together)
{
    assert_int_equal(mount_answered(ANSWER_RAW, "00000004 X 00000000 00000003 000000 00000011 "
                                                "01 00000000 00000000 00000000 00000000 "
                                                "80000004 0000000d"),
                     -EACCES);
}

UNIT_TEST(refusals_of_the_rpc_layer_have_their_errno)
{
    static const struct {
        const char *reply;
        int error;
    } table[] = {
        {"X 00000001 00000001 00000001 00000005", -EKEYREJECTED}, /* AUTH_ERROR, TOOWEAK */
        {"X 00000001 00000001 00000000 00000002 00000002", -EPROTONOSUPPORT}, /* RPC_MISMATCH */
        {"X 00000001 00000000 00000000 00000000 00000001", -EPROTONOSUPPORT}, /* PROG_UNAVAIL */
        {"X 00000001 00000000 00000000 00000000 00000002 00000001 00000001", -EPROTONOSUPPORT},
        {"X 00000001 00000000 00000000 00000000 00000003", -EPROTONOSUPPORT}, /* PROC_UNAVAIL */
        {"X 00000001 00000000 00000000 00000000 00000004", -EBADMSG},         /* GARBAGE_ARGS */
        {"X 00000001 00000000 00000000 00000000 00000005", -EREMOTEIO},       /* SYSTEM_ERR */
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(mount_answered(ANSWER, table[i].reply), table[i].error);
}

UNIT_TEST(a_verifier_in_the_reply_is_passed_over)
{
    assert_int_equal(mount_answered(ANSWER, "X 00000001 00000000 00000002 00000005 6162636465 "
                                            "000000 00000000 00000002"),
                     -ENOENT);
}

/* Waiting, connecting, closing. */

UNIT_TEST(a_server_that_never_answers_times_out)
{
    struct responder responder = {.manner = ANSWER_NEVER};

    assert_int_equal(null_within(&responder, 200), -ETIMEDOUT);
    assert_int_equal(responder.connections, 1);
}

/* Byte by byte the reply takes over 500 ms, yet never pauses for long. */
UNIT_TEST(the_timeout_is_for_the_whole_call)
{
    struct responder responder = {.manner = ANSWER_DRIP, .replies = {ACCEPTED}};

    assert_int_equal(null_within(&responder, 200), -ETIMEDOUT);
}

UNIT_TEST(a_slow_reply_within_the_timeout_is_taken)
{
    struct responder responder = {.manner = ANSWER_DRIP, .replies = {ACCEPTED}};

    assert_int_equal(null_within(&responder, PATIENCE_MS), 0);
}

UNIT_TEST(nobody_listening_is_connection_refused)
{
    struct sockaddr_in name = loopback4;
    socklen_t size = sizeof(name);
    struct net_address address = {.peer.ss_family = AF_INET};
    struct mount3_target target = {.address = &address, .timeout_ms = PATIENCE_MS};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t port;

    /* Bound but not listening, so that nobody else can take the port meanwhile. */
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    memcpy(&address.peer, &name, sizeof(name));
    target.port = ntohs(name.sin_port);
    assert_int_equal(mount3_null(&target), -ECONNREFUSED);
    assert_int_equal(mount3_portmap(&target, MOUNT3_PROGRAM, 3, &port), -ECONNREFUSED);
    close(fd);
}

UNIT_TEST(a_server_that_aborts_is_a_reset)
{
    struct responder responder = {.manner = ANSWER_GOODBYE};
    struct mount3_target target;

    responder_start(&responder);
    target = target_of(&responder);
    for (int i = 0; i < 20; i++)
        assert_int_equal(mount3_null(&target), -ECONNRESET);
    responder_stop(&responder);
}

UNIT_TEST(the_connection_is_closed_with_a_reset)
{
    struct responder responder = {.replies = {ACCEPTED}};

    assert_int_equal(null_within(&responder, PATIENCE_MS), 0);
    assert_true(responder.reset);
}

static uint16_t port_used(const struct responder *responder)
{
    return ntohs(((const struct sockaddr_in *)&responder->from)->sin_port);
}

UNIT_TEST(the_local_address_is_the_source)
{
    struct sockaddr_in local = loopback4;
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;

    local.sin_addr.s_addr = htonl(0x7f000009);
    local.sin_port = htons(9); /* ignored */
    responder_start(&responder);
    memcpy(&responder.address.local, &local, sizeof(local));
    target = target_of(&responder);
    assert_int_equal(mount3_null(&target), 0);
    responder_stop(&responder);
    assert_int_equal(((struct sockaddr_in *)&responder.from)->sin_addr.s_addr,
                     local.sin_addr.s_addr);
    assert_int_not_equal(port_used(&responder), 9);
}

UNIT_TEST(a_local_address_that_is_not_ours_is_refused)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
    struct net_address address = {0};
    struct mount3_target target = {.address = &address, .port = 1, .timeout_ms = PATIENCE_MS};

    memcpy(&address.peer, &loopback4, sizeof(loopback4));
    memcpy(&address.local, &local, sizeof(local));
    assert_int_equal(mount3_null(&target), -EADDRNOTAVAIL);
    memcpy(&address.local, &loopback6, sizeof(loopback6));
    assert_int_equal(mount3_null(&target), -EAFNOSUPPORT);
}

/* Takes CAP_NET_BIND_SERVICE from this thread's effective set, or gives it back if permitted. */
static bool may_bind_low_ports(bool wanted)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    uint32_t bit = 1u << CAP_NET_BIND_SERVICE;

    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    data[0].effective =
        wanted ? data[0].effective | (data[0].permitted & bit) : data[0].effective & ~bit;
    return syscall(SYS_capset, &header, data) == 0 && (data[0].effective & bit);
}

UNIT_TEST(a_privileged_source_port_is_used_when_allowed)
{
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;

    if (!may_bind_low_ports(true)) {
        print_message("skip: no right to bind a port below 1024\n");
        skip();
    }
    responder_start(&responder);
    target = target_of(&responder);
    target.ports = NET_PORT_AUTO;
    assert_int_equal(mount3_null(&target), 0);
    responder_stop(&responder);
    assert_true(port_used(&responder) < 1024);
}

UNIT_TEST(without_the_right_any_source_port_is_used)
{
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;
    int rc;

    responder_start(&responder);
    target = target_of(&responder);
    target.ports = NET_PORT_AUTO;
    may_bind_low_ports(false);
    rc = mount3_null(&target);
    may_bind_low_ports(true);
    responder_stop(&responder);
    assert_int_equal(rc, 0);
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

UNIT_TEST(no_descriptor_is_left_behind)
{
    int before = open_descriptors();

    mount_answered(ANSWER, MNT_OK);
    mount_answered(ANSWER, ACCEPTED "0000000d");
    mount_answered(ANSWER_GOODBYE, "");
    mount_answered(ANSWER_RAW, "485454502f312e3120343030");
    nobody_listening_is_connection_refused(state);
    assert_int_equal(open_descriptors(), before);
}
int main(void)
{
    return unit_run(NULL, NULL);
}
