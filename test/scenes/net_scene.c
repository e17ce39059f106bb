/* See net_scene.h. */
#include "net_scene.h"

struct net_server_options scene_options(const char *name, unsigned connections,
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

int path_tests_run(const char *name)
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
