/* See agent_scene.h. */
#include "agent_scene.h"
#include "ledger/care.h"
#include "ledger/store/processes.h"

static int ready[2]; /* a pipe: a child says that it is so far */

static void say_ready(void)
{
    must(write(ready[1], "", 1) == 1);
}

static void wait_ready(void)
{
    char byte;
    must(read(ready[0], &byte, 1) == 1);
}

void watch_all(void)
{
    uint64_t key, device;
    bool watched;
    int pid;
    for (uint32_t slot = 1; slot < ledger_process_count(); slot++) {
        if (ledger_agent_asked(slot, &pid, &watched) && !watched)
            ledger_agent_watch(slot, pid);
    }
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
        if (ledger_agent_server(place, &key, &device))
            ledger_agent_serve(place, true);
    }
}

static int is_agent(void *unused)
{
    uint32_t seen = 0;
    (void)unused;
    must(ledger_agent_become() == 0);
    ledger_agent_ready();
    watch_all();
    say_ready();
    for (;;) {
        ledger_agent_await(&seen);
        watch_all();
    }
}

pid_t start_agent(void)
{
    pid_t agent = start_child(is_agent, NULL);
    wait_ready();
    return agent;
}

void end_agent(pid_t agent)
{
    kill(agent, SIGKILL);
    assert_int_equal(end_child(agent), 128 + SIGKILL);
}

void be_watched(void)
{
    int place = ledger_agent_ask(5, 77);
    must(place >= 0);
    for (;;) {
        uint32_t number = ledger_agent_number();
        if (number && ledger_agent_watches(number) &&
            ledger_agent_serves(number, (unsigned)place, 5))
            return;
        usleep(1000);
    }
}

int open_all(void **state)
{
    return pipe(ready) || open_registry(state);
}
