#include "sys/critical.h"

__thread struct sys_critical sys_critical;
_Atomic bool sys_critical_faults;

int sys_critical_guarded(void (*access)(const void *argument), const void *argument)
{
    jmp_buf guard;
    if (_setjmp(guard) != 0) {
        sys_critical.guard = NULL;
        return -EFAULT;
    }
    sys_critical.guard = &guard;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    access(argument);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    sys_critical.guard = NULL;
    return 0;
}
