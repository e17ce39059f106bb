/*
 * The agent: a process of its own for a run directory, which sends and commits what other processes
 * wrote behind and did not live to send. ledger/agent.h says what it owes them, durable/agent.h how
 * it is started.
 */
#ifndef FD_CARE_H
#define FD_CARE_H

#include <stdbool.h>

/*
 * Makes this process the agent, until nobody needs one any more: some seconds after the last
 * process that it watches is dead and the last byte is sent. After SIGTERM, SIGINT, SIGHUP or
 * SIGQUIT it ends as soon as that is so, and leaves processes of other services to the next agent.
 * `stays`: it ends only after one of these signals. For a process without other threads, which has
 * these signals blocked. 0; -EBUSY: there is an agent; -errno, after a line on the log.
 */
int fd_care(bool stays);

#endif
