/* Statuses of NFS version 4.1: what they mean, and their names. */
#ifndef NFS_V4_STATUS_H
#define NFS_V4_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* What to do about a call with this status. */
enum nfs4_reaction {
    NFS4_DONE,  /* it is over: see nfs4_status_errno() */
    NFS4_LATER, /* begin it again after a pause */
    NFS4_AGAIN, /* begin it again: its slot has moved on, but what came of the first copy is lost */
    NFS4_BIND,  /* bind the connection to the session, and begin it again */
    NFS4_RENEW  /* the session is gone, or of no use: make a new one, and begin it again */
};

/* `by_sequence`: the operation SEQUENCE has the status, else another one. */
enum nfs4_reaction nfs4_status_reaction(uint32_t status, bool by_sequence);

/* The negative errno value for an nfsstat4 (RFC 8881 section 15.1) that ends a call. 0 for NFS4_OK;
 * -EIO for a status that the standard does not know, or that no client should ever get. */
int nfs4_status_errno(uint32_t status);

/* "NFS4ERR_DELAY" and so on, or "an unknown status". Never NULL, never freed. */
const char *nfs4_status_name(uint32_t status);

#endif
