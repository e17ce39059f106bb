/* What tests of connections and paths share that fall silent, or fail: see rpc_server.h. */
#ifndef TEST_NET_SCENE_H
#define TEST_NET_SCENE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/transport.h"
#include "net/health.h"
#include "net/pool.h"
#include "queries.h"
#include "sys/log.h"
#include "sys/sys.h"

#define SECOND_NS UINT64_C(1000000000)

struct net_server_options scene_options(const char *name, unsigned connections,
                                        unsigned path_timeout_ms,
                                        int (*probe)(struct net_path *, bool, int));

/* Waits until the condition holds; the test's alarm() ends a wait in vain. */
#define eventually(condition)    \
    do {                         \
        while (!(condition))     \
            sys_nanosleep_ms(5); \
    } while (0)

/* Runs them in a run directory of their own. */
int path_tests_run(const char *name);

#endif
