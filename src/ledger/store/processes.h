/*
 * The process slots of the registry.
 */
#ifndef LEDGER_PROCESSES_H
#define LEDGER_PROCESSES_H

#include "ledger/store/map.h"

/* All slots that are in use are below this number; at least 1. */
uint32_t ledger_process_count(void);
/* This process's slot, which is taken at the first call. 0: there is none. Takes process_lock. */
uint32_t ledger_process_slot(void);
/* As ledger_process_slot(), without a lock. 0 also if the slot was not taken yet. */
uint32_t ledger_process_slot_taken(void);
/* Makes another slot this process's own. Returns the slot it had before. */
uint32_t ledger_process_exchange(uint32_t slot);
void ledger_process_leave(void);
/* As ledger_process_slot_taken(), before a record becomes this process's own. Notes that it has
 * records: if the process dies, they are looked for. */
uint32_t ledger_process_owner(void);
/* If the process of this slot is dead: gives back what it had, and frees the slot. */
void ledger_process_check(uint32_t slot);
/* ledger_process_check() for all slots. */
void ledger_process_check_all(void);
/* Are the processes of the registry in other namespaces than the caller? Then their pids say
 * nothing here. */
bool ledger_process_is_foreign(void);
/* Is the process of this slot stopped, by a signal or a debugger? Takes process_lock. */
bool ledger_process_is_stopped(uint32_t slot);
/* Gives up all slots, whatever their processes are. No other process may have the registry open. */
void ledger_process_sweep_all(void);

#endif
