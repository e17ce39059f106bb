#include "file/agent.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "file/behind.h"
#include "ledger/agent.h"
#include "run/command.h"
#include "run/directory.h"
#include "run/said.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

extern char **environ;

enum {
    ANSWER_MS = 1000, /* that an agent has to be there, and to answer */
    STEP_MS = 5,
    AGAIN_MS = 1000,        /* until it is asked again, */
    START_AGAIN_MS = 30000, /* and until it is started again, after it could not be */
    ENVIRONMENT_MAX = 32,
    DESCRIPTORS_MAX = 1 << 20, /* that are closed one by one */
    SAY_EVERY_S = 60
};

static _Atomic bool wanted;       /* by a write; the sender was woken, or will be */
static _Atomic bool seeking;      /* a sender sees to it */
static _Atomic uint64_t again_ns; /* nothing is wanted before this time */
static volatile int started;      /* the agent that the one that seeks started last; 0: none */

/* ---- asking ---- */

bool file_agent_cares(struct file_mount *mount, bool *wake)
{
    uint32_t number = ledger_agent_number();
    unsigned place = atomic_load_explicit(&mount->agent_place, memory_order_relaxed);
    if (number && place && ledger_agent_watches(number) && ledger_agent_serves(number, place - 1))
        return true;
    atomic_store_explicit(&mount->agent_wanted, true, memory_order_relaxed);
    if (!atomic_load_explicit(&wanted, memory_order_relaxed) &&
        sys_now_ns() >= atomic_load(&again_ns) && !atomic_exchange(&wanted, true))
        *wake = true;
    return false;
}

/* Asks for all mounts that want it. Is the answer there, for each? */
static bool ask(void)
{
    uint32_t number = ledger_agent_number();
    bool served = number != 0;
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_mount *mount = file_mount_at(i);
        if (!atomic_load(&mount->agent_wanted))
            continue;
        int place = ledger_agent_ask(atomic_load(&mount->registry_key), mount->device);
        if (place >= 0)
            atomic_store(&mount->agent_place, (unsigned)place + 1);
        served = served && place >= 0 && ledger_agent_watches(number) &&
                 ledger_agent_serves(number, (unsigned)place);
    }
    return served;
}

/* ---- starting ---- */

/* What the program's environment said of us at its start. Later it is the program's, which may
 * empty it, or move it while it is read. */
static char *settings[ENVIRONMENT_MAX];
static unsigned setting_count;

void file_agent_prepare(void)
{
    for (char **at = environ; at && *at && setting_count < ENVIRONMENT_MAX; at++) {
        if (strncmp(*at, "DIRECTNFS_", 10) != 0)
            continue;
        char *copy = sys_alloc(strlen(*at) + 1);
        if (copy)
            settings[setting_count++] = strcpy(copy, *at);
    }
}

/* What the child needs. All is made before it exists: it has the memory of this process. */
struct start {
    char command[PATH_MAX], log[RUN_PATH_MAX + 32];
    char *arguments[3], *environment[ENVIRONMENT_MAX + 2];
    int descriptors; /* their numbers are less */
};

/* The command that belongs to the library that this is. */
static bool find_command(char command[PATH_MAX])
{
    Dl_info library;
    return dladdr((void *)(uintptr_t)file_agent_seek, &library) && library.dli_fname &&
           run_command_of(library.dli_fname, command);
}

/* Ours only: what else is there may be long, and no matter of the agent. What would go to the
 * program's standard error goes to a file of the run directory, as nothing of the program is kept
 * open. */
static void fill(struct start *start)
{
    static const char log[] = "DIRECTNFS_LOG=";
    const size_t length = sizeof(log) - 1;
    char path[RUN_PATH_MAX];
    unsigned count = 0;
    bool own = true;
    for (unsigned i = 0; i < setting_count; i++) {
        bool is_log = strncmp(settings[i], log, length) == 0;
        const char *target = settings[i] + (is_log ? length : 0);
        if (is_log && (!*target || strcmp(target, "stderr") == 0))
            continue;
        own = own && !is_log;
        start->environment[count++] = settings[i];
    }
    snprintf(start->log, sizeof(start->log), "%s%s/agent.log", log, run_name(path));
    if (own)
        start->environment[count++] = start->log;
    start->environment[count] = NULL;
    struct rlimit limit;
    bool few = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) == 0 &&
               limit.rlim_cur < DESCRIPTORS_MAX;
    start->descriptors = few ? (int)limit.rlim_cur : DESCRIPTORS_MAX;
    start->arguments[0] = (char *)"directnfs";
    start->arguments[1] = (char *)"agent";
    start->arguments[2] = NULL;
}

/* In the child, which has the memory of this process until it is another program, and this thread
 * waits: no function of libc is called. */
static inline __attribute__((always_inline, noreturn)) void become(const struct start *start)
{
    sys_call0(SYS_setsid);
    sys_call1(SYS_chdir, "/");
    if (sys_call3(SYS_close_range, 0, ~0U, 0) != 0) /* before Linux 5.9, or a filter refuses it */
        for (int fd = 0; fd < start->descriptors; fd++)
            sys_call1(SYS_close, fd);
    sys_call4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0); /* 0, 1 and 2 */
    sys_call1(SYS_dup, 0);
    sys_call1(SYS_dup, 0);
    sys_call3(SYS_execve, start->command, start->arguments, start->environment);
    for (;;)
        sys_call1(SYS_exit_group, 127);
}

/*
 * An agent that is no child of the program, which would meet it in wait() and SIGCHLD: it is that
 * of a child which is no more. That one had no exit signal, so it was not met either. (execve(2)
 * would have given it one.) *agent: the pid. 0 or -errno.
 */
__attribute__((noinline)) static int start_apart(const struct start *start, volatile int *agent)
{
    *agent = 0;
    int child = (int)sys_call5(SYS_clone, CLONE_VM | CLONE_VFORK, 0, 0, 0, 0);
    if (child == 0) {
        int pid = (int)sys_call5(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            become(start);
        *agent = pid;
        for (;;)
            sys_call1(SYS_exit_group, 0);
    }
    if (child < 0)
        return child;
    while (sys_call4(SYS_wait4, child, NULL, __WALL, NULL) == -EINTR)
        ;
    return *agent < 0 ? *agent : 0;
}

static void say(enum ledger_agent_lack lack, const char *what, int error)
{
    ledger_agent_lack(lack, error);
    if (run_may_say("no agent", SAY_EVERY_S))
        log_warning("no agent can be had (%s%s%s): each write(2) waits for its server, as with "
                    "write_behind_max = 0; `directnfs check` tells more",
                    what, error ? ": " : "", error ? strerrordesc_np(error) : "");
}

/* Is the one that was started there? It may have ended at once, as it could not be the agent. */
static bool is_running(void)
{
    return started > 0 && sys_kill(started, 0) != -ESRCH;
}

/* False, after a line on the log: none can be started. */
static bool start_one(void)
{
    static struct start start; /* of the one that seeks */
    if (is_running())
        return true; /* it may be there soon, or be ending */
    if (!find_command(start.command)) {
        say(LEDGER_AGENT_LACKS_COMMAND,
            "beside the library is no command directnfs that can be trusted", 0);
        return false;
    }
    fill(&start);
    int result = start_apart(&start, &started);
    if (result < 0)
        say(LEDGER_AGENT_LACKS_PROCESS, "a process cannot be started", -result);
    return result == 0;
}

bool file_agent_is_wanted(void)
{
    return atomic_load(&wanted);
}

/* Until it is there, and has answered. 0; or how long nobody is to ask again, in ms. */
static int seek(void)
{
    uint64_t until_ns = sys_now_ns() + ANSWER_MS * UINT64_C(1000000);
    bool tried = false;
    while (!ask()) {
        bool there = ledger_agent_is_there();
        if (sys_now_ns() > until_ns)
            return AGAIN_MS;
        if (!there && !tried) {
            tried = true;
            if (!start_one())
                return START_AGAIN_MS;
        } else if (!there && !is_running()) {
            say(LEDGER_AGENT_LACKS_REASON, "directnfs agent ended at once; it wrote why to its log",
                0);
            return START_AGAIN_MS;
        }
        sys_nanosleep_ms(STEP_MS);
    }
    return 0;
}

void file_agent_seek(void)
{
    if (!atomic_load(&wanted) || atomic_exchange(&seeking, true))
        return;
    int again_ms = seek();
    atomic_store(&again_ns, again_ms ? sys_now_ns() + (uint64_t)again_ms * 1000000 : 0);
    atomic_store(&wanted, false);
    atomic_store(&seeking, false);
}

void file_agent_fork_child(void)
{
    atomic_store(&wanted, false);
    atomic_store(&seeking, false);
    atomic_store(&again_ns, 0);
    started = 0; /* by the parent */
}
