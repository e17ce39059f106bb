/* What of the agent is in shared memory: places of servers, who may start one; and values there
 * that nobody would write but to do harm. */
#include "dirty_scene.h"
#include "ledger/agent.h"
#include "ledger/care.h"
#include "ledger/strays.h"

enum { FIRST = 1000, ROUNDS = 300 };

static struct ledger_file file;

static struct ledger_agent *shared(void)
{
    return &ledger_map.shared->agent;
}

static unsigned places_taken(void)
{
    uint64_t key, device;
    unsigned count = 0;
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++)
        count += ledger_agent_server(place, &key, &device);
    return count;
}

static void be_agent(void)
{
    assert_int_equal(ledger_agent_become(), 0);
    ledger_agent_ready();
}

/* ---- places ---- */

UNIT_TEST(there_are_so_many_places_and_each_server_has_one)
{
    be_agent();
    int first = ledger_agent_ask(FIRST, 1), last = first;
    assert_true(first >= 0);
    assert_int_equal(ledger_agent_ask(FIRST, 1), first);
    for (uint64_t key = FIRST + 1; last >= 0; key++)
        last = ledger_agent_ask(key, 1);
    assert_int_equal(last, -ENOSPC);
    assert_int_equal(places_taken(), LEDGER_AGENT_PLACES);
    assert_int_equal(ledger_agent_ask(FIRST, 1), first);
    ledger_agent_resign();
}

UNIT_TEST(an_agent_that_begins_gives_back_the_places_that_nobody_needs)
{
    for (uint64_t key = FIRST; ledger_agent_ask(key, 1) >= 0; key++)
        ;
    attach(&file, 801); /* of server 5 */
    be_agent();
    assert_int_equal(places_taken(), 0);
    int needed = ledger_agent_ask(5, file.key.device);
    assert_true(ledger_agent_ask(FIRST, 78) >= 0);
    write_dirty(&file, 0, 8192, 'd');
    ledger_agent_give_back();
    assert_int_equal(places_taken(), 1);
    assert_int_equal(ledger_agent_ask(5, file.key.device), needed);
    ledger_file_forget(&file, false);
    ledger_agent_give_back();
    assert_int_equal(places_taken(), 0);
    ledger_agent_resign();
}

UNIT_TEST(who_had_a_place_is_not_served_by_the_server_that_has_it_now)
{
    be_agent();
    uint32_t number = ledger_agent_number();
    int place = ledger_agent_ask(FIRST, 1);
    ledger_agent_serve((unsigned)place, true);
    assert_true(ledger_agent_serves(number, (unsigned)place, FIRST));
    ledger_agent_give_back();
    assert_false(ledger_agent_serves(number, (unsigned)place, FIRST));
    assert_int_equal(ledger_agent_ask(FIRST + 1, 1), place);
    ledger_agent_serve((unsigned)place, true);
    assert_false(ledger_agent_serves(number, (unsigned)place, FIRST));
    assert_true(ledger_agent_serves(number, (unsigned)place, FIRST + 1));
    ledger_agent_resign();
}

/* ---- starting ---- */

UNIT_TEST(one_process_at_a_time_starts_an_agent)
{
    assert_true(ledger_agent_may_start());
    assert_false(ledger_agent_may_start());
    ledger_agent_not_started();
    assert_true(ledger_agent_may_start());
    be_agent();
    ledger_agent_resign();
    assert_true(ledger_agent_may_start());
    atomic_store(&shared()->starting_ns, sys_now_ns() - UINT64_C(3600000000000));
    assert_true(ledger_agent_may_start()); /* who began did not live to end it */
    atomic_store(&shared()->starting_ns, UINT64_MAX);
    assert_true(ledger_agent_may_start());
    ledger_agent_not_started();
}

UNIT_TEST(what_a_process_lacks_is_told_until_it_is_watched)
{
    int pid;
    bool watched;
    uint32_t slot = ledger_process_slot();
    assert_true(ledger_agent_ask(5, 1) >= 0);
    ledger_agent_lack(LEDGER_AGENT_LACKS_PROCESS, EPERM);
    assert_int_equal(atomic_load(&ledger_map.shared->processes[slot].lack),
                     LEDGER_AGENT_LACKS_PROCESS | EPERM << 8);
    be_agent();
    assert_true(ledger_agent_asked(slot, &pid, &watched));
    assert_false(watched);
    assert_int_equal(pid, getpid());
    assert_false(ledger_agent_watch(slot, pid + 1));
    assert_true(ledger_agent_watch(slot, pid));
    assert_int_equal(atomic_load(&ledger_map.shared->processes[slot].lack), 0);
    assert_int_equal(ledger_agent_watched(), 1);
    ledger_agent_resign();
}

/* ---- what is old ---- */

static bool has_old(const struct ledger_moments *moments)
{
    struct ledger_sending sending = ledger_dirty_now(&file, MOST);
    struct ledger_write write;
    sending.sequence = ledger_file_moment(&file, moments);
    if (ledger_dirty_take(&file, &sending, false, &write) != 1)
        return false;
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    return true;
}

UNIT_TEST(what_is_dirty_is_old_at_the_second_moment_or_at_once_if_the_agent_wants_that)
{
    struct ledger_moments moments = {0};
    attach(&file, 803);
    be_agent();
    write_dirty(&file, 0, 8192, 'o');
    assert_false(ledger_agent_may_sleep(&moments));
    assert_false(has_old(&moments));
    assert_false(ledger_agent_may_sleep(&moments));
    assert_true(has_old(&moments));
    ledger_file_forget(&file, false);
    write_dirty(&file, 0, 8192, 'n');
    assert_false(ledger_agent_may_sleep(&moments));
    assert_false(has_old(&moments));
    ledger_agent_all_is_old(&moments);
    assert_true(has_old(&moments));
    ledger_file_forget(&file, false);
    ledger_agent_resign();
}

/* ---- harm ---- */

static uint64_t any(void)
{
    static const uint64_t odd[] = {0, 1, 255, 256, 8191, 8192, INT32_MAX, UINT32_MAX, UINT64_MAX};
    uint64_t number = (uint64_t)random() << 32 ^ (uint64_t)random();
    return random() % 2 ? odd[(size_t)random() % (sizeof(odd) / sizeof(odd[0]))] : number;
}

/* All but the locks, of which each is the same as any other of the registry. */
static void spoil(void)
{
    struct ledger_agent *agent = shared();
    for (unsigned i = 0; i < LEDGER_AGENT_SERVERS; i++) {
        atomic_store(&agent->servers[i].key, any());
        atomic_store(&agent->servers[i].device, any());
        atomic_store(&agent->servers[i].served, (uint32_t)any());
    }
    atomic_store(&agent->number, (uint32_t)any());
    atomic_store(&agent->drawn, (uint32_t)any());
    atomic_store(&agent->pid, (uint32_t)any());
    atomic_store(&agent->rings, (uint32_t)any());
    atomic_store(&agent->sleeps, (uint32_t)any());
    atomic_store(&agent->since_s, any());
    atomic_store(&agent->starting_ns, any());
    for (unsigned i = 0; i < 16; i++) {
        struct ledger_process *process =
            &ledger_map.shared->processes[2 + any() % (LEDGER_PROCESSES - 2)];
        process->pid = (uint32_t)any();
        process->starttime = any();
        atomic_store(&process->watched, (uint32_t)any());
        atomic_store(&process->lack, (uint32_t)any());
        atomic_store(&process->state, (uint32_t)any());
    }
    ledger_map.shared->process_count = (uint32_t)any();
}

static void do_all_as_agent(void)
{
    struct ledger_moments moments = {0};
    uint64_t key, device;
    uint32_t seen = atomic_load(&shared()->rings) - 1;
    bool watched;
    int pid;
    (void)ledger_agent_may_sleep(&moments);
    ledger_agent_all_is_old(&moments);
    (void)ledger_file_moment(&file, &moments);
    ledger_agent_await(&seen);
    for (uint32_t slot = 1; slot < ledger_process_count(); slot++) {
        if (ledger_agent_asked(slot, &pid, &watched) && random() % 64 == 0)
            (void)ledger_agent_watch(slot, pid);
    }
    (void)ledger_agent_watched();
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
        if (ledger_agent_server(place, &key, &device))
            ledger_agent_serve(place, true);
    }
    ledger_agent_give_back();
}

static void do_all_as_writer(void)
{
    uint32_t number = ledger_agent_number();
    int place = ledger_agent_ask(5, 77);
    (void)ledger_agent_watches(number);
    (void)ledger_agent_serves(number, place < 0 ? 0 : (unsigned)place, 5);
    ledger_agent_stir();
    ledger_agent_lack(LEDGER_AGENT_LACKS_PLACE, 0);
    (void)ledger_agent_may_start();
    (void)ledger_file_has_strays(&file);
    (void)ledger_file_has_sent_strays(&file);
}

UNIT_TEST(what_should_not_be_there_ends_no_process_and_keeps_none)
{
    attach(&file, 802);
    srandom(7);
    be_agent();
    for (int i = 0; i < ROUNDS; i++) {
        spoil();
        do_all_as_agent();
        do_all_as_writer();
    }
    ledger_agent_resign();
    memset(ledger_map.shared->processes + 2, 0,
           sizeof(struct ledger_process) * (LEDGER_PROCESSES - 2));
    ledger_map.shared->process_count = 2;
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
