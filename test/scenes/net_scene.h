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

static inline struct net_server_options scene_options(const char *name, unsigned connections,
                                                      unsigned path_timeout_ms,
                                                      int (*probe)(struct net_path *, bool, int))
{
    return (struct net_server_options){.name = name,
                                       .connections_max = connections,
                                       .port_policy = NET_PORT_ANY,
                                       .reconnect_max_s = 1,
                                       .retransmit_timeout_s = 60,
                                       .path_timeout_ms = path_timeout_ms,
                                       .probe = probe,
                                       .close_idle = rpc_close_idle,
                                       .answers = rpc_answers};
}

/* Waits until the condition holds; the test's alarm() ends a wait in vain. */
#define eventually(condition)    \
    do {                         \
        while (!(condition))     \
            sys_nanosleep_ms(5); \
    } while (0)

/* Runs them in a run directory of their own. */
static inline int path_tests_run(const char *name)
{
    char run[64], remove[80];
    snprintf(run, sizeof(run), "/dev/shm/%s.XXXXXX", name);
    log_open("/dev/null");
    if (!mkdtemp(run) || setenv("DIRECTNFS_RUN", run, 1) != 0)
        return 1;
    int result = unit_run(NULL, NULL);
    snprintf(remove, sizeof(remove), "rm -rf %s", run);
    return system(remove) != 0 || result != 0;
}

#endif
