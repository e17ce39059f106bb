#include "file/runs.h"

#include "file/async.h"
#include "file/io.h"
#include "sys/sys.h"

enum {
    WINDOW = 16 << 20, /* bytes on their way */
    PATIENCE_MS = 500
};

/* A run on its way. Large. */
struct way {
    struct file_run run;
    int vector_count;
    struct iovec vectors[LEDGER_WRITE_VECTORS];
    struct rpc_call call;
};

/* A record may be longer than what the server takes in one WRITE. */
static bool fits(const struct committing *c, const struct file_run *run)
{
    return run->write.length <= c->to.mount->write_max;
}

/* Prepares its call. */
static void begin(struct committing *c, struct way *way)
{
    struct nfs_client client = file_mount_client(c->to.mount, c->to.auth);
    struct file_run *run = &way->run;
    way->vector_count = ledger_write_data(&run->write, 0, run->write.length, way->vectors);
    const struct nfs_data data = {
        .vectors = way->vectors, .count = way->vector_count, .length = run->write.length};
    run->epoch = ledger_file_asking(c->to.entry);
    if (fits(c, run))
        nfs_write_begin(&way->call, &client, c->to.use.fh, run->write.offset, &data, run->stable);
}

/* With all that a call may need: short replies, JUKEBOX, another handle. */
static void send_alone(struct committing *c, struct way *way)
{
    struct nfs_client client = file_mount_client(c->to.mount, c->to.auth);
    struct file_run *run = &way->run;
    const struct nfs_data data = {
        .vectors = way->vectors, .count = way->vector_count, .length = run->write.length};
    do {
        run->epoch = ledger_file_asking(c->to.entry);
        run->result =
            nfs_write(&client, c->to.use.fh, run->write.offset, &data, run->stable, &run->transfer);
        file_write_note(&run->write, run->stable, run->result, &run->transfer);
    } while (file_target_again(&c->to, run->result));
}

/* Waits for the answer. */
static void finish(struct file_runs *source, struct way *way)
{
    struct nfs_client client = file_mount_client(source->c->to.mount, source->c->to.auth);
    struct file_run *run = &way->run;
    run->result = -EAGAIN;
    if (fits(source->c, run)) {
        nfs_call_wait(&client, (struct rpc_call *[]){&way->call}, 1);
        run->result = nfs_write_end(&way->call, run->stable, &run->transfer);
        if (run->result == 0 && run->transfer.length < run->write.length)
            run->result = -EAGAIN;
        file_write_note(&run->write, run->stable, run->result, &run->transfer);
    }
    if (run->result == -EAGAIN || run->result == -ESTALE)
        send_alone(source->c, way);
    source->end(source, run);
}

/* Neither of the next is inlined: a single run, which may be sent in a handler of a signal, needs
 * little of its stack. */
__attribute__((noinline)) static void send_one(struct file_runs *source, const struct file_run *run)
{
    struct nfs_client client = file_mount_client(source->c->to.mount, source->c->to.auth);
    struct way way;
    way.run = *run;
    begin(source->c, &way);
    if (fits(source->c, run))
        nfs_call_send(&client, (struct rpc_call *[]){&way.call}, 1);
    finish(source, &way);
}

/* Those on their way: a ring, the oldest first. */
struct window {
    struct way *ways;
    unsigned oldest, count;
    size_t bytes;
};

static struct way *way_at(const struct window *window, unsigned number)
{
    return &window->ways[(window->oldest + number) % FILE_RUNS];
}

static void enter(struct window *window, const struct file_run *run)
{
    way_at(window, window->count++)->run = *run;
    window->bytes += run->write.length;
}

/* Those that were entered since there were `from` leave together. */
static void send_from(struct file_runs *source, const struct window *window, unsigned from)
{
    struct nfs_client client = file_mount_client(source->c->to.mount, source->c->to.auth);
    struct rpc_call *calls[FILE_RUNS];
    unsigned count = 0;
    for (unsigned i = from; i < window->count; i++) {
        struct way *way = way_at(window, i);
        begin(source->c, way);
        if (fits(source->c, &way->run))
            calls[count++] = &way->call;
    }
    if (count > 0)
        nfs_call_send(&client, calls, count);
}

static bool is_over(void *call)
{
    uint32_t state = atomic_load_explicit(&((struct rpc_call *)call)->state, memory_order_acquire);
    return state == RPC_DONE || state == RPC_ADRIFT;
}

/* Waits for the oldest. Of several paths each is heard meanwhile: by its answers it is known how
 * fast it is, and that it may have more. What takes longer is for finish(). */
static void wait_for_oldest(const struct file_runs *source, const struct window *window)
{
    struct nfs_client client = file_mount_client(source->c->to.mount, source->c->to.auth);
    struct net_channel *channels[RPC_DRIVE_MAX];
    unsigned count = 0;
    if (client.server->path_count == 1 || !fits(source->c, &way_at(window, 0)->run))
        return;
    for (unsigned i = 0; i < window->count && count < RPC_DRIVE_MAX; i++) {
        const struct way *way = way_at(window, i);
        struct net_channel *channel = fits(source->c, &way->run) ? way->call.channel : NULL;
        unsigned known = 0;
        while (known < count && channels[known] != channel)
            known++;
        if (channel && known == count)
            channels[count++] = channel;
    }
    if (count > 1)
        (void)rpc_drive_all(channels, count, is_over, &way_at(window, 0)->call,
                            sys_now_ns() + PATIENCE_MS * UINT64_C(1000000));
}

__attribute__((noinline)) static void
send_many(struct file_runs *source, const struct file_run *first, const struct file_run *second)
{
    /* Not from the heap, for the same reason. */
    struct window window = {.ways = sys_mmap(NULL, FILE_RUNS * sizeof(*window.ways),
                                             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                             -1, 0)};
    struct rpc_call
        *calls[FILE_RUNS]; /* of all ways: those under way are this thread's to see to */
    struct rpc_owned own = {calls, FILE_RUNS, rpc_owned};
    struct file_run run;
    size_t sent = 0;
    if (sys_mmap_failed(window.ways)) {
        send_one(source, first);
        send_one(source, second);
        return;
    }
    for (unsigned i = 0; i < FILE_RUNS; i++)
        calls[i] = &window.ways[i].call;
    rpc_owned = &own;
    enter(&window, first);
    enter(&window, second);
    send_from(source, &window, 0);
    while (window.count > 0) {
        struct way *oldest = way_at(&window, 0);
        size_t length = oldest->run.write.length;
        wait_for_oldest(source, &window);
        finish(source, oldest);
        window.oldest++;
        window.count--;
        window.bytes -= length;
        sent += length;
        if (window.count > FILE_RUNS / 2)
            continue; /* what leaves together costs less */
        unsigned from = window.count;
        while (window.count < FILE_RUNS && window.bytes < WINDOW && sent < source->bytes &&
               source->next(source, false, &run) == 1)
            enter(&window, &run);
        send_from(source, &window, from);
    }
    rpc_owned = own.outer;
    sys_munmap(window.ways, FILE_RUNS * sizeof(*window.ways));
}

/* What is in flight may be this thread's own to bring to its end. */
static int first_run(struct file_runs *source, bool wait, struct file_run *run)
{
    int result;
    while ((result = source->next(source, false, run)) == -EAGAIN && wait) {
        if (!file_async_help(NULL))
            return source->next(source, true, run);
    }
    return result;
}

int file_runs_send(struct file_runs *source, bool wait)
{
    struct file_run first, second;
    int next = first_run(source, wait, &first);
    if (next != 1)
        return next;
    if (source->next(source, false, &second) == 1)
        send_many(source, &first, &second);
    else
        send_one(source, &first);
    return 1;
}
