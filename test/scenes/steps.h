/* An operation of a process on a file, instruction by instruction, and whether it has a lock of the
 * registry. */
#ifndef STEPS_H
#define STEPS_H

#include <sys/ptrace.h>

#include "dirty_scene.h"

/* An operation on a file, by a process of its own. */
struct operation {
    void (*prepare)(struct ledger_file *file); /* by the same process, before */
    void (*run)(struct ledger_file *file);
    struct ledger_file file;
};

int child_runs(void *argument);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
enum { COUNTS = false };
#else
enum { COUNTS = true };
#endif

bool is_held(const pthread_mutex_t *mutex, pid_t by);
bool holds_any(const struct ledger_file *file, pid_t child);
pid_t start_stopped(struct operation *operation);

/* Does an instruction. False: it has ended, well. */
bool step(pid_t child);

#endif
