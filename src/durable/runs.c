#include "durable/runs.h"

#include "file/upper.h"
#include "mount/mounts.h"
#include "sys/sys.h"

enum {
    WINDOW = 16 << 20, /* so many bytes are on their way */
    PATIENCE_MS = 500
};

/* A run on its way. A large struct. */
struct way {
    struct durable_run run;
    struct iovec kept[LEDGER_WRITE_VECTORS];
    struct rpc_call call;
    bool begun; /* the call was made: one call takes all of the run */
};

/* Waits for the answer, and ends the run. */
static void finish(struct durable_runs *source, struct way *way)
{
    struct durable_write *write = &way->run.write;
    struct ledger_ending ending;
    int result = DURABLE_WRITE_TROUBLED;
    if (way->begun) {
        nfs_call_wait(&write->to->client, (struct rpc_call *[]){&way->call}, 1);
        result = durable_write_settle(write, &way->call, &ending);
    }
    if (result == DURABLE_WRITE_TROUBLED)
        result = durable_write_alone(write, &ending);
    source->end(source, &way->run, result, &ending);
}

static void send_one(struct durable_runs *source, struct durable_run *run)
{
    struct ledger_ending ending;
    int result = durable_write_now(&run->write, &ending);
    source->end(source, run, result, &ending);
}

/* The runs on their way: a ring, the oldest first. */
struct window {
    struct way *ways;
    unsigned oldest, count;
    size_t bytes;
};

static struct way *way_at(const struct window *window, unsigned number)
{
    return &window->ways[(window->oldest + number) % DURABLE_RUNS];
}

static void enter(struct window *window, const struct durable_run *run)
{
    way_at(window, window->count++)->run = *run;
    window->bytes += run->write.announced.length;
}

/* Sends, together, the runs that were entered since there were `from`. */
static void send_from(struct durable_runs *source, const struct window *window, unsigned from)
{
    struct rpc_call *calls[DURABLE_RUNS];
    unsigned count = 0;
    for (unsigned i = from; i < window->count; i++) {
        struct way *way = way_at(window, i);
        way->run.write.epoch = ledger_file_asking(source->c->to.entry);
        way->run.write.taken = 0;
        way->begun = durable_write_fits(&way->run.write);
        if (!way->begun) /* a record may be longer than a WRITE */
            continue;
        durable_write_begin(&way->run.write, way->kept, &way->call);
        calls[count++] = &way->call;
    }
    if (count > 0)
        nfs_call_send(&source->c->to.client, calls, count);
}

static bool is_over(void *call)
{
    uint32_t state = atomic_load_explicit(&((struct rpc_call *)call)->state, memory_order_acquire);
    return state == RPC_DONE || state == RPC_ADRIFT;
}

/* Waits a while for the oldest run. If there are several paths, it receives on each meanwhile:
 * answers tell how fast a path is, and that it may have more. finish() waits for what takes longer.
 */
static void wait_for_oldest(const struct durable_runs *source, const struct window *window)
{
    struct net_channel *channels[RPC_DRIVE_MAX];
    unsigned count = 0;
    if (source->c->to.client.server->path_count == 1 || !way_at(window, 0)->begun)
        return;
    for (unsigned i = 0; i < window->count && count < RPC_DRIVE_MAX; i++) {
        const struct way *way = way_at(window, i);
        struct net_channel *channel = way->begun ? way->call.channel : NULL;
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

/* Sends two runs and all that follow. Not inlined: a single run, which a handler of a signal may
 * send, needs less of its stack. */
__attribute__((noinline)) static void
send_many(struct durable_runs *source, struct durable_run *first, struct durable_run *second)
{
    /* The window is not on the stack either; nor from malloc(), which the signal may have
     * interrupted. */
    struct window window = {.ways = sys_mmap(NULL, DURABLE_RUNS * sizeof(*window.ways),
                                             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                             -1, 0)};
    struct rpc_call *calls[DURABLE_RUNS]; /* of all ways: this thread drives those under way */
    struct rpc_owned own = {calls, DURABLE_RUNS, rpc_owned};
    struct durable_run run;
    size_t sent = 0;
    if (sys_mmap_failed(window.ways)) {
        send_one(source, first);
        send_one(source, second);
        return;
    }
    for (unsigned i = 0; i < DURABLE_RUNS; i++)
        calls[i] = &window.ways[i].call;
    rpc_owned = &own;
    enter(&window, first);
    enter(&window, second);
    send_from(source, &window, 0);
    while (window.count > 0) {
        struct way *oldest = way_at(&window, 0);
        size_t length = oldest->run.write.announced.length;
        wait_for_oldest(source, &window);
        finish(source, oldest);
        window.oldest++;
        window.count--;
        window.bytes -= length;
        sent += length;
        if (window.count > DURABLE_RUNS / 2)
            continue; /* runs that leave together cost less */
        unsigned from = window.count;
        while (window.count < DURABLE_RUNS && window.bytes < WINDOW && sent < source->bytes &&
               source->next(source, false, &run) == 1)
            enter(&window, &run);
        send_from(source, &window, from);
    }
    rpc_owned = own.outer;
    sys_munmap(window.ways, DURABLE_RUNS * sizeof(*window.ways));
}

/* Gets the first run. This thread may have to bring to its end what is in flight. */
static int first_run(struct durable_runs *source, bool wait, struct durable_run *run)
{
    bool sleep = false;
    int result;
    while ((result = source->next(source, sleep, run)) == -EAGAIN && wait)
        sleep = !file_upper.help(NULL);
    return result;
}

int durable_runs_send(struct durable_runs *source, bool wait)
{
    struct durable_run first, second;
    int next = first_run(source, wait, &first);
    if (next != 1)
        return next;
    if (source->next(source, false, &second) == 1)
        send_many(source, &first, &second);
    else
        send_one(source, &first);
    return 1;
}
