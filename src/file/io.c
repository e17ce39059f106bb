/* What reading and writing have in common. */
#include <limits.h>

#include "file/inode.h"
#include "file/io.h"
#include "file/world.h"
#include "net/pool.h"

const char file_no_room[] = "no room in shared memory";

ssize_t file_total_length(const struct iovec *vectors, int count)
{
    if (count < 0 || count > IOV_MAX)
        return -EINVAL;
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        if (vectors[i].iov_len > (size_t)SSIZE_MAX - total) /* so much memory no process has */
            return vectors[i].iov_len > SSIZE_MAX ? -EINVAL : -EFAULT;
        total += vectors[i].iov_len;
    }
    return (ssize_t)(total < FILE_TRANSFER_MAX ? total : FILE_TRANSFER_MAX);
}

ssize_t file_finish_call(struct file_open *open, ssize_t result)
{
    int demoted = 0;
    file_inode_leave(open->inode);
    if (result == LEDGER_OF_KERNEL)
        demoted = file_inode_follow(open->inode);
    else if (result == FILE_NO_ROOM)
        demoted = file_inode_demote(open->inode, open->auth, file_no_room);
    else if (result == -ESTALE)
        demoted = file_inode_demote(open->inode, open->auth, "stale handle");
    else if (net_server_fails_abroad(open->inode->mount->server->net, result))
        demoted = file_inode_demote(open->inode, open->auth, reach_reason(REACH_ABROAD));
    else
        return file_posix_error(result);
    return demoted == -ENONET ? -EIO : FILE_KERNEL;
}
