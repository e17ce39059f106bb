/*
 * Torture: many threads of several processes write stamped blocks through every API, and change the
 * sizes of other files, while paths and servers fail, and a journal outside of the mount says what
 * was acknowledged, and what was made stable. What lies in the files is read through the kernel, by
 * a process without the library: when the server lost power, at the end of rounds, and when the
 * writers ended.
 *
 *     torture --dir DIR --journal FILE [--seed S] [--rounds N] [--first ROUND]
 *             [--processes N] [--threads N] [--run "WORD..."]
 *             [--proxy SOCKET --paths N] [--power SOCKET] [--restart] [--faults KIND,...]
 *             [--sabotage lost|stale|torn|cut|longer] [--verbose]
 *
 * --run are the words that start a program under the library. --restart: the line `restart` on
 * standard output asks to restart the server; a line on standard input says that it is done.
 * --sabotage damages a block or a size behind everybody's back, to show that it is found.
 * Ends with 0 when every round was right, else with 1 and the seed, the round, and the block.
 */
#include <getopt.h>
#include <sys/wait.h>

#include "plan.h"
#include "worker.h"

enum { GENERATION = 8, PATIENCE_S = 60 };

static struct {
    uint64_t seed;
    unsigned rounds, first, paths, processes, threads;
    const char *journal, *proxy, *power, *sabotage, *self;
    char *run[16];
    bool restart, verbose, allowed[KINDS];
} options = {.seed = 1, .rounds = 20, .paths = 1, .processes = 2, .threads = 3};

static int files[FILES + SIZED];
static pid_t workers[SLOTS_MOST];
static unsigned killed; /* processes, in this generation */
static struct plan plan;
static unsigned checks, losses;

/* ---- the kernel's view ---- */

/* What must be there; taken before what may be lost. */
struct bounds {
    uint32_t least[FILES][BLOCKS];
    struct sized_view sized[SIZED];
};

static bool check_sized(unsigned file, const struct sized_view *view, const char *when)
{
    static unsigned char buffer[WORDS * 8 + 1];
    struct stat st;
    memset(buffer, 0, sizeof buffer);
    ssize_t got = pread(files[FILES + file], buffer, sizeof buffer, 0);
    if (got < 0 || fstat(files[FILES + file], &st) < 0) {
        failed("%s: sized file %u cannot be read", when, file);
        return false;
    }
    return sized_check_words(file, view, buffer, 0, WORDS, when) &&
           sized_check_size(file, view, (uint64_t)st.st_size, (uint64_t)st.st_size, when);
}

static bool check_files(const struct bounds *bounds, const char *when)
{
    static unsigned char buffer[BLOCK_MOST];
    checks++;
    for (unsigned file = 0; file < FILES; file++) {
        size_t size = files_of_test[file].size;
        for (unsigned block = 0; block < files_of_test[file].count; block++) {
            uint32_t most = atomic_load(&journal->blocks[file][block].issued);
            if (pread(files[file], buffer, size, (off_t)(block * size)) != (ssize_t)size) {
                failed("%s: file %s block %u cannot be read", when, files_of_test[file].name,
                       block);
                return false;
            }
            if (!stamp_check(buffer, file, block, bounds->least[file][block], most, when))
                return false;
        }
    }
    for (unsigned file = 0; file < SIZED; file++) {
        if (!check_sized(file, &bounds->sized[file], when))
            return false;
    }
    return true;
}

static const struct bounds *bounds_now(enum bound bound)
{
    static struct bounds bounds;
    for (unsigned file = 0; file < FILES; file++) {
        for (unsigned block = 0; block < files_of_test[file].count; block++) {
            struct block *b = &journal->blocks[file][block];
            bounds.least[file][block] = atomic_load(bound == BOUND_ACKED ? &b->acked : &b->synced);
        }
    }
    for (unsigned file = 0; file < SIZED; file++)
        sized_look(file, bound, 0, WORDS, &bounds.sized[file]);
    return &bounds;
}

static bool check_now(enum bound bound, unsigned round, const char *when)
{
    char text[128];
    snprintf(text, sizeof text, "round %u, %s, as the kernel sees it", round, when);
    return check_files(bounds_now(bound), text);
}

static void files_make(void)
{
    static unsigned char buffer[BLOCK_MOST];
    for (unsigned file = 0; file < FILES + SIZED; file++) {
        char path[512];
        files[file] = open(file_path(file, path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (files[file] < 0)
            die("%s: %s", path, strerror(errno));
        for (unsigned block = 0; file < FILES && block < files_of_test[file].count; block++) {
            size_t size = files_of_test[file].size;
            stamp(buffer, file, block, 0, 0);
            if (pwrite(files[file], buffer, size, (off_t)(block * size)) != (ssize_t)size)
                die("%s: %s", path, strerror(errno));
        }
        if (fsync(files[file]) < 0)
            die("%s: %s", path, strerror(errno));
    }
}

/* Damages the longest sized file: its end is gone, or what was cut off is back. */
static void sabotage_size(bool longer)
{
    unsigned file = 0;
    for (unsigned i = 1; i < SIZED; i++) {
        if (atomic_load(&journal->sized[i].least) > atomic_load(&journal->sized[file].least))
            file = i;
    }
    off_t size = lseek(files[FILES + file], 0, SEEK_END);
    uint64_t word = sized_stamp(file, (unsigned)size / 8, 1, 0);
    if (longer ? pwrite(files[FILES + file], &word, 8, size) != 8
               : ftruncate(files[FILES + file], size - 8) != 0)
        die("sabotage: %s", strerror(errno));
}

/* Damages a block that was written. */
static void sabotage(void)
{
    if (strcmp(options.sabotage, "cut") == 0 || strcmp(options.sabotage, "longer") == 0) {
        sabotage_size(options.sabotage[0] == 'l');
        return;
    }
    static unsigned char buffer[BLOCK_MOST];
    unsigned block = 0;
    while (block < BLOCKS && atomic_load(&journal->blocks[0][block].issued) == 0)
        block++;
    size_t size = files_of_test[0].size;
    uint32_t sequence = atomic_load(&journal->blocks[0][block % BLOCKS].acked);
    if (strcmp(options.sabotage, "lost") != 0)
        stamp(buffer, 0, block, sequence - 1, 0);
    if (strcmp(options.sabotage, "torn") == 0)
        size /= 2;
    if (pwrite(files[0], buffer, size, (off_t)block * files_of_test[0].size) != (ssize_t)size)
        die("sabotage: %s", strerror(errno));
}

/* ---- the workers ---- */

static void workers_kill(void)
{
    for (unsigned i = 0; i < options.processes; i++) {
        if (workers[i] > 0) {
            kill(workers[i], SIGKILL);
            waitpid(workers[i], NULL, 0);
        }
        workers[i] = 0;
    }
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
        if (arrived >= slots() - killed * options.threads)
            return workers_live();
        if (!workers_live())
            return false;
        if (clock_ns() > limit) {
            failed("round %u: %s: %u of %u threads hang, %d s after the last fault ended", round,
                   what, slots() - killed * options.threads - arrived, slots(), PATIENCE_S);
            return false;
        }
        struct timespec pause = {.tv_nsec = 20000000};
        syscall(SYS_futex, &journal->arrived, FUTEX_WAIT, arrived, &pause);
    }
}

static bool workers_start(unsigned round)
{
    killed = 0;
    step_set(round, PHASE_WAIT);
    for (unsigned i = 0; i < options.processes; i++) {
        char index[16], *arguments[24];
        unsigned count = 0;
        snprintf(index, sizeof index, "%u", i);
        while (options.run[count]) {
            arguments[count] = options.run[count];
            count++;
        }
        arguments[count++] = (char *)(uintptr_t)options.self;
        arguments[count++] = (char *)(uintptr_t) "--worker";
        arguments[count++] = (char *)(uintptr_t)options.journal;
        arguments[count++] = index;
        arguments[count] = NULL;
        workers[i] = fork();
        if (workers[i] < 0)
            die("fork: %s", strerror(errno));
        if (workers[i] == 0) {
            dup2(STDERR_FILENO, STDOUT_FILENO);
            execvp(arguments[0], arguments);
            _exit(127);
        }
    }
    return workers_wait(round, "start");
}

static bool workers_end(unsigned round)
{
    step_set(round, PHASE_END);
    for (unsigned i = 0; i < options.processes; i++) {
        int status = 0;
        uint64_t limit = clock_ns() + milliseconds(PATIENCE_S * 1000);
        pid_t ended = workers[i] == 0 ? 1 : 0; /* killed before */
        while (ended == 0 && clock_ns() < limit) {
            ended = waitpid(workers[i], &status, WNOHANG);
            if (ended == 0)
                usleep(2000);
        }
        if (ended == 0) {
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

static void restart_server(void)
{
    char line[64];
    puts("restart");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        die("--restart: nobody answers on standard input");
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

/* Whatever it was at is done or not; the others go on. */
static void kill_one(unsigned round, bool stuck)
{
    unsigned index = (unsigned)(mix(options.seed + round) % options.processes);
    if (stuck)
        index = find_stuck(index);
    if (workers[index] <= 0 || killed + 1 >= options.processes)
        return;
    kill(workers[index], SIGKILL);
    waitpid(workers[index], NULL, 0);
    workers[index] = 0;
    killed++;
    for (unsigned file = 0; file < SIZED; file++) {
        struct sized *sized = &journal->sized[file];
        uint32_t holder = atomic_load(&sized->holder);
        if (!holder || (holder - 1) / options.threads != index)
            continue;
        journal->changes[CHANGE_killed] += atomic_load(&sized->under_way) != 0;
        atomic_store(&sized->under_way, 0);
        atomic_store(&sized->holder, 0);
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
        restart_server();
        return true;
    case TO_WORKER:
        kill_one(round, strcmp(event->command, "kill stuck") == 0);
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
        ask(options.power, "slow 0");
        ask(options.power, "up");
    }
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
    step_set(round, PHASE_RUN);
    uint64_t start = clock_ns();
    for (unsigned i = 0; i < plan.count && !atomic_load(&journal->failed); i++) {
        pause_until(start + milliseconds(plan.events[i].at_ms));
        if (!event_do(&plan.events[i], round))
            return false;
    }
    pause_until(start + milliseconds(plan.length_ms));
    heal();
    atomic_store(&journal->stop, 1);
    if (!workers_wait(round, "the last operations"))
        return false;
    step_set(round, PHASE_SETTLE);
    if (!workers_wait(round, "settling"))
        return false;
    if (options.sabotage && round == options.first + options.rounds - 1)
        sabotage();
    sync = sync && killed == 0; /* who should have synced may be dead */
    return check_now(sync ? BOUND_ACKED : BOUND_SYNCED, round, sync ? "all synced" : "in between");
}

/*
 * The writers ended: what they wrote is there, and stays. What one that was killed did not sync is
 * written again by those that come next, should the server lose it.
 */
static bool generation_end(unsigned round)
{
    enum bound bound = killed ? BOUND_SYNCED : BOUND_ACKED;
    if (!workers_end(round) || !check_now(bound, round, "the writers ended"))
        return false;
    if (!options.power)
        return true;
    const struct bounds *bounds = bounds_now(bound);
    ask(options.power, "power-loss");
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
               plan.events[i].target == TO_PROXY    ? "path"
               : plan.events[i].target == TO_WORKER ? "a process:"
                                                    : "server",
               plan.events[i].command);
    report_history();
    printf("# again: --seed %llu --first %u --rounds %u\n", (unsigned long long)options.seed,
           round / GENERATION * GENERATION, round % GENERATION + 1);
    fflush(stdout);
}

static bool torture(void)
{
    unsigned last = options.first + options.rounds;
    bool begins = true; /* a generation of workers */
    for (unsigned round = options.first; round < last; round++) {
        bool right = (!begins || workers_start(round)) && round_run(round);
        begins = round + 1 == last || (round + 1) % GENERATION == 0 || killed > 0;
        if (!right || (begins && !generation_end(round))) {
            report_failure(round);
            workers_kill();
            return false;
        }
    }
    printf("%u rounds, %u checks through the kernel, %u losses of power, %llu syncs;",
           options.rounds, checks, losses, (unsigned long long)journal->syncs);
    for (unsigned i = 0; i < API_COUNT; i++)
        printf(" %s %llu/%llu", api_names[i], (unsigned long long)journal->writes[i],
               (unsigned long long)journal->reads[i]);
    fputs(" writes/reads; sizes:", stdout);
    for (unsigned i = 0; i < CHANGE_COUNT; i++)
        printf(" %s %llu", change_names[i], (unsigned long long)journal->changes[i]);
    putchar('\n');
    return true;
}

/* ---- start ---- */

static void faults_option(const char *text)
{
    for (unsigned i = 0; i < KINDS; i++) {
        bool possible = kinds[i].target == TO_PROXY     ? options.proxy != NULL
                        : kinds[i].target == TO_POWER   ? options.power != NULL
                        : kinds[i].target == TO_RESTART ? options.restart
                                                        : true;
        if ((kinds[i].plan == plan_hold || kinds[i].plan == plan_late ||
             kinds[i].plan == plan_hold_size || kinds[i].plan == plan_late_size) &&
            options.paths < 2)
            possible = false;
        options.allowed[i] = possible && !text;
        for (const char *at = text; at && *at; at += strcspn(at, ","), at += *at == ',') {
            size_t length = strcspn(at, ",");
            if (strlen(kinds[i].name) == length && strncmp(at, kinds[i].name, length) == 0)
                options.allowed[i] = true;
        }
    }
}

static void journal_start(const char *directory)
{
    struct io_uring ring;
    journal = journal_map(options.journal, true);
    journal->seed = options.seed;
    journal->processes = options.processes;
    journal->threads = options.threads;
    if (slots() > SLOTS_MOST || slots() == 0)
        die("--processes, --threads: %d threads at most", SLOTS_MOST);
    snprintf(journal->directory, sizeof journal->directory, "%s", directory);
    for (unsigned i = 0; i < API_COUNT; i++)
        journal->apis[i] = true;
    if (io_uring_queue_init(2, &ring, 0) == 0)
        io_uring_queue_exit(&ring);
    else
        journal->apis[API_io_uring] = options.run[0] != NULL; /* the library has its own */
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"dir", required_argument, NULL, 'd'},     {"journal", required_argument, NULL, 'j'},
        {"seed", required_argument, NULL, 's'},    {"rounds", required_argument, NULL, 'r'},
        {"first", required_argument, NULL, 'f'},   {"processes", required_argument, NULL, 'p'},
        {"threads", required_argument, NULL, 't'}, {"run", required_argument, NULL, 'u'},
        {"proxy", required_argument, NULL, 'x'},   {"paths", required_argument, NULL, 'n'},
        {"power", required_argument, NULL, 'w'},   {"restart", no_argument, NULL, 'R'},
        {"faults", required_argument, NULL, 'F'},  {"sabotage", required_argument, NULL, 'S'},
        {"verbose", no_argument, NULL, 'v'},       {NULL, 0, NULL, 0}};
    const char *directory = NULL, *faults = NULL;
    int option;
    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return worker_process(argc, argv);
    options.self = argv[0];
    while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        switch (option) {
        case 'd':
            directory = optarg;
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
        case 'u':
            control_words(optarg, options.run);
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
        case 'F':
            faults = optarg;
            break;
        case 'S':
            options.sabotage = optarg;
            break;
        case 'v':
            options.verbose = true;
            break;
        default:
            return 2;
        }
    }
    if (!directory || !options.journal || optind != argc)
        die("--dir and --journal are needed; see the top of test/fault/torture.c");
    signal(SIGPIPE, SIG_IGN);
    faults_option(faults);
    journal_start(directory);
    files_make();
    return torture() ? 0 : 1;
}
