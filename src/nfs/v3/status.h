/*
 * Statuses of NFS version 3 as errno values.
 */
#ifndef NFS_V3_STATUS_H
#define NFS_V3_STATUS_H

#include <stdint.h>

/*
 * The negative errno value for an nfsstat3 (RFC 1813 section 2.6). 0 for NFS3_OK; -EIO for a status
 * that the standard does not know. NFS3ERR_JUKEBOX gives -EAGAIN, which no file call may return for
 * it: the code that runs the call waits and sends it again.
 */
int nfs3_status_errno(uint32_t status);

#endif
