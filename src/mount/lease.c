/*
 * Leases: a server forgets the session of a process that is silent for the time of its lease. So a
 * thread for each server speaks while its session is idle; one for each, so that a server which
 * does not answer costs the others nothing. It starts with the first session, so not where only
 * NFSv3 is spoken.
 */

#include <errno.h>
#include <string.h>

#include "mount/credentials.h"
#include "mount/lease.h"
#include "mount/mount.h"
#include "mount/mounts.h"
#include "rpc/secure/identity.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum { LONGEST_MS = 30000, SHORTEST_MS = 100, AGAIN_MS = 5000 };

/* By the ticket of any other user of this server who has one. */
static int renew_by_another(const struct mount_server *server, struct nfs_client *client)
{
    const struct rpc_identity *own = client->auth->identity;
    uint64_t now_s = sys_clock_ns(CLOCK_REALTIME) / UINT64_C(1000000000);
    for (const struct rpc_identity *other = rpc_identities(); other; other = other->next) {
        struct rpc_auth auth;
        uint64_t ends_s = atomic_load(&other->ends_s);
        if (other == own || other->service != own->service ||
            strcmp(other->server, own->server) != 0 || !atomic_load(&other->worked) ||
            (ends_s != 0 && ends_s <= now_s))
            continue;
        rpc_auth_secure(&auth, client->auth->gid, other);
        client->auth = &auth;
        int due_ms = server->version->session_renew(client);
        if (due_ms >= 0)
            return due_ms;
    }
    return AGAIN_MS;
}

/* Renews the lease if that is due, by any of the server's mounts. Returns in how many milliseconds
 * it is due next. */
static int renew_once(const struct mount_server *server)
{
    int next_ms = LONGEST_MS;
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts_at(i);
        if (mount->server != server)
            continue;
        const struct rpc_auth *auth = mount_auth_now(mount);
        /* Another thread may be making the server's connections, until the mount is ready. */
        struct nfs_client client = {
            .version = server->version, .session = server->session, .auth = auth};
        if (atomic_load(&mount->state) == MOUNT_READY)
            client = mount_client(mount, auth);
        /* A call that is given up after it was sent would cost the session a slot. */
        client.timeout_ms = auth && auth->identity ? NFS_IN_TURN : 0;
        int due_ms = next_ms;
        if (auth) /* who never had a ticket is not asked for one */
            due_ms = !auth->identity || atomic_load(&auth->identity->worked)
                         ? server->version->session_renew(&client)
                         : -EKEYEXPIRED;
        if (due_ms < 0)
            due_ms = renew_by_another(server, &client);
        next_ms = due_ms < next_ms ? due_ms : next_ms;
    }
    return next_ms > SHORTEST_MS ? next_ms : SHORTEST_MS;
}

static void *renew(void *server)
{
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;)
        sys_nanosleep_ms(renew_once(server));
    return NULL;
}

void mount_lease_begin(void *of)
{
    struct mount_server *server = of;
    if (!atomic_exchange(&server->renewing, true) &&
        !sys_thread_start(renew, server, "renewing a lease"))
        atomic_store(&server->renewing, false);
}

void mounts_end_sessions(void)
{
    enum { PATIENCE_MS = 1000 };
    for (unsigned i = 0; i < mounts_count(); i++) {
        const struct mount_server *server = mounts_at(i)->server;
        if (!server->net)
            continue;
        if (!server->session) {
            rpc_contexts_end(server->net);
            continue;
        }
        const struct rpc_auth *auth = mount_auth_now(mounts_at(i));
        struct nfs_client client = mount_client(mounts_at(i), auth);
        client.timeout_ms = PATIENCE_MS;
        if (auth)
            server->version->session_end(&client);
        rpc_contexts_end(server->net);
    }
}
