/*
 * Two hosts: programs of two run directories, under the library, write the same blocks of a server
 * in turns. A host hands over after an fsync of all, or dies before: its programs are killed, or
 * its agent, or all at once as a container ends; processes are stopped, and go on; the server loses
 * power. What a host made stable is never undone by what the other one left unsent; and what
 * write(2) accepted is sent by who lives, or set aside, or was overwritten. See hosts_strays.h for
 * the last.
 *
 *     hosts --dir DIR --journal FILE [--seed S] [--rounds N] [--first ROUND] [--ends KIND,...]
 *           --host "WORD..." --run-directory DIR --host "WORD..." --run-directory DIR
 *           --power SOCKET --proxy SOCKET [--log FILE --log FILE] [--no-losses] [--verbose]
 *
 * --host: the words that start a program on the first host, and on the second. The n-th has the
 * n-th path of the proxy. --log: of NFSv3 only, see hosts_overtaken.h. --ends: only such ends of
 * turns, see ends[]. Ends with 0 when every round was right, else with 1 and the seed, the round,
 * and the block.
 */
#include <getopt.h>

#include "hosts/hosts_turn.h"

/* ---- rounds ---- */

static bool programs_end(void)
{
    atomic_store(&journal->step, UINT32_MAX);
    syscall(SYS_futex, &journal->step, FUTEX_WAKE, INT32_MAX, NULL);
    for (unsigned i = 0; i < HOSTS * PROGRAMS; i++) {
        pid_t *program = &hosts[i / PROGRAMS].programs[i % PROGRAMS];
        int status = *program > 0 ? process_wait(*program) : 0;
        if (status != 0)
            failed("program %u of host %u %s %d", i % PROGRAMS, i / PROGRAMS,
                   status < 0 ? "hangs" : "ended with status", status);
        *program = 0;
    }
    return !atomic_load(&journal->failed);
}

static bool round_run(unsigned round)
{
    uint64_t errors = atomic_load(&journal->errors);
    disturbed = false;
    atomic_store(&journal->step, 0);
    plan.random = mix(options.seed * 1000 + round) | 1;
    unsigned host = choose(0, HOSTS - 1);
    unsigned stays = choose(0, 15); /* a bit for each turn: the host hands over to itself */
    for (unsigned i = 0; i < TURNS; i++) {
        if (!turn_run(round * TURNS + i + 1, host))
            return false;
        host = (stays & mix(round * TURNS + i) & 7) == 7 ? host : 1 - host;
    }
    if (!programs_end())
        return false;
    for (unsigned i = 0; i < HOSTS; i++) {
        backs[i] = BACK_SELF;
        visitor_start(i);
        if (!visitor_end(i) || !debts_check(i, "back at the end of the round"))
            return false;
        strays_read(i, true);
    }
    if (!disturbed && atomic_load(&journal->errors) > errors)
        failed("a call failed, though nobody was killed or stopped");
    reap_agents();
    return check_now("at the end of a round") &&
           (!options.losses || power_loss("at the end of a round, the power was lost"));
}

static void report_failure(unsigned round)
{
    printf("FAILED: seed %llu round %u, turn %u of host %u (%s): %s\n",
           (unsigned long long)options.seed, round, turn->number, turn->host, end_names[plan.end],
           journal->failure);
    printf("# again: --seed %llu --first %u --rounds 1\n", (unsigned long long)options.seed, round);
    fflush(stdout);
}

static bool run(void)
{
    for (unsigned round = options.first; round < options.first + options.rounds; round++) {
        bool right = round_run(round);
        for (unsigned i = 0; i < HOSTS && (!right || round + 1 == options.first + options.rounds);
             i++)
            host_kill(i);
        if (!right) {
            report_failure(round);
            return false;
        }
    }
    printf("%u rounds, %u checks, %u losses of power, %llu writes %llu reads %llu syncs %llu "
           "errors, %llu warm; %u arrivals, %u visits, %u stalls; debts: %u sent, %u aside, "
           "%u of them needlessly, %u unknown, %u stray files, %u overtaken; ends:",
           options.rounds, checks, losses, (unsigned long long)journal->writes,
           (unsigned long long)journal->reads, (unsigned long long)journal->syncs,
           (unsigned long long)journal->errors, (unsigned long long)journal->behind, arrivals,
           visits, stalls, debts_sent, debts_aside, debts_needless, debts_unknown, stray_files,
           overtaken);
    for (unsigned i = 0; i < END_COUNT; i++)
        printf(" %s %u", end_names[i], ends_done[i]);
    putchar('\n');
    return true;
}

/* ---- start ---- */

static void files_make(void)
{
    static unsigned char bytes[BLOCK_MOST];
    static const char *const others[] = {"warm", "other"};
    char path[512];
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        int fd = open(file_path(others[i], path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || ftruncate(fd, 4096) < 0)
            die("%s: %s", path, strerror(errno));
        close(fd);
    }
    for (unsigned file = 0; file < FILES; file++) {
        unsigned size = files_of_hosts[file].size;
        struct stat st;
        files[file] = open(file_path(files_of_hosts[file].name, path),
                           O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        for (unsigned block = 0; block < files_of_hosts[file].count; block++) {
            block_fill(bytes, file, block, 0);
            if (pwrite(files[file], bytes, size, (off_t)block * size) != (ssize_t)size)
                die("%s: %s", path, strerror(errno));
        }
        if (fstat(files[file], &st) < 0)
            die("%s: %s", path, strerror(errno));
        inodes[file] = st.st_ino;
    }
}

static void ends_option(const char *text)
{
    for (unsigned i = 0; i < END_COUNT; i++) {
        options.allowed[i] = !text;
        for (const char *at = text; at && *at; at += strcspn(at, ","), at += *at == ',') {
            size_t length = strcspn(at, ",");
            if (strlen(end_names[i]) == length && strncmp(at, end_names[i], length) == 0)
                options.allowed[i] = true;
        }
    }
}

static void options_read(int argc, char **argv, const char **directory)
{
    static const struct option names[] = {OPTION("dir", 'd'),           OPTION("journal", 'j'),
                                          OPTION("seed", 's'),          OPTION("host", 'h'),
                                          OPTION("run-directory", 'D'), OPTION("rounds", 'r'),
                                          OPTION("log", 'l'),           OPTION("ends", 'e'),
                                          OPTION("first", 'f'),         OPTION("proxy", 'x'),
                                          OPTION("power", 'w'),         FLAG("no-losses", 'L'),
                                          FLAG("verbose", 'v'),         {NULL, 0, NULL, 0}};
    int option;
    ends_option(NULL);
    while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        switch (option) {
        case 'd':
            *directory = optarg;
            break;
        case 'j':
            journal_name = optarg;
            break;
        case 's':
            options.seed = number_option("seed", optarg, 0, UINT64_MAX);
            break;
        case 'h':
            if (options.hosts < HOSTS)
                control_words(optarg, hosts[options.hosts++].words);
            break;
        case 'D':
            if (options.directories < HOSTS)
                hosts[options.directories++].run = optarg;
            break;
        case 'l':
            if (options.logs < HOSTS)
                hosts[options.logs++].log = optarg;
            break;
        case 'r':
            options.rounds = (unsigned)number_option("rounds", optarg, 1, 1000000);
            break;
        case 'e':
            ends_option(optarg);
            break;
        case 'f':
            options.first = (unsigned)number_option("first", optarg, 0, 1000000);
            break;
        case 'x':
            options.proxy = optarg;
            break;
        case 'w':
            options.power = optarg;
            break;
        case 'L':
            options.losses = false;
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
    const char *directory = NULL;
    if (argc > 1 && strcmp(argv[1], "--program") == 0)
        return program_process(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--visit") == 0)
        return visitor_process(argc, argv);
    self_name = argv[0];
    options_read(argc, argv, &directory);
    if (!directory || !journal_name || !options.proxy || !options.power || options.hosts < HOSTS ||
        options.directories < HOSTS || optind != argc)
        die("two hosts are needed, and more; see the top of test/fault/hosts.c");
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    journal = journal_map(journal_name, true);
    journal->seed = options.seed;
    snprintf(journal->directory, sizeof journal->directory, "%s", directory);
    files_make();
    return run() ? 0 : 1;
}
