/*
 * Leases: a server forgets the session of a process that says nothing for the time of its lease. A
 * thread says something for those that are idle. It is begun when the first session is made, so
 * not where only NFSv3 is spoken.
 */

#include "file/mount.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum { LONGEST_MS = 30000, SHORTEST_MS = 100 };

static _Atomic bool begun;

/* Renews what is due. Until the next is: milliseconds. */
static int renew_all(void)
{
    int next_ms = LONGEST_MS;
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_mount *mount = file_mount_at(i);
        const struct nfs_version *version = mount->server->version;
        if (!mount->server->session)
            continue;
        const struct rpc_auth *auth = file_auth_now(mount);
        struct nfs_client client = file_mount_client(mount, auth);
        if (atomic_load(&mount->state) != FILE_MOUNT_READY)
            client.server = NULL;
        client.timeout_ms = 0; /* one that is given up would cost the session a slot */
        int due_ms = auth ? version->session_renew(&client) : next_ms;
        next_ms = due_ms < next_ms ? due_ms : next_ms;
    }
    return next_ms > SHORTEST_MS ? next_ms : SHORTEST_MS;
}

static void *renew(void *unused)
{
    (void)unused;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;)
        sys_nanosleep_ms(renew_all());
    return NULL;
}

void file_lease_begin(void)
{
    if (!atomic_exchange(&begun, true) && !sys_thread_start(renew, NULL, "renewing leases"))
        atomic_store(&begun, false);
}

void file_lease_fork_child(void)
{
    atomic_store(&begun, false);
}
