/*
 * What test_agent_steps has of processes: an agent that is killed at single instructions, those
 * that write, and what is to be at the server then.
 *
 * $DIRECTNFS_TEST_STRIDE: so many instructions between two kills. $TEST_PLACE: only in this
 * function.
 */
#ifndef AGENT_KILLS_H
#define AGENT_KILLS_H

#include <dirent.h>
#include <sys/stat.h>

#include "host_test.h"
#include "traced.h"
#include "file/care.h"
#include "ledger/agent.h"
#include "ledger/dirty.h"
#include "ledger/strays.h"
#include "run/directory.h"
#include "run/strays.h"

enum { BLOCK = 8192, BLOCKS = 16 };

enum { SHARED = 4, PIECE = 1024, PIECE_AT = SHARED * BLOCK + 512 };

enum { WRITE, WROTE, SYNC, SYNCED, DYING, END }; /* steps: numbers of rounds */

/* Where it is killed: within a function that it enters for so many times. */
struct place {
    const char *name;
    const void *function;
    unsigned times, stride;
    unsigned most; /* instructions; 0: all */
};

#define PART(function, times, stride, most)                      \
    {                                                            \
#function, (const void *)(function), times, stride, most \
    }

#define PLACE(function, times) PART(function, times, 1511, 0)

extern unsigned round_number, kills;

/* ---- the agent ---- */

void be_agent(void);

/* It will be stopped as it enters the function. */
struct traced start_traced(void (*body)(void), const struct place *place);

/* One that nobody traces. */
pid_t start_other(void);

/* It sees to all that there is to do, and ends. */
void run_other(void);

/* ---- a process that writes, and lives ---- */

void await_step(int step, unsigned number);
void tell_step(int step);

extern const unsigned lives[], dies[];

void put_round(int fd, const unsigned blocks[3]);

extern bool shares;   /* the file with one that dies */
extern bool asks;     /* it makes the agent see to it at once */
extern bool restarts; /* the server loses what it had not committed, with its third WRITE */

void lose_power(void);
void writes_and_lives(void);
void end_it(pid_t pid);

/* ---- one that dies ---- */

void writes_and_dies(void);

/* ---- what is to be ---- */

extern uint8_t kept[BLOCKS * BLOCK]; /* the bytes that were set aside, of all stray files */

bool is_at_server(unsigned block);
void look_at_invariants(void);
void opens_other(void);
void expect_all_at_server(const unsigned blocks[3]);
void expect_somewhere(const unsigned blocks[3]);

/* ---- kills ---- */

enum how { KILLED, BEYOND, VOID };

/* The agent goes on to the place, and is killed there. */
enum how kill_at(struct traced *agent, const struct place *place, unsigned instructions);

/* Kills at one instruction after the other of each place: `round` is all that is done for one. */
void kill_within(const struct place *places, unsigned count,
                 enum how (*round)(const struct place *, unsigned));

#define COUNT(places) (sizeof(places) / sizeof((places)[0]))

void prepare(void);

#endif
