/* A server with several paths, each a scripted server, for the tests of choosing, losing and
 * regaining them. */
#ifndef TEST_PATH_SCENE_H
#define TEST_PATH_SCENE_H

#include "run/offline.h"
#include "net_scene.h"

enum { PATHS = 3, PATH_TIMEOUT_MS = 400 };

/* The paths of a scene. `probed` is what a probe says: 0, or -errno. */
extern struct server *servers[PATHS];
extern _Atomic int probed[PATHS];
extern _Atomic unsigned probes[PATHS];
extern struct net_server *client;

/* A probe that has no answer before the other paths are usable; and one without an answer during
 * which the path brings something else. */
enum { UNTIL_OTHERS = 1, HEARD_MEANWHILE };

int probe(struct net_path *path, bool proven, int timeout_ms);

/* A process of its own would have one, too. */
void paths_client(unsigned connections, struct net_server **made);
int setup(void **state);
int teardown(void **state);
bool usable(unsigned path);
void use_all_paths(void);

/* Returns when the thread that probes has ended what it does for the server, and has written all
 * that it writes of it: a path is usable a little before its state is shown and said. */
void wait_for_prober(struct net_server *server);

/* Submits an ECHO over the path, whatever the policy says, and waits for it. */
void echo_over(unsigned path, uint32_t token, struct query *query);
void end_connections(unsigned path);

/* The server of a path goes away, and its port refuses connections. */
void refuse(unsigned path);
void accept_again(unsigned path);

#define PATH_TEST(name) UNIT_TEST_WITH(name, setup, teardown)

#endif
