// floor: what an NFS client cannot be cheaper than, of version 3 or, with --v41, 4.1.  Raw sockets,
// one thread, no shim, no POSIX.
//
// Calls are encoded once and patched; all calls that can leave, leave in one system call; READ
// payload is received in place, several replies in one system call.  At depth 1 an operation is one
// send and one receive.
//
// Replies to READ are received in one of three ways. "Predicted": while the server answers in the
// order of the calls, the place of every byte on the stream is known, so one recvmsg scatters the
// headers and payloads of many replies.  The first reply out of order is put right by copying; from
// then on a connection with small blocks is "copied", all that has come is received in bulk and the
// payloads are copied, which is cheaper than a system call each; one with large blocks is
// "chained": one recvmsg takes the payload of the reply whose header is known and the header of the
// reply after it.  Replies to WRITE are short: they are received in bulk and parsed; when reads and
// writes are mixed, their place is predicted like that of READ's, or all is copied.
//
// With --one-reply no receive takes more than one reply to READ (predicted or chained), until
// nothing more has come; then the calls that are due leave together.  That is what a client costs
// that does not look ahead, with about 1.1 system calls per operation at depth 32.
#include <sys/epoll.h>
#include <sys/mman.h>

#include "floor/inflight.h"

// How many bytes a READ or WRITE moved, by the rest of its reply; *length: the payload of a READ.
static uint32_t moved(struct wire_reader *r, bool write, uint32_t *length)
{
    uint32_t count;
    if (option.v41) {
        wire_get_opaque(r, V41_TAG_MOST, &count);
        // The number of results, SEQUENCE and PUTFH, and the number and status of the last one;
        // then eof or nothing.
        wire_get_bytes(r, 4 + 8 + V41_SEQUENCE_BYTES + 8 + 8 + (write ? 0 : 4));
        *length = count = wire_get32(r);
        if (write)
            wire_get_bytes(r, 4 + NFS_VERIFIER_BYTES);
        return count;
    }
    if (write) {
        wire_get_wcc(r);
        *length = count = wire_get32(r);
        wire_get32(r);
        wire_get64(r);
    } else {
        wire_get_post_op(r, NULL);
        count = wire_get32(r);
        wire_get_bool(r);
        *length = wire_get32(r);
    }
    return count;
}

// Reads the header of a reply, with its record mark, of the given length.  NULL when it is not the
// reply to a call in flight that moved all the bytes asked for, in the shape learned at the start.
static struct operation *header_check(const unsigned char *header, size_t length)
{
    uint32_t xid;
    struct wire_reader r = {header + 4, header + length, false};
    bool accepted = wire_get_reply(&r, &xid);
    struct operation *o = operation_of(xid);
    uint32_t status = wire_get32(&r), length_read;
    if (!accepted || status || !o || header_length[o->write] != length ||
        wire_load32(header) != (RPC_LAST_FRAGMENT | (uint32_t)(length - 4 + payload_expected(o))))
        return NULL;
    uint32_t count = moved(&r, o->write, &length_read);
    bool good = !r.bad && r.at == r.end && count == work.size && length_read == work.size;
    return good ? o : NULL;
}

static size_t channel_receive(struct channel *c, struct iovec *vector, size_t vectors, bool wait)
{
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = vectors};
    ssize_t n = recvmsg(c->fd, &message, wait ? 0 : MSG_DONTWAIT);
    system_calls++;
    c->empty = n < 0;
    if (n == 0)
        die("the server closed the connection");
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        die("receive: %s", strerror(errno));
    return n < 0 ? 0 : (size_t)n;
}

// Parses the whole replies at the front of the bulk buffer; READ payload is copied to its place.
static void bulk_parse(struct channel *c, uint64_t now)
{
    size_t at = 0;
    while (c->bulk_used - at >= 4) {
        uint32_t mark = wire_load32(c->bulk + at), xid;
        size_t length = mark & ~RPC_LAST_FRAGMENT;
        if (!(mark & RPC_LAST_FRAGMENT) || length > HEADER_MOST + work.size)
            die("a reply in fragments, or of %zu bytes: not for this client", length);
        if (c->bulk_used - at - 4 < length)
            break;
        struct wire_reader r = {c->bulk + at + 4, c->bulk + at + 4 + length, false};
        bool accepted = wire_get_reply(&r, &xid);
        struct operation *o = operation_of(xid);
        uint32_t status = wire_get32(&r);
        if (!accepted || r.bad || !o || status)
            die("xid %#x: RPC %s, status %u", xid, accepted ? "accepted" : "refused", status);
        uint32_t bytes, count = moved(&r, o->write, &bytes);
        const unsigned char *payload =
            bytes == work.size && !o->write ? wire_get_bytes(&r, bytes) : NULL;
        if (payload)
            memcpy(o->data, payload, bytes);
        if (r.bad || count != work.size || bytes != count)
            die("xid %#x: %u bytes of %llu", xid, count, (unsigned long long)work.size);
        operation_complete(c, o, now);
        at += 4 + length;
    }
    memmove(c->bulk, c->bulk + at, c->bulk_used - at);
    c->bulk_used -= at;
}

static void receive_bulk(struct channel *c, bool wait)
{
    struct iovec vector = {c->bulk + c->bulk_used, bulk_bytes - c->bulk_used};
    c->bulk_used += channel_receive(c, &vector, 1, wait);
    bulk_parse(c, clock_ns());
}

// The first reply out of order: `left` bytes from the one at the front of the queue on lie where
// other replies were expected.  They go to the bulk buffer; from now on the replies are copied, or
// chained.
static void prediction_failed(struct channel *c, size_t left)
{
    for (unsigned i = 0; left; i++) {
        struct operation *o = &operation[c->queue[(c->first + i) % DEPTH_MOST]];
        size_t header = left < header_length[o->write] ? left : header_length[o->write];
        memcpy(c->bulk + c->bulk_used, o->header, header);
        size_t data = left - header < payload_expected(o) ? left - header : payload_expected(o);
        memcpy(c->bulk + c->bulk_used + header, o->data, data);
        c->bulk_used += header + data;
        left -= header + data;
    }
    bool chained = !work.mixed && (option.one_reply || work.size > COPY_MOST);
    c->way = chained ? CHAINED : COPIED;
    c->filled = c->first = c->queued = 0;
    bulk_parse(c, clock_ns());
}

static void receive_predicted(struct channel *c, bool wait)
{
    struct iovec vector[VECTORS_MOST];
    size_t vectors = 0, skip = c->filled;
    unsigned expected = c->queued < option.lookahead ? c->queued : option.lookahead;
    for (unsigned i = 0; i < expected; i++) {
        struct operation *o = &operation[c->queue[(c->first + i) % DEPTH_MOST]];
        size_t header = header_length[o->write], payload = payload_expected(o);
        if (skip < header) {
            vector[vectors++] = (struct iovec){o->header + skip, header - skip};
            skip = header;
        }
        if (payload)
            vector[vectors++] =
                (struct iovec){o->data + (skip - header), payload - (skip - header)};
        skip = 0;
    }
    size_t before = c->filled;
    size_t got = before + channel_receive(c, vector, vectors, wait);
    uint64_t now = clock_ns();
    while (got) {
        struct operation *o = &operation[c->queue[c->first]];
        size_t header = header_length[o->write], whole = header + payload_expected(o);
        if (got >= header && before < header && header_check(o->header, header) != o) {
            prediction_failed(c, got);
            return;
        }
        if (got < whole)
            break;
        c->first = (c->first + 1) % DEPTH_MOST;
        c->queued--;
        got -= whole;
        before = 0;
        operation_complete(c, o, now);
    }
    c->filled = got;
}

static void receive_chained(struct channel *c, bool wait)
{
    struct iovec vector[2];
    size_t vectors = 0, payload = 0, header = header_length[false];
    if (c->current) {
        payload = work.size - c->filled;
        vector[vectors++] = (struct iovec){c->current->data + c->filled, payload};
        vector[vectors++] = (struct iovec){c->header, header};
    } else {
        vector[vectors++] = (struct iovec){c->header + c->filled, header - c->filled};
    }
    size_t got = channel_receive(c, vector, vectors, wait);
    if (c->current) {
        if (got < payload) {
            c->filled += got;
            return;
        }
        operation_complete(c, c->current, clock_ns());
        c->current = NULL;
        c->filled = got - payload;
    } else {
        c->filled += got;
    }
    if (c->filled == header) {
        c->current = header_check(c->header, header);
        if (!c->current)
            die("an error, a short READ or a reply of another shape: not for this client");
        c->filled = 0;
    }
}

static void channel_input(struct channel *c, bool wait)
{
    if (work.write || c->way == COPIED || c->bulk_used)
        receive_bulk(c, wait);
    else if (c->way == CHAINED)
        receive_chained(c, wait);
    else
        receive_predicted(c, wait);
}

static void channel_work(struct channel *c, bool wait)
{
    do {
        channel_input(c, wait);
        wait = false;
    } while (option.one_reply && c->in_flight && !c->empty);
    channel_send(c);
}

static void channels_work(int epoll)
{
    struct epoll_event events[64];
    if (option.connections == 1) {
        channel_work(&channel[0], true);
        return;
    }
    int n = epoll_wait(epoll, events, 64, -1);
    system_calls++;
    if (n < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        channel_work(events[i].data.ptr, false);
}

// Keeps calls in flight: those of the warm-up, and then, without a pause, the measured ones.
// Returns how many these were; what is in flight at their end is waited for.
static uint64_t run(struct measure *m, int epoll)
{
    uint64_t measured = 0;
    for (unsigned slot = 0; slot < work.depth; slot++)
        operation_next(&channel[slot % option.connections], slot);
    for (unsigned i = 0; i < option.connections; i++)
        channel_send(&channel[i]);
    while (in_flight) {
        if (phase == WARMING_UP && completed >= work.warm_up) {
            phase = MEASURING;
            completed = system_calls = 0;
            measure_begin(m);
        }
        channels_work(epoll);
        if (phase == MEASURING && (completed >= work.count ||
                                   (work.limit_ns && clock_ns() - m->begin >= work.limit_ns))) {
            phase = ENDING;
            measured = completed;
            measure_end(m);
            measured_calls = system_calls;
        }
    }
    return measured;
}

// How long a reply is, up to its payload, depends on the attributes that the server adds.
static void learn_header_length(int fd, bool write)
{
    static const unsigned char data[4096];
    struct wire_writer w = setup_begin(NFS_PROGRAM, option.v41 ? V41_COMPOUND
                                                    : write    ? NFS_WRITE
                                                               : NFS_READ);
    if (option.v41) {
        wire_call_version(setup_buffer, V41_VERSION);
        arguments_put41(&w, 0, write, sizeof data);
        setup41_stamp(setup_buffer, &operation[0].sequence);
    } else {
        arguments_put(&w, write, sizeof data);
    }
    if (write)
        wire_put_bytes(&w, data, sizeof data);
    struct wire_reader r = setup_call(fd, &w, write ? "WRITE" : "READ");
    uint32_t status = wire_get32(&r), payload, count = moved(&r, write, &payload);
    if (status || r.bad || !count)
        die("%s: status %u, %u bytes", write ? "WRITE" : "READ", status, count);
    header_length[write] = 4 + (size_t)(r.at - setup_buffer);
    if (header_length[write] > HEADER_MOST)
        die("a reply with a header of %zu bytes", header_length[write]);
}

static int channels_open(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    channel = calloc(option.connections, sizeof *channel);
    operation = calloc(work.depth, sizeof *operation);
    unsigned char *data = mmap(NULL, (size_t)work.depth * work.size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    bulk_bytes = work.depth * ((size_t)HEADER_MOST + work.size) + HEADER_MOST;
    if (epoll < 0 || !channel || !operation || data == MAP_FAILED)
        die("out of memory");
    for (unsigned i = 0; i < option.connections; i++) {
        struct channel *c = &channel[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        c->fd = connect_to(option.host[i % option.hosts], option.nfs_port);
        c->bulk = malloc(bulk_bytes);
        if (!c->bulk || epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) < 0)
            die("out of memory");
    }
    setup_mount(option.host[0], option.mount_port, option.export, &handle);
    setup_file(channel[0].fd, option.file, work.file_size, &handle);
    if (option.v41)
        setup41_session(channel[0].fd, work.depth, work.size + 4096, session);
    learn_header_length(channel[0].fd, false);
    if (work.mixed)
        learn_header_length(channel[0].fd, true);
    for (unsigned slot = 0; slot < work.depth; slot++) {
        operation[slot].data = data + (size_t)slot * work.size;
        memset(operation[slot].data, (int)slot + 1, work.size);
        operation_encode(slot, &operation[slot], false);
        operation_encode(slot, &operation[slot], true);
    }
    return epoll;
}

static void usage(FILE *to)
{
    fputs(
        "usage: floor --nfs-port N --mount-port N --export DIR [--host ADDRESS,...] [--file NAME]\n"
        "             [--rw read|write|mixed] [--size BYTES] [--depth N] [--connections N]\n"
        "             [--seconds N | --count N] [--file-size BYTES] [--sequential | --random]\n"
        "             [--stable unstable|data_sync|file_sync] [--lookahead N] [--warm-up N]\n"
        "             [--one-reply] [--verify] [--v41]\n"
        "Prints one line of JSON.  The depth is that of all connections together, which take the\n"
        "addresses in turn.\n"
        "Mixed: three reads to a write.  --one-reply: no receive takes more than one READ reply.\n"
        "--v41: by NFSv4.1, once the file is there by NFSv3; at most 64 in flight.\n"
        "--verify: write stamps every block with its number, read looks for it.\n",
        to);
}

static void hosts_read(char *list)
{
    option.hosts = 0;
    for (char *host; (host = strsep(&list, ","));) {
        if (option.hosts == HOSTS_MOST)
            wrong_usage(usage, "host", "a list as long as that");
        option.host[option.hosts++] = host;
    }
}

static uint32_t stable_read(const char *word)
{
    static const char *const words[] = {
        [NFS_UNSTABLE] = "unstable", [NFS_DATA_SYNC] = "data_sync", [NFS_FILE_SYNC] = "file_sync"};
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i]))
            return i;
    wrong_usage(usage, "stable", word);
}

static void options_read(int argc, char **argv)
{
    static const struct option options[] = {
        WORK_OPTIONS,          WORK_OPTIONS_IN_FLIGHT,    OPTION("connections", 'C'),
        OPTION("stable", 'B'), OPTION("host", 'H'),       OPTION("nfs-port", 'P'),
        OPTION("export", 'E'), OPTION("mount-port", 'M'), OPTION("file", 'F'),
        FLAG("verify", 'V'),   OPTION("lookahead", 'A'),  FLAG("one-reply", '1'),
        FLAG("v41", '4'),      {NULL, 0, NULL, 0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (letter) {
        case 'C':
            option.connections = (uint32_t)number_option("connections", optarg, 1, DEPTH_MOST);
            break;
        case 'B':
            option.stable = stable_read(optarg);
            break;
        case 'H':
            hosts_read(optarg);
            break;
        case 'P':
            option.nfs_port = (uint16_t)number_option("nfs-port", optarg, 1, 65535);
            break;
        case 'M':
            option.mount_port = (uint16_t)number_option("mount-port", optarg, 1, 65535);
            break;
        case 'E':
            option.export = optarg;
            break;
        case 'F':
            option.file = optarg;
            break;
        case 'A':
            option.lookahead = (uint32_t)number_option("lookahead", optarg, 1, VECTORS_MOST / 2);
            break;
        case 'V':
            option.verify = true;
            break;
        case '4':
            option.v41 = true;
            break;
        case '1':
            option.one_reply = true;
            break;
        default:
            work_option(&work, letter, usage);
        }
    }
    if (optind != argc || !option.nfs_port || !option.mount_port || !option.export ||
        work.size % 4 || work.size > 16 << 20 || work.file_size < 4096 ||
        work.size > work.file_size || option.connections > work.depth ||
        (work.mixed && option.verify) || (option.v41 && work.depth > V41_SLOTS))
        wrong_usage(usage, NULL, NULL);
    if (option.one_reply)
        option.lookahead = 1;
    work_defaults(&work, 10000);
}

int main(int argc, char **argv)
{
    options_read(argc, argv);
    int epoll = channels_open();
    struct measure m;
    uint64_t ops = run(&m, epoll);
    work_print(&work,
               &(struct work_done){.ops = ops,
                                   .depth = work.depth,
                                   .connections = option.connections,
                                   .syscalls = (double)measured_calls},
               &m, &latency);
    return 0;
}
