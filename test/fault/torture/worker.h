/*
 * The processes that torture.c starts, under the library or not: threads that write, write again,
 * read and sync their blocks through every API, and check what they read.
 */
#ifndef FAULT_WORKER_H
#define FAULT_WORKER_H

#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "appends.h"
#include "sizes.h"

/* ---- blocks ---- */

void begin(struct worker *w, struct operation *op);

/* Everything acknowledged before the call, by whomever, is stable when it returns 0. */
void sync_file(struct worker *w, unsigned file, unsigned how);

/* ---- a round ---- */

/* Neighbouring blocks: our own to write, anybody's to read. */
void choose(struct worker *w, struct operation *op);

/* Makes the library give a file to the kernel in this process, if that is wanted of it. */
void hand_over(struct worker *w);
void act(struct worker *w);
void worker_open(struct worker *w);

/* torture --worker JOURNAL INDEX: one process. */
int worker_process(int argc, char **argv);

#endif
