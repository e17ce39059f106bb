/*
 * The agent is killed at single instructions: as it becomes the agent, sees to what a process left
 * that lives or is dead, and resigns. What a living process wrote is at the server, and nowhere
 * else, once its fsync has said so; what a dead one wrote is there, or set aside, after the next
 * contact.
 */
#ifdef __x86_64__
#include "agent_kills.h"
#include "ledger/care.h"

/* It may have to wait for an agent. */
static void await_writer(void)
{
    if (atomic_load(&scene.shared->steps[WROTE]) == (int)round_number)
        return;
    pid_t other = start_other();
    await_step(WROTE, round_number);
    scene_kill(other);
}

static void sync_and_look(void)
{
    await_writer();
    tell_step(SYNC);
    await_step(SYNCED, round_number);
    server_do(FILE_SERVER_LOSE_POWER); /* what is not committed */
    expect_all_at_server(lives);
    scene_run(look_at_invariants);
}

static enum how living(const struct place *place, unsigned instructions)
{
    struct traced agent = start_traced(be_agent, place);
    lose_power();
    tell_step(WRITE);
    enum how how = kill_at(&agent, place, instructions);
    sync_and_look();
    return how;
}

SCENE_TEST(as_it_sends_what_a_process_left_that_lives)
{
    static const struct place places[] = {
        PLACE(ledger_dirty_take, 1), PLACE(ledger_dirty_take, 2), PLACE(ledger_dirty_take, 4),
        PLACE(ledger_writes_end, 1), PLACE(ledger_writes_end, 3), PLACE(ledger_commit_begin, 1),
        PLACE(ledger_commit_end, 1)};
    prepare();
    asks = true;
    pid_t pid = scene_start(writes_and_lives);
    kill_within(places, COUNT(places), living);
    end_it(pid);
}

SCENE_TEST(as_it_writes_again_what_a_server_lost_of_one_that_lives)
{
    static const struct place places[] = {
        PLACE(ledger_commit_end, 1), PLACE(ledger_replay_next, 1),  PLACE(ledger_replay_next, 2),
        PLACE(ledger_writes_end, 5), PLACE(ledger_commit_begin, 2), PLACE(ledger_commit_end, 2)};
    prepare();
    asks = restarts = true;
    pid_t pid = scene_start(writes_and_lives);
    kill_within(places, COUNT(places), living);
    end_it(pid);
}

/* The agent before it was killed. */
static enum how begins(const struct place *place, unsigned instructions)
{
    pid_t other = start_other();
    tell_step(WRITE);
    await_step(WROTE, round_number);
    scene_kill(other);
    struct traced agent = start_traced(be_agent, place);
    enum how how = kill_at(&agent, place, instructions);
    sync_and_look();
    return how;
}

SCENE_TEST(as_it_becomes_the_agent_while_a_process_lives)
{
    static const struct place places[] = {
        PLACE(ledger_agent_become, 1), PART(ledger_agent_ready, 1, 701, 2000),
        PLACE(ledger_agent_watch, 1), PLACE(ledger_agent_vouch, 1), PLACE(ledger_agent_serve, 1)};
    prepare();
    pid_t pid = scene_start(writes_and_lives);
    kill_within(places, COUNT(places), begins);
    end_it(pid);
}

static void writes_and_syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    put_round(fd, lives);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static enum how ends(const struct place *place, unsigned instructions)
{
    struct traced agent = start_traced(be_agent, place);
    if (place->function == (const void *)ledger_agent_resign)
        kill(agent.pid, SIGTERM);
    enum how how = kill_at(&agent, place, instructions);
    pid_t other = start_other();
    scene_run(writes_and_syncs);
    scene_kill(other);
    server_do(FILE_SERVER_LOSE_POWER);
    expect_all_at_server(lives);
    scene_run(look_at_invariants);
    return how;
}

SCENE_TEST(as_it_gives_back_places_and_resigns)
{
    static const struct place places[] = {PART(ledger_agent_give_back, 2, 701, 2000),
                                          PLACE(ledger_agent_resign, 1)};
    prepare();
    kill_within(places, COUNT(places), ends);
}

/* ---- of the dead ---- */

static void expect_end_by_kill(pid_t pid)
{
    int status;
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
}

static void contact_and_look(void)
{
    if (round_number % 2)
        run_other();
    else
        scene_run(opens_other);
    server_do(FILE_SERVER_LOSE_POWER);
    expect_somewhere(dies);
    scene_run(look_at_invariants);
}

static enum how dead(const struct place *place, unsigned instructions)
{
    struct traced agent = start_traced(be_agent, place);
    lose_power();
    pid_t writer = scene_start(writes_and_dies);
    enum how how = kill_at(&agent, place, instructions);
    pid_t other = atomic_load(&scene.shared->steps[DYING]) < (int)round_number ? start_other() : 0;
    expect_end_by_kill(writer);
    if (other)
        scene_kill(other);
    contact_and_look();
    return how;
}

SCENE_TEST(as_it_sends_what_a_process_left_that_is_dead)
{
    static const struct place places[] = {
        PLACE(ledger_commits_of_dead, 1), PLACE(ledger_dirty_take, 1),
        PLACE(ledger_dirty_take, 2),      PLACE(ledger_writes_end, 1),
        PLACE(ledger_writes_end, 3),      PLACE(ledger_commit_begin, 1),
        PLACE(ledger_commit_end, 1)};
    prepare();
    kill_within(places, COUNT(places), dead);
}

SCENE_TEST(as_it_writes_again_what_a_server_lost_of_a_dead_one)
{
    static const struct place places[] = {
        PLACE(ledger_commit_end, 1), PLACE(ledger_replay_next, 1),  PLACE(ledger_replay_next, 2),
        PLACE(ledger_writes_end, 5), PLACE(ledger_commit_begin, 2), PLACE(ledger_commit_end, 2)};
    prepare();
    restarts = true;
    kill_within(places, COUNT(places), dead);
}

static bool is_byte_somewhere(const uint8_t *server, uint64_t at, uint8_t byte)
{
    return server[at] == byte || kept[at] == byte;
}

/* The block that both wrote. */
static void expect_shared_somewhere(void)
{
    char path[SCENE_PATH];
    uint8_t server[BLOCKS * BLOCK], expected[BLOCK];
    const uint64_t at = SHARED * BLOCK;
    scene_file_path(path, "f");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQUAL(pread(fd, server, sizeof(server), 0), sizeof(server));
    close(fd);
    data_fill(expected, BLOCK, at, round_number);
    data_fill(expected + PIECE_AT - at, PIECE, PIECE_AT, round_number + 1);
    for (uint64_t i = 0; i < BLOCK; i++)
        CHECK(is_byte_somewhere(server, at + i, expected[i]));
}

static enum how both(const struct place *place, unsigned instructions)
{
    struct traced agent = start_traced(be_agent, place);
    tell_step(WRITE);
    pid_t writer = scene_start(writes_and_dies);
    enum how how = kill_at(&agent, place, instructions);
    await_writer();
    pid_t other = atomic_load(&scene.shared->steps[DYING]) < (int)round_number ? start_other() : 0;
    expect_end_by_kill(writer);
    if (other)
        scene_kill(other);
    tell_step(SYNC);
    await_step(SYNCED, round_number);
    scene_run(opens_other);
    server_do(FILE_SERVER_LOSE_POWER);
    expect_somewhere(dies);
    expect_shared_somewhere();
    CHECK(is_at_server(lives[0]) && is_at_server(lives[2]));
    scene_run(look_at_invariants);
    return how;
}

SCENE_TEST(as_it_sends_what_two_left_in_one_file_of_whom_one_lives)
{
    static const struct place places[] = {
        PLACE(ledger_dirty_take, 1), PLACE(ledger_dirty_take, 4),   PLACE(ledger_writes_end, 1),
        PLACE(ledger_writes_end, 3), PLACE(ledger_commit_begin, 1), PLACE(ledger_commit_end, 1)};
    prepare();
    shares = true;
    pid_t pid = scene_start(writes_and_lives);
    kill_within(places, COUNT(places), both);
    end_it(pid);
}

/* ---- the writer is killed ---- */

static void writes_and_fsyncs(void)
{
    file_start();
    int fd = engine_adopt("f", O_RDWR);
    put_round(fd, dies);
    CHECK_EQUAL(engine_fsync(fd), 0);
    file_finish();
}

static bool with_agent; /* that is killed as well */

static enum how writer(const struct place *place, unsigned instructions)
{
    pid_t other = start_other();
    struct traced traced = start_traced(writes_and_fsyncs, place);
    enum how how = kill_at(&traced, place, instructions);
    if (with_agent) {
        scene_kill(other);
        contact_and_look();
        return how;
    }
    CHECK_EQUAL(kill(other, SIGTERM), 0); /* it ends once all is sent */
    scene_wait(other);
    server_do(FILE_SERVER_LOSE_POWER);
    expect_all_at_server(dies);
    scene_run(look_at_invariants);
    return how;
}

static const struct place fsync_places[] = {
    PLACE(ledger_dirty_take, 1), PLACE(ledger_dirty_take, 2), PLACE(ledger_writes_end, 1),
    PLACE(ledger_commit_begin, 1), PLACE(ledger_commit_end, 1)};

SCENE_TEST(as_a_writer_fsyncs_and_is_killed_instead)
{
    prepare();
    kill_within(fsync_places, COUNT(fsync_places), writer);
}

SCENE_TEST(or_with_the_agent)
{
    prepare();
    with_agent = true;
    kill_within(fsync_places, COUNT(fsync_places), writer);
}

/* ---- strays ---- */

static void writes_and_waits(void)
{
    put_round(engine_adopt("f", O_RDWR), dies);
    tell_step(WROTE);
    pause();
}

/* Its agent is dead, too. */
static void leave_strays(void)
{
    pid_t other = start_other(), writer = scene_start(writes_and_waits);
    await_step(WROTE, round_number);
    scene_kill(other);
    scene_kill(writer);
}

/* Another host writes there: its ctime is another one. */
static void change_file(void)
{
    char path[SCENE_PATH];
    struct stat before, now;
    scene_file_path(path, "f");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_EQUAL(fstat(fd, &before), 0);
    do {
        CHECK_EQUAL(pwrite(fd, "", 1, 0), 1);
        CHECK_EQUAL(fstat(fd, &now), 0);
    } while (now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    close(fd);
}

static void visits(void)
{
    file_start();
    engine_adopt("other", O_RDONLY);
    file_finish();
}

/* The agent that begins, or another process, is killed as it sees to them. */
static enum how kill_who_settles(const struct place *place, unsigned instructions)
{
    struct traced traced = start_traced(round_number % 2 ? be_agent : visits, place);
    return kill_at(&traced, place, instructions);
}

static enum how proven(const struct place *place, unsigned instructions)
{
    leave_strays();
    enum how how = kill_who_settles(place, instructions);
    contact_and_look();
    return how;
}

SCENE_TEST(as_strays_are_sent)
{
    static const struct place places[] = {
        PLACE(ledger_file_prove_strays, 1), PLACE(ledger_file_mark_strays, 1),
        PLACE(ledger_dirty_take, 1),        PLACE(ledger_writes_end, 1),
        PLACE(ledger_writes_end, 3),        PLACE(ledger_file_end_strays, 1)};
    prepare();
    kill_within(places, COUNT(places), proven);
}

static enum how changed(const struct place *place, unsigned instructions)
{
    leave_strays();
    change_file();
    enum how how = kill_who_settles(place, instructions);
    contact_and_look();
    for (unsigned i = 0; i < 3; i++)
        CHECK(!is_at_server(dies[i]));
    return how;
}

SCENE_TEST(as_strays_are_set_aside)
{
    static const struct place places[] = {PART(ledger_file_prove_strays, 1, 3001, 0),
                                          PLACE(ledger_file_mark_strays, 1),
                                          PLACE(ledger_file_stray, 1),
                                          PART(run_stray_begin, 1, 2503, 0),
                                          PLACE(run_stray_piece, 1),
                                          PLACE(run_stray_end, 1),
                                          PLACE(ledger_file_drop_strays, 1)};
    prepare();
    kill_within(places, COUNT(places), changed);
}

int main(void)
{
    if (!TRACES || getenv("DIRECTNFS_TEST_SHORT"))
        return 0;
    return unit_run(NULL, NULL);
}
#else
int main(void)
{
    return 0; /* it knows how to stop a thread of x86-64 only */
}
#endif
