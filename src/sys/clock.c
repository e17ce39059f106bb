#include <dlfcn.h>

#include "sys/sys.h"

static int by_system_call(clockid_t clock, struct timespec *now)
{
    return (int)sys_call2(SYS_clock_gettime, clock, now);
}

int (*sys_clock_gettime)(clockid_t clock, struct timespec *now) = by_system_call;

__attribute__((constructor)) static void find(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (!libc)
        return;
    void *found = dlsym(libc, "clock_gettime"); /* which the vDSO serves */
    if (found)
        *(void **)&sys_clock_gettime = found;
    dlclose(libc);
}
