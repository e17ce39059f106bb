/*
 * Facts: what one process has found out of a server, so that others of this user need not ask
 * again. A table of keys and values, any bytes, in the file `facts` of the run directory.
 *
 * A fact may be missing at any time: there may be no table, or another fact in its place. One thing
 * is promised: a value that is found was put there for exactly this key, since the host booted. The
 * caller must know why it is safe to use.
 */
#ifndef RUN_FACTS_H
#define RUN_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUN_FACT_KEY = 544, RUN_FACT_VALUE = 448 };

/* False: there is no fact with a value of this size. *told_ns (CLOCK_MONOTONIC): when it was put
 * there. */
bool run_fact_get(const void *key, size_t key_size, void *value, size_t value_size,
                  uint64_t *told_ns);

/* Puts a fact in the place of the one with this key. Does nothing if the run directory has no
 * room. */
void run_fact_put(const void *key, size_t key_size, const void *value, size_t value_size);

/* Removes the fact for this key. */
void run_fact_forget(const void *key, size_t key_size);

/* The run directory has changed. */
void run_facts_move(void);

#endif
