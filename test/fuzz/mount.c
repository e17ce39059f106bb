/*
 * The MOUNT protocol and the port mapper. Byte 0 says what is called, byte 1 how much arrives at a
 * time, the rest is what the server sends; the bytes "XID!" in it become the xid of the call. What
 * comes back is within its bounds.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "nfs/v3/mount.h"
#include "rpc/message.h"
#include "rpc/receiver.h"

static struct {
    const uint8_t *data;
    uint8_t *patched;
    size_t size, at, piece;
} stream;

/* ---- a server whose bytes are there at once, in the place of src/rpc/once.c ---- */

static void patch(const uint8_t xid[4])
{
    memcpy(stream.patched, stream.data, stream.size);
    for (size_t i = stream.at; i + 4 <= stream.size; i++) {
        if (memcmp(stream.data + i, "XID!", 4) == 0)
            memcpy(stream.patched + i, xid, 4);
    }
}

static struct rpc_call *find(void *call, uint32_t xid)
{
    struct rpc_call *expected = call;
    return expected->xid == xid ? expected : NULL;
}

static void answered(void *context, struct rpc_call *call)
{
    must(context == call);
    call->xid = 0;
}

static size_t receive(const struct iovec *vectors, int count)
{
    size_t left = stream.size - stream.at, taken = 0;
    left = left < stream.piece ? left : stream.piece;
    for (int i = 0; i < count && taken < left; i++) {
        size_t take = vectors[i].iov_len < left - taken ? vectors[i].iov_len : left - taken;
        memcpy(vectors[i].iov_base, stream.patched + stream.at + taken, take);
        taken += take;
    }
    stream.at += taken;
    return taken;
}

int rpc_call_once(const struct net_address *address, enum net_port ports, struct net_tls *tls,
                  struct rpc_call *call, int timeout_ms)
{
    struct rpc_receiver_owner owner = {find, answered, call, NULL, NULL};
    struct rpc_receiver receiver;
    struct iovec vectors[RPC_RECEIVER_VECTORS];
    int rc = 0;
    (void)ports, (void)tls;
    must(address->peer.ss_family != AF_UNSPEC && timeout_ms > 0);
    rpc_call_stamp(call, 0x2a2a2a2a);
    must(call->head_length >= 44 && call->head_length <= sizeof(call->head));
    patch(call->head + 4);
    call->sent_ns = 1;
    call->results_length = call->received = 0;
    rpc_receiver_init(&receiver);
    while (rc == 0 && call->xid != 0) {
        int count = rpc_receiver_vectors(&receiver, &call, call->find_payload != NULL,
                                         call->destination_length, vectors);
        must(count > 0);
        size_t got = receive(vectors, count);
        rc = got > 0 ? rpc_receiver_received(&receiver, got, &owner) : -ECONNRESET;
    }
    rpc_receiver_free(&receiver);
    return rc != 0 ? rc : call->error;
}

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
    struct nfs_fh root;
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
    struct net_address address = {.peer.ss_family = AF_INET};
    struct mount3_target target = {.address = &address, .port = 1, .timeout_ms = 60000};
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
        address.peer.ss_family = AF_INET6;
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
