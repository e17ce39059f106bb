/*
 * Torture: many threads of several processes write stamped blocks through every API, and change the
 * sizes of other files and append records to more, while paths and servers fail, and a journal
 * outside of the mount says what was acknowledged, and what was made stable. What lies in the files
 * is read through the kernel, by a process without the library: when the server lost power, at the
 * end of rounds, and when the writers ended.
 *
 *     torture --dir DIR --journal FILE [--seed S] [--rounds N] [--first ROUND]
 *             [--processes N] [--threads N] [--generation ROUNDS]
 *             [--run "WORD..."] [--apart "WORD..."]
 *             [--proxy SOCKET --paths N] [--power SOCKET] [--restart] [--offline] [--soft]
 *             [--sessions] [--protection tls|krb5|krb5i|krb5p] [--keep-user]
 *             [--faults KIND,...] [--sabotage HOW] [--verbose]
 *
 * --generation: after so many rounds all processes end, and others begin.
 * --run are the words that start a program under the library, --apart those for one that gets no
 * answer from the server. --restart, --offline: a line
 * `restart`, `path offline N` or `path online N` on standard output asks to do that; a line on
 * standard input says that it is done. `agent for N` asks for an agent that is in contact with the
 * server and watches N processes; another answer than `done`: there is none. --sessions: files are
 * served by NFSv4.1. --protection: calls are made so; with Kerberos there are lines `ticket
 * short|new|away|back` and `kdc away|back`.
 * --keep-user: no process becomes another user, and the agent has no tickets. --soft: calls may
 * time out, whatever the faults are.
 * --sabotage damages something behind everybody's back, to show that it is found: see check.h.
 * Ends with 0 when every round was right, else with 1 and the seed, the round, and the block.
 */
#include <getopt.h>

#include "agents.h"
#include "torture/check.h"
#include "torture/kinds.h"
#include "torture/processes.h"

static struct {
    uint64_t seed;
    unsigned rounds, first, paths, processes, threads, generation;
    const char *journal, *proxy, *power, *sabotage, *self;
    struct words run, apart;
    bool restart, offline, soft, sessions, keep_user, verbose, allowed[KINDS];
    unsigned without; /* of enum effect: kinds that are not possible */
} options = {.seed = 1, .rounds = 20, .paths = 1, .processes = 2, .threads = 3, .generation = 8};

static struct plan plan;
static unsigned losses, agents_killed, uncared;
static bool sabotaged;

/* ---- the workers ---- */

static struct starting how_to_start(bool apart)
{
    return (struct starting){apart ? &options.apart : &options.run, options.self, options.journal};
}

static void step_set(unsigned round, enum phase phase)
{
    atomic_store(&journal->arrived, 0);
    atomic_store(&journal->step, round * 4 + phase);
    syscall(SYS_futex, &journal->step, FUTEX_WAKE, INT32_MAX, NULL);
}

/* Has a worker ended that should not? */
static bool workers_live(void)
{
    for (unsigned i = 0; i < options.processes; i++) {
        int status;
        if (workers[i] > 0 && waitpid(workers[i], &status, WNOHANG) == workers[i]) {
            workers[i] = 0;
            failed("process %u ended with status %d%s", i, status,
                   WIFSIGNALED(status) ? " (a signal)" : "");
        }
    }
    return !atomic_load(&journal->failed);
}

static bool workers_wait(unsigned round, const char *what)
{
    uint64_t limit = clock_ns() + milliseconds(PATIENCE_S * 1000);
    for (;;) {
        uint32_t arrived = atomic_load(&journal->arrived);
        if (arrived >= worker_slots() - killed * options.threads)
            return workers_live();
        if (!workers_live())
            return false;
        if (clock_ns() > limit) {
            failed("round %u: %s: %u of %u threads hang, %d s after the last fault ended", round,
                   what, worker_slots() - killed * options.threads - arrived, worker_slots(),
                   PATIENCE_S);
            return false;
        }
        struct timespec pause = {.tv_nsec = 20000000};
        syscall(SYS_futex, &journal->arrived, FUTEX_WAIT, arrived, &pause);
    }
}

static bool workers_start(unsigned round)
{
    struct starting how = how_to_start(false);
    killed = orphans = 0;
    for (unsigned file = 0; file < ALL_FILES; file++)
        atomic_store(&journal->moved[file], false);
    step_set(round, PHASE_WAIT);
    for (unsigned i = 0; i < options.processes; i++)
        workers[i] = worker_start(&how, i);
    return workers_wait(round, "start");
}

static bool workers_end(unsigned round)
{
    step_set(round, PHASE_END);
    for (unsigned i = 0; i < options.processes; i++) {
        int status = workers[i] > 0 ? process_wait(workers[i]) : 0;
        if (status < 0) {
            failed("round %u: process %u does not end", round, i);
            return false;
        }
        workers[i] = 0;
        if (status != 0)
            failed("round %u: process %u ended with status %d", round, i, status);
    }
    return !atomic_load(&journal->failed);
}

/* ---- faults ---- */

static void ask(const char *socket, const char *command)
{
    char answer[ANSWER_MOST];
    if (!control_ask(socket, command, answer))
        die("`%s`: %s", command, answer);
}

static bool shell_does(const char *command)
{
    char line[64];
    puts(command);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        die("`%s`: no answer", command);
    return strcmp(line, "done\n") == 0;
}

static void ask_shell(const char *command)
{
    if (!shell_does(command))
        die("`%s`: nobody did it", command);
}

/* What a process sent before an agent was in contact with the server is in nobody's care: it may be
 * set aside, if the process is killed and the server loses it. So the agent must be there first. */
static bool is_cared_for(void)
{
    unsigned live = 0;
    char line[32];
    if (!(plan.effects & KILLS) || journal->no_agent || !options.run.words[0])
        return true;
    for (unsigned i = 0; i < options.processes; i++)
        live += workers[i] > 0;
    snprintf(line, sizeof line, "agent for %u", live);
    return shell_does(line);
}

/* A process whose change of a sized file hangs; if there is none before long, any. */
static unsigned find_stuck(unsigned any)
{
    uint32_t before[SIZED] = {0};
    for (unsigned ms = 0; ms < STUCK_MS; ms += 5) {
        for (unsigned file = 0; file < SIZED; file++) {
            uint32_t now = atomic_load(&journal->sized[file].under_way);
            uint32_t holder = atomic_load(&journal->sized[file].holder);
            if (now && now == before[file] && holder)
                return (holder - 1) / options.threads;
            before[file] = now;
        }
        usleep(5000);
    }
    return any;
}

static void workers_signal(int number)
{
    for (unsigned i = 0; i < options.processes; i++) {
        if (workers[i] > 0)
            kill(workers[i], number);
    }
}

static void agent_kill(void)
{
    pid_t found[PROCESSES_MOST];
    const char *run = getenv("DIRECTNFS_RUN");
    if (!run || run_find(run, true, found) == 0)
        return;
    kill(found[0], SIGKILL);
    agents_killed++;
}

static void worker_event(const char *command, unsigned round)
{
    unsigned any = (unsigned)(mix(options.seed + round) % options.processes);
    if (strcmp(command, "kill the agent") == 0)
        agent_kill();
    else if (strncmp(command, "kill", 4) == 0 && !is_cared_for())
        uncared++;
    else if (strcmp(command, "kill all") == 0) {
        for (unsigned i = 0; i < options.processes; i++)
            worker_kill(i);
    } else if (strncmp(command, "kill", 4) == 0 && killed + 1 < options.processes) {
        worker_kill(strcmp(command, "kill stuck") == 0 ? find_stuck(any) : any);
    } else if (strcmp(command, "stop") == 0 && workers[any] > 0) {
        kill(workers[any], SIGSTOP);
    } else if (strcmp(command, "continue") == 0) {
        workers_signal(SIGCONT);
    }
}

static void visitor_event(const char *command, unsigned round)
{
    unsigned index = (unsigned)(command[0] - '0');
    const char *what = command + 2;
    if (strcmp(what, "kill") == 0) {
        visitor_kill(index);
        return;
    }
    if (strcmp(what, "end") == 0) {
        atomic_store(&journal->visit_ends[index], true);
    } else if (visitors[index] == 0) { /* else the last one is not done yet */
        struct starting how = how_to_start(visit_find(what)->apart);
        visitor_start(&how, index, round, what);
    }
}

static bool event_do(const struct event *event, unsigned round)
{
    char when[64];
    switch (event->target) {
    case TO_PROXY:
        ask(options.proxy, event->command);
        return true;
    case TO_RESTART:
    case TO_COMMAND:
        ask_shell(event->command);
        return true;
    case TO_WORKER:
        worker_event(event->command, round);
        return true;
    case TO_FILE:
        atomic_store(&journal->hand_over,
                     1 + (uint32_t)atoi(event->command) % (options.processes * FILES));
        return true;
    case TO_VISITOR:
        visitor_event(event->command, round);
        return true;
    case TO_POWER:
        break;
    }
    const struct bounds *bounds = bounds_now(BOUND_SYNCED);
    ask(options.power, event->command);
    if (!event->loses)
        return true;
    if (options.proxy)
        ask(options.proxy, "all lost");
    losses++;
    snprintf(when, sizeof when, "round %u, after the loss of power", round);
    return check_files(bounds, when);
}

static void heal(void)
{
    if (options.proxy)
        ask(options.proxy, "all pass");
    if (options.power) {
        static const char *const commands[] = {
            "slow 0", "slow 0 commits", "badcommit 0", "most 1048576", "slots 0", "grace 0", "up"};
        for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
            ask(options.power, commands[i]);
    }
    workers_signal(SIGCONT);
}

static void pause_until(uint64_t at)
{
    uint64_t now = clock_ns();
    if (at > now)
        usleep((unsigned)((at - now) / 1000));
}

/* ---- rounds ---- */

static bool round_run(unsigned round)
{
    bool sync = mix(options.seed ^ round) % 3 == 0;
    plan_make(&plan, options.seed, round, options.paths, options.allowed);
    if (options.verbose)
        printf("# round %u: %s, %u ms%s\n", round, plan.names, plan.length_ms,
               sync ? ", sync" : "");
    fflush(stdout);
    atomic_store(&journal->stop, 0);
    atomic_store(&journal->settle_sync, sync);
    atomic_store(&journal->effects, plan.effects | (options.soft ? CALLS_FAIL | ALWAYS_FAIL : 0));
    step_set(round, PHASE_RUN);
    uint64_t start = clock_ns();
    for (unsigned i = 0; i < plan.count && !atomic_load(&journal->failed); i++) {
        pause_until(start + milliseconds(plan.events[i].at_ms));
        if (!event_do(&plan.events[i], round))
            return false;
    }
    pause_until(start + milliseconds(plan.length_ms));
    visitors_wait_busy();
    heal();
    atomic_store(&journal->stop, 1);
    if (!workers_wait(round, "the last operations") || !visitors_end(round))
        return false;
    if (!options.soft)
        atomic_fetch_and(&journal->effects, ~(unsigned)CALLS_FAIL);
    step_set(round, PHASE_SETTLE);
    if (!workers_wait(round, "settling"))
        return false;
    if (options.sabotage && round + 1 >= options.first + options.rounds && sabotage_ready()) {
        sabotage(options.sabotage);
        sabotaged = true;
    }
    if (plan.effects & DATA_REFUSED)
        journal_forget();
    sync = sync && killed + orphans == 0 && !options.soft; /* who should have synced may be dead */
    return check_now(sync ? BOUND_ACKED : BOUND_SYNCED, round, sync ? "all synced" : "in between");
}

/*
 * The writers ended: what they wrote is there, and stays. What one that was killed did not sync is
 * written again by those that come next, should the server lose it.
 */
static bool generation_end(unsigned round)
{
    enum bound bound = killed || orphans || options.soft ? BOUND_SYNCED : BOUND_ACKED;
    if (!workers_end(round) || !check_now(bound, round, "the writers ended"))
        return false;
    if (!options.power)
        return true;
    const struct bounds *bounds = bounds_now(bound);
    ask(options.power, "power-loss");
    if (options.proxy)
        ask(options.proxy, "all lost");
    ask(options.power, "up");
    losses++;
    return check_files(bounds, "the writers ended, then the power was lost");
}

/* What was done last to the sized file that the failure names. */
static void report_history(void)
{
    static const char name[] = "sized file ";
    const char *at = strstr(journal->failure, name);
    uint64_t now = clock_ns();
    for (unsigned file = 0; at && file < SIZED; file++) {
        if (strtoul(at + strlen(name), NULL, 10) != file)
            continue;
        uint32_t last = atomic_load(&journal->sized[file].issued);
        for (uint32_t n = last < HISTORY ? 1 : last - HISTORY + 1; n <= last && n; n++) {
            const struct history *h = &journal->sized[file].history[n % HISTORY];
            printf("#   sized file %u operation %u: %s %u..%u by slot %u, %u ms ago%s", file,
                   h->number, change_names[h->change], h->from, h->to, h->slot,
                   (unsigned)((now - h->begun_ns) / 1000000), h->done_ns ? "" : ", not done\n");
            if (h->done_ns)
                printf(", done after %u ms\n", (unsigned)((h->done_ns - h->begun_ns) / 1000000));
        }
    }
}

static void report_failure(unsigned round)
{
    printf("FAILED: seed %llu round %u (%s): %s\n", (unsigned long long)options.seed, round,
           plan.names, journal->failure);
    for (unsigned i = 0; i < plan.count; i++)
        printf("#   %4u ms %s %s\n", plan.events[i].at_ms,
               plan.events[i].target == TO_PROXY     ? "path"
               : plan.events[i].target == TO_WORKER  ? "a process:"
               : plan.events[i].target == TO_FILE    ? "to the kernel:"
               : plan.events[i].target == TO_VISITOR ? "visitor"
               : plan.events[i].target == TO_COMMAND ? "command:"
                                                     : "server",
               plan.events[i].command);
    report_history();
    printf("# again: --seed %llu --first %u --rounds %u --generation %u\n",
           (unsigned long long)options.seed, round - round % options.generation,
           round % options.generation + 1, options.generation);
    fflush(stdout);
}

static bool torture(void)
{
    unsigned last = options.first + options.rounds;
    bool begins = true; /* a generation of workers */
    for (unsigned round = options.first; round < last; round++) {
        bool right = (!begins || workers_start(round)) && round_run(round);
        if (options.sabotage && !sabotaged && round + 1 == last)
            last++; /* nothing is there yet that can be damaged */
        begins = round + 1 == last || (round + 1) % options.generation == 0 || killed > 0 ||
                 (plan.effects & MOVES_FILES && plan.length_ms % 2);
        if (!right || (begins && !generation_end(round))) {
            report_failure(round);
            processes_kill();
            return false;
        }
    }
    printf("%u rounds, %u checks through the kernel, %u losses of power, %llu syncs;",
           options.rounds, checks, losses, (unsigned long long)journal->syncs);
    for (unsigned i = 0; i < API_COUNT; i++) {
        if (i == API_map || i == API_stream)
            continue;
        printf(" %s %llu/%llu", api_names[i], (unsigned long long)journal->writes[i],
               (unsigned long long)journal->reads[i]);
    }
    printf(" writes/reads, %llu by the kernel, %llu maps, %llu streams, %llu visits, %llu "
           "errors, %llu forks, %llu records, %u agents killed, %u kills left out; sizes:",
           (unsigned long long)journal->beside,
           (unsigned long long)(journal->writes[API_map] + journal->reads[API_map]),
           (unsigned long long)journal->writes[API_stream], (unsigned long long)journal->visits,
           (unsigned long long)journal->errors, (unsigned long long)journal->forks,
           (unsigned long long)journal->records, agents_killed, uncared);
    for (unsigned i = 0; i < CHANGE_COUNT; i++)
        printf(" %s %llu", change_names[i], (unsigned long long)journal->changes[i]);
    printf("; longest write %llu ms in round %u\n", (unsigned long long)journal->longest >> 32,
           (unsigned)journal->longest);
    return true;
}

/* ---- start ---- */

static void faults_option(const char *text)
{
    for (unsigned i = 0; i < KINDS; i++) {
        bool possible = kinds[i].target == TO_PROXY     ? options.proxy != NULL
                        : kinds[i].target == TO_POWER   ? options.power != NULL
                        : kinds[i].target == TO_RESTART ? options.restart
                        : kinds[i].target == TO_COMMAND ? options.offline || kinds[i].paths == 1
                                                        : true;
        if (kinds[i].effects & (options.without | (options.sessions ? OF_V3 : OF_SESSIONS)))
            possible = false;
        if (options.paths < kinds[i].paths || (options.soft && kinds[i].effects & MOVES_FILES))
            possible = false;
        options.allowed[i] = possible && !text;
        for (const char *at = text; at && *at; at += strcspn(at, ","), at += *at == ',') {
            size_t length = strcspn(at, ",");
            if (strlen(kinds[i].name) == length && strncmp(at, kinds[i].name, length) == 0)
                options.allowed[i] = true;
        }
    }
}

static void protection_option(const char *text)
{
    static const struct {
        const char *name;
        unsigned without;
    } protections[] = {{"none", OF_TLS | OF_KERBEROS | OF_SEALED},
                       {"tls", OF_KERBEROS},
                       {"krb5", OF_TLS | OF_CLEAR | OF_SEALED},
                       {"krb5i", OF_TLS | OF_CLEAR},
                       {"krb5p", OF_TLS | OF_CLEAR}};
    for (unsigned i = 0; i < sizeof protections / sizeof *protections; i++) {
        options.without = protections[i].without;
        if (strcmp(text, protections[i].name) == 0)
            return;
    }
    die("--protection %s", text);
}

static void journal_start(const char *directory)
{
    struct io_uring ring;
    journal = journal_map(options.journal, true);
    journal->seed = options.seed;
    journal->processes = options.processes;
    journal->threads = options.threads;
    journal->keeps_user = options.keep_user;
    journal->no_agent = options.keep_user;
    if (slots() > SLOTS_MOST || worker_slots() == 0)
        die("--processes, --threads: %d threads at most", SLOTS_MOST);
    snprintf(journal->directory, sizeof journal->directory, "%s", directory);
    for (unsigned i = 0; i < API_COUNT; i++)
        journal->apis[i] = i != API_map && i != API_stream;
    if (io_uring_queue_init(2, &ring, 0) == 0)
        io_uring_queue_exit(&ring);
    else
        journal->apis[API_io_uring] = options.run.words[0] != NULL; /* the library has its own */
}

static void options_read(int argc, char **argv, const char **directory, const char **faults)
{
    static const struct option names[] = {
        OPTION("dir", 'd'),      OPTION("journal", 'j'), OPTION("seed", 's'),
        OPTION("rounds", 'r'),   OPTION("first", 'f'),   OPTION("processes", 'p'),
        OPTION("threads", 't'),  OPTION("run", 'u'),     OPTION("proxy", 'x'),
        OPTION("paths", 'n'),    OPTION("power", 'w'),   OPTION("faults", 'F'),
        OPTION("sabotage", 'S'), OPTION("apart", 'a'),   OPTION("generation", 'g'),
        FLAG("restart", 'R'),    FLAG("offline", 'O'),   FLAG("soft", 'E'),
        FLAG("sessions", '4'),   FLAG("verbose", 'v'),   OPTION("protection", 'P'),
        FLAG("keep-user", 'K'),  {NULL, 0, NULL, 0}};
    int option;
    protection_option("none");
    while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        switch (option) {
        case 'd':
            *directory = optarg;
            break;
        case 'j':
            options.journal = optarg;
            break;
        case 's':
            options.seed = number_option("seed", optarg, 0, UINT64_MAX);
            break;
        case 'r':
            options.rounds = (unsigned)number_option("rounds", optarg, 1, 1000000);
            break;
        case 'f':
            options.first = (unsigned)number_option("first", optarg, 0, 1000000);
            break;
        case 'p':
            options.processes = (unsigned)number_option("processes", optarg, 1, SLOTS_MOST);
            break;
        case 't':
            options.threads = (unsigned)number_option("threads", optarg, 1, SLOTS_MOST);
            break;
        case 'g':
            options.generation = (unsigned)number_option("generation", optarg, 1, 1000000);
            break;
        case 'u':
            control_words(optarg, options.run.words);
            break;
        case 'a':
            control_words(optarg, options.apart.words);
            break;
        case 'x':
            options.proxy = optarg;
            break;
        case 'n':
            options.paths = (unsigned)number_option("paths", optarg, 1, 16);
            break;
        case 'w':
            options.power = optarg;
            break;
        case 'R':
            options.restart = true;
            break;
        case 'O':
            options.offline = true;
            break;
        case '4':
            options.sessions = true;
            break;
        case 'P':
            protection_option(optarg);
            break;
        case 'K':
            options.keep_user = true;
            break;
        case 'E':
            options.soft = true;
            break;
        case 'F':
            *faults = optarg;
            break;
        case 'S':
            options.sabotage = optarg;
            break;
        case 'v':
            options.verbose = true;
            break;
        default:
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    const char *directory = NULL, *faults = NULL;
    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return worker_process(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--visitor") == 0)
        return visitor_process(argc, argv);
    options.self = argv[0];
    options_read(argc, argv, &directory, &faults);
    if (!directory || !options.journal || optind != argc)
        die("--dir and --journal are needed; see the top of test/fault/torture.c");
    signal(SIGPIPE, SIG_IGN);
    faults_option(faults);
    journal_start(directory);
    files_make();
    return torture() ? 0 : 1;
}
