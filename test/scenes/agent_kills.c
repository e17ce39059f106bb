/* See agent_kills.h. */
#include "agent_kills.h"
#include "mount/registry.h"

unsigned round_number, kills;

/* ---- the agent ---- */

void be_agent(void)
{
    _exit(fd_care(false) == 0 ? 0 : 1);
}

/* A process that stops before it begins. */
static pid_t fork_traced(void (*body)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    sigset_t signals;
    sigfillset(&signals);
    sigprocmask(SIG_SETMASK, &signals, NULL); /* as the agent has it */
    CHECK_EQUAL(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* a server ends when nobody has its socket */
    traced_begin();
    CHECK_EQUAL(log_open(getenv("DIRECTNFS_LOG")), 0);
    body();
    _exit(0);
}

struct traced start_traced(void (*body)(void), const struct place *place)
{
    struct traced traced = traced_of(fork_traced(body));
    traced_set_trap(&traced, place->function);
    traced_go(traced.pid, 0);
    return traced;
}

pid_t start_other(void)
{
    pid_t pid = fork_traced(be_agent);
    struct traced agent = traced_of(pid);
    CHECK_EQUAL(ptrace(PTRACE_DETACH, pid, 0, 0), 0);
    close(agent.memory);
    return pid;
}

void run_other(void)
{
    pid_t pid = start_other();
    CHECK_EQUAL(kill(pid, SIGTERM), 0);
    scene_wait(pid);
}

/* ---- a process that writes, and lives ---- */

void await_step(int step, unsigned number)
{
    for (int i = 0; atomic_load(&scene.shared->steps[step]) < (int)number; i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

void tell_step(int step)
{
    atomic_store(&scene.shared->steps[step], (int)round_number);
}

/* Its own sender is not to send it. */
static void put_off(struct file_open *open)
{
    atomic_store(&open->inode->behind_due_ns, UINT64_MAX);
}

const unsigned lives[] = {1, SHARED, 6}, dies[] = {2, 9, 11};

void put_round(int fd, const unsigned blocks[3])
{
    struct file_open *open = engine_begin(fd);
    engine_is_cared_for(open);
    for (unsigned i = 0; i < 3; i++) {
        engine_put(fd, BLOCK, blocks[i] * BLOCK, round_number);
        put_off(open);
    }
    engine_end(open);
}

/* Has the agent see to the file, as if somebody had died. */
static void make_owed(int fd)
{
    struct file_open *open = engine_begin(fd);
    ledger_file_owes(&open->inode->entry, true);
    ledger_agent_owes();
    engine_end(open);
}

bool shares;

bool asks;

bool restarts;

void lose_power(void)
{
    if (restarts)
        atomic_store(&scene.control->power_after[NFS_PROC_WRITE], 3);
}

void writes_and_lives(void)
{
    int fd = engine_adopt("f", O_RDWR);
    for (round_number = 1;; round_number++) {
        await_step(WRITE, round_number);
        if (atomic_load(&scene.shared->steps[END]))
            return;
        alarm(SCENE_LIMIT_S);
        put_round(fd, lives);
        if (asks)
            make_owed(fd);
        tell_step(WROTE);
        await_step(SYNC, round_number);
        int result = engine_fsync(fd);
        CHECK(result == 0 || (shares && result == -EIO));
        tell_step(SYNCED);
    }
}

void end_it(pid_t pid)
{
    tell_step(END);
    round_number++;
    tell_step(WRITE);
    scene_wait(pid);
}

/* ---- one that dies ---- */

void writes_and_dies(void)
{
    int fd = engine_adopt("f", O_RDWR);
    if (shares)
        await_step(WROTE, round_number);
    put_round(fd, dies);
    if (shares) /* into a record of the other */
        engine_put(fd, PIECE, PIECE_AT, round_number + 1);
    tell_step(DYING);
    kill(getpid(), SIGKILL);
}

/* ---- what is to be ---- */

uint8_t kept[BLOCKS * BLOCK];

static unsigned take_strays_away(void)
{
    static uint8_t bytes[RUN_STRAY_PIECE];
    static char text[RUN_STRAY_TEXT];
    struct run_stray_file file;
    struct run_stray stray;
    uint64_t offset;
    ssize_t length;
    unsigned count = 0;
    char path[SCENE_PATH];
    memset(kept, 0, sizeof(kept));
    snprintf(path, sizeof(path), "%s/run", scene.top);
    DIR *directory = opendir(path);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (strncmp(entry->d_name, RUN_STRAY_PREFIX, strlen(RUN_STRAY_PREFIX)) != 0)
            continue;
        int result = run_stray_read(&file, dirfd(directory), entry->d_name, text, &stray);
        if (result == 0) {
            while ((length = run_stray_next(&file, &offset, bytes)) > 0)
                memcpy(kept + offset, bytes, (size_t)length);
            run_stray_close(&file);
            count++;
        }
        unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
    return count;
}

static bool is_of_round(const uint8_t *data, unsigned block)
{
    uint8_t expected[BLOCK];
    data_fill(expected, BLOCK, block * BLOCK, round_number);
    return memcmp(data, expected, BLOCK) == 0;
}

bool is_at_server(unsigned block)
{
    char path[SCENE_PATH];
    uint8_t data[BLOCK];
    scene_file_path(path, "f");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQUAL(pread(fd, data, BLOCK, block * BLOCK), BLOCK);
    close(fd);
    return is_of_round(data, block);
}

static bool is_kept(unsigned block)
{
    return is_of_round(kept + block * BLOCK, block);
}

void look_at_invariants(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* not another test in this process */
    CHECK_EQUAL(mount_registry_open(), 0);
    ledger_process_sweep(0);
    check_invariants();
    CHECK_EQUAL(ledger_uncommitted(), 0);
}

void opens_other(void)
{
    engine_adopt("other", O_RDONLY);
}

void expect_all_at_server(const unsigned blocks[3])
{
    for (unsigned i = 0; i < 3; i++)
        CHECK(is_at_server(blocks[i]));
    CHECK_EQUAL(take_strays_away(), 0);
    CHECK_EQUAL(scene_logged("are not sent"), 0);
}

void expect_somewhere(const unsigned blocks[3])
{
    static unsigned lines;
    unsigned aside = take_strays_away(), before = lines;
    for (unsigned i = 0; i < 3; i++)
        CHECK(is_at_server(blocks[i]) || is_kept(blocks[i]));
    lines = scene_logged("are not sent");
    CHECK(aside == 0 || lines > before); /* who is killed may set them aside again */
}

/* ---- kills ---- */

static unsigned stride_of(const struct place *place)
{
    const char *stride = getenv("DIRECTNFS_TEST_STRIDE");
    return stride ? (unsigned)atoi(stride) : place->stride;
}

static bool is_wanted(const struct place *place)
{
    const char *name = getenv("TEST_PLACE");
    return !name || strcmp(name, place->name) == 0;
}

enum how kill_at(struct traced *agent, const struct place *place, unsigned instructions)
{
    pid_t thread = traced_wait(agent, place->times);
    bool beyond = thread && traced_step(agent, thread, instructions);
    traced_kill(agent);
    kills++;
    return !thread ? VOID : beyond ? BEYOND : KILLED;
}

/* The agent may have had nothing to do any more, on a machine that stands still for long: then it
 * is done again. */
enum { VOIDS = 5 }; /* one behind the other */

static void say_place(const struct place *place, unsigned count, unsigned instructions)
{
    if (getenv("DIRECTNFS_TEST_STRIDE"))
        fprintf(stderr, "%s, time %u: %u kills, %u instructions\n", place->name, place->times,
                count, instructions);
}

static void kill_within_one(const struct place *place,
                            enum how (*round)(const struct place *, unsigned))
{
    unsigned voids = 0, before = kills, at = 0;
    enum how how = KILLED;
    while (how != BEYOND && voids < VOIDS && (place->most == 0 || at < place->most)) {
        round_number++;
        alarm(2 * SCENE_LIMIT_S); /* for this one: there may be many */
        how = round(place, at);
        voids = how == VOID ? voids + 1 : 0;
        if (how != VOID)
            at += stride_of(place);
    }
    CHECK(voids < VOIDS);
    say_place(place, kills - before, at);
}

void kill_within(const struct place *places, unsigned count,
                 enum how (*round)(const struct place *, unsigned))
{
    for (unsigned i = 0; i < count; i++) {
        if (is_wanted(&places[i]))
            kill_within_one(&places[i], round);
    }
}

void prepare(void)
{
    scene.agent = -1; /* there will be one */
    scene_configure("write_behind_max = 16777216; failover_hold = 0.05;");
    disk_make("f", BLOCKS * BLOCK, 0);
    disk_make("other", BLOCK, 0);
}
