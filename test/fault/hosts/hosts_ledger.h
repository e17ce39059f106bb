/*
 * What the registry of a host says: is anything not sent, or not committed? Nobody else can tell
 * when the agent has done what it owes, as the server may have all long before.
 */
#ifndef FAULT_HOSTS_LEDGER_H
#define FAULT_HOSTS_LEDGER_H

#include "hosts_processes.h"
#include "ledger/store/layout.h"

uint64_t ledger_bytes(unsigned host);

#endif
