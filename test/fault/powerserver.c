/*
 * A server of NFSv3 and NFSv4.1 that can lose power. It serves a directory, so that the kernel sees
 * the same files, and knows what stable storage would hold of them (power_stable.h). A loss of
 * power brings that back, and with it a new write verifier (RFC 1813, section 4.8).
 *
 *     powerserver --dir DIR --port N --mount-port N --control SOCKET [--seed S]
 *     powerserver --ask SOCKET COMMAND...
 *
 *     power-loss [SURVIVE [MS]]  each changed page survives with SURVIVE per cent; connections and
 *                                the cache of replies are gone. Off for MS milliseconds, or until
 *     up
 *     down                       off, but nothing is lost
 *     reset                      of all connections
 *     slow MS [commits]          each call is answered so much later; or COMMITs only, and what
 *                                they vouch for becomes stable just before
 *     most BYTES                 rtmax and wtmax; of a longer READ or WRITE a part is done
 *     badcommit N                the N-th COMMIT from now fails with NFS3ERR_IO, and the file's
 *                                data that are not stable are lost: a disk tells an error only once
 *     park N MS [reset]          the N-th WRITE from now is taken, but executed MS later, as by a
 *                                server whose disk hangs; it outlives its connection, which ends
 *                                now with `reset`
 *     rehandle same|others [N]   every file gets a new handle, the root too; the old ones are stale
 *                                (NFS3ERR_STALE). Now, or just before the N-th WRITE from now.
 *                                `same`: the files are what they were. `others`: each name has
 *                                another file with equal bytes, as after a restore from a backup;
 *                                the old ones live on in the directory DIR.before
 *                                Between `power-loss` and `up` nobody sees it happen
 *     lie NAME [PERCENT]         so many replies (all) are wrong in one way, see power_lies.h
 *     lie truth                  an end of that
 *     lies                       their names
 *     counters
 *     and those of power_sessions.h
 *
 * Calls that change something have their replies kept, by the client's address and port, xid and
 * procedure, as servers of NFSv3 do: a call that comes again is not executed again, and waits if
 * the first is not done yet. `again` counts WRITEs that were executed though the same bytes were
 * written to the same place by an earlier call.
 */
#include <getopt.h>
#include <sys/random.h>

#include "control.h"
#include "power_execute.h"
#include "power_lies.h"
#include "power_sessions.h"

/* A machine that is busy executes nothing so late that its client does not expect it any more. */
enum { REPLIES = 4096, PARK_LATE_MS = 100 };

struct client {
    struct watch watch;
    struct client *next;
    struct sockaddr_in address;
    struct input in;
    struct message *out;
    enum after after; /* what comes when `out` is sent */
};

struct reply {
    struct sockaddr_in client;
    uint32_t xid, procedure;
    bool used, parked;
    size_t length;
    unsigned char bytes[REPLY_MOST];
};

/* A call that is executed later. */
struct parked {
    struct parked *next;
    uint64_t due;
    struct client *client; /* who waits for its reply; NULL: nobody */
    struct reply *reply;
    struct message *call;
};

static struct reply replies[REPLIES];
static unsigned reply_next;
static struct parked *parked;
static struct client *clients;
static struct watch *listeners[2];
static uint16_t ports[2];
static uint64_t up_at, slow_ms, slow_commit_ms, park_count, park_ms, rehandle_count;
static bool park_reset, rehandle_others;

/* ---- clients ---- */

static void client_close(struct client *client)
{
    socket_reset(&client->watch.fd);
    client->watch.dead = true;
    for (struct parked *p = parked; p; p = p->next)
        p->client = p->client == client ? NULL : p->client;
}

static void client_queue(struct client *client, struct message *m, uint64_t ms)
{
    struct message **link = &client->out;
    while (*link)
        link = &(*link)->next;
    m->due = clock_ns() + milliseconds(ms);
    *link = m;
}

/* Takes the reply to `call`. */
static void client_answer(struct client *client, const struct call *call, struct message *m)
{
    struct lie lie = {
        .m = m, .program = call->program, .procedure = call->procedure, .random = &random_state};
    if (call->in_session && odd->mute) {
        free(m);
        return;
    }
    if (client->after == AFTER_NOTHING && lie_now(&random_state)) {
        lie_tell(&lie);
        counters.lies++;
        m = lie.m;
        client->after = lie.after == AFTER_DRIP ? AFTER_NOTHING : lie.after;
    } else if (client->after != AFTER_NOTHING) {
        free(m);
        return;
    }
    enum { DRIPS = 48, DRIP_MS = 3 };
    for (unsigned i = 0; lie.after == AFTER_DRIP && i < DRIPS; i++) {
        client_queue(client, message_make(m->data + m->sent, 1), slow_ms + i * DRIP_MS);
        if (++m->sent == m->length)
            lie.after = AFTER_NOTHING;
    }
    if (m && m->sent < m->length)
        client_queue(client, m, slow_ms + (m->sent ? DRIPS * DRIP_MS : 0));
    else
        free(m);
}

static struct reply *reply_find(const struct client *client, const struct call *call)
{
    for (unsigned i = 0; i < REPLIES; i++) {
        struct reply *reply = &replies[i];
        if (reply->used && reply->xid == call->xid && reply->procedure == call->procedure &&
            same_address(&reply->client, &client->address))
            return reply;
    }
    return NULL;
}

static struct reply *reply_new(const struct client *client, const struct call *call)
{
    struct reply *reply;
    do
        reply = &replies[reply_next++ % REPLIES];
    while (reply->parked);
    *reply = (struct reply){
        .client = client->address, .xid = call->xid, .procedure = call->procedure, .used = true};
    return reply;
}

static void reply_keep(struct reply *reply, const struct message *m)
{
    reply->parked = false;
    reply->length = m->length;
    if (m->length <= sizeof reply->bytes)
        memcpy(reply->bytes, m->data, m->length);
    else
        reply->used = false;
}

static void call_park(struct client *client, struct reply *reply, struct message *record,
                      uint64_t ms)
{
    struct parked *p = need(sizeof *p);
    *p = (struct parked){.next = parked,
                         .due = clock_ns() + milliseconds(ms),
                         .client = client,
                         .reply = reply,
                         .call = record};
    if (reply)
        reply->parked = true;
    parked = p;
    counters.parked++;
}

/* Answers a call, or sees that it will be. Takes the record. */
static void call_came(struct client *client, struct message *record)
{
    struct call call;
    if (!call_parse(record->data + 4, record->length - 4, &call)) {
        client_close(client);
        free(record);
        return;
    }
    bool changes = call.program == NFS_PROGRAM && !call.in_session &&
                   (call.procedure == NFS_WRITE || call.procedure == NFS_SETATTR ||
                    call.procedure == NFS_CREATE || call.procedure == NFS_COMMIT);
    struct reply *reply = changes ? reply_find(client, &call) : NULL;
    if (reply && reply->parked) {
        counters.waited++;
        for (struct parked *p = parked; p; p = p->next)
            p->client = p->reply == reply ? client : p->client;
    } else if (reply) {
        counters.cached++;
        client_answer(client, &call, message_make(reply->bytes, reply->length));
    } else {
        reply = changes ? reply_new(client, &call) : NULL;
        if (call.program == NFS_PROGRAM && call.procedure == NFS_WRITE && rehandle_count > 0 &&
            --rehandle_count == 0)
            rehandle(rehandle_others);
        if (call.program == NFS_PROGRAM && call.procedure == NFS_WRITE && park_count > 0 &&
            --park_count == 0) {
            call_park(client, reply, record, park_ms);
            if (park_reset)
                client_close(client);
            return;
        }
        if (call.program == NFS_PROGRAM && call.procedure == NFS_COMMIT && slow_commit_ms > 0) {
            call_park(client, reply, record, slow_commit_ms);
            return;
        }
        struct message *m = execute(record, &call);
        if (!m) {
            if (reply)
                reply->used = false;
            client_close(client);
        } else {
            if (reply)
                reply_keep(reply, m);
            client_answer(client, &call, m);
        }
    }
    free(record);
}

/* Nobody waits for it any more, and its time is over: it counts as lost on its way. */
static bool parked_is_late(const struct parked *p, uint64_t now)
{
    return !p->client && now > p->due + milliseconds(PARK_LATE_MS);
}

static void parked_execute(struct parked *p, uint64_t now)
{
    struct call call;
    struct message *m =
        !parked_is_late(p, now) && call_parse(p->call->data + 4, p->call->length - 4, &call)
            ? execute(p->call, &call)
            : NULL;
    if (!m) {
        if (p->reply)
            p->reply->used = p->reply->parked = false;
    } else {
        if (p->reply)
            reply_keep(p->reply, m);
        if (p->client)
            client_answer(p->client, &call, m);
        else
            free(m);
    }
    free(p->call);
    free(p);
}

static void client_send(struct client *client, uint64_t now)
{
    client->watch.events &= (short)~POLLOUT;
    while (client->out && client->out->due <= now) {
        struct message *m = client->out;
        ssize_t sent = send(client->watch.fd, m->data + m->sent, m->length - m->sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            client->watch.events |= POLLOUT;
            return;
        }
        if (sent < 0) {
            client_close(client);
            return;
        }
        m->sent += (size_t)sent;
        if (m->sent < m->length)
            continue;
        client->out = m->next;
        free(m);
    }
}

static void client_ready(struct watch *watch, short events)
{
    struct client *client = (struct client *)watch;
    struct message *record;
    bool garbage = false;
    if (!(events & (POLLIN | POLLERR | POLLHUP)))
        return;
    int got = input_receive(&client->in, watch->fd);
    while (!watch->dead && (record = input_record(&client->in, &garbage)))
        call_came(client, record);
    if (!watch->dead && (got < 0 || garbage)) {
        client_send(client, NEVER);
        client_close(client);
    }
}

static void listener_ready(struct watch *watch, short events)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = accept4(watch->fd, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)events;
    if (fd < 0)
        return;
    if (lie_now_at_accept(&random_state)) {
        counters.lies++;
        close(fd);
        return;
    }
    socket_ready(fd);
    struct client *client = need(sizeof *client);
    client->watch = (struct watch){.fd = fd, .events = POLLIN, .ready = client_ready};
    client->address = address;
    client->next = clients;
    clients = client;
    counters.connections++;
    watch_add(&client->watch);
}

/* ---- power ---- */

static void go_up(void)
{
    up_at = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (listeners[i] || !ports[i])
            continue;
        union address loopback = {
            .v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
        int fd = tcp_listen(loopback, ports[i]);
        if (fd < 0)
            die("port %u: %s", ports[i], strerror(errno));
        listeners[i] = need(sizeof(struct watch));
        *listeners[i] = (struct watch){.fd = fd, .events = POLLIN, .ready = listener_ready};
        watch_add(listeners[i]);
    }
}

static void clients_reset(void)
{
    for (struct client *client = clients; client; client = client->next) {
        if (!client->watch.dead)
            client_close(client);
    }
}

static void go_down(void)
{
    for (unsigned i = 0; i < 2; i++) {
        if (!listeners[i])
            continue;
        socket_reset(&listeners[i]->fd);
        listeners[i]->dead = true;
        listeners[i] = NULL;
    }
    clients_reset();
}

static void power_loss(uint64_t survive)
{
    go_down();
    while (parked) { /* what was not executed never will be */
        struct parked *p = parked;
        parked = p->next;
        free(p->call);
        free(p);
    }
    memset(replies, 0, sizeof replies);
    sessions_forget_all();
    counters.losses++;
    stable_lose(survive, &random_state);
    counters.lost_pages = lost_pages;
    uint64_t verifier = mix(random_next(&random_state) ^ clock_ns());
    memcpy(server.verifier, &verifier, sizeof server.verifier);
}

static bool command(char **words, unsigned count, FILE *out)
{
    const char *name = words[0];
    uint64_t ms = 0, survive = 0;
    if (strcmp(name, "power-loss") == 0) {
        if ((count > 1 && !word_number(words[1], 100, &survive)) ||
            (count > 2 && !word_number(words[2], 3600000, &ms)))
            return false;
        power_loss(survive);
        up_at = count > 2 ? clock_ns() + milliseconds(ms) : 0;
        return true;
    }
    if (strcmp(name, "slow") == 0)
        return (count == 2 && word_number(words[1], 3600000, &slow_ms)) ||
               (count == 3 && strcmp(words[2], "commits") == 0 &&
                word_number(words[1], 3600000, &slow_commit_ms));
    if (strcmp(name, "most") == 0) {
        if (count != 2 || !word_number(words[1], TRANSFER_MOST, &ms) || ms < 512)
            return false;
        server.most = (uint32_t)ms;
        return true;
    }
    if (strcmp(name, "lie") == 0) {
        ms = 100;
        return (count == 2 || (count == 3 && word_number(words[2], 100, &ms))) &&
               lie_choose(words[1], (unsigned)ms);
    }
    if (strcmp(name, "badcommit") == 0)
        return count == 2 && word_number(words[1], UINT32_MAX, &bad_count);
    if (strcmp(name, "park") == 0) {
        park_reset = count == 4 && strcmp(words[3], "reset") == 0;
        return count >= 3 && word_number(words[1], UINT32_MAX, &park_count) &&
               word_number(words[2], 3600000, &park_ms);
    }
    if (strcmp(name, "rehandle") == 0) {
        if (count < 2 || (strcmp(words[1], "same") != 0 && strcmp(words[1], "others") != 0) ||
            (count > 2 && !word_number(words[2], UINT32_MAX, &rehandle_count)))
            return false;
        rehandle_others = strcmp(words[1], "others") == 0;
        if (count == 2)
            rehandle(rehandle_others);
        return true;
    }
    if (sessions_command(words, count, out))
        return true;
    if (count > 1)
        return false;
    if (strcmp(name, "down") == 0) {
        go_down();
        up_at = 0;
    } else if (strcmp(name, "up") == 0) {
        go_up();
    } else if (strcmp(name, "reset") == 0) {
        clients_reset();
    } else if (strcmp(name, "lies") == 0) {
        for (unsigned i = 0; lie_name(i); i++)
            fprintf(out, "%s\n", lie_name(i));
    } else if (strcmp(name, "counters") == 0) {
#define X(name) control_counter(out, #name, counters.name);
        COUNTERS
#undef X
        fputc('\n', out);
    } else {
        return false;
    }
    return true;
}

static uint64_t due(uint64_t now)
{
    uint64_t next = NEVER;
    if (up_at && up_at <= now)
        go_up();
    if (up_at)
        next = up_at;
    for (struct parked **link = &parked; *link;) {
        struct parked *p = *link;
        if (p->due <= now) {
            *link = p->next;
            parked_execute(p, now);
            continue;
        }
        next = p->due < next ? p->due : next;
        link = &p->next;
    }
    for (struct client **link = &clients; *link;) {
        struct client *client = *link;
        if (!client->watch.dead)
            client_send(client, now);
        if (client->after == AFTER_CLOSE && !client->out && !client->watch.dead)
            client_close(client);
        if (client->watch.dead) {
            *link = client->next;
            messages_free(&client->out);
            free(client->in.bytes);
            continue;
        }
        if (client->out && client->out->due > now && client->out->due < next)
            next = client->out->due;
        link = &client->next;
    }
    mappings_release();
    return next;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {OPTION("dir", 'd'),
                                            OPTION("port", 'p'),
                                            OPTION("mount-port", 'm'),
                                            CONTROL_OPTIONS,
                                            {NULL, 0, NULL, 0}};
    const char *directory = NULL;
    struct control_options control = {.seed = 1};
    int option;
    if (control_asks(argc, argv))
        return control_client(argc, argv);
    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (option) {
        case 'd':
            directory = optarg;
            break;
        case 'p':
            ports[0] = (uint16_t)number_option("port", optarg, 1, 65535);
            break;
        case 'm':
            ports[1] = (uint16_t)number_option("mount-port", optarg, 1, 65535);
            break;
        default:
            control_option(&control, option);
        }
    }
    if (!directory || !ports[0] || !control.path || optind != argc) {
        fputs("usage: powerserver --dir DIR --port N [--mount-port N] --control SOCKET [--seed S]\n"
              "       powerserver --ask SOCKET COMMAND...\n",
              stderr);
        return 2;
    }
    umask(0);
    random_state = mix(control.seed) | 1;
    if (getrandom(server.verifier, sizeof server.verifier, 0) != sizeof server.verifier ||
        getrandom(&server.instance, sizeof server.instance, 0) != sizeof server.instance)
        die("getrandom: %s", strerror(errno));
    memory.instance = server.instance;
    server.commit_fails = commit_is_bad;
    odd = &sessions_odd;
    directory_open(directory);
    files_catch_faults();
    go_up();
    control_run(control.path, command, due);
    clients_reset();
    files_forget_all();
    return 0;
}
