/*
 * The server of test/servers/v41_server.h as a program: NFS version 4.1 at memory speed, files that
 * are gone when it ends.
 *
 *     sessionserver PORT [PATH...]    listens at all addresses, and has these empty files
 *
 * What it is told on standard input, a line each:
 *
 *     power               what is not stable is lost, sessions too, and connections end
 *     forget              leases end: clients and sessions are not known any more
 *     reset               connections end
 *     fail OP STATUS [N]  the next N operations (numbers of RFC 8881) are answered with a status
 *     drop OP [N]         the connection ends with the N-th from now, which is executed
 *     lose OP [N]         likewise, and it is not executed
 *     hold OP, release [reverse]     it waits, and what waits is executed
 *     slots N, target N, flags N, lie N, open N, grace N, bind N, addresses N, cut N
 *                         what struct v41_control calls slots, target, flags, lie, insist_open,
 *                         grace, bind_needed, by_address, cut_reply
 *     counters            a line of NAME=NUMBER on standard output
 *
 * Each line is answered by `ok`, `no` or the counters. It ends with its input.
 */
#include "v41_server.h"

enum { OTHER_ARGUMENTS = 2 };

static void tell_counters(struct v41_server *server)
{
    struct v41_control *c = server->control;
    printf("compounds=%u connections=%u replays=%u uncached=%u misordered=%u false=%u bad=%u "
           "bound=%u highest=%u clients=%u sessions=%u opens=%u kept=%u unstable=%u stable=%u "
           "lost=%llu",
           c->compounds, c->connections, c->replays, c->uncached_retries, c->misordered,
           c->false_retries, c->bad_calls, c->bound, c->highest_slot, c->clients, c->sessions,
           c->opens, c->kept, c->writes[0], c->writes[1] + c->writes[2],
           (unsigned long long)c->lost_bytes);
    for (unsigned op = 0; op < V41_OPS; op++) {
        if (c->calls[op])
            printf(" op%u=%u", op, c->calls[op]);
    }
    printf("\n");
}

/* Words with one number. */
static bool set_value(struct v41_control *c, const char *word, unsigned value)
{
    const struct {
        const char *word;
        _Atomic unsigned *number;
        _Atomic bool *flag;
    } values[] = {{"slots", &c->slots, NULL},         {"target", &c->target, NULL},
                  {"flags", &c->flags, NULL},         {"lie", &c->lie, NULL},
                  {"cut", &c->cut_reply, NULL},       {"open", NULL, &c->insist_open},
                  {"grace", NULL, &c->grace},         {"bind", NULL, &c->bind_needed},
                  {"addresses", NULL, &c->by_address}};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        if (strcmp(word, values[i].word) != 0)
            continue;
        if (values[i].number)
            atomic_store(values[i].number, value);
        else
            atomic_store(values[i].flag, value != 0);
        return true;
    }
    return false;
}

/* Words with an operation. */
static bool set_operation(struct v41_control *c, const char *word, unsigned op,
                          const unsigned *others)
{
    if (op >= V41_OPS)
        return false;
    if (strcmp(word, "fail") == 0) {
        atomic_store(&c->fail_status[op], others[0]);
        atomic_store(&c->fail_count[op], others[1] ? others[1] : 1);
    } else if (strcmp(word, "drop") == 0) {
        atomic_store(&c->drop_after[op], others[0] ? others[0] : 1);
    } else if (strcmp(word, "lose") == 0) {
        atomic_store(&c->drop_before[op], others[0] ? others[0] : 1);
    } else if (strcmp(word, "hold") == 0) {
        atomic_fetch_or(&c->hold_calls, UINT64_C(1) << op);
    } else {
        return false;
    }
    return true;
}

static bool obey(struct v41_server *server, const char *line)
{
    char word[16] = "", how[16] = "";
    unsigned first = 0, others[OTHER_ARGUMENTS] = {0};
    int words = sscanf(line, "%15s %u %u %u", word, &first, &others[0], &others[1]);
    sscanf(line, "%*s %15s", how);
    if (strcmp(word, "power") == 0)
        v41_lose_power(server);
    else if (strcmp(word, "forget") == 0)
        v41_forget_sessions(server);
    else if (strcmp(word, "reset") == 0)
        v41_break_all(server);
    else if (strcmp(word, "release") == 0)
        v41_release(server, strcmp(how, "reverse") == 0);
    else
        return words > 1 && (set_value(server->control, word, first) ||
                             set_operation(server->control, word, first, others));
    return true;
}

int main(int argc, char **argv)
{
    char line[128];
    struct v41_server *server =
        argc > 1 ? v41_server_start(NULL, INADDR_ANY, (in_port_t)atoi(argv[1])) : NULL;
    if (!server) {
        fprintf(stderr, "usage: sessionserver PORT [PATH...]; or the port is in use\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        v41_node_at(&server->state.store, argv[i]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ok %u\n", server->port);
    while (fgets(line, sizeof(line), stdin)) {
        if (strncmp(line, "counters", 8) == 0)
            tell_counters(server);
        else
            puts(obey(server, line) ? "ok" : "no");
    }
    v41_server_stop(server);
    return 0;
}
