/*
 * The agent: a process of its own for a run directory, which sends and commits what other processes
 * wrote behind and did not live to send. See ledger/agent.h for what it owes them, and
 * durable/agent.h for how it is started.
 */
#ifndef FD_CARE_H
#define FD_CARE_H

#include <stdbool.h>

/*
 * Is the agent, until nobody needs one any more: some seconds after the last process that it
 * watches is dead and the last byte is sent; at once then, once SIGTERM, SIGINT, SIGHUP or SIGQUIT
 * came. Then processes of other services are left to the next agent. `stays`: only after one of
 * these signals. For a process without other threads, which has
 * these signals blocked. 0; -EBUSY: there is an agent; -errno, after a line on the log.
 */
int fd_care(bool stays);

#endif
