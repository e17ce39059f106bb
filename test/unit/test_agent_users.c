/* As whom the agent sends: as what the kernel has told it of a process, and nothing else. */
#include <grp.h>

#include "dirty_scene.h"
#include "file/vouch.h"
#include "ledger/agent.h"
#include "ledger/care.h"
#include "ledger/store/users.h"

enum { NOBODY = 65534, FIRST = 61701, SECOND = 61702, THIRD = 61703 };

static struct ledger_user user_of(uint32_t uid, uint32_t gid, uint32_t group)
{
    return (struct ledger_user){.uid = uid, .gid = gid, .group_count = 1, .groups = {group}};
}

static bool is_vouched(uint32_t uid, uint32_t gid, uint32_t group)
{
    struct ledger_user user = user_of(uid, gid, group);
    uint32_t number = ledger_user_number(&user);
    must(number != 0);
    return ledger_agent_vouches(ledger_agent_number(), number);
}

static void become(gid_t gid, gid_t group)
{
    must(setgroups(1, &group) == 0);
    must(setresgid(gid, gid, gid) == 0);
    must(setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

static int shows_itself(void *unused)
{
    (void)unused;
    become(SECOND, THIRD);
    file_vouch_show();
    return 0;
}

/* All that anybody who can write to the registry may ask for. */
static void ask_for_all(void)
{
    (void)is_vouched(NOBODY, FIRST, FIRST);
    (void)is_vouched(NOBODY, FIRST, THIRD);
    (void)is_vouched(NOBODY, SECOND, THIRD);
    (void)is_vouched(NOBODY, 0, FIRST);
    (void)is_vouched(0, FIRST, FIRST);
    (void)is_vouched(0, 0, 0);
}

static void expect_nothing_forged(void)
{
    must(is_vouched(NOBODY, FIRST, FIRST));
    must(!is_vouched(NOBODY, FIRST, THIRD));
    must(!is_vouched(NOBODY, 0, FIRST));
    must(!is_vouched(0, FIRST, FIRST));
    must(!is_vouched(0, 0, 0));
}

static int listening[2], shown[2]; /* pipes */

static void tell(int fd)
{
    must(write(fd, "", 1) == 1);
}

static void hear(int fd)
{
    char byte;
    must(read(fd, &byte, 1) == 1);
}

static int is_agent(void *unused)
{
    (void)unused;
    become(FIRST, FIRST);
    must(ledger_registry_open(UNCOMMITTED_MAX, 0) == 0);
    must(ledger_agent_become() == 0);
    ledger_agent_ready();
    int socket = file_vouch_listen();
    must(socket >= 0);
    ask_for_all();
    file_vouch_all(socket);
    expect_nothing_forged();
    must(!is_vouched(NOBODY, SECOND, THIRD));
    tell(listening[1]);
    hear(shown[0]);
    file_vouch_all(socket);
    expect_nothing_forged();
    must(is_vouched(NOBODY, SECOND, THIRD));
    must(file_vouch_is_agent());
    file_vouch_deafen(socket);
    ledger_agent_resign();
    return 0;
}

UNIT_TEST(it_vouches_for_whom_the_kernel_has_shown_and_for_nobody_else)
{
    if (getuid() != 0)
        skip();
    assert_int_equal(chown(test_directory, NOBODY, FIRST), 0);
    assert_int_equal(pipe(listening) | pipe(shown), 0);
    pid_t agent = start_child(is_agent, NULL);
    close(listening[1]); /* should it fail */
    hear(listening[0]);
    assert_int_equal(run_child(shows_itself, NULL), 0);
    tell(shown[1]);
    assert_int_equal(end_child(agent), 0);
    assert_int_equal(chown(test_directory, 0, 0), 0);
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
