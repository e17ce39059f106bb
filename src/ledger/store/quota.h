/*
 * A bound on the memory that all processes of a host use for what they read ahead.
 */
#ifndef LEDGER_QUOTA_H
#define LEDGER_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

/* May this process have so many bytes more, where all may have `most`? It may have no more than it
 * leaves to others: so each of many gets the same. */
bool ledger_quota_take(size_t bytes, size_t most);
/* It has them no more. In the process that took them, and in the same registry. */
void ledger_quota_give(size_t bytes);

#endif
