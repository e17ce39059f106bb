/*
 * A scene for the tests of src/file: an exported directory on /dev/shm, the scripted server of
 * file_server.h, and fresh processes that use the engine without any preloading.
 *
 * A test's body runs in a process of its own, without the engine; what uses the engine runs in
 * processes that scene_run() starts. They end at the first CHECK that fails, and cannot hang.
 */
#ifndef TEST_FILE_SCENE_H
#define TEST_FILE_SCENE_H

#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "config/tunables.h"
#include "file/agent.h"
#include "file/auth.h"
#include "file/async.h"
#include "file/behind.h"
#include "file/file.h"
#include "file/inode.h"
#include "file_data.h"
#include "file_server.h"
#include "stats/count.h"
#include "ledger/agent.h"
#include "ledger/care.h"
#include "ledger/store/processes.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "unit.h"

/* test/lib/limit.c ends a program that hangs before that; this is for processes that it leaves, and
 * long enough for a machine of which it gets little. */
enum { SCENE_LIMIT_S = 1200, SCENE_STEPS = 16, SCENE_PATH = 1024 };

struct scene_shared {
    struct file_control control;
    _Atomic int steps[SCENE_STEPS];
};

/* Owned by the test's first process; the others have copies, but for what is shared. */
struct scene {
    char top[64];       /* everything is below it */
    char directory[80]; /* exported, and the mount */
    struct scene_shared *shared;
    struct file_control *control;
    int commands; /* to the server */
    pid_t server;
    pid_t agent;        /* 0: nobody writes behind */
    const char *nfstab; /* NULL: one export; else a text with %s for directory and %u for port */
    char conf[256];
};

static struct scene scene;

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

#define CHECK_EQUAL(left, right)                                                             \
    do {                                                                                     \
        long long check_left = (long long)(left), check_right = (long long)(right);          \
        if (check_left != check_right) {                                                     \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, #left, \
                    check_left, check_right, #right);                                        \
            _exit(1);                                                                        \
        }                                                                                    \
    } while (0)

/* ---- the server ---- */

static inline void server_do(enum file_server_command command)
{
    char byte = (char)command;
    CHECK(write(scene.commands, &byte, 1) == 1);
    CHECK(read(scene.commands, &byte, 1) == 1);
}

static inline unsigned server_calls(enum nfs3_proc procedure)
{
    return atomic_load(&scene.control->calls[procedure]);
}

static inline void server_fail(enum nfs3_proc procedure, unsigned count, uint32_t status)
{
    atomic_store(&scene.control->fail_status[procedure], status);
    atomic_store(&scene.control->fail_count[procedure], count);
}

static inline void server_hold(enum nfs3_proc procedure)
{
    atomic_fetch_or(&scene.control->hold, 1u << procedure);
}

static inline void server_release(void)
{
    atomic_store(&scene.control->hold, 0);
    server_do(FILE_SERVER_RELEASE);
}

static inline void server_wait_held(unsigned count)
{
    for (int i = 0; atomic_load(&scene.control->held) < count; i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

/* ---- steps, by which processes wait for one another ---- */

static inline void step_done(int step)
{
    atomic_store(&scene.shared->steps[step], 1);
}

static inline void step_wait(int step)
{
    for (int i = 0; !atomic_load(&scene.shared->steps[step]); i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

/* ---- processes ---- */

static inline void scene_file_path(char path[SCENE_PATH], const char *name)
{
    CHECK(strlen(name) < SCENE_PATH - sizeof(scene.directory) - 1);
    path[0] = '\0';
    if (name[0] != '/')
        strcat(strcpy(path, scene.directory), "/");
    strcat(path, name);
}

static inline void scene_write_text(const char *name, const char *text)
{
    char path[SCENE_PATH];
    snprintf(path, sizeof(path), "%s/%s", scene.top, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static inline void scene_environment(void)
{
    char text[2048], path[SCENE_PATH];
    in_port_t port = scene.control->port;
    if (scene.nfstab)
        snprintf(text, sizeof(text), scene.nfstab, port, port, scene.top, scene.top, scene.top,
                 scene.top);
    else
        snprintf(text, sizeof(text),
                 "server: scripted\npath: 127.0.0.1\nnfsport: %u mntport: %u\n"
                 "export: %s mount: %s\n",
                 port, port, scene.directory, scene.directory);
    scene_write_text("nfstab", text);
    snprintf(text, sizeof(text), "%s%s%s%s reconnect_max = 1; log_level = \"debug\";\n%s\n",
             strstr(scene.conf, "privileged_port") ? "" : "privileged_port = \"no\";",
             strstr(scene.conf, "write_behind_max") ? "" : "write_behind_max = 0;",
             strstr(scene.conf, "read_ahead_max") ? "" : "read_ahead_max = 0;",
             strstr(scene.conf, "read_cache_max") ? "" : "read_cache_max = 0;", scene.conf);
    scene_write_text("conf", text);
    snprintf(path, sizeof(path), "%s/nfstab", scene.top);
    setenv("DIRECTNFS_NFSTAB", path, 1);
    snprintf(path, sizeof(path), "%s/conf", scene.top);
    setenv("DIRECTNFS_CONF", path, 1);
    snprintf(path, sizeof(path), "%s/run", scene.top);
    setenv("DIRECTNFS_RUN", path, 1);
    snprintf(path, sizeof(path), "%s/log", scene.top);
    setenv("DIRECTNFS_LOG", path, 1);
    setenv("DIRECTNFS_LOG_LEVEL", "debug", 1);
}

/* An agent that promises to care for everything, and sends nothing: each test sees to that. */
static inline void scene_be_agent(void)
{
    uint32_t seen = 0;
    CHECK_EQUAL(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* a server ends when nobody has its socket */
    CHECK_EQUAL(log_open(getenv("DIRECTNFS_LOG")), 0);
    file_start();
    sys_proc_keep();
    CHECK_EQUAL(file_registry_open(), 0);
    CHECK_EQUAL(ledger_agent_become(), 0);
    ledger_agent_ready();
    for (;;) {
        uint64_t key, device;
        bool watched;
        int pid;
        for (uint32_t slot = 1; slot < ledger_process_count(); slot++) {
            if (ledger_agent_asked(slot, &pid, &watched) && !watched)
                ledger_agent_watch(slot, pid);
        }
        file_auth_vouch(-1);
        for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
            if (ledger_agent_server(place, &key, &device))
                ledger_agent_serve(place, true);
        }
        ledger_agent_await(&seen);
    }
}

static inline void scene_start_agent(void)
{
    scene.agent = fork();
    CHECK(scene.agent >= 0);
    if (scene.agent == 0)
        scene_be_agent();
}

/* The processes that start from now on have these tunables. If they write behind there is an agent.
 */
static inline void scene_configure(const char *tunables)
{
    strcpy(scene.conf, tunables);
    scene_environment();
    if (scene.agent == 0 && strstr(tunables, "write_behind_max") &&
        !strstr(tunables, "write_behind_max = 0;"))
        scene_start_agent();
}

/* Starts a fresh process that uses the engine; it ends with file_finish() when `body` returns. Not
 * for a process that uses the engine itself: see engine_fork(). */
static inline pid_t scene_start(void (*body)(void))
{
    CHECK(!file_enabled());
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(SCENE_LIMIT_S);
    CHECK_EQUAL(log_open(getenv("DIRECTNFS_LOG")), 0);
    file_start();
    sys_proc_keep();
    CHECK(file_enabled());
    body();
    file_finish();
    _exit(0);
}

static inline void scene_wait(pid_t pid)
{
    int status;
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fprintf(stderr, "process ended by signal %d\n", WTERMSIG(status));
    if (status != 0)
        _exit(1);
}

static inline void scene_run(void (*body)(void))
{
    scene_wait(scene_start(body));
}

/* SIGKILL, as a crash. */
static inline void scene_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
}

/* Starts a process that writes after its step 0, which the server holds, and then another, until
 * its step 1. */
static inline void scene_start_behind(void (*first)(void), void (*second)(void), pid_t started[2])
{
    server_hold(NFS3_PROC_WRITE);
    started[0] = scene_start(first);
    step_wait(0);
    server_wait_held(1);
    started[1] = scene_start(second);
    step_wait(1);
}

/* The same until both end: the second is to send no WRITE before the first has its answer. */
static inline void scene_run_behind(void (*first)(void), void (*second)(void))
{
    pid_t started[2];
    scene_start_behind(first, second, started);
    usleep(100000); /* it would be wrong at once */
    CHECK_EQUAL(atomic_load(&scene.control->held), 1);
    server_release();
    scene_wait(started[0]);
    scene_wait(started[1]);
}

/* fork() of a process that uses the engine, as the face does it. */
static inline pid_t engine_fork(void)
{
    file_fork_prepare();
    pid_t pid = fork();
    if (pid == 0)
        file_fork_child();
    else
        file_fork_parent();
    if (pid == 0)
        alarm(SCENE_LIMIT_S);
    return pid;
}

/* ---- files, as a program under the face would use them; errors are -errno ---- */

/* From now on this process leaves behind what it writes to such a file. */
static inline void engine_is_cared_for(const struct file_open *open)
{
    bool wake;
    for (int i = 0; !ledger_agent_is_there(); i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
    for (int i = 0; !file_agent_cares(open->inode->mount, open->auth, &wake); i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        file_agent_seek();
        usleep(1000);
    }
}

static inline int engine_open(const char *name, int flags)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    int fd = open(path, flags | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    sys_critical_enter();
    file_opened(fd, flags);
    struct file_open *open = file_get(fd);
    if (open && scene.agent && file_behind_allows(open->access, flags))
        engine_is_cared_for(open);
    if (open)
        file_put(open);
    sys_critical_leave();
    return fd;
}

/* Opens a file that the engine must serve. */
static inline int engine_adopt(const char *name, int flags)
{
    int fd = engine_open(name, flags);
    CHECK(file_is_managed(fd));
    return fd;
}

/* NULL: the kernel has the file. */
static inline struct file_open *engine_begin(int fd)
{
    sys_critical_enter();
    return file_get(fd);
}

static inline void engine_end(struct file_open *open)
{
    if (open)
        file_put(open);
    sys_critical_leave();
}

static inline ssize_t engine_transfer(int fd, bool write, const struct iovec *vectors, int count,
                                      off_t offset, int flags)
{
    ssize_t result = FILE_KERNEL;
    struct file_open *open = engine_begin(fd);
    if (open)
        result = write ? file_pwritev(open, fd, vectors, count, offset, flags)
                       : file_preadv(open, fd, vectors, count, offset, flags);
    engine_end(open);
    if (result != FILE_KERNEL)
        return result;
    result =
        write ? pwritev2(fd, vectors, count, offset, flags) : preadv(fd, vectors, count, offset);
    return result < 0 ? -errno : result;
}

static inline ssize_t engine_readv(int fd, const struct iovec *vectors, int count, off_t offset,
                                   int flags)
{
    return engine_transfer(fd, false, vectors, count, offset, flags);
}

static inline ssize_t engine_writev(int fd, const struct iovec *vectors, int count, off_t offset,
                                    int flags)
{
    return engine_transfer(fd, true, vectors, count, offset, flags);
}

static inline ssize_t engine_read(int fd, void *data, size_t length, off_t offset)
{
    struct iovec vector = {data, length};
    return engine_readv(fd, &vector, 1, offset, 0);
}

static inline ssize_t engine_write(int fd, const void *data, size_t length, off_t offset)
{
    struct iovec vector = {(void *)data, length};
    return engine_writev(fd, &vector, 1, offset, 0);
}

/* What the face does for a descriptor that is not managed. */
static inline int engine_kernel_fsync(int fd)
{
    if (fsync(fd) != 0)
        return -errno;
    sys_critical_enter();
    int result = file_fsynced_by_kernel(fd);
    sys_critical_leave();
    return result;
}

static inline int engine_fsync(int fd)
{
    struct file_open *open = engine_begin(fd);
    int result = open ? file_fsync(open, fd) : FILE_KERNEL;
    engine_end(open);
    return result != FILE_KERNEL ? result : engine_kernel_fsync(fd);
}

static inline int engine_close(int fd)
{
    sys_critical_enter();
    int result = file_closing(fd);
    sys_critical_leave();
    close(fd);
    return result;
}

static inline off_t engine_seek(int fd, off_t offset, int whence)
{
    struct file_open *open = engine_begin(fd);
    off_t result = open ? file_lseek(open, fd, offset, whence) : (off_t)FILE_KERNEL;
    engine_end(open);
    if (result != FILE_KERNEL)
        return result;
    result = lseek(fd, offset, whence);
    return result < 0 ? -errno : result;
}

static inline off_t engine_size(int fd)
{
    return engine_seek(fd, 0, SEEK_END);
}

static inline int engine_truncate(int fd, off_t size)
{
    struct file_open *open = engine_begin(fd);
    int result = open ? file_ftruncate(open, fd, size) : FILE_KERNEL;
    engine_end(open);
    return result != FILE_KERNEL ? result : ftruncate(fd, size) == 0 ? 0 : -errno;
}

static inline int engine_demote(int fd)
{
    sys_critical_enter();
    int result = file_demote(fd, "test");
    sys_critical_leave();
    return result;
}

static inline int engine_dup(int fd)
{
    int to = dup(fd);
    CHECK(to >= 0);
    sys_critical_enter();
    file_duplicated(fd, to);
    sys_critical_leave();
    return to;
}

/* The reason for which the kernel has a file, from the statistics; "" if it has not. */
static inline const char *engine_reason(const char *name)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    const char *reason = "";
    for (unsigned i = 0; i < DIRECTNFS_FILES; i++) {
        const struct directnfs_file_stats *file = &stats_own->files[i];
        if (file->slot != DIRECTNFS_SLOT_FREE && strcmp(file->name, path) == 0)
            reason = file->state == DIRECTNFS_FILE_KERNEL ? file->reason : "";
    }
    return reason;
}

/* ---- data ---- */

static inline void engine_put(int fd, size_t length, off_t offset, unsigned version)
{
    uint8_t *data = malloc(length);
    data_fill(data, length, (uint64_t)offset, version);
    CHECK_EQUAL(engine_write(fd, data, length, offset), length);
    free(data);
}

static inline void engine_expect(int fd, size_t length, off_t offset, unsigned version)
{
    uint8_t *data = malloc(length);
    memset(data, 0xee, length);
    CHECK_EQUAL(engine_read(fd, data, length, offset), length);
    CHECK(data_is(data, length, (uint64_t)offset, version));
    free(data);
}

/* What the kernel sees, which is what is left after a loss of power. */
static inline void disk_expect(const char *name, size_t length, off_t offset, unsigned version)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    uint8_t *data = malloc(length);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQUAL(pread(fd, data, length, offset), length);
    CHECK(data_is(data, length, (uint64_t)offset, version));
    close(fd);
    free(data);
}

static inline off_t disk_size(const char *name)
{
    char path[SCENE_PATH];
    struct stat status;
    scene_file_path(path, name);
    CHECK_EQUAL(stat(path, &status), 0);
    return status.st_size;
}

static inline void disk_make(const char *name, size_t length, unsigned version)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    uint8_t *data = malloc(length + 1);
    data_fill(data, length, 0, version);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQUAL(pwrite(fd, data, length, 0), length);
    close(fd);
    free(data);
}

/* ---- setting up ---- */

static inline int scene_remove(const char *path, const struct stat *status, int type,
                               struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static inline void scene_say_log(void)
{
    char path[SCENE_PATH], line[1024];
    snprintf(path, sizeof(path), "%s/log", scene.top);
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof(line), log))
        fprintf(stderr, "    log: %s", line);
    if (log)
        fclose(log);
}

/* How many lines of the log have this text. */
static inline unsigned scene_logged(const char *text)
{
    unsigned count = 0;
    char line[1024];
    FILE *log = fopen(getenv("DIRECTNFS_LOG"), "r");
    CHECK(log != NULL);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, text) != NULL;
    fclose(log);
    return count;
}

/* Runs a test: `body` in a process of its own, with a server and an empty exported directory. */
static inline void scene_test(void (*body)(void))
{
    int ends[2];
    memset(&scene, 0, sizeof(scene));
    strcpy(scene.top, "/dev/shm/directnfs-test.XXXXXX");
    assert_non_null(mkdtemp(scene.top));
    snprintf(scene.directory, sizeof(scene.directory), "%s/export", scene.top);
    assert_int_equal(mkdir(scene.directory, 0755), 0);
    scene.shared = mmap(NULL, sizeof(*scene.shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene.shared != MAP_FAILED);
    scene.control = &scene.shared->control;
    scene.control->rtmax = scene.control->wtmax = 1 << 20;
    scene.control->maxfilesize = INT64_MAX;
    scene.control->access = UINT32_MAX;
    scene.control->verifier = 0x1122334455667788;
    int listener = file_server_listener(&scene.control->port);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    scene.server = fork();
    assert_true(scene.server >= 0);
    if (scene.server == 0) {
        close(ends[0]);
        file_server_run(scene.control, listener, ends[1]);
    }
    close(ends[1]);
    close(listener);
    scene.commands = ends[0];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
        for (unsigned i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
            signal(crashes[i], SIG_DFL); /* else cmocka goes on with its tests in this process */
        alarm(2 * SCENE_LIMIT_S);
        scene_environment();
        body();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    kill(scene.server, SIGKILL);
    waitpid(scene.server, NULL, 0);
    if (status != 0)
        scene_say_log();
    close(ends[0]);
    munmap(scene.shared, sizeof(*scene.shared));
    nftw(scene.top, scene_remove, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(status, 0);
}

/* A test whose body is without the engine, and starts processes. */
#define SCENE_TEST(name)           \
    static void name##_body(void); \
    UNIT_TEST(name)                \
    {                              \
        scene_test(name##_body);   \
    }                              \
    static void name##_body(void)

/* A test whose body is one process that uses the engine. */
#define ENGINE_TEST(name)            \
    static void name##_engine(void); \
    SCENE_TEST(name)                 \
    {                                \
        scene_run(name##_engine);    \
    }                                \
    static void name##_engine(void)

#endif
