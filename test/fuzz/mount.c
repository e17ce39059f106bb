/*
 * The MOUNT protocol and the port mapper. Byte 0 says what is called, byte 1 how much arrives at a
 * time, the rest is what the server sends; the bytes "XID!" in it become the xid of the call. What
 * comes back is within its bounds.
 */
#include <string.h>

#include "fuzz.h"
#include "sys/fd.h"
#include "sys/sys.h"

static struct {
    const uint8_t *data;
    uint8_t *patched;
    size_t size, at, piece;
} stream;

/* ---- a network in which the server's bytes are there at once ---- */

static void patch(const uint8_t xid[4])
{
    memcpy(stream.patched, stream.data, stream.size);
    for (size_t i = stream.at; i + 4 <= stream.size; i++) {
        if (memcmp(stream.data + i, "XID!", 4) == 0)
            memcpy(stream.patched + i, xid, 4);
    }
}

static ssize_t send_call(const struct msghdr *message)
{
    const struct iovec *part = message->msg_iov;
    must(message->msg_iovlen == 1 && part->iov_len >= 44);
    patch((const uint8_t *)part->iov_base + 4);
    return (ssize_t)part->iov_len;
}

static ssize_t receive_reply(struct msghdr *message)
{
    struct iovec *part = message->msg_iov;
    size_t left = stream.size - stream.at, take = part->iov_len < left ? part->iov_len : left;
    take = take < stream.piece ? take : stream.piece;
    if (take > 0)
        memcpy(part->iov_base, stream.patched + stream.at, take);
    stream.at += take;
    return (ssize_t)take;
}

#define sys_socket(family, type, protocol)             ((void)(type), 1000)
#define sys_setsockopt(fd, level, name, value, length) ((void)(value), 0)
#define sys_getsockopt(fd, level, name, value, length) ((void)(length), 0)
#define sys_bind(fd, address, length)                  ((void)(fd), 0)
#define sys_connect(fd, address, length)               ((void)(length), 0)
#define sys_poll(fds, count, timeout_ms)               ((void)(fds), (void)(timeout_ms), 1)
#define sys_sendmsg(fd, message, flags)                ((void)(fd), send_call(message))
#define sys_recvmsg(fd, message, flags)                ((void)(fd), receive_reply(message))
#define sys_fd_protect(fd)                             (fd)
#define sys_fd_close(fd)                               ((void)(fd))
#include "../../src/nfs/mount3_call.c"

/* ---- calls ---- */

static bool is_documented(int rc)
{
    static const int all[] = {
        0,          -ECONNRESET, -EBADMSG,      -EPROTONOSUPPORT, -EKEYREJECTED,
        -EREMOTEIO, -ENOENT,     -EACCES,       -EPERM,           -ENOTDIR,
        -EIO,       -EINVAL,     -ENAMETOOLONG, -EOPNOTSUPP,      -ENOMEM};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (rc == all[i])
            return true;
    }
    return false;
}

static void see_export(void *arg, const char *directory, const char *groups)
{
    (void)arg;
    must(strlen(directory) <= MOUNT3_PATH_MAX);
    must(strlen(groups) < 4096);
}

static int call_mount(const struct mount3_target *target)
{
    enum { ROOM = 3, UNTOUCHED = 0x5a5a5a5a };
    uint32_t flavors[ROOM + 1], count = ROOM;
    struct nfs3_fh root;
    flavors[ROOM] = UNTOUCHED;
    int rc = mount3_mount(target, "/export", &root, flavors, &count);
    must(flavors[ROOM] == UNTOUCHED && count <= ROOM && (rc == 0 || count == 0));
    must(rc != 0 || (root.len > 0 && root.len <= NFS3_FH_MAX));
    return rc;
}

static int call_portmap(const struct mount3_target *target)
{
    uint16_t port = 0;
    int rc = mount3_portmap(target, MOUNT3_PROGRAM, MOUNT3_VERSION, &port);
    must((rc == 0) == (port > 0));
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sockaddr_in v4 = {.sin_family = AF_INET};
    static const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct mount3_target target = {
        .peer = (const struct sockaddr *)&v4, .port = 1, .timeout_ms = 60000};
    int rc = 0;
    if (size < 2)
        return -1;
    stream.data = data + 2;
    stream.size = size - 2;
    stream.at = 0;
    stream.piece = data[1] ? data[1] : SIZE_MAX;
    stream.patched = malloc(size);
    must(stream.patched != NULL);
    switch (data[0] % 6) {
    case 0:
        rc = call_portmap(&target);
        break;
    case 1:
        target.peer = (const struct sockaddr *)&v6;
        rc = call_portmap(&target);
        break;
    case 2:
        rc = mount3_null(&target);
        break;
    case 3:
        rc = call_mount(&target);
        break;
    case 4:
        rc = mount3_umount(&target, "/export");
        break;
    case 5:
        rc = mount3_exports(&target, see_export, NULL);
        break;
    }
    must(is_documented(rc));
    free(stream.patched);
    return 0;
}
