/* Holds, of which a test decides how long they last: failover_hold is longer than any test. */
#ifndef TEST_HOLDS_H
#define TEST_HOLDS_H

#include "ledger/store/records.h"
#include "ledger/registry.h"
#include "ledger/store/stripes.h"

/* Nothing can be executed late any more. */
void end_holds(void);

#endif
