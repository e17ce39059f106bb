/* Making data of a file safe: which file, as which user, and what the log says of it. */
#include "durable/committing.h"

#include <stdio.h>
#include <string.h>

#include "mount/mounts.h"
#include "mount/vouch.h"
#include "durable/commit.h"
#include "run/log_limit.h"
#include "sys/log.h"

enum { SAY_EVERY_S = 60 };

struct committing durable_committing_of(struct file_inode *inode, const struct rpc_auth *auth)
{
    return (struct committing){.to = file_target_of(inode, auth), .path = inode->path};
}

struct nfs_fh durable_handle_of(const struct ledger_file_key *key)
{
    struct nfs_fh fh = {.len = key->handle_length};
    memcpy(fh.data, key->handle, fh.len);
    return fh;
}

struct committing durable_committing_entry(struct mount *mount, const struct rpc_auth *auth,
                                           const struct nfs_fh *fh, struct ledger_file *file)
{
    return (struct committing){
        .to = {.mount = mount,
               .client = mount_client(mount, mount_vouch_of_writer(mount, file, auth)),
               .use = {.fh = fh},
               .entry = file},
        .path = mount->path};
}

bool durable_committing_may_say(const struct committing *c, const char *what)
{
    char subject[1024];
    snprintf(subject, sizeof(subject), "%s %.300s %.600s", what, c->to.mount->server->conf->name,
             c->path);
    return run_may_say(subject, SAY_EVERY_S);
}

void durable_committing_say_no_end(struct committing *c, unsigned reconnects)
{
    static _Atomic bool said;
    const struct mount_server *server = c->to.mount->server;
    if (reconnects > 0 && durable_committing_may_say(c, "restarts"))
        log_warning("server %s: it restarts again and again: connections ended %u times while %s "
                    "was committed, which took as many attempts",
                    server->conf->name, reconnects, c->path);
    else if (reconnects == 0 && !atomic_exchange(&said, true))
        log_warning("server %s: COMMIT comes back with another verifier each time (%s), and no "
                    "connection ended meanwhile; everything is written twice. Set stability = "
                    "\"stable\"%s",
                    server->conf->name, c->path,
                    server->net->path_count > 1 ? ", or use one path" : "");
}
