/*
 * The processes of a host, as the driver of hosts.c starts, finds, stops and kills them: programs,
 * visitors, and the agent, which a program started. They are known by their run directory, which no
 * other process has.
 */
#ifndef FAULT_HOSTS_PROCESSES_H
#define FAULT_HOSTS_PROCESSES_H

#include <sys/prctl.h>
#include <sys/wait.h>

#include "agents.h"
#include "hosts.h"

struct host {
    char *words[WORDS_MOST]; /* that start a program under the library */
    const char *run;         /* its run directory */
    const char *log;         /* NULL: what it says there excuses nothing */
    pid_t programs[PROGRAMS], visitor;
};

extern struct host hosts[HOSTS];

extern const char *self_name, *journal_name;

void pause_ms(unsigned ms);

/* ---- starting ---- */

void program_start(unsigned host, unsigned index);
void visitor_start(unsigned host);

bool visitor_end(unsigned host);

/* ---- finding ---- */

/* 0: there is none. */
pid_t agent_find(unsigned host);

/* Is a program of the host about to start an agent, which nobody can tell from the program yet? */
bool agent_comes(unsigned host);

/* ---- ending ---- */

void program_kill(unsigned host, unsigned index);
void programs_kill(unsigned host);
void agent_kill(unsigned host);

/* As a container ends: nobody sees another's death. */
void host_kill(unsigned host);

/* Agents whose program died are children of this process, and end by themselves. */
void reap_agents(void);

#endif
