/*
 * MOUNT and port mapper against a responder in a thread, which answers with bytes written down by
 * hand from RFC 1813 appendix I, RFC 1833 and RFC 5531.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "nfs/mount3.h"

/* Generous: only a test of the timeout itself waits for it. */
#define PATIENCE_MS 20000

/* "X" stands for the xid of the call. An accepted reply with an empty verifier, SUCCESS. */
#define ACCEPTED "X 00000001 00000000 00000000 00000000 00000000 "
#define MNT_OK   ACCEPTED "00000000 00000006 0a0b0c0d0e0f 0000 00000002 00000001 0005f373"

enum manner {
    ANSWER,         /* one record per connection, a single fragment */
    ANSWER_RAW,     /* the bytes as they are, record marks included */
    ANSWER_DRIP,    /* as ANSWER, but a byte every 20 ms */
    ANSWER_NEVER,   /* read the call, then wait until the client goes */
    ANSWER_GOODBYE, /* abort the connection without reading */
};

/*
 * Lives on the test's stack. The thread writes calls[], call_size[], from and reset; the test
 * reads them after responder_stop(), which joins the thread.
 */
struct responder {
    enum manner manner;
    const char *replies[2]; /* for the first and the second connection */
    int listener;
    uint16_t port;
    int connections;
    pthread_t thread;
    uint8_t calls[2][2048];
    size_t call_size[2];
    struct sockaddr_storage from;
    bool reset; /* the client closed with a reset */
};

static bool receive_fully(int fd, void *to, size_t size)
{
    return recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Hexadecimal to bytes; returns their number. */
static size_t reply_bytes(const char *hex, const uint8_t *xid, uint8_t *to)
{
    size_t n = 0;

    while (*hex) {
        if (*hex == ' ') {
            hex++;
        } else if (*hex == 'X') {
            memcpy(to + n, xid, 4);
            n += 4;
            hex++;
        } else {
            to[n++] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
            hex += 2;
        }
    }
    return n;
}

static void serve(struct responder *responder, int fd, int turn)
{
    static const struct linger abortive = {1, 0};
    uint8_t reply[8192];
    uint32_t mark;
    size_t size;
    char byte;

    if (responder->manner == ANSWER_GOODBYE) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
        return;
    }
    if (!receive_fully(fd, &mark, 4))
        return;
    size = ntohl(mark) & 0x7fffffff;
    if (size > sizeof(responder->calls[turn]) || !receive_fully(fd, responder->calls[turn], size))
        return;
    responder->call_size[turn] = size;
    if (responder->manner == ANSWER_NEVER) {
        (void)!recv(fd, &byte, 1, 0);
        return;
    }
    if (responder->manner == ANSWER_RAW) {
        size = reply_bytes(responder->replies[turn], responder->calls[turn], reply);
    } else {
        size = 4 + reply_bytes(responder->replies[turn], responder->calls[turn], reply + 4);
        mark = htonl(0x80000000u | (uint32_t)(size - 4));
        memcpy(reply, &mark, 4);
    }
    if (responder->manner == ANSWER_DRIP) {
        for (size_t i = 0; i < size && send(fd, reply + i, 1, MSG_NOSIGNAL) == 1; i++)
            poll(NULL, 0, 20);
        return;
    }
    if (send(fd, reply, size, MSG_NOSIGNAL) != (ssize_t)size)
        return;
    if (responder->manner == ANSWER_RAW)
        shutdown(fd, SHUT_WR);
    responder->reset = recv(fd, &byte, 1, 0) < 0 && errno == ECONNRESET;
}

static void *responder_main(void *arg)
{
    struct responder *responder = arg;

    for (;;) {
        socklen_t length = sizeof(responder->from);
        struct sockaddr_storage from;
        int fd = accept(responder->listener, (struct sockaddr *)&from, &length);
        int turn;

        if (fd < 0)
            return NULL;
        turn = responder->connections++;
        responder->from = from;
        if (turn < 2)
            serve(responder, fd, turn);
        close(fd);
    }
}

static bool responder_start_on(struct responder *responder, const struct sockaddr *address,
                               socklen_t length)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);

    responder->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (responder->listener < 0 || bind(responder->listener, address, length) < 0) {
        close(responder->listener);
        return false;
    }
    assert_int_equal(listen(responder->listener, 8), 0);
    assert_int_equal(getsockname(responder->listener, (struct sockaddr *)&name, &size), 0);
    /* The port is at the same place in both kinds of address. */
    responder->port = ntohs(((struct sockaddr_in *)&name)->sin_port);
    assert_int_equal(pthread_create(&responder->thread, NULL, responder_main, responder), 0);
    return true;
}

static const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                            .sin_addr.s_addr = 0x0100007fu /* 127.0.0.1 */};
static const struct sockaddr_in6 loopback6 = {.sin6_family = AF_INET6,
                                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};

static void responder_start(struct responder *responder)
{
    assert_true(
        responder_start_on(responder, (const struct sockaddr *)&loopback, sizeof(loopback)));
}

/* A connection in progress is finished first: accept() fails only when nobody is waiting. */
static void responder_stop(struct responder *responder)
{
    shutdown(responder->listener, SHUT_RDWR);
    pthread_join(responder->thread, NULL);
    close(responder->listener);
}

static const gid_t some_groups[] = {7, 8, 9};
static const struct mount3_identity somebody = {
    .uid = 1000, .gid = 1001, .group_count = 3, .groups = some_groups};

static struct mount3_target target_of(const struct responder *responder)
{
    return (struct mount3_target){
        .peer = (const struct sockaddr *)&loopback,
        .port = responder->port,
        .timeout_ms = PATIENCE_MS,
        .identity = &somebody,
    };
}

static int mount_once(struct responder *responder, struct nfs3_fh *root)
{
    struct mount3_target target;
    int rc;

    responder_start(responder);
    target = target_of(responder);
    rc = mount3_mount(&target, "/export", root, NULL, NULL);
    responder_stop(responder);
    return rc;
}

static int mount_answered(enum manner manner, const char *reply)
{
    struct responder responder = {.manner = manner, .replies = {reply}};
    struct nfs3_fh root;

    return mount_once(&responder, &root);
}

static uint32_t word(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, 4);
    return ntohl(v);
}

/* MNT */

static void mnt_yields_the_root_handle_and_the_flavours(void **state)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct mount3_target target;
    struct nfs3_fh root;
    uint32_t flavors[4], count = 4;

    (void)state;
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

static void flavours_beyond_the_capacity_are_dropped(void **state)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct mount3_target target;
    struct nfs3_fh root;
    uint32_t flavors[2] = {77, 77}, count = 1;

    (void)state;
    responder_start(&responder);
    target = target_of(&responder);
    assert_int_equal(mount3_mount(&target, "/export", &root, flavors, &count), 0);
    responder_stop(&responder);
    assert_int_equal(count, 1);
    assert_int_equal(flavors[0], MOUNT3_AUTH_SYS);
    assert_int_equal(flavors[1], 77);
}

static void mnt_sends_the_path_with_auth_sys(void **state)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct nfs3_fh root;
    const uint8_t *call = responder.calls[0], *at;
    uint32_t name, body;

    (void)state;
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

static void groups_beyond_sixteen_are_not_sent(void **state)
{
    struct responder responder = {.replies = {MNT_OK}};
    gid_t groups[40];
    struct mount3_identity identity = {.uid = 1, .gid = 2, .group_count = 40, .groups = groups};
    struct mount3_target target;
    struct nfs3_fh root;
    const uint8_t *at = responder.calls[0] + 36;

    (void)state;
    for (int i = 0; i < 40; i++)
        groups[i] = 100 + i;
    responder_start(&responder);
    target = target_of(&responder);
    target.identity = &identity;
    assert_int_equal(mount3_mount(&target, "/export", &root, NULL, NULL), 0);
    responder_stop(&responder);
    at += 4 + (word(at) + 3) / 4 * 4 + 8;
    assert_int_equal(word(at), 16);
    assert_int_equal(word(at + 64), 115);
}

static void every_mountstat3_has_its_errno(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(mount_answered(ANSWER, table[i].reply), table[i].error);
}

static void a_path_too_long_is_not_sent(void **state)
{
    struct responder responder = {.replies = {MNT_OK}};
    struct mount3_target target;
    struct nfs3_fh root;
    char path[MOUNT3_PATH_MAX + 2];

    (void)state;
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

/* Replies that are wrong. */

static void a_reply_cut_anywhere_is_refused(void **state)
{
    static const char whole[] = MNT_OK;

    (void)state;
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

static void hostile_replies_are_refused(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(mount_answered(ANSWER, bad[i]), -EBADMSG);
}

static void a_handle_of_65_bytes_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mount_answered(ANSWER, ACCEPTED
                                    "00000000 00000041 "
                                    "0101010101010101 0101010101010101 0101010101010101 "
                                    "0101010101010101 0101010101010101 0101010101010101 "
                                    "0101010101010101 0101010101010101 01 000000 00000000"),
                     -EBADMSG);
}

static void garbage_is_refused(void **state)
{
    (void)state;
    /* "HTTP/1.1 400": as a record mark it announces over a gigabyte. */
    assert_int_equal(mount_answered(ANSWER_RAW, "485454502f312e3120343030"), -EBADMSG);
    assert_int_equal(mount_answered(ANSWER_RAW, "ffffffff X"), -EBADMSG);
}

static void a_connection_that_ends_within_the_reply_is_a_reset(void **state)
{
    (void)state;
    assert_int_equal(mount_answered(ANSWER_RAW, "80000030 X 00000001"), -ECONNRESET);
    assert_int_equal(mount_answered(ANSWER_RAW, "8000"), -ECONNRESET);
    assert_int_equal(mount_answered(ANSWER_RAW, ""), -ECONNRESET);
}

static void a_reply_to_another_call_is_passed_over(void **state)
{
    (void)state;
    assert_int_equal(mount_answered(ANSWER_RAW, "8000001c 01020304 00000001 00000000 00000000 "
                                                "00000000 00000000 0000000d "
                                                "8000001c " ACCEPTED "00000002"),
                     -ENOENT);
}

static void a_reply_in_fragments_is_put_together(void **state)
{
    (void)state;
    assert_int_equal(mount_answered(ANSWER_RAW, "00000004 X 00000000 00000003 000000 00000011 "
                                                "01 00000000 00000000 00000000 00000000 "
                                                "80000004 0000000d"),
                     -EACCES);
}

static void refusals_of_the_rpc_layer_have_their_errno(void **state)
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
        {"X 00000001 00000000 00000000 00000000 00000004", -EREMOTEIO},       /* GARBAGE_ARGS */
        {"X 00000001 00000000 00000000 00000000 00000005", -EREMOTEIO},       /* SYSTEM_ERR */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(mount_answered(ANSWER, table[i].reply), table[i].error);
}

static void a_verifier_in_the_reply_is_passed_over(void **state)
{
    (void)state;
    assert_int_equal(mount_answered(ANSWER, "X 00000001 00000000 00000002 00000005 6162636465 "
                                            "000000 00000000 00000002"),
                     -ENOENT);
}

/* Waiting, connecting, closing. */

static int null_within(struct responder *responder, int timeout_ms)
{
    struct mount3_target target;
    int rc;

    responder_start(responder);
    target = target_of(responder);
    target.timeout_ms = timeout_ms;
    rc = mount3_null(&target);
    responder_stop(responder);
    return rc;
}

static void a_server_that_never_answers_times_out(void **state)
{
    struct responder responder = {.manner = ANSWER_NEVER};

    (void)state;
    assert_int_equal(null_within(&responder, 200), -ETIMEDOUT);
    assert_int_equal(responder.connections, 1);
}

/* Byte by byte the reply takes over 500 ms, yet never pauses for long. */
static void the_timeout_is_for_the_whole_call(void **state)
{
    struct responder responder = {.manner = ANSWER_DRIP, .replies = {ACCEPTED}};

    (void)state;
    assert_int_equal(null_within(&responder, 200), -ETIMEDOUT);
}

static void a_slow_reply_within_the_timeout_is_taken(void **state)
{
    struct responder responder = {.manner = ANSWER_DRIP, .replies = {ACCEPTED}};

    (void)state;
    assert_int_equal(null_within(&responder, PATIENCE_MS), 0);
}

static void nobody_listening_is_connection_refused(void **state)
{
    struct sockaddr_in name = loopback;
    socklen_t size = sizeof(name);
    struct mount3_target target = {.peer = (const struct sockaddr *)&loopback,
                                   .timeout_ms = PATIENCE_MS};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t port;

    (void)state;
    /* Bound but not listening, so that nobody else can take the port meanwhile. */
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    target.port = ntohs(name.sin_port);
    assert_int_equal(mount3_null(&target), -ECONNREFUSED);
    assert_int_equal(mount3_portmap(&target, MOUNT3_PROGRAM, 3, &port), -ECONNREFUSED);
    close(fd);
}

static void a_server_that_aborts_is_a_reset(void **state)
{
    struct responder responder = {.manner = ANSWER_GOODBYE};
    struct mount3_target target;

    (void)state;
    responder_start(&responder);
    target = target_of(&responder);
    for (int i = 0; i < 20; i++)
        assert_int_equal(mount3_null(&target), -ECONNRESET);
    responder_stop(&responder);
}

static void the_connection_is_closed_with_a_reset(void **state)
{
    struct responder responder = {.replies = {ACCEPTED}};

    (void)state;
    assert_int_equal(null_within(&responder, PATIENCE_MS), 0);
    assert_true(responder.reset);
}

static uint16_t port_used(const struct responder *responder)
{
    return ntohs(((const struct sockaddr_in *)&responder->from)->sin_port);
}

static void the_local_address_is_the_source(void **state)
{
    struct sockaddr_in local = loopback;
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;

    (void)state;
    local.sin_addr.s_addr = htonl(0x7f000009);
    local.sin_port = htons(9); /* ignored */
    responder_start(&responder);
    target = target_of(&responder);
    target.local = (const struct sockaddr *)&local;
    assert_int_equal(mount3_null(&target), 0);
    responder_stop(&responder);
    assert_int_equal(((struct sockaddr_in *)&responder.from)->sin_addr.s_addr,
                     local.sin_addr.s_addr);
    assert_int_not_equal(port_used(&responder), 9);
}

static void a_local_address_that_is_not_ours_is_refused(void **state)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
    struct mount3_target target = {.peer = (const struct sockaddr *)&loopback,
                                   .local = (const struct sockaddr *)&local,
                                   .port = 1,
                                   .timeout_ms = PATIENCE_MS};

    (void)state;
    assert_int_equal(mount3_null(&target), -EADDRNOTAVAIL);
    target.local = (const struct sockaddr *)&loopback6;
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

static void a_privileged_source_port_is_used_when_allowed(void **state)
{
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;

    (void)state;
    if (!may_bind_low_ports(true)) {
        print_message("skip: no right to bind a port below 1024\n");
        skip();
    }
    responder_start(&responder);
    target = target_of(&responder);
    target.privileged = true;
    assert_int_equal(mount3_null(&target), 0);
    responder_stop(&responder);
    assert_true(port_used(&responder) < 1024);
}

static void without_the_right_any_source_port_is_used(void **state)
{
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;
    int rc;

    (void)state;
    responder_start(&responder);
    target = target_of(&responder);
    target.privileged = true;
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

static void no_descriptor_is_left_behind(void **state)
{
    int before = open_descriptors();

    (void)state;
    mount_answered(ANSWER, MNT_OK);
    mount_answered(ANSWER, ACCEPTED "0000000d");
    mount_answered(ANSWER_GOODBYE, "");
    mount_answered(ANSWER_RAW, "485454502f312e3120343030");
    nobody_listening_is_connection_refused(state);
    assert_int_equal(open_descriptors(), before);
}

/* The other procedures of MOUNT. */

static void null_calls_procedure_0_without_credentials(void **state)
{
    struct responder responder = {.replies = {ACCEPTED}};

    (void)state;
    assert_int_equal(null_within(&responder, PATIENCE_MS), 0);
    assert_int_equal(responder.call_size[0], 40);
    assert_int_equal(word(responder.calls[0] + 12), 100005);
    assert_int_equal(word(responder.calls[0] + 20), 0);
    assert_int_equal(word(responder.calls[0] + 24), 0); /* AUTH_NONE */
}

static void umount_sends_the_path(void **state)
{
    struct responder responder = {.replies = {ACCEPTED}};
    struct mount3_target target;

    (void)state;
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

static void exports_are_listed_with_their_groups(void **state)
{
    char text[256];

    (void)state;
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

static void a_malformed_list_of_exports_is_refused(void **state)
{
    char text[256];

    (void)state;
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

static void getport_yields_the_port(void **state)
{
    struct responder responder = {0};
    uint16_t port = 0;

    (void)state;
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

static void a_program_not_registered_is_enoent(void **state)
{
    struct responder responder = {0};
    uint16_t port = 7;

    (void)state;
    assert_int_equal(getport_answered(ACCEPTED "00000000", &responder, &port), -ENOENT);
    assert_int_equal(port, 7);
}

static void a_port_beyond_65535_is_refused(void **state)
{
    struct responder responder = {0};
    uint16_t port = 7;

    (void)state;
    assert_int_equal(getport_answered(ACCEPTED "00010000", &responder, &port), -EBADMSG);
}

/* Asks over IPv6; false if this machine has no IPv6 loopback. */
static bool getaddr_answered(struct responder *responder, int *rc, uint16_t *port)
{
    struct mount3_target target;

    if (!responder_start_on(responder, (const struct sockaddr *)&loopback6, sizeof(loopback6)))
        return false;
    target = target_of(responder);
    target.peer = (const struct sockaddr *)&loopback6;
    *rc = mount3_portmap(&target, MOUNT3_PROGRAM, 3, port);
    responder_stop(responder);
    return true;
}

static void getaddr_yields_the_port_of_the_universal_address(void **state)
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

    (void)state;
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

static void getaddr_falls_back_to_version_3(void **state)
{
    struct responder responder = {
        .replies = {"X 00000001 00000000 00000000 00000000 00000002 00000002 00000003",
                    ACCEPTED "0000000a 3a3a312e3132352e3438 0000"}};
    uint16_t port = 0;
    int rc;

    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnt_yields_the_root_handle_and_the_flavours),
        cmocka_unit_test(flavours_beyond_the_capacity_are_dropped),
        cmocka_unit_test(mnt_sends_the_path_with_auth_sys),
        cmocka_unit_test(groups_beyond_sixteen_are_not_sent),
        cmocka_unit_test(every_mountstat3_has_its_errno),
        cmocka_unit_test(a_path_too_long_is_not_sent),
        cmocka_unit_test(a_reply_cut_anywhere_is_refused),
        cmocka_unit_test(hostile_replies_are_refused),
        cmocka_unit_test(a_handle_of_65_bytes_is_refused),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(a_connection_that_ends_within_the_reply_is_a_reset),
        cmocka_unit_test(a_reply_to_another_call_is_passed_over),
        cmocka_unit_test(a_reply_in_fragments_is_put_together),
        cmocka_unit_test(refusals_of_the_rpc_layer_have_their_errno),
        cmocka_unit_test(a_verifier_in_the_reply_is_passed_over),
        cmocka_unit_test(a_server_that_never_answers_times_out),
        cmocka_unit_test(the_timeout_is_for_the_whole_call),
        cmocka_unit_test(a_slow_reply_within_the_timeout_is_taken),
        cmocka_unit_test(nobody_listening_is_connection_refused),
        cmocka_unit_test(a_server_that_aborts_is_a_reset),
        cmocka_unit_test(the_connection_is_closed_with_a_reset),
        cmocka_unit_test(the_local_address_is_the_source),
        cmocka_unit_test(a_local_address_that_is_not_ours_is_refused),
        cmocka_unit_test(a_privileged_source_port_is_used_when_allowed),
        cmocka_unit_test(without_the_right_any_source_port_is_used),
        cmocka_unit_test(no_descriptor_is_left_behind),
        cmocka_unit_test(null_calls_procedure_0_without_credentials),
        cmocka_unit_test(umount_sends_the_path),
        cmocka_unit_test(exports_are_listed_with_their_groups),
        cmocka_unit_test(a_malformed_list_of_exports_is_refused),
        cmocka_unit_test(getport_yields_the_port),
        cmocka_unit_test(a_program_not_registered_is_enoent),
        cmocka_unit_test(a_port_beyond_65535_is_refused),
        cmocka_unit_test(getaddr_yields_the_port_of_the_universal_address),
        cmocka_unit_test(getaddr_falls_back_to_version_3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
