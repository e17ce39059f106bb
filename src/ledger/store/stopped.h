/*
 * A process that is stopped (SIGSTOP, SIGTSTP) while one of its threads has a lock of the registry,
 * which others wait for. The agent guides that thread out of it: by ptrace(2) it lets the thread,
 * and no other of the process, go on until it has no such lock, where it pauses; then it is as
 * stopped as before. Signals reach it as they would have done a moment before it was stopped.
 *
 * What is stopped otherwise stays so: by a debugger, in a cgroup that is frozen or has had its time
 * (cpu.max). So does the process whose memory the agent may not look at: see ptrace(2), "Ptrace
 * access mode checking", and ptrace_scope. That is said on the log. So locks are still held for as
 * few instructions as possible.
 */
#ifndef LEDGER_STOPPED_H
#define LEDGER_STOPPED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Who waits for a lock, and has waited for some time, tells the agent, if there is one. */
void ledger_stopped_tell(void);
/* The agent: sleeps until somebody has told. */
void ledger_stopped_await(void);
/* The agent: looks at all locks that others may wait for. How many threads were guided out. By one
 * thread at a time. */
unsigned ledger_stopped_release(void);

/*
 * Nobody guides the agent itself. If it is stopped, and a thread has waited for a second for what
 * it has, it is ended, as if somebody had killed it: what it had on its way is then a dead
 * process's. The lock, or the slot of the process, that is waited for.
 */
void ledger_stopped_end_agent_with_lock(const pthread_mutex_t *lock);
void ledger_stopped_end_agent_with_slot(uint32_t slot);

/* A thread has just given back a lock while the agent guides one: if it is that, and has no other
 * lock, it waits until the agent has let go of it. */
void ledger_stopped_pause(void);

#endif
