/*
 * Facts: what one process has found out of a server, and others of the same user need not ask for
 * again. A table of keys and values, any bytes, in the file `facts` of the run directory.
 *
 * A fact may be missing at any time: there may be no table, or another fact in its place. Nothing
 * is promised but that who gets a value was given it by who had the very same key, since the host
 * was started. What makes it safe to use is for the caller to say.
 */
#ifndef RUN_FACTS_H
#define RUN_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUN_FACT_KEY = 544, RUN_FACT_VALUE = 448 };

/* False: there is none. The value must have this size. *told_ns (CLOCK_MONOTONIC): when it was put
 * there. */
bool run_fact_get(const void *key, size_t key_size, void *value, size_t value_size,
                  uint64_t *told_ns);

/* In the place of what was there for this key. Nothing happens if there is no room in the run
 * directory. */
void run_fact_put(const void *key, size_t key_size, const void *value, size_t value_size);

/* There is no fact for this key any more. */
void run_fact_forget(const void *key, size_t key_size);

/* The run directory is another one. */
void run_facts_move(void);

#endif
