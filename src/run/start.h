/*
 * Programs with the library start others that have it too: what is to be said at a start is said
 * once for all that an administrator started.
 */
#ifndef RUN_START_H
#define RUN_START_H

#include <stdbool.h>

/*
 * May this program say that it has the library? One program does for each service, for each
 * `directnfs run`, and for each login session. A service is a control group, as systemd or a
 * container made it. False too without a run directory to know that from; nothing is logged then.
 */
bool run_may_say_start(void);

#endif
