#include "sys/critical.h"

__thread struct sys_critical sys_critical;
_Atomic bool sys_critical_faults;
