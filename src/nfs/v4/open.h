/*
 * Opens, for servers that insist on them. Reading and writing needs none, by RFC 8881 section
 * 8.2.3. A server that still refuses gets an OPEN for each file, by its handle, from then on. The
 * session keeps a limited number of opens, and they end with it.
 *
 * They do not affect other programs: nothing is denied, and no delegation is wanted.
 */
#ifndef NFS_V4_OPEN_H
#define NFS_V4_OPEN_H

#include "nfs/v4/session.h"

/* The state for a call on the file. May ask the server, and wait for it. If that fails, it is no
 * open's state, and the call itself will hear why. `share`: enum nfs4_share. */
struct nfs4_stateid nfs4_open_state(const struct nfs_client *client, const struct nfs_fh *fh,
                                    uint32_t share);

/* A call was refused with this status: is the reason that an open is missing, or bad? Then begin
 * the call again. False after many in a row: the reason is another one. */
bool nfs4_open_refused(struct nfs_session *session, uint32_t status);
/* A call went well. */
static inline void nfs4_open_accepted(struct nfs_session *session)
{
    if (__builtin_expect(atomic_load_explicit(&session->insists, memory_order_relaxed), false))
        atomic_store_explicit(&session->refusals, 0, memory_order_relaxed);
}

/* Closes all files, at the end of the session. */
void nfs4_open_end(const struct nfs_client *client);
/* In the child of fork(), or without a session: forgets all opens. */
void nfs4_open_forget(struct nfs_session *session);

/* OPEN and CLOSE by handle: 0 or -errno (v4/proc.c). */
int nfs4_open(const struct nfs_client *client, const struct nfs_fh *fh, uint32_t share,
              struct nfs4_stateid *stateid);
int nfs4_close(const struct nfs_client *client, const struct nfs_fh *fh,
               const struct nfs4_stateid *stateid);

#endif
