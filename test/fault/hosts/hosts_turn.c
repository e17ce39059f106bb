/* See hosts_turn.h. */
#include "hosts_turn.h"

const char *const end_names[END_COUNT] = {
#define X(name) #name,
    ENDS
#undef X
};

/* How often each is chosen. */
static const unsigned end_weights[END_COUNT] = {2, 2, 2, 2, 2, 3, 2, 5, 1, 1, 3, 1, 1};

struct options options = {.seed = 1, .rounds = 20, .losses = true};

struct plan plan;

struct turn *turn;

enum come_back backs[HOSTS];

bool agent_died, lost_power, disturbed;

static pid_t stopped;

unsigned losses, stalls, checks, arrivals, visits, ends_done[END_COUNT];

unsigned choose(unsigned least, unsigned most)
{
    return least + (unsigned)(random_next(&plan.random) >> 16) % (most - least + 1);
}

static void ask(const char *socket, const char *format, unsigned long long number, char *answer)
{
    char command[64], text[ANSWER_MOST];
    snprintf(command, sizeof command, format, number);
    if (!control_ask(socket, command, answer ? answer : text))
        die("`%s`: %s", command, answer ? answer : text);
}

/* ---- what the kernel sees ---- */

static bool check_files(const uint32_t least[FILES][BLOCKS_MOST], const char *when)
{
    static unsigned char bytes[BLOCK_MOST];
    checks++;
    for (unsigned file = 0; file < FILES; file++) {
        unsigned size = files_of_hosts[file].size;
        for (unsigned block = 0; block < files_of_hosts[file].count; block++) {
            if (pread(files[file], bytes, size, (off_t)block * size) != (ssize_t)size)
                failed("LOST: %s: file %s ends before block %u", when, files_of_hosts[file].name,
                       block);
            else if (block_versions(bytes, file, block).least >= least[file][block] ||
                     !is_overtaken(file, block))
                block_check(bytes, file, block, least[file][block], when);
            if (atomic_load(&journal->failed))
                return false;
        }
    }
    return true;
}

static void look(uint32_t synced[FILES][BLOCKS_MOST])
{
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++)
        synced[i / BLOCKS_MOST][i % BLOCKS_MOST] =
            atomic_load(&journal->blocks[i / BLOCKS_MOST][i % BLOCKS_MOST].synced);
}

bool check_now(const char *when)
{
    static uint32_t synced[FILES][BLOCKS_MOST];
    look(synced);
    return check_files(synced, when);
}

/* Programs that warm up ask whether the server has what they wrote. */
static void answer_warm(void)
{
    static int warm = -1;
    char path[512];
    if (warm < 0)
        warm = open(file_path("warm", path), O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < HOSTS * PROGRAMS; i++) {
        struct program *program = &journal->programs[i / PROGRAMS][i % PROGRAMS];
        uint32_t asked = atomic_load(&program->warm);
        uint64_t word = 0;
        if (asked == 0 || asked == atomic_load(&program->at_server) ||
            asked == atomic_load(&program->behind))
            continue;
        bool there = pread(warm, &word, WORD, (off_t)i * WORD) == WORD && word == asked;
        atomic_store(there ? &program->at_server : &program->behind, asked);
    }
}

/* ---- faults ---- */

bool power_loss(const char *when)
{
    static uint32_t synced[FILES][BLOCKS_MOST];
    look(synced);
    ask(options.power, "power-loss %llu", choose(0, 1) ? choose(0, 90) : 0, NULL);
    ask(options.proxy, "all lost", 0, NULL);
    losses++;
    lost_power = true;
    bool right = check_files(synced, when);
    pause_ms(choose(1, 40));
    ask(options.power, "up", 0, NULL);
    return right;
}

/* What a dead host had on its way is at the server, or gone: as when it was fenced. The server does
 * what it has of a connection before it does what it is asked later. */
static void cut_off(unsigned host)
{
    ask(options.proxy, "%llu reset", host + 1ULL, NULL);
    for (unsigned i = 0; i < 8; i++)
        ask(options.power, "counters", 0, NULL);
}

static void stop(pid_t pid)
{
    if (pid > 0 && kill(pid, SIGSTOP) == 0)
        stopped = pid;
}

static void go_on(void)
{
    if (stopped > 0)
        kill(stopped, SIGCONT);
    stopped = 0;
}

static void end_turn_badly(unsigned host)
{
    unsigned some = choose(0, PROGRAMS - 1);
    ends_done[plan.end]++;
    disturbed = disturbed || plan.end != END_calm;
    switch (plan.end) {
    case END_program:
        program_kill(host, some);
        break;
    case END_programs:
        programs_kill(host);
        break;
    case END_agent:
    case END_agent_program:
    case END_agent_first:
        agent_kill(host);
        agent_died = true;
        if (plan.end == END_agent)
            break;
        usleep(choose(0, 2) ? choose(0, 2000) : choose(0, 60000));
        if (plan.end == END_agent_first)
            programs_kill(host);
        else
            program_kill(host, some);
        break;
    case END_programs_first:
        programs_kill(host);
        usleep(choose(0, 8000));
        agent_kill(host);
        agent_died = true;
        break;
    case END_host:
        host_kill(host);
        agent_died = true;
        break;
    case END_stop_agent:
        stop(agent_find(host));
        break;
    case END_stop_agent_kill:
        stop(agent_find(host));
        programs_kill(host);
        pause_ms(choose(0, 100));
        go_on();
        break;
    case END_stop_agent_end:
        stop(agent_find(host));
        programs_kill(host);
        pause_ms(choose(0, 30));
        stopped = 0;
        agent_kill(host);
        agent_died = true;
        break;
    case END_stop_program:
    case END_stop_program_kill:
        stop(hosts[host].programs[some]);
        if (plan.end == END_stop_program)
            break;
        pause_ms(choose(0, 300));
        stopped = 0;
        program_kill(host, some);
        break;
    default:
        break;
    }
}

static bool act(const struct action *action, unsigned host)
{
    switch (action->act) {
    case ACT_END:
        end_turn_badly(host);
        return true;
    case ACT_POWER:
        return power_loss("after the loss of power");
    case ACT_RESET:
        ask(options.proxy, "%llu reset", host + 1ULL, NULL);
        return true;
    case ACT_FREEZE:
        ask(options.proxy, "%llu blackhole", host + 1ULL, NULL);
        pause_ms(choose(20, 120));
        ask(options.proxy, "%llu pass", host + 1ULL, NULL);
        return true;
    case ACT_VISIT:
        visitor_start(1 - host);
        visits++;
        return true;
    }
    return true;
}

/* ---- a turn ---- */

/* Has a program ended that should not? */
static bool programs_live(void)
{
    for (unsigned i = 0; i < HOSTS * PROGRAMS; i++) {
        pid_t *program = &hosts[i / PROGRAMS].programs[i % PROGRAMS];
        int status;
        if (*program > 0 && waitpid(*program, &status, WNOHANG) == *program) {
            *program = 0;
            failed("program %u of host %u ended with status %d%s", i % PROGRAMS, i / PROGRAMS,
                   status, WIFSIGNALED(status) ? " (a signal)" : "");
        }
    }
    return !atomic_load(&journal->failed);
}

static bool all_operated(unsigned host, unsigned operations)
{
    for (unsigned i = 0; i < PROGRAMS; i++) {
        if (hosts[host].programs[i] > 0 &&
            atomic_load(&journal->programs[host][i].operations) < operations)
            return false;
    }
    return true;
}

/* Has any program, be it dead since? */
static bool has_operated(unsigned host)
{
    bool has = false;
    for (unsigned i = 0; i < PROGRAMS; i++)
        has = has || atomic_load(&journal->programs[host][i].operations) > 0;
    return has;
}

static bool all_done(unsigned host)
{
    for (unsigned i = 0; i < PROGRAMS; i++) {
        if (hosts[host].programs[i] > 0 &&
            atomic_load(&journal->programs[host][i].done) != turn->number)
            return false;
    }
    return true;
}

static bool act_all(unsigned host)
{
    for (unsigned i = 0; i < plan.count; i++) {
        uint64_t limit = 0;
        unsigned at = plan.actions[i].at;
        while (!all_operated(host, at) && programs_live()) {
            answer_warm();
            /* The time of a process that warms up does not count. */
            if ((all_operated(host, 1) || stopped > 0) && !limit)
                limit = clock_ns() + milliseconds(TRIGGER_MS);
            if (limit && clock_ns() > limit)
                break;
            usleep(300);
        }
        if (choose(0, 2) == 0)
            usleep(choose(0, 3000));
        if (!programs_live() || !act(&plan.actions[i], host))
            return false;
    }
    return true;
}

static bool turn_end(unsigned host)
{
    uint64_t start = clock_ns();
    atomic_store(&journal->release, true);
    while (!all_done(host)) {
        answer_warm();
        if (!programs_live())
            return false;
        if (stopped > 0 && clock_ns() - start > milliseconds(STALL_MS)) {
            stalls += plan.end == END_stop_agent;
            go_on();
        }
        if (clock_ns() - start > milliseconds(PATIENCE_S * 1000)) {
            failed("the turn of host %u does not end", host);
            return false;
        }
        usleep(500);
    }
    go_on();
    return programs_live();
}

/* All that a dead program wrote: is it at the server, or aside? */
static bool has_arrived(unsigned host, const bool dead[PROGRAMS], bool or_aside)
{
    unsigned aside;
    if (or_aside)
        strays_read(host, false);
    else
        pieces_free();
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++) {
        unsigned file = i / BLOCKS_MOST, block = i % BLOCKS_MOST;
        if (block >= files_of_hosts[file].count ||
            !dead[block / (files_of_hosts[file].count / PROGRAMS)])
            continue;
        uint32_t written = unsynced(file, block);
        if (written > 0 && words_missing(file, block, written, UINT32_MAX, &aside) > 0 &&
            !is_overtaken(file, block))
            return false;
    }
    return true;
}

/* What was seen at the server, and is stable there. */
static void dead_are_synced(const bool dead[PROGRAMS])
{
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++) {
        unsigned file = i / BLOCKS_MOST, block = i % BLOCKS_MOST;
        if (block < files_of_hosts[file].count &&
            dead[block / (files_of_hosts[file].count / PROGRAMS)] && unsynced(file, block))
            atomic_store(&journal->blocks[file][block].synced, unsynced(file, block));
    }
}

/*
 * Programs of the host were killed, and an agent lives. One that watched them sends and commits
 * what they wrote; one that came later may set it aside. False: there is no agent any more, or a
 * failure.
 */
static bool agent_sends(unsigned host, const bool dead[PROGRAMS], bool watched)
{
    uint64_t limit = clock_ns() + milliseconds(PATIENCE_S * 1000);
    while (ledger_bytes(host) > 0 || !has_arrived(host, dead, !watched)) {
        if (!watched && agent_find(host) == 0)
            return false;
        if (clock_ns() > limit) {
            failed("LOST: what a killed program of host %u wrote is %s after %d s; %llu bytes are "
                   "not committed",
                   host, has_arrived(host, dead, !watched) ? "sent" : "not at the server",
                   PATIENCE_S, (unsigned long long)ledger_bytes(host));
            return false;
        }
        pause_ms(2);
    }
    arrivals += watched;
    if (watched)
        dead_are_synced(dead);
    return true;
}

static bool settle_dead(unsigned host, const bool dead[PROGRAMS])
{
    bool watched = !agent_died;
    for (unsigned i = 0; i < PROGRAMS; i++)
        watched = watched && (!dead[i] || atomic_load(&journal->programs[host][i].is_warm));
    while (agent_comes(host))
        usleep(500);
    if (watched || agent_find(host) > 0) {
        if (agent_sends(host, dead, watched) || atomic_load(&journal->failed))
            return !atomic_load(&journal->failed);
    }
    cut_off(host);
    for (unsigned i = 0; i < PROGRAMS && !lost_power; i++) {
        if (dead[i])
            debts_note(host, i);
    }
    if (!owes(host))
        return true;
    backs[host] = plan.back;
    if (plan.back != BACK_BEFORE)
        return true;
    visits++;
    visitor_start(host);
    return visitor_end(host) && debts_check(host, "back before anybody else wrote");
}

static void plan_action(unsigned at, enum act what)
{
    unsigned i = plan.count++;
    for (; i > 0 && plan.actions[i - 1].at > at; i--)
        plan.actions[i] = plan.actions[i - 1];
    plan.actions[i] = (struct action){at, what};
}

static void plan_make(unsigned number, unsigned host)
{
    unsigned total = 0, end = 0;
    plan = (struct plan){.random = mix(mix(options.seed) + number) | 1};
    for (unsigned i = 0; i < END_COUNT; i++)
        total += options.allowed[i] ? end_weights[i] : 0;
    unsigned at = choose(1, total);
    for (;; end++) {
        unsigned weight = options.allowed[end] ? end_weights[end] : 0;
        if (at <= weight)
            break;
        at -= weight;
    }
    plan.end = end;
    plan.back = choose(0, BACK_COUNT - 1);
    turn = turn_of(number);
    *turn = (struct turn){.number = number,
                          .host = host,
                          .operations = choose(4, OPERATIONS_MOST),
                          .sync_every = choose(0, 1) ? choose(5, 30) : 0,
                          .warms = choose(0, 4) > 0,
                          .lingers = choose(0, 3) > 0};
    bool late = turn->lingers && choose(0, 2) > 0;
    plan_action(late ? turn->operations : choose(0, turn->operations), ACT_END);
    if (options.losses && choose(0, 4) == 0)
        plan_action(choose(0, turn->operations), ACT_POWER);
    if (choose(0, 5) == 0)
        plan_action(choose(0, turn->operations), choose(0, 1) ? ACT_RESET : ACT_FREEZE);
    if (backs[1 - host] == BACK_DURING)
        plan_action(choose(0, turn->operations), ACT_VISIT);
}

static bool some_live(unsigned host)
{
    bool live = false;
    for (unsigned i = 0; i < PROGRAMS; i++)
        live = live || hosts[host].programs[i] > 0;
    return live;
}

/* Files of which the host made something stable: what the other one left of them is not to be sent
 * any more, if it did not come back meanwhile. */
static void find_changes(unsigned host, const uint32_t before[FILES][BLOCKS_MOST])
{
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++) {
        unsigned file = i / BLOCKS_MOST, block = i % BLOCKS_MOST;
        if (atomic_load(&journal->blocks[file][block].synced) > before[file][block])
            debts_are_sure(1 - host, file);
    }
}

static bool other_comes_back(unsigned other)
{
    if (hosts[other].visitor > 0) {
        backs[other] = BACK_SELF;
        return visitor_end(other) && debts_check(other, "back while the other host wrote");
    }
    if (backs[other] != BACK_AFTER)
        return true;
    backs[other] = BACK_SELF;
    visits++;
    visitor_start(other);
    return visitor_end(other) && debts_check(other, "back after the other host wrote");
}

bool turn_run(unsigned number, unsigned host)
{
    static uint32_t before[FILES][BLOCKS_MOST];
    bool dead[PROGRAMS] = {false};
    plan_make(number, host);
    agent_died = lost_power = false;
    look(before);
    if (options.verbose) {
        printf("# turn %u of host %u: %s, %u operations, back %u, %u actions%s%s\n", number, host,
               end_names[plan.end], turn->operations, plan.back, plan.count,
               turn->warms ? ", warm" : "", turn->lingers ? ", lingers" : "");
        fflush(stdout);
    }
    turn_host = host;
    debts_turn_begins();
    atomic_store(&journal->release, false);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        atomic_store(&journal->programs[host][i].operations, 0);
        if (hosts[host].programs[i] == 0)
            program_start(host, i);
    }
    atomic_store(&journal->step, number);
    syscall(SYS_futex, &journal->step, FUTEX_WAKE, INT32_MAX, NULL);
    if (!act_all(host) || !turn_end(host))
        return false;
    bool died = false;
    for (unsigned i = 0; i < PROGRAMS; i++)
        died = (dead[i] = hosts[host].programs[i] == 0) || died;
    /* Who operated has opened all files: the host is back. */
    if ((has_operated(host) && !debts_check(host, "back for its own turn")) ||
        (died && !settle_dead(host, dead)))
        return false;
    /* One that lives may have sent it before. */
    if (hosts[1 - host].visitor == 0 && !some_live(1 - host))
        find_changes(host, before);
    debts_turn_ends(1 - host);
    return check_now("after a turn") && other_comes_back(1 - host) && check_now("between turns");
}
