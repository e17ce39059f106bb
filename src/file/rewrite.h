/* Between commit.c and rewrite.c. */
#ifndef FILE_REWRITE_H
#define FILE_REWRITE_H

#include "file/inode.h"
#include "file/renew.h"
#include "ledger/commits.h"

/* What a COMMIT is made for, and what is learned from it. In the caller's memory. */
struct committing {
    struct file_mount *mount;
    const struct rpc_auth *auth;
    struct file_inode *inode; /* NULL: this process has none; the handle is all that is known */
    struct file_handle_use use;
    struct ledger_file *entry;
    const char *path;
    enum nfs3_stable stable; /* how what was lost is written again */
    uint64_t rewritten;      /* bytes */
};

/* After a call with c->use.fh: shall it be made again, with another handle? */
bool file_commit_again(struct committing *c, int result);

/* A server whose verifier changes all the time would fill the log: once a minute for a file. */
bool file_commit_may_say(const struct committing *c, const char *what);

/* Writes again what the server lost of what the COMMIT was to vouch for; UNSTABLE it waits for a
 * further COMMIT, and stays in the ledger. First the server is asked whether somebody else changed
 * the file. 0; -EIO after a line on the log; -ESTALE; or why the server does not tell. */
int file_commit_rewrite(struct committing *c, struct ledger_commit *commit);

#endif
