/* What those share that make data safe: committing.c. */
#ifndef FILE_COMMITTING_H
#define FILE_COMMITTING_H

#include <errno.h>

#include "file/inode.h"
#include "file/renew.h"

/* What data is made safe of, and what is learned meanwhile. In the caller's memory. */
struct committing {
    struct file_target to;
    const char *path;
    enum nfs_stable stable; /* how what was lost is written again */
    uint64_t rewritten;     /* bytes */
    bool stored;            /* flushing: all that there was is on stable storage */
};
struct committing file_committing_of(struct file_inode *inode, const struct rpc_auth *auth);
/* Of a file of which an entry in the registry is known, with this handle, and no more. */
struct committing file_committing_entry(struct file_mount *mount, const struct rpc_auth *auth,
                                        const struct nfs_fh *fh, struct ledger_file *file);
struct nfs_fh file_handle_of(const struct ledger_file_key *key);

/* The longest WRITE of what the ledger has. */
static inline size_t file_longest_write(const struct file_mount *mount)
{
    return mount->write_max < LEDGER_WRITE_MAX ? mount->write_max : LEDGER_WRITE_MAX;
}

/* Who asks for it may be permitted to read only: from here on it is asked as who wrote behind, if
 * this process did. */
static inline void file_commit_as_writer(struct committing *c)
{
    const struct rpc_auth *writer = c->to.inode ? atomic_load(&c->to.inode->behind_auth) : NULL;
    if (writer)
        c->to.client.auth = writer;
}

/* What a WRITE came to: is it said of this data, and for good? All else may go well another time,
 * or for another process: a credential that may not write, a disk that fails, an answer that makes
 * no sense. */
static inline bool file_commit_is_refusal(int result)
{
    return result == -ENOSPC || result == -EDQUOT || result == -EFBIG || result == -EROFS ||
           result == -ENXIO || result == -EINVAL;
}

/* A server whose verifier changes all the time would fill the log: once a minute for a file. */
bool file_commit_may_say(const struct committing *c, const char *what);

/*
 * The verifier was another one at each COMMIT. That is either a server that restarts again and
 * again, which ends connections, so many of them; or it has one on each path or connection, and
 * there would be no end.
 */
void file_commit_say_no_end(struct committing *c, unsigned reconnects);

#endif
