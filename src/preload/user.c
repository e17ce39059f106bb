/* A process that becomes another user, or gets another root directory. */
#include "fd/user.h"
#include "mount/mount.h"
#include "mount/mounts.h"
#include "preload/preload.h"
#include "sys/thread.h"

static int changed(int result)
{
    if (result == 0 && preload_active())
        preload_stay_call(fd_user_changed);
    return result;
}

PRELOAD_EXPORT int setuid(uid_t user)
{
    return changed(PRELOAD_REAL(setuid)(user));
}

PRELOAD_EXPORT int seteuid(uid_t user)
{
    return changed(PRELOAD_REAL(seteuid)(user));
}

PRELOAD_EXPORT int setreuid(uid_t real, uid_t effective)
{
    return changed(PRELOAD_REAL(setreuid)(real, effective));
}

PRELOAD_EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved)
{
    return changed(PRELOAD_REAL(setresuid)(real, effective, saved));
}

long preload_raw_user(long number, long a, long b, long c)
{
    long result = sys_call3(number, a, b, c);
    /* Only this thread has another user now. If there are more, it may act for somebody else. */
    if (result == 0 && preload_active() && sys_thread_alone())
        changed(0);
    return result;
}

PRELOAD_EXPORT int chroot(const char *path)
{
    int held[MOUNTS_MAX];
    if (!preload_active())
        return PRELOAD_REAL(chroot)(path);
    struct preload_stay stay = preload_stay_begin();
    mount_root_prepare(held);
    int result = PRELOAD_REAL(chroot)(path);
    if (result != 0)
        stay.saved_errno = errno;
    mount_root_changed(held);
    preload_stay_end(stay);
    return result;
}
