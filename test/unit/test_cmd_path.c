/* What `directnfs path` makes of what processes show, of what was said, and of the nfstab. */
#include <stdlib.h>
#include <string.h>

#include "../../src/cmd/index.c"
#include "../../src/cmd/path/list.c"
#include "unit.h"

/* Nothing is said in these tests. */
int cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM])
{
    (void)command, (void)visit, (void)argument, (void)problem;
    fail();
    return 0;
}

enum { USER = 100, OTHER = 200 };

static struct directnfs_stats first, second;
static struct directnfs_stats *processes[] = {&first, &second};
static struct cmd_offline said[2];
static struct cmd_snapshot snapshot;
static struct cmd_path_list list;

static struct directnfs_path_stats *add_path(struct directnfs_stats *stats, const char *path,
                                             const char *local, unsigned state)
{
    struct directnfs_path_stats *added = &stats->paths[stats->path_count++];
    added->slot = DIRECTNFS_SLOT_USED;
    added->state = state;
    strcpy(added->path, path);
    strcpy(added->local, local);
    return added;
}

static int begin(void **state)
{
    (void)state;
    snapshot =
        (struct cmd_snapshot){.stats = {.processes = processes, .count = 2}, .offline = said};
    for (int i = 0; i < 2; i++) {
        memset(processes[i], 0, sizeof(*processes[i]));
        processes[i]->uid = USER;
        processes[i]->server_count = 1;
        processes[i]->servers[0].slot = DIRECTNFS_SLOT_USED;
        strcpy(processes[i]->servers[0].name, "nas");
    }
    memset(said, 0, sizeof(said));
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(list.paths);
    list = (struct cmd_path_list){0};
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, begin, end)

static void say_offline(uid_t user, const char *path, const char *local)
{
    struct cmd_offline *one = &said[snapshot.offline_count++];
    one->user = user;
    one->path.since_ns = 5;
    strcpy(one->path.server, "nas");
    strcpy(one->path.peer, path);
    strcpy(one->path.local, local);
}

static const struct cmd_path *the(const char *path, const char *local, uid_t user)
{
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.paths[i].path, path) == 0 && strcmp(list.paths[i].local, local) == 0 &&
            list.paths[i].user == user)
            return &list.paths[i];
    fail_msg("no path %s from '%s' of %u", path, local, user);
    return NULL;
}

static void state_is(const struct cmd_path *path, const char *expected, unsigned expected_count)
{
    unsigned count;
    assert_string_equal(cmd_path_state(path, &count), expected);
    assert_int_equal(count, expected_count);
}

TEST(the_worst_state_of_all_processes_is_shown)
{
    add_path(&first, "a", "", DIRECTNFS_CHANNEL_UP)->latency.calls = 3;
    struct directnfs_path_stats *down = add_path(&second, "a", "", DIRECTNFS_CHANNEL_DOWN);
    down->downs = 2;
    down->latency.calls = 4;
    strcpy(down->reason, "timed out");
    add_path(&first, "b", "", DIRECTNFS_CHANNEL_UP);
    strcpy(add_path(&second, "b", "", DIRECTNFS_CHANNEL_UP)->reason, "was down 2.0 s: reset");
    add_path(&first, "c", "", DIRECTNFS_CHANNEL_DOWN)->downs = 1;
    add_path(&second, "c", "", DIRECTNFS_CHANNEL_PROBING);
    add_path(&first, "d", "", DIRECTNFS_CHANNEL_UP);
    strcpy(add_path(&second, "d", "", DIRECTNFS_CHANNEL_PROBING)->reason, "not needed yet");
    first.channel_count = 2;
    for (int i = 0; i < 2; i++) {
        first.channels[i].slot = DIRECTNFS_SLOT_USED;
        first.channels[i].state = DIRECTNFS_CHANNEL_UP;
        first.channels[i].outstanding = 7;
        strcpy(first.channels[i].path, i ? "b" : "a");
    }

    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    assert_int_equal(list.count, 4);
    state_is(the("d", "", USER), "up", 1); /* who does not need it says nothing of it */
    assert_string_equal(the("d", "", USER)->reason, "");
    const struct cmd_path *a = the("a", "", USER);
    state_is(a, "down", 1);
    assert_string_equal(a->server, "nas");
    assert_string_equal(a->reason, "timed out");
    assert_int_equal(a->latency.calls, 7);
    assert_int_equal(a->outstanding, 7);
    assert_int_equal(a->channels, 1);
    assert_int_equal(a->downs, 2);
    assert_true(cmd_path_usable(a)); /* one process has it */
    state_is(the("b", "", USER), "up", 2);
    assert_string_equal(the("b", "", USER)->reason, "was down 2.0 s: reset");
    state_is(the("c", "", USER), "down", 1);
    assert_false(cmd_path_usable(the("c", "", USER))); /* who has not needed it knows no better */
}

/* Since the first of the processes that see it, whatever others see. */
TEST(a_path_is_silent_since_the_first_process_sees_it)
{
    struct directnfs_path_stats *path = add_path(&first, "a", "", DIRECTNFS_CHANNEL_SILENT);
    path->since_ns = 70;
    path->oldest_ns = 7;
    strcpy(path->reason, "calls wait, no reply");
    path = add_path(&second, "a", "", DIRECTNFS_CHANNEL_SILENT);
    path->since_ns = 60;
    path->oldest_ns = 6;
    add_path(&first, "b", "", DIRECTNFS_CHANNEL_UP)->since_ns = 90;
    add_path(&second, "b", "", DIRECTNFS_CHANNEL_SILENT)->since_ns = 80;
    add_path(&first, "c", "", DIRECTNFS_CHANNEL_SILENT)->since_ns = 80;
    add_path(&second, "c", "", DIRECTNFS_CHANNEL_UP)->since_ns = 90;
    add_path(&first, "d", "", DIRECTNFS_CHANNEL_UP)->since_ns = 80;
    add_path(&second, "d", "", DIRECTNFS_CHANNEL_UP)->since_ns = 90;
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    state_is(the("a", "", USER), "silent", 2);
    assert_int_equal(the("a", "", USER)->since_ns, 60);
    assert_int_equal(the("a", "", USER)->oldest_ns, 6);
    assert_string_equal(the("a", "", USER)->reason, "calls wait, no reply");
    state_is(the("b", "", USER), "silent", 1);
    assert_int_equal(the("b", "", USER)->since_ns, 80);
    state_is(the("c", "", USER), "silent", 1);
    assert_int_equal(the("c", "", USER)->since_ns, 80);
    /* Who began later knows no better. */
    assert_int_equal(the("d", "", USER)->since_ns, 80);
    state_is(the("d", "", USER), "up", 2);
    end(NULL);
    strcpy(second.paths[3].reason, "was down 2.0 s: reset");
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    assert_int_equal(the("d", "", USER)->since_ns, 90);
}

TEST(what_ends_first_is_shown_and_how_open_connections_are_protected)
{
    struct directnfs_path_stats *path = add_path(&first, "a", "", DIRECTNFS_CHANNEL_UP);
    path->ticket_ends_ns = 70;
    path->peer_ends_ns = 700;
    path = add_path(&second, "a", "", DIRECTNFS_CHANNEL_UP);
    path->ticket_ends_ns = 60;
    path->peer_ends_ns = 800;
    first.channel_count = 3;
    for (int i = 0; i < 3; i++)
        first.channels[i] = (struct directnfs_channel_stats){
            .slot = DIRECTNFS_SLOT_USED,
            .state = i < 2 ? DIRECTNFS_CHANNEL_UP : DIRECTNFS_CHANNEL_DOWN,
            .security = 1u << i,
            .path = "a"};
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    assert_int_equal(the("a", "", USER)->ticket_ends_ns, 60);
    assert_int_equal(the("a", "", USER)->peer_ends_ns, 700);
    assert_int_equal(the("a", "", USER)->security,
                     DIRECTNFS_SECURITY_SYS | DIRECTNFS_SECURITY_KRB5);
}

TEST(the_time_is_that_of_the_state_that_is_shown)
{
    struct directnfs_path_stats *down = add_path(&first, "a", "", DIRECTNFS_CHANNEL_DOWN);
    down->since_ns = 50;
    strcpy(down->reason, "timed out");
    add_path(&second, "a", "", DIRECTNFS_CHANNEL_UP)->since_ns = 90;
    add_path(&first, "b", "", DIRECTNFS_CHANNEL_PROBING)->since_ns = 50;
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    state_is(the("a", "", USER), "down", 1);
    assert_int_equal(the("a", "", USER)->since_ns, 50);
    state_is(the("b", "", USER), "unused", 1);
}

TEST(a_path_that_was_never_tried_may_be_used)
{
    add_path(&first, "a", "", DIRECTNFS_CHANNEL_DOWN);
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    state_is(the("a", "", USER), "down", 1);
    assert_true(cmd_path_usable(the("a", "", USER)));
}

TEST(a_path_drains_while_calls_are_under_way)
{
    add_path(&first, "a", "l1", DIRECTNFS_CHANNEL_UP);
    add_path(&second, "a", "l1", DIRECTNFS_CHANNEL_OFFLINE);
    add_path(&second, "a", "l2", DIRECTNFS_CHANNEL_UP);
    first.channel_count = 1;
    first.channels[0] = (struct directnfs_channel_stats){
        .slot = DIRECTNFS_SLOT_USED, .outstanding = 1, .path = "a", .local = "l1"};
    say_offline(USER, "a", "l1");
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    state_is(the("a", "l1", USER), "draining", 1);
    state_is(the("a", "l2", USER), "up", 1);
    assert_false(cmd_path_usable(the("a", "l1", USER)));
    end(NULL);

    first.channels[0].outstanding = 0;
    said[0].path.local[0] = '\0'; /* every local address */
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    assert_int_equal(list.count, 2);
    state_is(the("a", "l1", USER), "offline", 1);
    state_is(the("a", "l2", USER), "offline", 0);
}

TEST(what_is_said_to_one_user_is_not_said_to_another)
{
    second.uid = OTHER;
    add_path(&first, "a", "", DIRECTNFS_CHANNEL_UP);
    add_path(&second, "a", "", DIRECTNFS_CHANNEL_UP);
    say_offline(OTHER, "a", "");
    say_offline(OTHER, "gone", "");
    assert_true(cmd_path_list_make(&list, &snapshot, NULL));
    assert_int_equal(list.count, 3);
    state_is(the("a", "", USER), "up", 1);
    state_is(the("a", "", OTHER), "offline", 0);
    state_is(the("gone", "", OTHER), "offline", 0);
    assert_int_equal(the("gone", "", OTHER)->since_ns, 5);
}

TEST(paths_of_the_nfstab_are_there_without_processes)
{
    struct conf_nfstab tab = {0};
    struct conf_diagnostics mistakes = {0};
    static const char text[] = "server: nas\npath: b\nlocal: l\npath: a\nexport: /x mount: /x\n"
                               "server: idle\npath: c\nexport: /y mount: /y\n";
    assert_int_equal(conf_nfstab_parse(&tab, "nfstab", text, strlen(text), &mistakes), 0);
    add_path(&first, "a", "", DIRECTNFS_CHANNEL_UP);
    say_offline(USER, "b", "");
    assert_true(cmd_path_list_make(&list, &snapshot, &tab));
    assert_int_equal(list.count, 3);
    assert_true(the("a", "", USER)->configured);
    state_is(the("b", "l", USER), "offline", 0); /* with the processes of the same server */
    state_is(the("c", "", CMD_NO_USER), "unused", 0);
    conf_nfstab_free(&tab);
    conf_diagnostics_free(&mistakes);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
