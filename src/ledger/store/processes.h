/*
 * The process slots of the registry.
 */
#ifndef LEDGER_PROCESSES_H
#define LEDGER_PROCESSES_H

#include "ledger/store/map.h"

/* Slots are below this number, and none is used from it on; at least 1. */
uint32_t ledger_process_count(void);
/* This process's slot, taken at its first use; 0 when there is none. Takes process_lock. */
uint32_t ledger_process_slot(void);
/* The same without a lock: 0 also while it was not taken yet. */
uint32_t ledger_process_slot_taken(void);
/* Makes another slot this process's own; returns the one before. Gives the own slot back. */
uint32_t ledger_process_exchange(uint32_t slot);
void ledger_process_leave(void);
/* The same, before a record becomes this process's own: if the process dies, its records are
 * looked for. */
uint32_t ledger_process_owner(void);
/* If the process of this slot is dead, gives back what it held, and frees the slot. */
void ledger_process_check(uint32_t slot);
/* As above for all slots. */
void ledger_process_check_all(void);
/* Are the processes of the registry of other namespaces than the caller, which so sees no pids? */
bool ledger_process_is_foreign(void);
/* Is the process of this slot stopped, by a signal or a debugger? Takes process_lock. */
bool ledger_process_is_stopped(uint32_t slot);
/* Gives up all slots whatever the processes are, when nobody else can have the registry open. */
void ledger_process_sweep_all(void);

#endif
