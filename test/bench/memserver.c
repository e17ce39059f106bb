// memserver: a server of NFSv3 and NFSv4.1 at memory speed, to measure clients against.
//
// One thread, epoll, TCP.  It serves the files of one directory, meant to be on tmpfs, through
// shared mappings: the payload of a READ reply leaves by sendmsg straight from the file's memory,
// requests arrive in large batches and their replies leave together.  MOUNT and NFS are answered on
// either port.  There is no access control beyond the answer to ACCESS: for benchmarks on the
// loopback only.
//
// With --delay it is far away: each reply leaves that much later than its request came.  Requests
// are executed and others answered meanwhile, as a long line delays calls but lets many be under
// way.
//
// A request that breaks a rule of RFC 5531 or of XDR closes its connection.
#include <getopt.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "memserver/replies.h"

#define HEADER_ROOM   4096u        // of a WRITE request around its payload, generously
#define RECEIVE_MOST  (256u << 10) // in one system call, unless a record is longer
#define SWEEP_SECONDS 5
#define DELAY_MOST    (1000000u * SWEEP_SECONDS) // microseconds

// One client.  Owned by the event loop; dies at the first error on its socket.
struct connection {
    struct connection *next, *previous;
    int fd;
    bool blocked; // replies wait for room in the socket; no input is taken meanwhile

    // input[record .. assembled) is the record being put together from its fragments (nothing while
    // record == assembled); input[raw .. tail) are the bytes after it, not yet looked at.
    unsigned char *input;
    size_t record, assembled, raw, tail;
    struct replies replies;
};

// Of the event loop.
static struct {
    int epoll;
    uint64_t delay_ns;              // from a request to its reply
    size_t input_bytes;             // of every connection's input
    struct connection *connections; // all of them
} loop;

static volatile sig_atomic_t stop_wanted, counters_wanted;

static uint64_t now_if_delayed(void)
{
    return loop.delay_ns ? clock_ns() : 0;
}

// Requests

// Answers one request.  False when it is garbage: the connection is to be closed.
static bool request_answer(struct batch *b, const unsigned char *record, size_t length)
{
    unsigned char *start = b->output + b->output_used;
    struct wire_writer w = {start, start + REPLY_MOST, false};
    struct payload payload = {NULL, 0};
    if (!request_execute(record, length, &w, &payload))
        return false;

    static const unsigned char zeroes[4];
    size_t padding = -payload.length & 3;
    wire_record_end(&w, start, payload.length + padding);
    batch_append(b, start, (size_t)(w.at - start));
    b->output_used += (size_t)(w.at - start);
    if (payload.length)
        batch_append(b, payload.data, payload.length);
    if (padding)
        batch_append(b, zeroes, padding);
    b->payload += payload.length;
    return true;
}

// The next whole record.  1 there is one at *record, 0 not yet, -1 it is too long.
static int record_next(struct connection *c, const unsigned char **record, size_t *length)
{
    while (c->tail - c->raw >= 4) {
        uint32_t mark = wire_load32(c->input + c->raw);
        size_t fragment = mark & ~RPC_LAST_FRAGMENT;
        if (c->assembled - c->record + fragment > server.most + HEADER_ROOM)
            return -1;
        if (c->tail - c->raw - 4 < fragment)
            return 0;
        unsigned char *body = c->input + c->raw + 4;
        c->raw += 4 + fragment;
        if (mark & RPC_LAST_FRAGMENT && c->record == c->assembled) {
            *record = body;
            *length = fragment;
            c->record = c->assembled = c->raw;
            return 1;
        }
        memmove(c->input + c->assembled, body, fragment);
        c->assembled += fragment;
        if (mark & RPC_LAST_FRAGMENT) {
            *record = c->input + c->record;
            *length = c->assembled - c->record;
            c->record = c->assembled = c->raw;
            return 1;
        }
    }
    return 0;
}

// A change of size may take away the pages that replies to READ before it have promised.
static void connections_keep(void)
{
    for (struct connection *c = loop.connections; c; c = c->next)
        replies_keep(&c->replies);
}

static bool connection_block(struct connection *c, bool block)
{
    if (c->blocked == block)
        return true;
    c->blocked = block;
    struct epoll_event event = {.events = block ? EPOLLOUT : EPOLLIN, .data.ptr = c};
    return epoll_ctl(loop.epoll, EPOLL_CTL_MOD, c->fd, &event) == 0;
}

// Sends what is due; no input is taken until it has left.  False when the connection is lost.
static bool connection_send(struct connection *c, uint64_t now)
{
    int sent = replies_send(&c->replies, c->fd, now);
    return sent >= 0 && connection_block(c, sent == 0);
}

// Answers what has arrived, as long as the replies can be sent.  False when the connection is lost.
static bool connection_answer(struct connection *c)
{
    const unsigned char *record;
    size_t length;
    uint64_t now = now_if_delayed();
    for (;;) {
        if (replies_full(&c->replies) && !connection_send(c, now))
            return false;
        if (c->blocked)
            return true;
        int found = record_next(c, &record, &length);
        if (found < 0)
            server.garbage++;
        if (found <= 0)
            return found == 0 && connection_send(c, now);
        struct batch *b = replies_batch(&c->replies, now + loop.delay_ns);
        if (!b)
            return false;
        if (!request_answer(b, record, length)) {
            server.garbage++;
            return false;
        }
    }
}

static bool connection_receive(struct connection *c)
{
    // What is left moves to the front: there is always room for the rest of the longest record.
    size_t part = c->assembled - c->record, left = c->tail - c->raw;
    if (part && c->record)
        memmove(c->input, c->input + c->record, part);
    if (left && c->raw > part)
        memmove(c->input + part, c->input + c->raw, left);
    c->record = 0;
    c->assembled = c->raw = part;
    c->tail = part + left;
    // Not much beyond the record that is coming: what follows it would have to be moved again, and
    // a batch that fits the processor's cache is answered faster.
    size_t room = loop.input_bytes - c->tail, wanted = RECEIVE_MOST;
    if (left >= 4) {
        size_t whole = 4 + (wire_load32(c->input + c->raw) & ~RPC_LAST_FRAGMENT);
        if (whole > left && whole - left > wanted)
            wanted = whole - left;
    }
    ssize_t n = recv(c->fd, c->input + c->tail, wanted < room ? wanted : room, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->tail += (size_t)n;
    return n > 0 && connection_answer(c);
}

static void connection_close(struct connection *c)
{
    if (c->next)
        c->next->previous = c->previous;
    *(c->previous ? &c->previous->next : &loop.connections) = c->next;
    close(c->fd);
    replies_drop_all(&c->replies);
    free(c->input);
    free(c);
}

static void connection_ready(struct connection *c)
{
    bool alive;
    if (c->blocked)
        alive = connection_send(c, now_if_delayed()) && (c->blocked || connection_answer(c));
    else
        alive = connection_receive(c);
    if (!alive)
        connection_close(c);
}

// Sends the replies that have become due.
static void connections_send(void)
{
    uint64_t now = clock_ns();
    struct connection *next;
    for (struct connection *c = loop.connections; c; c = next) {
        next = c->next;
        if (!c->blocked && !connection_send(c, now))
            connection_close(c);
    }
}

// Waits for events, but not beyond the time when a reply is due.  The results are those of
// epoll_wait().
static int events_wait(struct epoll_event *events, int most, const sigset_t *waiting)
{
    uint64_t due = UINT64_MAX;
    for (struct connection *c = loop.connections; c; c = c->next)
        if (c->replies.first && !c->blocked && c->replies.first->due < due)
            due = c->replies.first->due;
    if (due == UINT64_MAX)
        return epoll_pwait(loop.epoll, events, most, SWEEP_SECONDS * 1000, waiting);
    uint64_t now = clock_ns(), left = due > now ? due - now : 0;
    struct timespec limit = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    return epoll_pwait2(loop.epoll, events, most, &limit, waiting);
}

static void connection_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct connection *c = calloc(1, sizeof *c);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (c) {
        c->fd = fd;
        c->input = malloc(loop.input_bytes);
        if (c->input && epoll_ctl(loop.epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
            c->next = loop.connections;
            if (c->next)
                c->next->previous = c;
            loop.connections = c;
            return;
        }
        free(c->input);
        free(c);
    }
    close(fd);
}

// Start and end

// "::" listens on the addresses of IPv4 too.
static int listen_on(const char *text, uint16_t *port)
{
    struct sockaddr_storage address;
    socklen_t length = wire_address(text, *port, &address);
    if (!length) {
        fprintf(stderr, "memserver: --bind %s: expected an IPv4 or IPv6 address\n", text);
        exit(2);
    }
    int one = 1, fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        die("%s port %u: %s", text, *port, strerror(errno));
    *port = wire_address_port(&address);
    return fd;
}

static void counters_print(FILE *to)
{
    fputc('{', to);
    for (int i = 0; i < NFS_PROCEDURES; i++)
        if (nfs_procedures[i].name)
            fprintf(to, "\"%s\": %llu, ", nfs_procedures[i].name,
                    (unsigned long long)server.nfs_calls[i]);
    for (int i = 0; i < 4; i++)
        if (mount_procedures[i].name)
            fprintf(to, "\"%s\": %llu, ", mount_procedures[i].name,
                    (unsigned long long)server.mount_calls[i]);
    fprintf(to,
            "\"COMPOUND\": %llu, \"read_bytes\": %llu, \"written_bytes\": %llu, "
            "\"garbage\": %llu}\n",
            (unsigned long long)server.compounds, (unsigned long long)server.read_bytes,
            (unsigned long long)server.written_bytes, (unsigned long long)server.garbage);
    fflush(to);
}

static void signal_handler(int number)
{
    if (number == SIGUSR1)
        counters_wanted = 1;
    else
        stop_wanted = 1;
}

// Signals are taken only while waiting, so none falls between the test of its flag and the wait.
static sigset_t signals_prepare(void)
{
    struct sigaction action = {.sa_handler = signal_handler};
    sigset_t ours, waiting;
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGUSR1);
    sigprocmask(SIG_BLOCK, &ours, &waiting);
    sigdelset(&waiting, SIGTERM);
    sigdelset(&waiting, SIGINT);
    sigdelset(&waiting, SIGUSR1);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    files_catch_faults();
    return waiting;
}

static void serve(int nfs_listener, int mount_listener, const sigset_t *waiting)
{
    struct epoll_event events[64];
    uint64_t swept = 0;
    int listeners[2] = {nfs_listener, mount_listener};
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listeners[i]};
        if (listeners[i] >= 0 && epoll_ctl(loop.epoll, EPOLL_CTL_ADD, listeners[i], &event) < 0)
            die("epoll: %s", strerror(errno));
    }
    while (!stop_wanted) {
        if (counters_wanted) {
            counters_wanted = 0;
            counters_print(stdout);
        }
        int n = events_wait(events, 64, waiting);
        files_tick();
        for (int i = 0; i < n; i++) {
            int *listener = events[i].data.ptr;
            if (listener == &listeners[0] || listener == &listeners[1])
                connection_accept(*listener);
            else
                connection_ready(events[i].data.ptr);
        }
        if (loop.delay_ns)
            connections_send();
        if (files.tick - swept > SWEEP_SECONDS * 1000000000ull) {
            swept = files.tick;
            files_sweep();
        }
        if (!batches.waiting && files.retired)
            mappings_release();
    }
}

static void usage(FILE *to)
{
    fputs("usage: memserver --dir DIR [--port N] [--mount-port N] [--bind ADDRESS]\n"
          "                 [--max-transfer BYTES] [--no-attributes] [--counters]\n"
          "                 [--delay MICROSECONDS]\n"
          "Serves DIR by NFSv3 and NFSv4.1 on TCP; prints \"ready nfs=PORT mount=PORT\" when it "
          "listens.\n"
          "SIGUSR1 prints the counters on standard output, SIGTERM ends it.\n",
          to);
}

static struct {
    const char *directory, *address;
    uint16_t port, mount_port;
    bool own_mount_port;
} option = {.address = "127.0.0.1"};

static void options_read(int argc, char **argv)
{
    static const struct option options[] = {OPTION("dir", 'd'),          OPTION("port", 'p'),
                                            OPTION("mount-port", 'm'),   OPTION("bind", 'b'),
                                            OPTION("max-transfer", 't'), FLAG("no-attributes", 'a'),
                                            FLAG("counters", 'c'),       OPTION("delay", 'y'),
                                            FLAG("help", 'h'),           {NULL, 0, NULL, 0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (letter) {
        case 'd':
            option.directory = optarg;
            break;
        case 'p':
            option.port = (uint16_t)number_option("port", optarg, 0, 65535);
            break;
        case 'm':
            option.mount_port = (uint16_t)number_option("mount-port", optarg, 0, 65535);
            option.own_mount_port = true;
            break;
        case 'b':
            option.address = optarg;
            break;
        case 't':
            server.most = (uint32_t)number_option("max-transfer", optarg, 512, TRANSFER_MOST);
            break;
        case 'a':
            server.no_attributes = true;
            break;
        case 'c':
            server.counters = true;
            break;
        case 'y':
            loop.delay_ns = number_option("delay", optarg, 0, DELAY_MOST) * 1000;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (!option.directory || optind != argc) {
        usage(stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    options_read(argc, argv);
    umask(0);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (getrandom(server.verifier, sizeof server.verifier, 0) != sizeof server.verifier ||
        getrandom(&server.instance, sizeof server.instance, 0) != sizeof server.instance)
        die("getrandom: %s", strerror(errno));
    memory.instance = server.instance;
    server.before_resize = connections_keep;
    directory_open(option.directory);
    loop.input_bytes = server.most + HEADER_ROOM + 4 + RECEIVE_MOST;
    if (loop.delay_ns) // timers are not to be late
        prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop.epoll < 0)
        die("epoll: %s", strerror(errno));
    sigset_t waiting = signals_prepare();
    int listener = listen_on(option.address, &option.port), mount_listener = -1;
    if (option.own_mount_port)
        mount_listener = listen_on(option.address, &option.mount_port);
    else
        option.mount_port = option.port;
    printf("ready nfs=%u mount=%u\n", option.port, option.mount_port);
    fflush(stdout);
    serve(listener, mount_listener, &waiting);
    if (server.counters)
        counters_print(stderr);
    while (loop.connections)
        connection_close(loop.connections);
    sessions_forget_all();
    files_forget_all();
    return 0;
}
