/* What the files of this room that make data safe share: which file, as which user, and what the
 * log says of it. */
#ifndef DURABLE_COMMITTING_H
#define DURABLE_COMMITTING_H

#include <errno.h>

#include "file/inode.h"
#include "file/renew.h"

/* The file that is made safe, and what is learned meanwhile. In the caller's memory. */
struct committing {
    struct file_target to;
    const char *path;
    enum nfs_stable stable;           /* how lost data is written again */
    uint64_t rewritten;               /* bytes */
    const struct ledger_commit *lost; /* what it does not vouch for is set aside; else NULL */
    bool is_lost; /* some of it was set aside: the result is -EIO, though the rest is committed */
    bool unasked; /* no program waits: what becomes of the data is told to the next that does */
    bool stored;  /* result of durable_flush_all(): all that there was is stable */
};
/* For a file that this process has an inode of. */
struct committing durable_committing_of(struct file_inode *inode, const struct rpc_auth *auth);
/* For a file of which only the entry in the registry and this handle are known. */
struct committing durable_committing_entry(struct mount *mount, const struct rpc_auth *auth,
                                           const struct nfs_fh *fh, struct ledger_file *file);
/* The handle in a key of the registry. */
struct nfs_fh durable_handle_of(const struct ledger_file_key *key);

/* The longest WRITE of what the ledger has. */
static inline size_t durable_longest_write(const struct mount *mount)
{
    return mount->write_max < LEDGER_WRITE_MAX ? mount->write_max : LEDGER_WRITE_MAX;
}

/* The user that asks for it may have permission to read only. If this process wrote behind to the
 * file, the server is asked as that writer from here on. */
static inline void durable_commit_as_writer(struct committing *c)
{
    const struct rpc_auth *writer = c->to.inode ? atomic_load(&c->to.inode->behind_auth) : NULL;
    if (writer)
        c->to.client.auth = writer;
}

/* The result of a WRITE: does it concern this data, and is it final? All other errors may go away
 * another time, or for another process: a credential that may not write, a disk that fails, an
 * answer that makes no sense. */
static inline bool durable_commit_is_refusal(int result)
{
    return result == -ENOSPC || result == -EDQUOT || result == -EFBIG || result == -EROFS ||
           result == -ENXIO || result == -EINVAL;
}

/* May the log say this? Once a minute for each file, as a verifier that changes all the time would
 * fill the log. */
bool durable_committing_may_say(const struct committing *c, const char *what);

/*
 * Says on the log that the verifier was another one at each COMMIT. Either the server restarts
 * again and again, which ends connections (`reconnects`); or it has a verifier for each path or
 * connection, and there would be no end.
 */
void durable_committing_say_no_end(struct committing *c, unsigned reconnects);

#endif
