#include "ledger/store/upper.h"

#include "ledger/agent.h"
#include "ledger/dead.h"
#include "ledger/rebuild.h"

const struct ledger_upper ledger_upper = {
    .give_back = ledger_dead_give_back,
    .rebuild = ledger_stripe_rebuild,
    .agent_pid = ledger_agent_pid,
};
