/* An agent, which is a child of the test, and processes that it watches. */
#ifndef AGENT_SCENE_H
#define AGENT_SCENE_H

#include <signal.h>

#include "dirty_scene.h"
#include "ledger/agent.h"

/* Watches all that want it, and promises all servers. */
void watch_all(void);
pid_t start_agent(void);
void end_agent(pid_t agent);
void be_watched(void);
int open_all(void **state);

#endif
