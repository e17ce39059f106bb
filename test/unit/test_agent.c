/* The agent in shared memory: src/ledger/agent.c. */
#include "agent_scene.h"
#include "ledger/care.h"

UNIT_TEST(there_is_no_agent_before_one_is_ready)
{
    assert_int_equal(ledger_agent_number(), 0);
    assert_false(ledger_agent_is_there());
    assert_int_equal(ledger_agent_become(), 0);
    assert_true(ledger_agent_is_there());
    assert_int_equal(ledger_agent_number(), 0);
    ledger_agent_ready();
    assert_int_not_equal(ledger_agent_number(), 0);
    ledger_agent_resign();
    assert_int_equal(ledger_agent_number(), 0);
    assert_false(ledger_agent_is_there());
}

static int cannot_be_it(void *unused)
{
    (void)unused;
    return ledger_agent_become() == -EBUSY ? 0 : 1;
}

UNIT_TEST(there_is_one_agent)
{
    pid_t agent = start_agent();
    assert_int_equal(run_child(cannot_be_it, NULL), 0);
    end_agent(agent);
}

UNIT_TEST(one_that_is_killed_is_none_from_then_on_and_its_promises_are_not_the_next_ones)
{
    pid_t agent = start_agent();
    uint32_t first = ledger_agent_number();
    be_watched();
    end_agent(agent);
    assert_false(ledger_agent_is_there());
    assert_int_equal(ledger_agent_number(), 0);
    assert_int_equal(ledger_agent_become(), 0);
    ledger_agent_ready();
    assert_int_not_equal(ledger_agent_number(), first);
    assert_false(ledger_agent_watches(ledger_agent_number()));
    watch_all(); /* who was watched before is watched again, without asking */
    assert_true(ledger_agent_watches(ledger_agent_number()));
    ledger_agent_resign();
}

static int child_is_watched(void *unused)
{
    (void)unused;
    return ledger_agent_watches(ledger_agent_number()) ? 1 : 0;
}

UNIT_TEST(a_child_is_watched_when_it_asks)
{
    pid_t agent = start_agent();
    be_watched();
    assert_int_equal(run_child(child_is_watched, NULL), 0);
    end_agent(agent);
}

int main(void)
{
    return unit_run(open_all, remove_run_directory);
}
