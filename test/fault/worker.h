/*
 * The processes that torture.c starts, under the library or not: threads that write, write again,
 * read and sync their blocks through every API, and check what they read.
 */
#ifndef FAULT_WORKER_H
#define FAULT_WORKER_H

#include <aio.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <sys/uio.h>

#include "journal.h"

enum { DEPTH = 4, BUFFER_MOST = BLOCK_MOST > RUN_MOST * 65536 ? BLOCK_MOST : RUN_MOST * 65536 };

/* A write or read of neighbouring blocks. */
struct operation {
    bool writes, stable;
    unsigned file, first, count;
    uint32_t least[RUN_MOST]; /* of a write: its sequence numbers; of a read: acknowledged before */
    unsigned char *buffer;
    size_t length;
    off_t offset;
    struct aiocb posix;
    struct iocb linux_aio;
};

struct worker {
    pthread_t thread;
    unsigned slot, round;
    uint64_t random;
    int plain[FILES], dsync[FILES];
    aio_context_t context;
    struct io_uring ring;
    struct operation operations[DEPTH];
};

static unsigned pick(struct worker *w, unsigned below)
{
    return (unsigned)(random_next(&w->random) >> 16) % below;
}

/* ---- operations ---- */

static void begin(struct worker *w, struct operation *op)
{
    struct block *blocks = &journal->blocks[op->file][op->first];
    unsigned size = files_of_test[op->file].size;
    op->length = (size_t)op->count * size;
    op->offset = (off_t)op->first * size;
    op->stable = false;
    for (unsigned i = 0; i < op->count; i++) {
        if (!op->writes) {
            op->least[i] = atomic_load(&blocks[i].acked);
            continue;
        }
        op->least[i] = atomic_load(&blocks[i].issued) + 1;
        stamp(op->buffer + (size_t)i * size, op->file, op->first + i, op->least[i], w->slot);
        atomic_store(&blocks[i].issued, op->least[i]);
    }
}

/* `result` is what the call returned, or -errno. */
static void end(struct worker *w, struct operation *op, enum api api, ssize_t result)
{
    struct block *blocks = &journal->blocks[op->file][op->first];
    unsigned size = files_of_test[op->file].size;
    char when[96];
    snprintf(when, sizeof when, "round %u, %s by slot %u through %s", w->round,
             op->writes ? "write" : "read", w->slot, api_names[api]);
    if (result != (ssize_t)op->length) {
        failed("%s: file %s blocks %u..%u: %s", when, files_of_test[op->file].name, op->first,
               op->first + op->count - 1, result < 0 ? strerror((int)-result) : "short");
        return;
    }
    atomic_fetch_add(op->writes ? &journal->writes[api] : &journal->reads[api], 1);
    for (unsigned i = 0; i < op->count; i++) {
        if (!op->writes) {
            uint32_t most = atomic_load(&blocks[i].issued);
            if (!stamp_check(op->buffer + (size_t)i * size, op->file, op->first + i, op->least[i],
                             most, when))
                return;
            continue;
        }
        atomic_store(&blocks[i].acked, op->least[i]);
        if (op->stable)
            raise_to(&blocks[i].synced, op->least[i]);
    }
}

/* Cuts a buffer into pieces of odd lengths. */
static int cut(struct worker *w, const struct operation *op, struct iovec vectors[4])
{
    size_t at = 0;
    int count = 0;
    while (count < 3 && op->length - at > 1) {
        size_t length = 1 + pick(w, (unsigned)(op->length - at));
        vectors[count++] = (struct iovec){op->buffer + at, length};
        at += length;
    }
    if (at < op->length)
        vectors[count++] = (struct iovec){op->buffer + at, op->length - at};
    return count;
}

static ssize_t do_now(struct worker *w, struct operation *op, enum api api)
{
    struct iovec vectors[4];
    int fd = w->plain[op->file], count = 0;
    if (api == API_writev || api == API_pwritev || api == API_pwritev2)
        count = cut(w, op, vectors);
    if (api == API_write || api == API_writev) {
        if (lseek(fd, op->offset, SEEK_SET) != op->offset)
            return -1;
    }
    switch (api) {
    case API_write:
        return op->writes ? write(fd, op->buffer, op->length) : read(fd, op->buffer, op->length);
    case API_writev:
        return op->writes ? writev(fd, vectors, count) : readv(fd, vectors, count);
    case API_pwritev:
        return op->writes ? pwritev(fd, vectors, count, op->offset)
                          : preadv(fd, vectors, count, op->offset);
    case API_pwritev2:
        op->stable = op->writes && pick(w, 2);
        return op->writes ? pwritev2(fd, vectors, count, op->offset, op->stable ? RWF_DSYNC : 0)
                          : preadv2(fd, vectors, count, op->offset, 0);
    case API_dsync:
        fd = w->dsync[op->file];
        op->stable = op->writes;
        /* fall through */
    default:
        return op->writes ? pwrite(fd, op->buffer, op->length, op->offset)
                          : pread(fd, op->buffer, op->length, op->offset);
    }
}

static void all_libaio(struct worker *w, unsigned count)
{
    struct iocb *list[DEPTH];
    struct io_event events[DEPTH];
    for (unsigned i = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        op->stable = op->writes && pick(w, 4) == 0;
        op->linux_aio =
            (struct iocb){.aio_data = i,
                          .aio_lio_opcode = op->writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
                          .aio_fildes = (unsigned)w->plain[op->file],
                          .aio_buf = (uintptr_t)op->buffer,
                          .aio_nbytes = op->length,
                          .aio_offset = op->offset,
                          .aio_rw_flags = op->stable ? RWF_DSYNC : 0};
        list[i] = &op->linux_aio;
    }
    long sent = syscall(SYS_io_submit, w->context, (long)count, list);
    if (sent != (long)count) {
        failed("io_submit: %ld of %u: %s", sent, count, strerror(errno));
        return;
    }
    for (unsigned done = 0; done < count;) {
        long got = syscall(SYS_io_getevents, w->context, 1L, (long)DEPTH, events, NULL);
        if (got < 0 && errno != EINTR) {
            failed("io_getevents: %s", strerror(errno));
            return;
        }
        for (long i = 0; i < got; i++, done++)
            end(w, &w->operations[events[i].data], API_libaio, (ssize_t)events[i].res);
    }
}

static void all_posix(struct worker *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        op->posix = (struct aiocb){.aio_fildes = w->plain[op->file],
                                   .aio_offset = op->offset,
                                   .aio_buf = op->buffer,
                                   .aio_nbytes = op->length,
                                   .aio_sigevent.sigev_notify = SIGEV_NONE};
        if ((op->writes ? aio_write(&op->posix) : aio_read(&op->posix)) != 0) {
            failed("aio_write, aio_read: %s", strerror(errno));
            return;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        const struct aiocb *list[1] = {&op->posix};
        int error;
        while ((error = aio_error(&op->posix)) == EINPROGRESS)
            aio_suspend(list, 1, NULL);
        end(w, op, API_posix_aio, error ? -error : aio_return(&op->posix));
    }
}

static void all_uring(struct worker *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);
        int fd = w->plain[op->file];
        if (op->writes)
            io_uring_prep_write(sqe, fd, op->buffer, (unsigned)op->length, (uint64_t)op->offset);
        else
            io_uring_prep_read(sqe, fd, op->buffer, (unsigned)op->length, (uint64_t)op->offset);
        op->stable = op->writes && pick(w, 4) == 0;
        sqe->rw_flags = op->stable ? RWF_DSYNC : 0;
        io_uring_sqe_set_data64(sqe, i);
    }
    int result = io_uring_submit(&w->ring);
    if (result != (int)count) {
        failed("io_uring_submit: %d of %u", result, count);
        return;
    }
    for (unsigned done = 0; done < count; done++) {
        struct io_uring_cqe *cqe;
        while ((result = io_uring_wait_cqe(&w->ring, &cqe)) == -EINTR)
            ;
        if (result != 0) {
            failed("io_uring_wait_cqe: %s", strerror(-result));
            return;
        }
        unsigned index = (unsigned)io_uring_cqe_get_data64(cqe);
        result = cqe->res;
        io_uring_cqe_seen(&w->ring, cqe);
        end(w, &w->operations[index], API_io_uring, result);
    }
}

static void carry_out(struct worker *w, enum api api, unsigned count)
{
    if (api == API_libaio)
        all_libaio(w, count);
    else if (api == API_posix_aio)
        all_posix(w, count);
    else if (api == API_io_uring)
        all_uring(w, count);
    for (unsigned i = 0; i < count && api < API_libaio; i++) {
        ssize_t result = do_now(w, &w->operations[i], api);
        end(w, &w->operations[i], api, result < 0 ? -errno : result);
    }
}

/* Everything acknowledged before the call, by whomever, is stable when it returns 0. */
static void sync_file(struct worker *w, unsigned file, unsigned how)
{
    uint32_t acked[BLOCKS];
    unsigned count = files_of_test[file].count;
    int fd = w->plain[file], result;
    for (unsigned i = 0; i < count; i++)
        acked[i] = atomic_load(&journal->blocks[file][i].acked);
    if (how == 1) {
        result = fdatasync(fd) ? errno : 0;
    } else if (how == 2 && journal->apis[API_posix_aio]) {
        struct aiocb request = {.aio_fildes = fd, .aio_sigevent.sigev_notify = SIGEV_NONE};
        const struct aiocb *list[1] = {&request};
        result = aio_fsync(O_SYNC, &request) ? errno : EINPROGRESS;
        while (result == EINPROGRESS) {
            result = aio_error(&request);
            if (result == EINPROGRESS)
                aio_suspend(list, 1, NULL);
            else if (result == 0)
                aio_return(&request);
        }
    } else if (how == 3 && journal->apis[API_io_uring]) {
        struct io_uring_cqe *cqe;
        io_uring_prep_fsync(io_uring_get_sqe(&w->ring), fd, 0);
        result = io_uring_submit(&w->ring) == 1 ? 0 : EIO;
        while (result == 0 && io_uring_wait_cqe(&w->ring, &cqe) != 0)
            ;
        if (result == 0) {
            result = -cqe->res;
            io_uring_cqe_seen(&w->ring, cqe);
        }
    } else {
        result = fsync(fd) ? errno : 0;
    }
    if (result != 0) {
        failed("round %u, sync of file %s by slot %u: %s", w->round, files_of_test[file].name,
               w->slot, strerror(result));
        return;
    }
    atomic_fetch_add(&journal->syncs, 1);
    for (unsigned i = 0; i < count; i++)
        raise_to(&journal->blocks[file][i].synced, acked[i]);
}

/* ---- a round ---- */

/* Neighbouring blocks: our own to write, anybody's to read. */
static void choose(struct worker *w, struct operation *op)
{
    unsigned share = pick(w, 16);
    for (op->file = 0; share >= files_of_test[op->file].share; op->file++)
        share -= files_of_test[op->file].share;
    unsigned stripe = files_of_test[op->file].stripe, count = files_of_test[op->file].count;
    unsigned stripes = count / stripe, chosen = pick(w, stripes);
    if (op->writes) {
        for (unsigned tried = 0;
             tried < stripes && owner_of(op->file, chosen * stripe, w->round) != w->slot; tried++)
            chosen = (chosen + 1) % stripes;
        if (owner_of(op->file, chosen * stripe, w->round) != w->slot)
            op->writes = false;
    }
    op->first = chosen * stripe + pick(w, stripe);
    op->count = 1 + pick(w, (chosen + 1) * stripe - op->first);
}

static bool overlaps(const struct worker *w, unsigned index)
{
    const struct operation *op = &w->operations[index];
    for (unsigned i = 0; i < index; i++) {
        const struct operation *other = &w->operations[i];
        if ((other->writes || op->writes) && other->file == op->file &&
            other->first < op->first + op->count && op->first < other->first + other->count)
            return true;
    }
    return false;
}

static void act(struct worker *w)
{
    enum api api;
    do
        api = (enum api)pick(w, API_COUNT);
    while (!journal->apis[api]);
    unsigned what = pick(w, 100), count = api >= API_libaio ? 1 + pick(w, DEPTH) : 1;
    if (what < 8) {
        sync_file(w, pick(w, FILES), pick(w, 4));
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        do {
            op->writes = what >= 35;
            choose(w, op);
        } while (overlaps(w, i));
    }
    /* The same blocks again at once: an older write must never come after a newer one. */
    unsigned times = what >= 35 ? 1 + pick(w, 4) : 1;
    for (unsigned n = 0; n < times && !atomic_load(&journal->failed); n++) {
        for (unsigned i = 0; i < count; i++)
            begin(w, &w->operations[i]);
        carry_out(w, api, count);
    }
}

/* Through the API as everywhere: every block of ours is the last that was acknowledged. */
static void settle(struct worker *w)
{
    struct operation *op = &w->operations[0];
    for (unsigned file = 0; file < FILES; file++) {
        if (atomic_load(&journal->settle_sync) && w->slot == w->round % slots())
            sync_file(w, file, 0);
        for (unsigned block = 0; block < files_of_test[file].count; block++) {
            if (owner_of(file, block, w->round) != w->slot || atomic_load(&journal->failed))
                continue;
            op->writes = false;
            op->file = file;
            op->first = block;
            op->count = 1;
            begin(w, op);
            carry_out(w, API_pwrite, 1);
        }
    }
}

static void step_arrived(void)
{
    atomic_fetch_add(&journal->arrived, 1);
    syscall(SYS_futex, &journal->arrived, FUTEX_WAKE, INT32_MAX, NULL);
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    uint32_t step = 0, next;
    for (;;) {
        while ((next = atomic_load(&journal->step)) == step)
            syscall(SYS_futex, &journal->step, FUTEX_WAIT, step, NULL);
        step = next;
        w->round = round_of_step(step);
        switch ((enum phase)(step % 4)) {
        case PHASE_RUN:
            w->random = mix(journal->seed ^ (uint64_t)w->round << 32 ^ w->slot) | 1;
            while (!atomic_load(&journal->stop) && !atomic_load(&journal->failed))
                act(w);
            break;
        case PHASE_SETTLE:
            settle(w);
            break;
        case PHASE_END:
            return NULL;
        case PHASE_WAIT:
            continue;
        }
        step_arrived();
    }
}

static void worker_open(struct worker *w)
{
    for (unsigned file = 0; file < FILES; file++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", journal->directory, files_of_test[file].name);
        w->plain[file] = open(path, O_RDWR | O_CLOEXEC);
        w->dsync[file] = open(path, O_RDWR | O_DSYNC | O_CLOEXEC);
        if (w->plain[file] < 0 || w->dsync[file] < 0)
            die("%s: %s", path, strerror(errno));
    }
    if (syscall(SYS_io_setup, (long)DEPTH, &w->context) != 0)
        die("io_setup: %s", strerror(errno));
    if (journal->apis[API_io_uring] && io_uring_queue_init(DEPTH * 2, &w->ring, 0) != 0)
        die("io_uring_queue_init failed");
    for (unsigned i = 0; i < DEPTH; i++)
        w->operations[i].buffer = need(BUFFER_MOST);
}

/* torture --worker JOURNAL INDEX: one process. */
static int worker_process(int argc, char **argv)
{
    static struct worker workers[SLOTS_MOST];
    if (argc != 4)
        die("usage: --worker JOURNAL INDEX");
    journal = journal_map(argv[2], false);
    unsigned index = (unsigned)number_option("worker", argv[3], 0, SLOTS_MOST);
    for (unsigned i = 0; i < journal->threads; i++) {
        workers[i].slot = index * journal->threads + i;
        worker_open(&workers[i]);
    }
    for (unsigned i = 0; i < journal->threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            die("no thread");
        step_arrived(); /* its files are open */
    }
    for (unsigned i = 0; i < journal->threads; i++)
        pthread_join(workers[i].thread, NULL);
    return atomic_load(&journal->failed) ? 1 : 0;
}

#endif
