/* Programs start, one starts others, and all have the library: what is said of that is said once
 * for what an administrator started. */
#ifndef RUN_START_H
#define RUN_START_H

#include <stdbool.h>

/*
 * May this program say that it has the library? One does for each service (its control group, as
 * systemd or a container made it), for each `directnfs run`, and for a login session. False also
 * where there is no run directory to know that from; nothing is logged then.
 */
bool run_may_say_start(void);

#endif
