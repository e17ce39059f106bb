/*
 * A process may be stopped (SIGSTOP, SIGTSTP) while one of its threads has a lock of the registry
 * that others wait for. The agent guides that thread out of the lock. By ptrace(2) it lets this
 * thread of the process go on, and no other, until the thread has no such lock. There the thread
 * pauses; then it is stopped as before. Signals reach it as they would have done a moment before it
 * was stopped.
 *
 * A process that is stopped in another way stays stopped: by a debugger, or in a cgroup that is
 * frozen or has used up its time (cpu.max). So does a process if the agent may not look at its
 * memory: see ptrace(2), "Ptrace access mode checking", and ptrace_scope. The log says so. So locks
 * are held for as few instructions as possible.
 */
#ifndef LEDGER_STOPPED_H
#define LEDGER_STOPPED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A thread that has waited for a lock for some time calls this: it tells the agent, if there is
 * one. */
void ledger_stopped_tell(void);
/* The agent: sleeps until a thread has told. */
void ledger_stopped_await(void);
/* The agent: looks at all locks that others may wait for. Returns how many threads were guided out.
 * Only one thread at a time may call it. */
unsigned ledger_stopped_release(void);

/*
 * No process guides the agent itself. If the agent is stopped, and a thread has waited for what it
 * has for a second, it is killed. What it had on its way is then what a dead process left. The
 * argument is what the thread waits for: a lock, or the slot of a process.
 */
void ledger_stopped_end_agent_with_lock(const pthread_mutex_t *lock);
void ledger_stopped_end_agent_with_slot(uint32_t slot);

/* A thread has just given back a lock, while the agent guides a thread. If it is this thread, and
 * it has no other lock, it waits until the agent has let go of it. */
void ledger_stopped_pause(void);

#endif
