/*
 * Descriptors that come from another process, over a socket or by pidfd_getfd(2). They are adopted,
 * as those that come over exec: while others use a file through the engine, nobody may use it
 * through the kernel. Also descriptors that are sent to another process.
 */
#include <string.h>

#include "file/flags.h"
#include "preload/preload.h"

PRELOAD_SLOW static void adopt(int fd)
{
    int flags = sys_fcntl(fd, F_GETFL, 0);
    if (flags < 0)
        return;
    preload_receive(fd, flags & ~(O_CREAT | O_TRUNC));
    preload_stay_call_for(file_shared, fd);
}

PRELOAD_SLOW static void adopt_passed(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        int fd;
        for (size_t end = CMSG_LEN(sizeof(fd)); end <= part->cmsg_len; end += sizeof(fd)) {
            memcpy(&fd, (char *)part + end - sizeof(fd), sizeof(fd));
            adopt(fd);
        }
    }
}

static inline void received(struct msghdr *message)
{
    if (PRELOAD_UNLIKELY(message->msg_controllen > 0) && preload_active())
        adopt_passed(message);
}

PRELOAD_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t result = PRELOAD_REAL(recvmsg)(fd, message, flags);
    if (result >= 0)
        received(message);
    return result;
}

PRELOAD_EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                            struct timespec *timeout)
{
    int result = PRELOAD_REAL(recvmmsg)(fd, messages, count, flags, timeout);
    for (int i = 0; i < result; i++)
        received(&messages[i].msg_hdr);
    return result;
}

PRELOAD_EXPORT int pidfd_getfd(int pidfd, int target, unsigned flags)
{
    int fd = PRELOAD_REAL(pidfd_getfd)(pidfd, target, flags);
    if (fd >= 0 && preload_active())
        adopt(fd);
    return fd;
}

static inline void sends(const struct msghdr *message)
{
    if (PRELOAD_UNLIKELY(message->msg_controllen > 0))
        preload_share();
}

PRELOAD_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (!sys_bad_pointer(message))
        sends(message);
    return PRELOAD_REAL(sendmsg)(fd, message, flags);
}

PRELOAD_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    for (unsigned i = 0; i < count && !sys_bad_pointer(messages + i); i++)
        sends(&messages[i].msg_hdr);
    return PRELOAD_REAL(sendmmsg)(fd, messages, count, flags);
}
