#include "nfs/v4/owner.h"

#include <stdio.h>
#include <sys/utsname.h>

#include "sys/sys.h"

/* Once: under another name, the server would keep the session before. Without a descriptor, or
 * without /proc, only this much is told. It is enough to differ from all other processes. */
static void know_self(struct nfs_session *session)
{
    if (session->self.pid != 0)
        return;
    session->self.pid = (uint32_t)sys_getpid();
    session->self.starttime = session->verifier;
    run_identity_self(&session->self);
    session->boot = run_boot_id();
}

void nfs4_owner_name(struct nfs_session *session, const struct rpc_auth *auth)
{
    struct nfs4_owner owner;
    const struct run_identity *self = &session->self;
    struct utsname host = {.nodename = ""};
    know_self(session);
    uname(&host);
    int length = snprintf(
        owner.name, sizeof(owner.name), "directnfs %.64s %016llx %llx %u %llu %llx %u %u",
        host.nodename, (unsigned long long)session->boot, (unsigned long long)run_pid_namespace(),
        self->pid, (unsigned long long)self->starttime, (unsigned long long)self->image, auth->uid,
        session->number);
    if (session->fence.of.name)
        length =
            snprintf(owner.name, sizeof(owner.name), "directnfs fence %s", session->fence.of.name);
    owner.length = (uint32_t)length;
    pthread_mutex_lock(&session->lock);
    session->owner = owner;
    pthread_mutex_unlock(&session->lock);
}
