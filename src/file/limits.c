/* RLIMIT_FSIZE. */
#include <signal.h>
#include <sys/resource.h>

#include "file/enter.h"
#include "file/limits.h"
#include "sys/sys.h"

static _Atomic int64_t size_limit = INT64_MAX;

void file_size_limit_learn(void)
{
    struct rlimit now;
    if (sys_call4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &now) == 0)
        atomic_store(&size_limit, now.rlim_cur < INT64_MAX ? (int64_t)now.rlim_cur : INT64_MAX);
}

bool file_size_is_limited(void)
{
    return atomic_load_explicit(&size_limit, memory_order_relaxed) != INT64_MAX;
}

int64_t file_size_room(uint64_t offset)
{
    int64_t limit = atomic_load_explicit(&size_limit, memory_order_relaxed);
    if (offset < (uint64_t)limit)
        return limit - (int64_t)offset;
    sys_call3(SYS_tgkill, sys_getpid(), sys_gettid(), SIGXFSZ);
    return -EFBIG;
}
