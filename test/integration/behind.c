/*
 * Hard cases of writing behind and reading ahead, on a server of the fault laboratory:
 *
 *     behind DIRECTORY restart|path|cut|tail|full|stopped PROXY POWER     control sockets
 *     behind DIRECTORY whole                     without the library: is what the server has right?
 */
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

#include "behind.h"

/* ---- a server that loses what is not committed, with data of three processes ---- */

/* Half of what each writes is less than a WRITE: it is not sent at once. */
enum { WRITERS = 3, OWN = 3 * MIB / 2, COMMON = 3 * MIB, COMMON_SEED = 9 };

static void put_common(int fd, unsigned me, size_t from, size_t to)
{
    for (size_t at = from + me * PIECE; at < to; at += WRITERS * PIECE)
        put(fd, at, at + PIECE, PIECE, COMMON_SEED);
}

static void write_and_sync(unsigned me)
{
    int own = open_named("restart", me, OWN, 0),
        common = open_named("restart", COMMON_SEED, COMMON, 0);
    put(own, 0, OWN / 2, PIECE, me);
    put_common(common, me, 0, COMMON / 2);
    /* That is at the server, and not committed; what follows is not sent, or under way. */
    CHECK(sync_file_range(own, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0);
    CHECK(sync_file_range(common, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0);
    reach(me, 1);
    put(own, OWN / 2, OWN, PIECE, me);
    put_common(common, me, COMMON / 2, COMMON);
    reach(me, 2);
    CHECK(fsync(common) == 0);
    CHECK(fsync(own) == 0);
    look(own, 0, OWN, me);
}

static void scene_restart(void)
{
    for (unsigned i = 0; i < WRITERS; i++)
        play(i, write_and_sync);
    await_all(WRITERS, 1);
    unsigned long writes = counter(power_socket, "counters", "writes");
    CHECK(writes >= WRITERS);
    go(1);
    await_all(WRITERS, 2);
    kill_player(0);
    ask(power_socket, "power-loss 0 100");
    go(2);
    int own = open_named("restart", 0, OWN, 0);
    look(own, 0, OWN, 0);
    CHECK(fsync(own) == 0);
    for (unsigned i = 1; i < WRITERS; i++)
        await_end(i);
    CHECK(counter(power_socket, "counters", "lost_pages") > 0);
    ask(power_socket, "power-loss 0 1"); /* what was committed stays */
    int common = open_named("restart", COMMON_SEED, COMMON, 0);
    look(common, 0, COMMON, COMMON_SEED);
}

/* ---- a path that dies with 16 MiB under way ---- */

enum { IN_FLIGHT = 16 * MIB, PATH_FILE = 4 * MIB, PATH_FILES = 8, OLD = 100, LONGEST_S = 60 };

static void write_over_a_path(unsigned me)
{
    int fd = open_named("path", me, PATH_FILE, 0);
    reach(me, 1);
    put(fd, 0, PATH_FILE, 64 * KIB, me + OLD);
    CHECK(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);
    reach(me, 2);
    /* Over what is lost on its way, or still there. */
    put(fd, 0, PATH_FILE, 64 * KIB, me);
    CHECK(fsync(fd) == 0);
    look(fd, 0, PATH_FILE, me);
}

static void scene_path(void)
{
    for (unsigned i = 0; i < PATH_FILES; i++)
        play(i, write_over_a_path);
    await_all(PATH_FILES, 1);
    ask(proxy_socket, "2 refuse");
    ask(proxy_socket, "2 reset");
    ask(proxy_socket, "3 refuse");
    ask(proxy_socket, "3 reset");
    ask(proxy_socket, "1 delay 1500");
    go(1);
    await_all(PATH_FILES, 2);
    /* A WRITE has 1 MiB. */
    double limit = now() + PATIENCE_S;
    unsigned long calls, replies;
    do {
        usleep(1000);
        calls = counter(proxy_socket, "1 counters", "calls");
        replies = counter(proxy_socket, "1 counters", "replies");
    } while (calls < replies + IN_FLIGHT / MIB && now() < limit);
    if (calls < replies + IN_FLIGHT / MIB)
        fail("only %lu calls are under way", calls - replies);
    ask(proxy_socket, "1 blackhole");
    ask(proxy_socket, "2 pass");
    ask(proxy_socket, "3 pass");
    double died = now();
    unsigned long before = counter(proxy_socket, "2 counters", "replies") +
                           counter(proxy_socket, "3 counters", "replies");
    go(2);
    for (unsigned i = 0; i < PATH_FILES; i++)
        await_end(i);
    double took = now() - died;
    unsigned long others = counter(proxy_socket, "2 counters", "replies") +
                           counter(proxy_socket, "3 counters", "replies") - before;
    printf(
        "%lu calls were under way; %.1f s until all was synced again, %lu calls by other paths\n",
        calls - replies, took, others);
    CHECK(took < LONGEST_S);
    CHECK(others >= PATH_FILES * PATH_FILE / MIB);
    ask(proxy_socket, "1 pass");
}

/* ---- a file that is cut, and written again, while its old bytes are under way ---- */

enum { OLD_SIZE = MIB, NEW_SIZE = 200 * KIB + 77, LONG_SIZE = 2 * MIB, CUTS = 6, PARKED_MS = 150 };
enum cut { CUT_FTRUNCATE, CUT_OPEN, CUT_LONGER };
static unsigned cut_round;

static size_t cut_size(void)
{
    return cut_round % 3 == CUT_LONGER ? LONG_SIZE : NEW_SIZE;
}

static void cut_and_rewrite(void)
{
    enum cut way = cut_round % 3;
    int fd = open_named("cut", cut_round, cut_size(), way == CUT_OPEN ? O_TRUNC : 0);
    if (way != CUT_OPEN)
        CHECK(ftruncate(fd, way == CUT_LONGER ? LONG_SIZE : 0) == 0);
    CHECK(size_of(fd) == (way == CUT_LONGER ? LONG_SIZE : 0));
    if (way == CUT_LONGER) {
        look(fd, 0, OLD_SIZE, OLD);
        look_for_zeros(fd, OLD_SIZE, LONG_SIZE);
    }
    put(fd, 0, cut_size(), 10000, cut_round);
    CHECK(size_of(fd) == cut_size());
    look(fd, 0, cut_size(), cut_round);
    if (cut_round % 2)
        CHECK(fsync(fd) == 0);
    look(fd, 0, cut_size(), cut_round);
    close(fd);
}

static void write_old(unsigned me)
{
    int fd = open_named("cut", cut_round, cut_size(), 0);
    put(fd, 0, OLD_SIZE, PIECE, OLD);
    CHECK(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);
    reach(me, 1);
    if (cut_round < CUTS / 2)
        cut_and_rewrite();
    reach(me, 2);
    CHECK(size_of(fd) == cut_size());
    look(fd, 0, cut_size(), cut_round);
    CHECK(fsync(fd) == 0);
    look(fd, 0, cut_size(), cut_round);
}

static void cut_after_another(unsigned me)
{
    reach(me, 1);
    cut_and_rewrite();
    reach(me, 2);
}

static void read_while_it_is_cut(unsigned me)
{
    int fd = open_named("cut", cut_round, cut_size(), 0);
    uint8_t bytes[PIECE];
    reach(me, 1);
    while (atomic_load(&stage->go) < 2) {
        ssize_t got = pread(fd, bytes, sizeof(bytes), 0);
        CHECK(got == 0 || got == sizeof(bytes));
        CHECK(got == 0 || differs(bytes, sizeof(bytes), 0, OLD) < 0 ||
              differs(bytes, sizeof(bytes), 0, cut_round) < 0 ||
              differs(bytes, 10000 - PIECE, 0, cut_round) < 0);
    }
    look(fd, 0, cut_size(), cut_round);
}

static void scene_cut(void)
{
    char park[64];
    snprintf(park, sizeof(park), "park 1 %d", PARKED_MS);
    for (cut_round = 0; cut_round < CUTS; cut_round++) {
        stage_clear();
        unsigned long parked = counter(power_socket, "counters", "parked");
        ask(power_socket, park);
        bool other = cut_round >= CUTS / 2;
        play(0, write_old);
        play(1, read_while_it_is_cut);
        if (other)
            play(2, cut_after_another);
        await_all(other ? 3 : 2, 1);
        await_counter(power_socket, "counters", "parked", parked + 1);
        go(1);
        await(0, 2);
        if (other)
            await(2, 2);
        go(2);
        for (unsigned i = 0; i < (other ? 3 : 2); i++)
            await_end(i);
    }
}

/* ---- readers at the end of a file that grows ---- */

enum { TAIL_SIZE = 6 * MIB, TAIL_SEED = 5, TAIL_READERS = 3, TAIL_WRITE_MAX = 20000 };

static void extend(unsigned me)
{
    static uint8_t bytes[TAIL_WRITE_MAX];
    int fd = open_named("tail", TAIL_SEED, TAIL_SIZE, me == 0 ? 0 : O_APPEND);
    uint64_t random = 77;
    for (uint64_t at = 0; at < TAIL_SIZE;) {
        size_t length = 1 + next_random(&random) % TAIL_WRITE_MAX;
        if (length > TAIL_SIZE - at)
            length = TAIL_SIZE - at;
        fill(bytes, length, at, TAIL_SEED);
        atomic_store(&stage->issued, at + length);
        CHECK(write(fd, bytes, length) == (ssize_t)length);
        atomic_store(&stage->written, at += length);
        if (next_random(&random) % 100 == 0)
            CHECK(fsync(fd) == 0);
        if (next_random(&random) % 16 == 0)
            usleep(1000); /* readers are at the end now and then */
    }
}

/* By read(2), in order; what a write(2) that is over has written is there, and nothing else. */
static void follow_tail(unsigned me)
{
    static uint8_t bytes[64 * KIB];
    const size_t most = me == 1 ? sizeof(bytes) : me == 2 ? PIECE : 777;
    int fd = open_named("tail", TAIL_SEED, TAIL_SIZE, 0);
    uint64_t at = 0, ends = 0;
    double limit = now() + PATIENCE_S;
    while (at < TAIL_SIZE) {
        uint64_t least = atomic_load(&stage->written);
        if (me == 3)
            CHECK(size_of(fd) >= least);
        ssize_t got = read(fd, bytes, most), bad;
        CHECK(got >= 0);
        if ((uint64_t)got < most && at + (uint64_t)got < least)
            fail("a read at %llu ends after %zd bytes, and %llu were written",
                 (unsigned long long)at, got, (unsigned long long)least);
        if (at + (uint64_t)got > atomic_load(&stage->issued))
            fail("%zd bytes were read at %llu, which nobody wrote", got, (unsigned long long)at);
        if ((bad = differs(bytes, (size_t)got, at, TAIL_SEED)) >= 0)
            fail("a wrong byte at %llu: %#x", (unsigned long long)at + (unsigned long long)bad,
                 bytes[bad]);
        at += (uint64_t)got;
        ends += got == 0;
        if (got == 0)
            usleep(200);
        CHECK(now() < limit);
    }
    printf("reader %u: %llu times at the end\n", me, (unsigned long long)ends);
    fflush(stdout);
}

static void scene_tail(void)
{
    for (int round = 0; round < 2; round++) {
        stage_clear();
        int fd = open_named("tail", TAIL_SEED, TAIL_SIZE, O_TRUNC);
        for (unsigned i = 1; i <= TAIL_READERS; i++)
            play(i, follow_tail);
        players[0] = fork();
        CHECK(players[0] >= 0);
        if (players[0] == 0) {
            extend((unsigned)round);
            _exit(0);
        }
        for (unsigned i = 0; i <= TAIL_READERS; i++)
            await_end(i);
        look(fd, 0, TAIL_SIZE, TAIL_SEED);
        CHECK(fsync(fd) == 0);
        close(fd);
    }
}

/* ---- a file system that fills up ---- */

enum { GOOD = 256 * KIB, FULL_SIZE = 2 * GOOD, FULL_SHARED = 50, FULLS = 3 };
static const struct {
    int status, error;
} fulls[FULLS] = {{28, ENOSPC}, {69, EDQUOT}, {27, EFBIG}};
static unsigned full_round;

static void told_once(int fd)
{
    int error = fulls[full_round].error, result = fsync(fd);
    if (result != -1 || errno != error)
        fail("fsync: %d, %s, and not %s", result, strerror(errno), strerror(error));
    CHECK(fsync(fd) == 0);
}

static void fill_up(unsigned me)
{
    static uint8_t bytes[PIECE];
    unsigned seed = FULL_SHARED + 1 + full_round * WRITERS + me,
             shared_seed = FULL_SHARED - full_round;
    int shared = open_named("full", shared_seed, FULL_SIZE, 0),
        own = open_named("full", seed, FULL_SIZE, 0),
        second = open_named("full", seed, FULL_SIZE, 0);
    put(own, 0, GOOD, PIECE, seed);
    CHECK(fsync(own) == 0);
    CHECK(fsync(second) == 0);
    CHECK(fsync(shared) == 0);
    reach(me, 1); /* from now on the server is full */
    put(own, GOOD, FULL_SIZE, PIECE, OLD);
    if (me == 0)
        put(shared, 0, FULL_SIZE, PIECE, OLD);
    reach(me, 2);
    told_once(own);
    told_once(shared);
    told_once(second);
    fill(bytes, PIECE, GOOD, seed);
    /* The next write is not left for later, so that its own result says how it is. */
    CHECK(pwrite(own, bytes, PIECE, GOOD) == -1 && errno == fulls[full_round].error);
    CHECK(pwrite(second, bytes, PIECE, GOOD) == -1 && errno == fulls[full_round].error);
    reach(me, 3); /* there is room again */
    put(own, GOOD, FULL_SIZE, PIECE, seed);
    if (me == 0)
        put(shared, 0, FULL_SIZE, PIECE, shared_seed);
    reach(me, 4);
    look(own, 0, FULL_SIZE, seed);
    look(shared, 0, FULL_SIZE, shared_seed);
    CHECK(fsync(own) == 0 && fsync(shared) == 0 && fsync(second) == 0);
    CHECK(close(own) == 0 && close(shared) == 0 && close(second) == 0);
}

static void close_when_full(unsigned me)
{
    int fd = open_named("full", full_round, 0, 0), other = open_named("full", full_round, 0, 0);
    reach(me, 1);
    put(fd, 0, GOOD, PIECE, OLD);
    CHECK(close(fd) == -1 && errno == fulls[full_round].error);
    told_once(other);
    CHECK(close(other) == 0);
}

static void scene_full(void)
{
    char answer[64];
    for (full_round = 0; full_round < FULLS; full_round++) {
        snprintf(answer, sizeof(answer), "all answer %d 7 100", fulls[full_round].status);
        stage_clear();
        for (unsigned i = 0; i < WRITERS; i++)
            play(i, fill_up);
        await_all(WRITERS, 1);
        ask(proxy_socket, answer);
        go(1);
        await_all(WRITERS, 2);
        go(2);
        await_all(WRITERS, 3);
        ask(proxy_socket, "all pass");
        go(3);
        await_all(WRITERS, 4);
        go(4);
        for (unsigned i = 0; i < WRITERS; i++)
            await_end(i);
        stage_clear();
        play(0, close_when_full);
        await(0, 1);
        ask(proxy_socket, answer);
        go(1);
        await_end(0);
        ask(proxy_socket, "all pass");
    }
}

/* ---- a process that is stopped with data that is not at the server ---- */

enum { STOPPED_SIZE = MIB, STOPPED_SEED = 70, STOPPED_CUT = STOPPED_SIZE / 2 };

static void write_and_stop(unsigned me)
{
    int fd = open_named("stopped", STOPPED_SEED, STOPPED_CUT, 0);
    put(fd, 0, GOOD, PIECE, STOPPED_SEED);
    put(fd, GOOD, STOPPED_SIZE, PIECE, OLD);
    reach(me, 1); /* and is stopped here */
    reach(me, 2); /* the other one has cut the file */
    look(fd, 0, STOPPED_CUT, STOPPED_SEED);
    CHECK(size_of(fd) == STOPPED_CUT);
    CHECK(fsync(fd) == 0);
}

static void sync_for_it(unsigned me)
{
    int fd = open_named("stopped", STOPPED_SEED, STOPPED_CUT, 0);
    look(fd, 0, GOOD, STOPPED_SEED);
    look(fd, GOOD, STOPPED_SIZE, OLD);
    CHECK(fsync(fd) == 0);
    look(fd, GOOD, STOPPED_SIZE, OLD);
    reach(me, 1);
    put(fd, GOOD, STOPPED_SIZE, PIECE, STOPPED_SEED);
    CHECK(ftruncate(fd, STOPPED_CUT) == 0);
    look(fd, 0, STOPPED_CUT, STOPPED_SEED);
    CHECK(size_of(fd) == STOPPED_CUT);
    CHECK(fsync(fd) == 0);
    reach(me, 2);
}

static void scene_stopped(void)
{
    play(0, write_and_stop);
    await(0, 1);
    stop_process(players[0]);
    play(1, sync_for_it);
    await(1, 1); /* nobody waits for it with an fsync */
    go(1);
    /* What it has under way may be executed late: who writes there waits, at most until it goes on.
     */
    for (int i = 0; i < 1000 && atomic_load(&stage->reached[1]) < 2; i++)
        usleep(1000);
    kill(players[0], SIGCONT);
    await(1, 2);
    go(2);
    await_end(1);
    await_end(0);
}

/* ---- attributes: what is not sent goes first, or its WRITE would undo the change ---- */

static const struct timespec times[2] = {{5, 0}, {5, 0}};
static const struct timeval microseconds[2] = {{5, 0}, {5, 0}};
static const struct utimbuf seconds = {5, 5};

/* False: there is no such way. The errno of an extended attribute is the server's business. */
static bool change_attributes(unsigned way, int fd, const char *path)
{
    switch (way) {
    case 0:
        return chmod(path, 0600) == 0;
    case 1:
        return fchmod(fd, 0600) == 0;
    case 2:
        return fchmodat(AT_FDCWD, path, 0600, 0) == 0;
    case 3:
        return syscall(SYS_fchmodat, AT_FDCWD, path, 0600) == 0;
    case 4:
        return chown(path, 0, 0) == 0;
    case 5:
        return lchown(path, 0, 0) == 0;
    case 6:
        return fchown(fd, 0, 0) == 0;
    case 7:
        return fchownat(AT_FDCWD, path, 0, 0, 0) == 0;
    case 8:
        return utimensat(AT_FDCWD, path, times, 0) == 0;
    case 9:
        return futimens(fd, times) == 0;
    case 10:
        return utime(path, &seconds) == 0;
    case 11:
        return utimes(path, microseconds) == 0;
    case 12:
        return lutimes(path, microseconds) == 0;
    case 13:
        return futimes(fd, microseconds) == 0;
    case 14:
        return futimesat(AT_FDCWD, path, microseconds) == 0;
    case 15:
        return setxattr(path, "user.a", "b", 1, 0) == 0 || errno != EFAULT;
    case 16:
        return lsetxattr(path, "user.a", "b", 1, 0) == 0 || errno != EFAULT;
    case 17:
        return fsetxattr(fd, "user.a", "b", 1, 0) == 0 || errno != EFAULT;
    case 18:
        return syscall(SYS_setxattr, path, "user.a", "b", 1, 0) == 0 || errno != EFAULT;
    case 19:
        return syscall(SYS_lsetxattr, path, "user.a", "b", 1, 0) == 0 || errno != EFAULT;
#ifdef SYS_chmod
    case 20:
        return syscall(SYS_chmod, path, 0600) == 0;
    case 21:
        return syscall(SYS_chown, path, 0, 0) == 0;
    case 22:
        return syscall(SYS_lchown, path, 0, 0) == 0;
    case 23:
        return syscall(SYS_utime, path, &seconds) == 0;
    case 24:
        return syscall(SYS_utimes, path, microseconds) == 0;
    case 25:
        return syscall(SYS_futimesat, AT_FDCWD, path, microseconds) == 0;
#endif
    default:
        return false;
    }
}

static void scene_attributes(void)
{
    unsigned ways = 0;
    bool more;
    do {
        char name[64];
        int fd = open_named("attributes", ways, PIECE, 0);
        snprintf(name, sizeof(name), "attributes-%u-%u", ways, (unsigned)PIECE);
        unsigned long writes = counter(power_socket, "counters", "writes");
        put(fd, 0, PIECE, PIECE, ways);
        more = change_attributes(ways, fd, below(work, name));
        if (more && counter(power_socket, "counters", "writes") == writes)
            fail("way %u of changing attributes left data unsent", ways);
        CHECK(close(fd) == 0);
        ways += more;
    } while (more);
    CHECK(ways >= 20);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"restart", scene_restart},
                  {"path", scene_path},
                  {"cut", scene_cut},
                  {"tail", scene_tail},
                  {"full", scene_full},
                  {"stopped", scene_stopped},
                  {"attributes", scene_attributes}};
    work = directory(argc, argv);
    if (argc == 3 && strcmp(argv[2], "whole") == 0)
        return look_at_whole_files();
    if (argc != 5)
        fail("usage: behind DIRECTORY SCENE PROXY POWER");
    proxy_socket = argv[3];
    power_socket = argv[4];
    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(stage != MAP_FAILED);
    for (unsigned i = 0; i < sizeof(scenes) / sizeof(*scenes); i++) {
        if (strcmp(scenes[i].name, argv[2]) != 0)
            continue;
        scenes[i].run();
        return 0;
    }
    fail("no scene %s", argv[2]);
}
