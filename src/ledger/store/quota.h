/*
 * A bound on the memory that all processes of a host use for what they read ahead.
 */
#ifndef LEDGER_QUOTA_H
#define LEDGER_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

/* May this process have `bytes` more, if all processes together may have `most`? It may have no
 * more than it leaves to others. So each of many processes gets about as much. */
bool ledger_quota_take(size_t bytes, size_t most);
/* This process does not have the bytes any more. Call it in the process that took them, with the
 * same registry. */
void ledger_quota_give(size_t bytes);

#endif
