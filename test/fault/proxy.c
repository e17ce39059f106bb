/*
 * A TCP proxy for NFS that knows where records begin and end. It stands between a client and a real
 * server, on one address (IPv4 or IPv6) for each network path, and does to them what networks and
 * servers do.
 *
 *     proxy --listen ADDRESS... --nfs ADDRESS:PORT [--mount ADDRESS:PORT] --control SOCKET
 *           [--nfs-port N] [--mount-port N] [--seed S] [--script FILE]
 *           [--certificate FILE --key FILE [--authority FILE] [--direct]] [--late MS]
 *     proxy --ask SOCKET PATH|all COMMAND...
 *
 * Paths are numbered from 1 in the order of --listen. They listen on --nfs-port and --mount-port,
 * which are those of the server if not given.
 * Each connection of a client has one to the server, from the path's address (127.0.0.N+1 for an
 * IPv6 path N) and the client's port,
 * as the server would see it. With a certificate clients must use TLS, see proxy/tls.h; what others
 * send is counted (`clear`), and goes nowhere. A new connection from a port that had one ends the
 * old one first, as the SYN would at the server.
 *
 * --late: what is held reaches the server at most so many ms after its client's end of the
 * connection is gone, however busy the machine is; else it is lost. What may have been executed
 * later all the same is counted (`overdue`).
 *
 * Commands (CHANCE is a percentage, and how often at most):
 *
 *     pass                          an end of all faults
 *     delay MS [JITTER]             both directions
 *     drop|reorder|duplicate calls|replies CHANCE
 *     split BYTES                   segments of 1 to BYTES bytes
 *     stall MS calls|replies CHANCE a pause in the middle of a record
 *     corrupt xid|status|length|mark CHANCE    a field of a reply of NFS
 *     verifier NUMBER               other verifiers in replies to WRITE and COMMIT; 0: the server's
 *     answer STATUS PROCEDURE CHANCE    a failure to calls of this number, which go no further:
 *                                   28 a full disk, 30 read-only, 69 a quota, 10008 JUKEBOX
 *     blackhole [calls|replies]     nothing gets through, not even the end of a connection
 *     tamper calls|replies CHANCE   what TLS or Kerberos protects is changed on its way
 *     rekey CHANCE                  before a reply new keys are made (TLS)
 *     deny                          no TLS for new connections that ask for it
 *     refuse                        no new connections
 *     limit N                       no more connections than N
 *     dropafter N                   a reset after each N calls
 *     reset | halfclose             the connections that there are
 *     hold N|@OFFSET [setattr] [blackhole|reset|refuse] [late] [after MS]
 *                                   keeps the N-th WRITE from now, or the first to OFFSET, or the
 *                                   N-th SETATTR, and then
 *                                   becomes a black hole, or resets the connection, or refuses
 *                                   new ones as well. The call
 *                                   outlives a reset by the client in a black hole; a `late` one
 *                                   every end of its connection, as if the server had queued it,
 *                                   until the same call comes again from the same port. It is
 *                                   delivered MS milliseconds after the client knows that the
 *                                   connection is dead
 *     release                       delivers it now
 *     lost                          the server lost power: neither what is held nor any connection
 *                                   outlives that
 *     counters                      of a path
 *
 * A script has lines `MS PATH COMMAND...`: what to do so many milliseconds after the start.
 */
#include <getopt.h>

#include "control.h"
#include "proxy/relay.h"
#include "proxy/tls.h"

/* ---- commands ---- */

static void path_pass(struct path *path)
{
    path->faults = (struct faults){.hold_offset = NEVER, .hold_procedure = NFS_WRITE};
    if (!path_listen(path))
        die("path %td: %s", path - paths + 1, strerror(errno));
}

static void path_reset(struct path *path)
{
    for (struct connection *c = connections; c; c = c->next) {
        if (c->dead || c->path != path)
            continue;
        path->counters.resets++;
        connection_reset(c);
    }
}

static void path_deny(struct path *path)
{
    path->faults.deny = true;
}

static void path_halfclose(struct path *path)
{
    for (struct connection *c = connections; c; c = c->next) {
        if (!c->dead && c->path == path && c->ends[CALLS])
            shutdown(c->ends[CALLS]->watch.fd, SHUT_WR);
    }
}

static void path_release(struct path *path)
{
    for (struct held *held = helds; held; held = held->next) {
        if (held->path == path)
            held->due = 0;
    }
}

/* Also those that the kernel accepted and we have not yet: for their clients they exist. */
static void path_lost(struct path *path)
{
    for (unsigned port = 0; port < PORTS; port++) {
        int fd;
        while (path->listeners[port] &&
               (fd = accept4(path->listeners[port]->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
            socket_reset(&fd);
    }
    path_reset(path);
    for (struct held *held = helds; held; held = held->next) {
        if (held->path != path || !held->message)
            continue;
        if (held->connection)
            held->connection->held = NULL;
        held_discard(held);
    }
}

static bool word_direction(const char *word, enum direction *direction)
{
    *direction = strcmp(word, "replies") == 0 ? REPLIES : CALLS;
    return *direction == REPLIES || strcmp(word, "calls") == 0;
}

static bool word_chance(char **words, unsigned count, struct chance *chance)
{
    uint64_t percent, left = NEVER;
    if (count < 1 || count > 2 || !word_number(words[0], 100, &percent) ||
        (count == 2 && !word_number(words[1], NEVER, &left)))
        return false;
    *chance = (struct chance){(unsigned)percent, left};
    return true;
}

static bool command_hold(struct faults *faults, char **words, unsigned count)
{
    uint64_t number;
    if (count < 2 || !word_number(words[1] + (words[1][0] == '@'), NEVER - 1, &number) ||
        (words[1][0] != '@' && number == 0))
        return false;
    faults->hold_blackhole = faults->hold_reset = faults->hold_refuse = faults->hold_late = false;
    faults->hold_after_ms = NEVER;
    faults->hold_procedure = NFS_WRITE;
    for (unsigned i = 2; i < count; i++) {
        if (strcmp(words[i], "setattr") == 0 && words[1][0] != '@')
            faults->hold_procedure = NFS_SETATTR;
        else if (strcmp(words[i], "blackhole") == 0)
            faults->hold_blackhole = true;
        else if (strcmp(words[i], "reset") == 0)
            faults->hold_reset = true;
        else if (strcmp(words[i], "refuse") == 0)
            faults->hold_refuse = true;
        else if (strcmp(words[i], "late") == 0)
            faults->hold_late = true;
        else if (strcmp(words[i], "after") != 0 || ++i == count ||
                 !word_number(words[i], 3600000, &faults->hold_after_ms))
            return false;
    }
    faults->hold_count = words[1][0] == '@' ? 0 : number;
    faults->hold_offset = words[1][0] == '@' ? number : NEVER;
    return true;
}

/* Commands of one chance: NAME calls|replies CHANCE. */
static bool command_chance(struct faults *faults, char **words, unsigned count)
{
    static const char *const fields[FIELDS] = {"xid", "status", "length", "mark"};
    enum direction direction;
    uint64_t number;
    if (count < 3)
        return false;
    if (strcmp(words[0], "answer") == 0) {
        uint64_t status;
        if (!word_number(words[1], UINT32_MAX, &status) || status == NFS_OK ||
            !word_number(words[2], NFS_PROCEDURES - 1, &number))
            return false;
        faults->answer[number].status = (uint32_t)status;
        return word_chance(words + 3, count - 3, &faults->answer[number].chance);
    }
    if (strcmp(words[0], "corrupt") == 0) {
        for (unsigned i = 0; i < FIELDS; i++) {
            if (strcmp(words[1], fields[i]) == 0)
                return word_chance(words + 2, count - 2, &faults->corrupt[i]);
        }
        return false;
    }
    if (strcmp(words[0], "stall") == 0)
        return count > 3 && word_number(words[1], 3600000, &faults->stall_ms) &&
               word_direction(words[2], &direction) &&
               word_chance(words + 3, count - 3, &faults->stall[direction]);
    struct chance *chances = strcmp(words[0], "drop") == 0        ? faults->drop
                             : strcmp(words[0], "reorder") == 0   ? faults->reorder
                             : strcmp(words[0], "duplicate") == 0 ? faults->duplicate
                             : strcmp(words[0], "tamper") == 0    ? faults->tamper
                                                                  : NULL;
    return chances && word_direction(words[1], &direction) &&
           word_chance(words + 2, count - 2, &chances[direction]);
}

static bool command_of_path(struct path *path, char **words, unsigned count, FILE *out)
{
    struct faults *faults = &path->faults;
    enum direction direction;
    struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"delay", &faults->delay_ms},
                   {"split", &faults->split},
                   {"limit", &faults->limit},
                   {"dropafter", &faults->drop_after},
                   {"verifier", &faults->verifier}};
    const char *name = words[0];
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        return count > 1 && word_number(words[1], UINT32_MAX, numbers[i].value) &&
               (count < 3 || (i == 0 && word_number(words[2], UINT32_MAX, &faults->jitter_ms)));
    }
    if (strcmp(name, "hold") == 0)
        return command_hold(faults, words, count);
    if (strcmp(name, "rekey") == 0)
        return word_chance(words + 1, count - 1, &faults->rekey);
    if (strcmp(name, "blackhole") == 0) {
        bool one = count > 1;
        if (one && !word_direction(words[1], &direction))
            return false;
        faults->blackhole[CALLS] |= !one || direction == CALLS;
        faults->blackhole[REPLIES] |= !one || direction == REPLIES;
        return true;
    }
    if (count > 1)
        return command_chance(faults, words, count);
    static const struct {
        const char *name;
        void (*act)(struct path *path);
    } acts[] = {{"pass", path_pass},       {"refuse", path_refuse},
                {"reset", path_reset},     {"halfclose", path_halfclose},
                {"release", path_release}, {"lost", path_lost},
                {"deny", path_deny}};
    for (unsigned i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (strcmp(name, acts[i].name) != 0)
            continue;
        acts[i].act(path);
        return true;
    }
    if (strcmp(name, "counters") != 0)
        return false;
    fprintf(out, "path %td", path - paths + 1);
#define X(name) control_counter(out, #name, path->counters.name);
    COUNTERS
#undef X
    fputc('\n', out);
    return true;
}

static bool command(char **words, unsigned count, FILE *out)
{
    uint64_t number;
    if (count < 2)
        return false;
    if (strcmp(words[0], "all") == 0) {
        for (unsigned i = 0; i < path_count; i++) {
            if (!command_of_path(&paths[i], words + 1, count - 1, out))
                return false;
        }
        return true;
    }
    return word_number(words[0], path_count, &number) && number > 0 &&
           command_of_path(&paths[number - 1], words + 1, count - 1, out);
}

/* ---- the script ---- */

static uint64_t started;
static FILE *script;
static char script_line[1024];
static uint64_t script_at;

static void script_next(void)
{
    unsigned long long at;
    int used;
    script_line[0] = '\0';
    while (script && fgets(script_line, sizeof script_line, script)) {
        if (script_line[0] == '#' || sscanf(script_line, " %llu %n", &at, &used) != 1)
            continue;
        memmove(script_line, script_line + used, strlen(script_line + used) + 1);
        script_at = started + milliseconds(at);
        return;
    }
    script_line[0] = '\0';
}

/* Does one line, if it is due; else says when one is. */
static bool script_due(uint64_t now, uint64_t *next)
{
    char *words[WORDS_MOST];
    if (!script_line[0])
        return false;
    if (script_at > now) {
        *next = script_at;
        return false;
    }
    unsigned count = control_words(script_line, words);
    if (!command(words, count, stdout))
        die("the script: a line with `%s` is not understood", count > 1 ? words[1] : "");
    script_next();
    return true;
}

static uint64_t due(uint64_t now)
{
    uint64_t next = NEVER;
    while (script_due(now, &next))
        ;
    uint64_t at = relay_due(now);
    return at < next ? at : next;
}

/* ---- start ---- */

static struct sockaddr_in address_option(const char *name, const char *text)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    char address[64];
    snprintf(address, sizeof address, "%s", text);
    char *colon = strchr(address, ':');
    if (colon) {
        *colon = '\0';
        sin.sin_port = htons((uint16_t)number_option(name, colon + 1, 1, 65535));
    }
    if (inet_pton(AF_INET, address, &sin.sin_addr) != 1)
        die("--%s %s: expected an IPv4 address", name, text);
    return sin;
}

static void listen_option(const char *text)
{
    struct path *path = &paths[path_count++];
    if (path_count > PATHS_MOST)
        die("--listen: %d paths at most", PATHS_MOST);
    if (inet_pton(AF_INET6, text, &path->listens.v6.sin6_addr) == 1) {
        path->listens.v6.sin6_family = AF_INET6;
        path->address.s_addr = htonl(INADDR_LOOPBACK + path_count);
    } else {
        path->listens.v4 = address_option("listen", text);
        path->address = path->listens.v4.sin_addr;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        OPTION("listen", 'l'),    OPTION("nfs", 'n'),         OPTION("mount", 'm'),
        OPTION("nfs-port", 'N'),  OPTION("mount-port", 'M'),  CONTROL_OPTIONS,
        OPTION("script", 'f'),    OPTION("certificate", 't'), OPTION("key", 'k'),
        OPTION("authority", 'a'), FLAG("direct", 'd'),        OPTION("late", 'L'),
        {NULL, 0, NULL, 0}};
    struct tls_options tls = {0};
    const char *script_name = NULL;
    struct control_options control = {.seed = 1};
    int option;
    if (control_asks(argc, argv))
        return control_client(argc, argv);
    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (option) {
        case 'l':
            listen_option(optarg);
            break;
        case 'n':
            servers[0] = address_option("nfs", optarg);
            break;
        case 'm':
            servers[1] = address_option("mount", optarg);
            break;
        case 'N':
            listen_ports[0] = (uint16_t)number_option("nfs-port", optarg, 1, 65535);
            break;
        case 'M':
            listen_ports[1] = (uint16_t)number_option("mount-port", optarg, 1, 65535);
            break;
        case 'f':
            script_name = optarg;
            break;
        case 't':
            tls.certificate = optarg;
            break;
        case 'k':
            tls.key = optarg;
            break;
        case 'a':
            tls.authority = optarg;
            break;
        case 'd':
            tls.direct = true;
            break;
        case 'L':
            late_most_ns = milliseconds(number_option("late", optarg, 1, 3600000));
            break;
        default:
            control_option(&control, option);
        }
    }
    if (!path_count || !servers[0].sin_port || !control.path || optind != argc) {
        fputs("usage: proxy --listen ADDRESS... --nfs ADDRESS:PORT [--mount ADDRESS:PORT]\n"
              "             --control SOCKET [--nfs-port N] [--mount-port N] [--seed S]\n"
              "             [--script FILE] [--certificate FILE --key FILE [--authority FILE]\n"
              "             [--direct]] [--late MS]\n"
              "       proxy --ask SOCKET PATH|all COMMAND...\n",
              stderr);
        return 2;
    }
    random_state = mix(control.seed) | 1;
    started = clock_ns();
    if (script_name && !(script = fopen(script_name, "r")))
        die("%s: %s", script_name, strerror(errno));
    if (tls.certificate)
        tls_start(&tls);
    script_next();
    for (unsigned i = 0; i < path_count; i++)
        path_pass(&paths[i]);
    control_run(control.path, command, due);
    for (struct connection *c = connections; c; c = c->next)
        connection_reset(c);
    return 0;
}
