/* See scene.h. */
#include "scene.h"
#include "fd/descriptors.h"
#include "fd/life.h"
#include "ledger/care.h"
#include "ledger/store/processes.h"
#include "mount/registry.h"

struct scene scene;

/* ---- the server ---- */

void server_do(enum file_server_command command)
{
    char byte = (char)command;
    CHECK(write(scene.commands, &byte, 1) == 1);
    CHECK(read(scene.commands, &byte, 1) == 1);
}

unsigned server_calls(enum nfs_procedure procedure)
{
    return atomic_load(&scene.control->calls[procedure]);
}

void server_fail(enum nfs_procedure procedure, unsigned count, uint32_t status)
{
    atomic_store(&scene.control->fail_status[procedure], status);
    atomic_store(&scene.control->fail_count[procedure], count);
}

void server_hold(enum nfs_procedure procedure)
{
    atomic_fetch_or(&scene.control->hold, 1u << procedure);
}

void server_release(void)
{
    atomic_store(&scene.control->hold, 0);
    server_do(FILE_SERVER_RELEASE);
}

void server_wait_held(unsigned count)
{
    for (int i = 0; atomic_load(&scene.control->held) < count; i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

/* ---- steps, by which processes wait for one another ---- */

void step_done(int step)
{
    atomic_store(&scene.shared->steps[step], 1);
}

void step_wait(int step)
{
    for (int i = 0; !atomic_load(&scene.shared->steps[step]); i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

/* ---- processes ---- */

void scene_file_path(char path[SCENE_PATH], const char *name)
{
    CHECK(strlen(name) < SCENE_PATH - sizeof(scene.directory) - 1);
    path[0] = '\0';
    if (name[0] != '/')
        strcat(strcpy(path, scene.directory), "/");
    strcat(path, name);
}

static void scene_write_text(const char *name, const char *text)
{
    char path[SCENE_PATH];
    snprintf(path, sizeof(path), "%s/%s", scene.top, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

void scene_environment(void)
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
static void scene_be_agent(void)
{
    uint32_t seen = 0;
    CHECK_EQUAL(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* a server ends when nobody has its socket */
    CHECK_EQUAL(log_open(getenv("DIRECTNFS_LOG")), 0);
    fd_start();
    sys_proc_keep();
    CHECK_EQUAL(mount_registry_open(), 0);
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
        mount_vouch_all(-1);
        for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
            if (ledger_agent_server(place, &key, &device))
                ledger_agent_serve(place, true);
        }
        ledger_agent_await(&seen);
    }
}

void scene_start_agent(void)
{
    scene.agent = fork();
    CHECK(scene.agent >= 0);
    if (scene.agent == 0)
        scene_be_agent();
}

void scene_configure(const char *tunables)
{
    strcpy(scene.conf, tunables);
    scene_environment();
    if (scene.agent == 0 && strstr(tunables, "write_behind_max") &&
        !strstr(tunables, "write_behind_max = 0;"))
        scene_start_agent();
}

pid_t scene_start(void (*body)(void))
{
    CHECK(!fd_enabled());
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(SCENE_LIMIT_S);
    CHECK_EQUAL(log_open(getenv("DIRECTNFS_LOG")), 0);
    fd_start();
    sys_proc_keep();
    CHECK(fd_enabled());
    body();
    fd_finish();
    _exit(0);
}

void scene_wait(pid_t pid)
{
    int status;
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fprintf(stderr, "process ended by signal %d\n", WTERMSIG(status));
    if (status != 0)
        _exit(1);
}

void scene_run(void (*body)(void))
{
    scene_wait(scene_start(body));
}

void scene_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
}

void scene_start_behind(void (*first)(void), void (*second)(void), pid_t started[2])
{
    server_hold(NFS_PROC_WRITE);
    started[0] = scene_start(first);
    step_wait(0);
    server_wait_held(1);
    started[1] = scene_start(second);
    step_wait(1);
}

void scene_run_behind(void (*first)(void), void (*second)(void))
{
    pid_t started[2];
    scene_start_behind(first, second, started);
    usleep(100000); /* it would be wrong at once */
    CHECK_EQUAL(atomic_load(&scene.control->held), 1);
    server_release();
    scene_wait(started[0]);
    scene_wait(started[1]);
}

pid_t engine_fork(void)
{
    fd_fork_prepare();
    pid_t pid = fork();
    if (pid == 0)
        fd_fork_child();
    else
        fd_fork_parent();
    if (pid == 0)
        alarm(SCENE_LIMIT_S);
    return pid;
}
