/* Asynchronous requests: many in flight, of several threads, with every trouble. */
#include "async_scene.h"
#include "file/table.h"
#include "ledger/strays.h"
#include "rpc/transport.h"
#include "rounds.h"

/* ---- everything at once ---- */

struct model {
    unsigned version[BLOCKS];
    bool busy[BLOCKS];
};

static void settle(struct model *model, struct job *job)
{
    CHECK_EQUAL(job->result, BLOCK);
    if (job->request.operation == ASYNC_READ)
        CHECK(data_is(job->data, BLOCK, (uint64_t)job->block * BLOCK, job->version));
    model->busy[job->block] = false;
}

static bool any_done(void *context)
{
    unsigned count = *(unsigned *)context;
    for (unsigned i = 0; i < count; i++) {
        if (atomic_load(&jobs[i].done))
            return true;
    }
    return false;
}

/* Depth 64 at random, verified; `trouble` is called now and then. */
static void random_io(unsigned rounds, void (*trouble)(unsigned round))
{
    static struct model model;
    int fd = lane_open(DISK);
    unsigned seed = 12345, used = 0;
    bool idle[DEPTH];
    memset(idle, 1, sizeof(idle));
    for (unsigned i = 0; i < DEPTH; i++)
        jobs[i].data = malloc(BLOCK);
    for (unsigned round = 0; round < rounds; round++) {
        struct async_request *requests[DEPTH];
        unsigned count = 0, batch = 1 + (unsigned)rand_r(&seed) % 16;
        for (unsigned i = 0; i < DEPTH && count < batch; i++) {
            struct job *job = &jobs[i];
            unsigned block = (unsigned)rand_r(&seed) % BLOCKS;
            if (!idle[i] || model.busy[block])
                continue;
            job->block = block;
            if (rand_r(&seed) % 2) {
                job->version = ++model.version[block];
                job_write(job, fd, BLOCK, (off_t)block * BLOCK, job->version);
            } else {
                job->version = model.version[block];
                job_prepare(job, ASYNC_READ, fd, BLOCK, (off_t)block * BLOCK);
                memset(job->data, 0xcc, BLOCK);
            }
            model.busy[block] = true;
            idle[i] = false;
            requests[count++] = &job->request;
        }
        used += count;
        sys_critical_enter();
        async_submit(lane, requests, count);
        sys_critical_leave();
        if (trouble)
            trouble(round);
        unsigned all = DEPTH;
        sys_critical_enter();
        async_lane_wait(lane, any_done, &all, 0);
        sys_critical_leave();
        for (unsigned i = 0; i < DEPTH; i++) {
            if (!idle[i] && atomic_load(&jobs[i].done)) {
                settle(&model, &jobs[i]);
                atomic_store(&jobs[i].done, 0);
                idle[i] = true;
            }
        }
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        if (!idle[i]) {
            wait_for_job(&jobs[i]);
            settle(&model, &jobs[i]);
        }
    }
    CHECK(used > rounds);
    for (unsigned i = 0; i < BLOCKS; i++)
        engine_expect(fd, BLOCK, (off_t)i * BLOCK, model.version[i]);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 0; i < BLOCKS; i++)
        disk_expect("f", BLOCK, (off_t)i * BLOCK, model.version[i]);
}

ENGINE_TEST(random_requests)
{
    random_io(rounds_of(1000), NULL);
}

static void power_losses(unsigned round)
{
    if (round % 50 == 49)
        atomic_store(&scene.control->power_after[NFS_PROC_WRITE], 1 + round % 7);
    if (round % 60 == 59)
        atomic_store(&scene.control->power_after[NFS_PROC_READ], 1 + round % 5);
}

ENGINE_TEST(random_requests_with_power_losses)
{
    random_io(rounds_of(600), power_losses);
}

static void resets(unsigned round)
{
    if (round % 20 == 19)
        atomic_store(&scene.control->drop_after[round % 40 > 20 ? NFS_PROC_WRITE : NFS_PROC_READ],
                     1 + round % 7);
    if (round % 70 == 69)
        server_do(FILE_SERVER_RESET);
}

ENGINE_TEST(random_requests_with_lost_replies)
{
    random_io(rounds_of(600), resets);
}

static void short_replies(unsigned round)
{
    atomic_store(&scene.control->short_read, round % 3 ? 0 : 1500);
    atomic_store(&scene.control->short_write, round % 5 ? 0 : 2500);
    if (round % 100 == 99)
        server_fail(round % 200 == 99 ? NFS_PROC_WRITE : NFS_PROC_READ, 2, NFS3ERR_JUKEBOX);
    if (round % 90 == 89)
        atomic_store(&scene.control->power_after[NFS_PROC_WRITE], 1 + round % 7);
    if (round % 40 == 39) {
        sys_critical_enter();
        async_attend_all();
        sys_critical_leave();
    }
}

ENGINE_TEST(random_requests_with_every_trouble)
{
    random_io(rounds_of(600), short_replies);
}

/* ---- threads ---- */

enum { THREADS = 3, AT_ONCE = 16, REGION = AT_ONCE * BLOCK };

struct worker {
    int fd;
    unsigned number;
    bool attended;
    struct async_lane *lane;
    struct job jobs[AT_ONCE];
};

static void worker_submit(struct worker *worker)
{
    struct async_request *requests[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++)
        requests[i] = &worker->jobs[i].request;
    sys_critical_enter();
    async_submit(worker->lane, requests, AT_ONCE);
    for (unsigned i = 0; i < AT_ONCE; i++)
        CHECK(async_lane_wait(worker->lane, job_is_done, &worker->jobs[i], 0));
    sys_critical_leave();
    for (unsigned i = 0; i < AT_ONCE; i++)
        CHECK_EQUAL(worker->jobs[i].result, BLOCK);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    off_t from = (off_t)worker->number * REGION;
    sys_critical_enter();
    CHECK((worker->lane = async_lane_new()) != NULL);
    if (worker->attended)
        async_lane_attend(worker->lane);
    sys_critical_leave();
    for (unsigned round = 1; round < 60; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++) /* each overlaps the one before */
            job_write(&worker->jobs[i], worker->fd, BLOCK, from + i * 1000, round + i);
        worker_submit(worker);
        for (unsigned i = 0; i < AT_ONCE; i++)
            job_prepare(&worker->jobs[i], ASYNC_READ, worker->fd, BLOCK, from + i * 1000);
        worker_submit(worker);
        for (unsigned i = 0; i < AT_ONCE; i++)
            CHECK(data_is(worker->jobs[i].data, 1000, (uint64_t)from + i * 1000, round + i));
        if (round % 10 == 0)
            CHECK_EQUAL(engine_fsync(worker->fd), 0);
    }
    sys_critical_enter();
    async_lane_free(worker->lane);
    sys_critical_leave();
    return NULL;
}

ENGINE_TEST(lanes_of_several_threads_with_power_losses)
{
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    disk_make("f", DISK, 0);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].fd = fd;
        workers[i].number = i;
        workers[i].attended = i == 1;
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 20; i++) {
        server_do(FILE_SERVER_LOSE_POWER);
        CHECK_EQUAL(engine_fsync(fd), 0);
        usleep(5000);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 0; i < THREADS; i++)
        disk_expect("f", 1000, (off_t)i * REGION, 59);
}

/* A thread that waits for a write in flight does not depend on the one that submitted it. */
static void *writes_over_it(void *argument)
{
    engine_put(*(int *)argument, 100, 50, 2);
    return NULL;
}

ENGINE_TEST(a_troubled_write_of_a_thread_that_does_not_come_back)
{
    pthread_t thread;
    int fd = lane_open(DISK);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_JUKEBOX);
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    submit(0, 1);
    CHECK_EQUAL(pthread_create(&thread, NULL, writes_over_it, &fd), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    engine_expect(fd, 50, 0, 1);
    engine_expect(fd, 100, 50, 2);
    engine_expect(fd, BLOCK - 150, 150, 1);
    wait_for_job(&jobs[0]);
}

/* As above, for a truncation. */
ENGINE_TEST(a_truncation_that_waits_for_a_troubled_write)
{
    int fd = lane_open(0);
    server_fail(NFS_PROC_WRITE, 2, NFS3ERR_JUKEBOX);
    job_write(&jobs[0], fd, BLOCK, BLOCK, 2);
    job_write(&jobs[1], fd, BLOCK, 3 * BLOCK, 2);
    submit(0, 2);
    CHECK_EQUAL(engine_truncate(fd, 100), 0);
    wait_for_jobs(0, 2);
    CHECK_EQUAL(engine_size(fd), 100);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(disk_size("f"), 100);
}

static _Atomic bool stop_reading;

static void *reads_too(void *argument)
{
    char data[100];
    while (!atomic_load(&stop_reading))
        CHECK_EQUAL(engine_read(*(int *)argument, data, 100, 0), 100);
    return NULL;
}

/* The reply arrives in a thread that reads on the same channel, while the attendant, which has
 * nothing more in flight, is about to sleep: it is told of what is left to do. */
static void troubled_requests(void)
{
    pthread_t thread;
    int fd = lane_open(DISK);
    async_lane_attend(lane);
    atomic_store(&scene.control->short_read, BLOCK / 2);
    CHECK_EQUAL(pthread_create(&thread, NULL, reads_too, &fd), 0);
    for (unsigned i = 0; i < rounds_of(3000); i++) {
        job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, 0);
        submit(0, 1);
        for (unsigned waits = 0; !job_is_done(&jobs[0]); waits++) {
            CHECK(waits < 100000);
            usleep(waits < 100 ? 10 : 100);
        }
        CHECK_EQUAL(jobs[0].result, BLOCK);
    }
    atomic_store(&stop_reading, true);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

SCENE_TEST(troubled_requests_of_a_lane_that_nobody_waits_for)
{
    scene_configure("connections = 1;");
    scene_run(troubled_requests);
}

/* ---- a call that the server carries out once, and knows again ---- */

static struct {
    struct rpc_exact as;
    unsigned set_aside, taken_up, left;
} slot;

static bool slot_enter(struct rpc_exact *exact, struct rpc_call *call)
{
    (void)exact;
    call->exact_slot = 0;
    return true;
}

static void slot_leave(struct rpc_exact *exact, struct rpc_call *call)
{
    (void)exact;
    (void)call;
    slot.left++;
}

static bool slot_set_aside(struct rpc_exact *exact)
{
    (void)exact;
    slot.set_aside++;
    return true;
}

static void slot_take_up(struct rpc_exact *exact)
{
    (void)exact;
    slot.taken_up++;
}

static void *release_two(void *unused)
{
    server_wait_held(2);
    server_release();
    return unused;
}

/* As by NFSv4.1, when the path fails over which it was sent. Another call would be carried out as
 * well, and nobody would wait for the older one. */
ENGINE_TEST(a_write_whose_path_failed_is_sent_again_as_the_same_call)
{
    pthread_t thread;
    int fd = lane_open(DISK);
    struct rpc_call *call = &jobs[0].request.call;
    slot.as = (struct rpc_exact){slot_enter, slot_leave, slot_set_aside, slot_take_up};
    server_hold(NFS_PROC_WRITE);
    job_write(&jobs[0], fd, BLOCK, 0, 2);
    submit(0, 1);
    server_wait_held(1);
    uint32_t xid = call->xid;
    struct rpc_transport *transport = call->channel->transport;
    sys_critical_enter();
    pthread_mutex_lock(&transport->lock);
    call->exact = &slot.as;
    call->exact_slot = 0;
    rpc_call_fail(transport, call, -ENETDOWN);
    rpc_call_finished(transport);
    pthread_mutex_unlock(&transport->lock);
    sys_critical_leave();
    CHECK_EQUAL(slot.set_aside, 1);
    CHECK_EQUAL(pthread_create(&thread, NULL, release_two, NULL), 0);
    wait_for_job(&jobs[0]);
    pthread_join(thread, NULL);
    CHECK_EQUAL(jobs[0].result, BLOCK);
    CHECK_EQUAL(call->xid, xid);
    CHECK_EQUAL(slot.taken_up, 1);
    CHECK_EQUAL(slot.left, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 2);
}

/* ---- a process that dies ---- */

static void has_a_child_that_sends_and_dies(void)
{
    disk_make("f", DISK, 0);
    int fd = engine_adopt("f", O_RDWR);
    struct ledger_file *file = &file_get(fd)->inode->entry;
    pid_t child = engine_fork();
    if (child == 0) {
        CHECK((lane = async_lane_new()) != NULL);
        job_write(&jobs[0], fd, BLOCK, 0, 1);
        submit(0, 1);
        wait_for_job(&jobs[0]);
        kill(getpid(), SIGKILL);
    }
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    ledger_process_sweep(0);
    CHECK_EQUAL(ledger_file_uncommitted(file), BLOCK);
    CHECK(!ledger_file_has_sent_strays(file));
}

SCENE_TEST(what_a_process_sent_and_did_not_live_to_be_watched_is_the_agents)
{
    scene_configure("write_behind_max = 16777216;");
    scene_run(has_a_child_that_sends_and_dies);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
