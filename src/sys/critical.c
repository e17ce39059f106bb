#include "sys/critical.h"

__thread struct sys_critical sys_critical;
