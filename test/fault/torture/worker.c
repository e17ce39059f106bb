/* See worker.h. */
#include "worker.h"

/* ---- blocks ---- */

static void block_end(struct worker *w, struct operation *op, enum api api, ssize_t result)
{
    struct block *blocks = &journal->blocks[op->file][op->first];
    unsigned size = files_of_test[op->file].size;
    char when[96];
    operation_name(w, op, api, when);
    if (result != (ssize_t)op->length && failed_as_planned(result))
        return;
    if (result != (ssize_t)op->length) {
        failed("%s: file %s blocks %u..%u: %s", when, files_of_test[op->file].name, op->first,
               op->first + op->count - 1, result < 0 ? strerror((int)-result) : "short");
        return;
    }
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

void begin(struct worker *w, struct operation *op)
{
    struct block *blocks = &journal->blocks[op->file][op->first];
    unsigned size = files_of_test[op->file].size;
    op->length = (size_t)op->count * size;
    op->offset = (off_t)op->first * size;
    op->end = block_end;
    operation_begin(w, op);
    for (unsigned i = 0; i < op->count; i++) {
        if (!op->writes) {
            op->least[i] =
                atomic_load(bound_of_reads() == BOUND_ACKED ? &blocks[i].acked : &blocks[i].synced);
            continue;
        }
        op->least[i] = atomic_load(&blocks[i].issued) + 1;
        stamp(op->buffer + (size_t)i * size, op->file, op->first + i, op->least[i], w->slot);
        atomic_store(&blocks[i].issued, op->least[i]);
    }
}

void sync_file(struct worker *w, unsigned file, unsigned how)
{
    uint32_t acked[BLOCKS];
    unsigned count = files_of_test[file].count;
    for (unsigned i = 0; i < count; i++)
        acked[i] = atomic_load(&journal->blocks[file][i].acked);
    if (!sync_vouches(w, file, how))
        return;
    for (unsigned i = 0; i < count; i++)
        raise_to(&journal->blocks[file][i].synced, acked[i]);
}

/* ---- a round ---- */

void choose(struct worker *w, struct operation *op)
{
    do {
        unsigned share = pick(w, 16);
        for (op->file = 0; share >= files_of_test[op->file].share; op->file++)
            share -= files_of_test[op->file].share;
    } while (w->lacks[op->file]);
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

enum { SCAN_SHARE = 6 /* of 100 */, SCAN_MOST = 32 };

/* Reads neighbouring blocks one by one, as who reads a file from front to back, whether he says so
 * or not: what comes may have been read ahead. */
static void scan_act(struct worker *w)
{
    struct operation *op = &w->operations[0];
    op->writes = false;
    choose(w, op);
    unsigned count = files_of_test[op->file].count, size = files_of_test[op->file].size;
    unsigned end = op->first + 1 + pick(w, SCAN_MOST);
    if (end > count)
        end = count;
    if (pick(w, 2) && posix_fadvise(w->plain[op->file], (off_t)op->first * size,
                                    (off_t)(end - op->first) * size, POSIX_FADV_WILLNEED) != 0)
        failed("round %u, slot %u: posix_fadvise", w->round, w->slot);
    for (; op->first < end && !atomic_load(&journal->failed); op->first++) {
        op->count = 1;
        begin(w, op);
        ssize_t result = do_now(w, op, API_pwrite);
        operation_end(w, op, API_pwrite, result < 0 ? -errno : result);
    }
}

/* How a child ends after its write. */
enum ending { END_EXIT, END_SYNC, END_EXEC, END_KILLED, ENDINGS };

enum { FORK_SHARE = 4 /* of 1000 */, CHILD_FAILED = 100, CHILD_TOLD, TRIES_MOST = 64 };

/* In the child: the status to exit with. */
static int child_writes(struct worker *w, const struct operation *op, enum ending ending)
{
    int fd = w->plain[op->file];
    if (pwrite(fd, op->buffer, op->length, op->offset) != (ssize_t)op->length)
        return CHILD_FAILED;
    if (ending == END_SYNC && fsync(fd) != 0)
        return CHILD_TOLD;
    if (ending == END_EXIT)
        close(fd); /* what it says of a loss our next sync says, too */
    if (ending == END_EXEC && root_length == 0)
        execl("/bin/true", "true", (char *)NULL);
    if (ending == END_KILLED)
        kill(getpid(), SIGKILL);
    return ending == END_EXEC && root_length == 0 ? CHILD_FAILED : 0;
}

/* A child writes blocks that are ours, and ends. */
static void fork_act(struct worker *w)
{
    struct operation *op = &w->operations[0];
    enum ending ending = (enum ending)pick(w, ENDINGS);
    int status;
    op->writes = true;
    choose(w, op);
    if (!op->writes)
        return;
    if (ending == END_KILLED && journal->no_agent)
        ending = END_EXIT;
    begin(w, op);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* its blocks get another owner when we are killed */
        if (getppid() != parent)
            _exit(CHILD_FAILED);
        _exit(child_writes(w, op, ending));
    }
    if (child < 0) {
        failed("fork: %s", strerror(errno));
        return;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    bool right = status == 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_TOLD)
        w->told[op->file] = w->round + 1;
    if (ending == END_KILLED) /* what it left is there after a sync of ours, and only then */
        right = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && sync_vouches(w, op->file, 0);
    op->stable = right && (ending == END_SYNC || ending == END_KILLED);
    atomic_fetch_add(&journal->forks, 1);
    operation_end(w, op, API_pwrite, right ? (ssize_t)op->length : -EIO);
}

void hand_over(struct worker *w)
{
    uint32_t wanted = atomic_load(&journal->hand_over);
    if (!wanted || (wanted - 1) / FILES != w->slot / journal->threads ||
        !atomic_compare_exchange_strong(&journal->hand_over, &wanted, 0))
        return;
    unsigned file = (wanted - 1) % FILES;
    atomic_store(&journal->moved[file], true);
    void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, w->plain[file], 0);
    if (map == MAP_FAILED)
        failed("mmap of file %s: %s", files_of_test[file].name, strerror(errno));
    else
        munmap(map, 4096);
}

enum { CLOSE_SHARE = 10, DIRECT_SHARE = 20 /* of 1000 */ };

/* A copy of a descriptor is closed: that tells of a loss, and keeps no sync from telling it. */
static void close_act(struct worker *w)
{
    unsigned file = pick(w, ALL_FILES);
    char path[512];
    if (w->lacks[file])
        return;
    int copy = dup(w->plain[file]);
    if (copy < 0 || (close(copy) != 0 && !failed_as_planned(-errno)))
        failed("round %u, close of %s by slot %u: %s", w->round, file_path(file, path), w->slot,
               strerror(errno));
}

/* From now on an open file is written and read directly, or no longer: past what others, and it
 * itself, left behind. Only where the kernel may do that as well, with any length. */
static void direct_act(struct worker *w)
{
    unsigned file = pick(w, ALL_FILES);
    int fd = w->plain[file], flags;
    struct statfs fs;
    if (w->lacks[file] || fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return;
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (fcntl(fd, F_SETFL, flags ^ O_DIRECT) != 0 && errno != EINVAL))
        failed("round %u, slot %u: F_SETFL: %s", w->round, w->slot, strerror(errno));
}

void act(struct worker *w)
{
    hand_over(w);
    unsigned seldom = pick(w, 1000);
    if (seldom < CLOSE_SHARE) {
        close_act(w);
        return;
    }
    if (seldom < CLOSE_SHARE + DIRECT_SHARE) {
        direct_act(w);
        return;
    }
    enum api api = pick_api(w);
    unsigned what = pick(w, 100), count = api >= API_libaio ? 1 + pick(w, DEPTH) : 1;
    if (pick(w, 100) < SIZED_SHARE) {
        sized_act(w);
        return;
    }
    bool mostly = atomic_load(&journal->effects) & MOSTLY_APPENDS;
    if (pick(w, 100) < (mostly ? APPEND_SHARE_MOST : APPEND_SHARE)) {
        records_act(w);
        return;
    }
    if (pick(w, 1000) < FORK_SHARE) {
        fork_act(w);
        return;
    }
    if (pick(w, 100) < SCAN_SHARE) {
        scan_act(w);
        return;
    }
    if (what < 8) {
        unsigned file = pick(w, FILES);
        if (!w->lacks[file])
            sync_file(w, file, pick(w, SYNCS));
        return;
    }
    for (unsigned i = 0, tries = 0; i < count; i++) {
        struct operation *op = &w->operations[i];
        do {
            op->writes = what >= 35;
            choose(w, op);
        } while (overlaps(w, i) && tries++ < TRIES_MOST);
        if (tries >= TRIES_MOST) /* of few files not all that is there may be ours */
            count = i;
    }
    /* The same blocks again at once: an older write must never come after a newer one. */
    unsigned times = what >= 35 ? 1 + pick(w, 4) : 1;
    for (unsigned n = 0; n < times && !atomic_load(&journal->failed); n++) {
        for (unsigned i = 0; i < count; i++)
            begin(w, &w->operations[i]);
        carry_out(w, api, count);
    }
}

/* All is healed. Each of us is told what was lost, and then nothing fails any more. */
static void settle_refused(struct worker *w)
{
    w->is_told = true;
    for (unsigned file = 0; file < FILES; file++)
        sync_file(w, file, 0);
    for (unsigned file = 0; file < SIZED; file++)
        sized_sync(w, file);
    for (unsigned log = 0; log < LOGS; log++)
        records_sync(w, log);
    w->is_told = false;
    for (unsigned file = 0; file < ALL_FILES; file++)
        sync_vouches(w, file, 0);
}

/* Through the API as everywhere: every block of ours is the last that was acknowledged. */
static void settle(struct worker *w)
{
    struct operation *op = &w->operations[0];
    bool refused = atomic_load(&journal->effects) & DATA_REFUSED;
    if (refused)
        settle_refused(w);
    for (unsigned file = 0; file < FILES; file++) {
        if ((atomic_load(&journal->settle_sync) && w->slot == w->round % worker_slots()) ||
            bound_of_reads() != BOUND_ACKED)
            sync_file(w, file, 0);
        for (unsigned block = 0; block < files_of_test[file].count; block++) {
            if (owner_of(file, block, w->round) % worker_slots() != w->slot ||
                atomic_load(&journal->failed))
                continue;
            op->writes = false;
            op->file = file;
            op->first = block;
            op->count = 1;
            begin(w, op);
            carry_out(w, API_pwrite, 1);
        }
    }
    for (unsigned file = 0; file < SIZED; file++) {
        if ((w->round + file) % worker_slots() == w->slot && !atomic_load(&journal->failed))
            sized_settle(w, file);
    }
    for (unsigned log = 0; log < LOGS; log++) {
        if ((w->round + log) % worker_slots() != w->slot || atomic_load(&journal->failed))
            continue;
        records_settle(w, log);
        if (refused)
            records_cut(w, log);
    }
    buffers_check(w);
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

static bool is_over(const struct worker *w)
{
    return atomic_load(&journal->stop) || atomic_load(&journal->failed) ||
           (w->alone && atomic_load(&journal->visit_ends[w->slot - worker_slots()]));
}

static int file_open(const struct worker *w, unsigned file, int flags)
{
    char path[512];
    int fd;
    while ((fd = file < FILES + SIZED ? open(file_path(file, path), flags)
                                      : records_open(w, file_path(file, path), flags)) < 0) {
        /* A visitor that gets no answer may not write what others have not sent. */
        if (errno != EIO || !w->alone)
            die("%s: %s", path, strerror(errno));
        if (is_over(w))
            exit(0);
        usleep(20000);
    }
    return fd;
}

void worker_open(struct worker *w)
{
    for (unsigned file = 0; file < ALL_FILES; file++) {
        if (w->lacks[file])
            continue;
        if (w->plain[file] == 0) /* else it came over exec */
            w->plain[file] = file_open(w, file, O_RDWR | (w->can_exec ? 0 : O_CLOEXEC));
        w->dsync[file] = file_open(w, file, O_RDWR | (w->slot % 2 ? O_SYNC : O_DSYNC) | O_CLOEXEC);
    }
    for (unsigned log = 0; log < LOGS && w->slot == 0; log++)
        records_cut(w, log);
    w->memory = memfd_create("torture", MFD_CLOEXEC);
    if (w->memory < 0)
        die("memfd_create: %s", strerror(errno));
    if (syscall(SYS_io_setup, (long)DEPTH, &w->context) != 0)
        die("io_setup: %s", strerror(errno));
    if (journal->apis[API_io_uring] && io_uring_queue_init(DEPTH * 2, &w->ring, 0) != 0)
        die("io_uring_queue_init failed");
    for (unsigned i = 0; i < DEPTH; i++)
        w->operations[i].buffer = need(BUFFER_MOST);
    w->view = need(sizeof *w->view);
    w->log = need(LOG_ROOM);
}

int worker_process(int argc, char **argv)
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
