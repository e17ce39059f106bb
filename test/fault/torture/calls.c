/* See calls.h. */
#include "calls.h"

unsigned pick(struct worker *w, unsigned below)
{
    return (unsigned)(random_next(&w->random) >> 16) % below;
}

enum api pick_api(struct worker *w)
{
    enum api api;
    do
        api = (enum api)pick(w, API_COUNT);
    while (!journal->apis[api]);
    return api;
}

void operation_name(const struct worker *w, const struct operation *op, enum api api, char name[96])
{
    snprintf(name, 96, "round %u, %s by slot %u through %s", w->round,
             op->writes ? "write" : "read", w->slot, api_names[api]);
}

/*
 * Between operations a buffer holds poison: what is sent again from it, though the call ended, is
 * seen in the file, and a reply that is received into it once more is seen here.
 */
enum { POISON_STEP = 256 };

#define POISON UINT64_C(0xdeadbeefcafef00d)
static void buffer_poison(struct operation *op)
{
    const uint64_t poison = POISON;
    op->poisoned = op->length;
    for (size_t at = 0; at + sizeof poison <= op->poisoned; at += POISON_STEP)
        memcpy(op->buffer + at, &poison, sizeof poison);
}

static void buffer_check(const struct worker *w, struct operation *op)
{
    uint64_t found;
    for (size_t at = 0; at + sizeof found <= op->poisoned; at += POISON_STEP) {
        memcpy(&found, op->buffer + at, sizeof found);
        if (found != POISON)
            failed("round %u, slot %u: byte %zu of a buffer changed after the call had ended, to "
                   "%016llx (STALE)",
                   w->round, w->slot, at, (unsigned long long)found);
    }
    op->poisoned = 0;
}

void buffers_check(struct worker *w)
{
    for (unsigned i = 0; i < DEPTH; i++)
        buffer_check(w, &w->operations[i]);
}

void operation_begin(struct worker *w, struct operation *op)
{
    buffer_check(w, op);
    op->stable = false;
    op->under_way = true;
}

void operation_end(struct worker *w, struct operation *op, enum api api, ssize_t result)
{
    if (!op->under_way)
        failed("round %u, slot %u: an operation of %s ended twice", w->round, w->slot,
               api_names[api]);
    op->under_way = false;
    bool kernel = api == API_map || api == API_stream;
    if (result >= 0)
        atomic_fetch_add(!kernel && atomic_load(&journal->moved[op->file]) ? &journal->beside
                         : op->writes                                      ? &journal->writes[api]
                                                                           : &journal->reads[api],
                         1);
    op->end(w, op, api, result);
    buffer_poison(op);
}

/* What makes one write stable, in two ways. */
static int stable_flag(struct worker *w, const struct operation *op)
{
    return !op->stable ? 0 : pick(w, 2) ? RWF_DSYNC : RWF_SYNC;
}

int cut(struct worker *w, const struct operation *op, struct iovec vectors[4])
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

/* The kernel's ends early when a process is stopped in it. */
static ssize_t send_all(int out, int in, off_t from, size_t length)
{
    size_t done = 0;
    ssize_t sent = 1;
    while (done < length && sent > 0) {
        sent = sendfile(out, in, &from, length - done);
        done += sent > 0 ? (size_t)sent : 0;
    }
    return done > 0 ? (ssize_t)done : sent;
}

/* Between the buffer and the file by way of another. */
static ssize_t do_sendfile(struct worker *w, struct operation *op, int fd)
{
    if (op->writes)
        return pwrite(w->memory, op->buffer, op->length, 0) == (ssize_t)op->length &&
                       lseek(fd, op->offset, SEEK_SET) == op->offset
                   ? send_all(fd, w->memory, 0, op->length)
                   : -1;
    if (lseek(w->memory, 0, SEEK_SET) != 0)
        return -1;
    ssize_t sent = send_all(w->memory, fd, op->offset, op->length);
    return sent > 0 && pread(w->memory, op->buffer, (size_t)sent, 0) != sent ? -1 : sent;
}

ssize_t do_now(struct worker *w, struct operation *op, enum api api)
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
        return op->writes ? pwritev2(fd, vectors, count, op->offset, stable_flag(w, op))
                          : preadv2(fd, vectors, count, op->offset, 0);
    case API_sendfile:
        return do_sendfile(w, op, fd);
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
                          .aio_rw_flags = stable_flag(w, op)};
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
            operation_end(w, &w->operations[events[i].data], API_libaio, (ssize_t)events[i].res);
    }
}

static void all_posix(struct worker *w, unsigned count)
{
    struct aiocb *all[DEPTH];
    bool list = pick(w, 2);
    for (unsigned i = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        op->posix = (struct aiocb){.aio_fildes = w->plain[op->file],
                                   .aio_offset = op->offset,
                                   .aio_buf = op->buffer,
                                   .aio_nbytes = op->length,
                                   .aio_lio_opcode = op->writes ? LIO_WRITE : LIO_READ,
                                   .aio_sigevent.sigev_notify = SIGEV_NONE};
        all[i] = &op->posix;
        if (list)
            continue;
        if ((op->writes ? aio_write(&op->posix) : aio_read(&op->posix)) != 0) {
            failed("aio_write, aio_read: %s", strerror(errno));
            return;
        }
    }
    /* EIO: each of them tells how it ended. */
    if (list && lio_listio(pick(w, 2) ? LIO_WAIT : LIO_NOWAIT, all, (int)count, NULL) != 0 &&
        errno != EIO) {
        failed("lio_listio: %s", strerror(errno));
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        const struct aiocb *list[1] = {&op->posix};
        int error;
        while ((error = aio_error(&op->posix)) == EINPROGRESS)
            aio_suspend(list, 1, NULL);
        operation_end(w, op, API_posix_aio, error ? -error : aio_return(&op->posix));
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
        sqe->rw_flags = stable_flag(w, op);
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
        operation_end(w, &w->operations[index], API_io_uring, result);
    }
}

static void note_longest(const struct worker *w, uint64_t begun_ns)
{
    uint64_t took = (clock_ns() - begun_ns) / 1000000 << 32 | w->round;
    uint64_t longest = atomic_load(&journal->longest);
    while (took > longest && !atomic_compare_exchange_weak(&journal->longest, &longest, took))
        ;
}

void carry_out(struct worker *w, enum api api, unsigned count)
{
    if (api == API_libaio)
        all_libaio(w, count);
    else if (api == API_posix_aio)
        all_posix(w, count);
    else if (api == API_io_uring)
        all_uring(w, count);
    for (unsigned i = 0; i < count && api < API_libaio; i++) {
        uint64_t begun_ns = clock_ns();
        ssize_t result = do_now(w, &w->operations[i], api);
        if (w->operations[i].writes)
            note_longest(w, begun_ns);
        operation_end(w, &w->operations[i], api, result < 0 ? -errno : result);
    }
}

/* Syncs a file in one of SYNCS ways. 0 or an error number. */
static int sync_call(struct worker *w, int fd, unsigned how)
{
    int result;
    if (how == 4 && w->alone)
        how = 0;
    (void)sync_file_range(w->plain[pick(w, ALL_FILES)], 0, 0,
                          SYNC_FILE_RANGE_WRITE); /* written on */
    if (how == 1) { /* the first is a hint only: what is done for it is over by then, or is not */
        result = sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        if (result == 0 && pick(w, 2))
            usleep(pick(w, 8) * 1000);
        result = result || fdatasync(fd) ? errno : 0;
    } else if (how == 4) {
        result = syncfs(fd) ? errno : 0;
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
    if (result == 0)
        atomic_fetch_add(&journal->syncs, 1);
    return result;
}

bool sync_vouches(struct worker *w, unsigned file, unsigned how)
{
    bool refused = atomic_load(&journal->effects) & DATA_REFUSED;
    char path[512];
    if (refused && (w->is_told || how == 4)) /* which tells only of what it meets itself */
        how = 0;
    int error = sync_call(w, w->plain[file], how);
    if (error)
        w->told[file] = w->round + 1;
    if (how == 4 && error == EIO && atomic_load(&journal->effects) & NEW_HANDLES)
        return false; /* of some file it has no name, by which it could ask for the new handle */
    bool vouches = error == 0 && (!refused || w->told[file] != w->round + 1);
    if (error && !failed_as_planned(-error) && !(w->is_told && is_refusal(-error)))
        failed("round %u, sync of %s by slot %u: %s", w->round,
               strrchr(file_path(file, path), '/') + 1, w->slot, strerror(error));
    return vouches;
}
