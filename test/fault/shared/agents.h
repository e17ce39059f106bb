/*
 * The processes of a run directory, which no other process has: they are known by it. Among them is
 * the agent, which one of the programs started.
 */
#ifndef FAULT_AGENTS_H
#define FAULT_AGENTS_H

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "loop.h"

enum { PROCESSES_MOST = 64, ENVIRONMENT_MOST = 65536, PATIENCE_S = 60 };

/* A zombie has no environment. */
bool runs_in(pid_t pid, const char *run);
bool is_agent(pid_t pid);

/* All that live, but for this process; the agent only, with `agent`. */
unsigned run_find(const char *run, bool agent, pid_t found[PROCESSES_MOST]);

/* The status of a child, or -1: it does not end in PATIENCE_S. */
int process_wait(pid_t process);

#endif
