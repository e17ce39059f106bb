#include "durable/agent.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "mount/credentials.h"
#include "mount/mounts.h"
#include "mount/vouch.h"
#include "durable/behind.h"
#include "ledger/agent.h"
#include "rpc/secure/identity.h"
#include "run/command.h"
#include "run/directory.h"
#include "run/identity.h"
#include "run/log_limit.h"
#include "sys/alloc.h"
#include "sys/large.h"
#include "sys/log.h"
#include "sys/sys.h"

extern char **environ;

enum {
    ANSWER_MS = 1000, /* an agent has so long to be there, and to answer */
    STEP_MS = 5,
    ASK_MS = 250,           /* until it is asked again while a thread seeks, */
    AGAIN_MS = 1000,        /* until a thread seeks again, after no answer; */
    AGAIN_MOST_MS = 8000,   /* each time twice as long, up to this */
    LATE_MS = 5000,         /* without an answer; then the log says so */
    START_AGAIN_MS = 30000, /* until another start, after one failed */
    ENVIRONMENT_MAX = 32,
    DESCRIPTORS_MAX = 1 << 20, /* so many are closed one by one */
    SAY_EVERY_S = 60
};

static _Atomic bool wanted;           /* a write wants it; the sender was woken, or will be */
static _Atomic bool seeking;          /* a sender sees to it now */
static _Atomic uint64_t again_ns;     /* nothing is wanted before this time, */
static _Atomic uint32_t again_number; /* unless the agent is another one than it was then */
static _Atomic uint32_t wanted_user;  /* the user to vouch for; 0: it has no number */

/* For the thread that has set `seeking`. */
static struct run_identity started; /* the agent that it started last; pid 0: none */
static uint64_t since_ns;           /* since when there is no answer; 0: there was one */
static int pause_ms;                /* until it asks again */

/* ---- asking ---- */

static bool is_served(const struct mount *mount, uint32_t number)
{
    unsigned place = atomic_load_explicit(&mount->agent_place, memory_order_relaxed);
    return number && place && ledger_agent_watches(number) &&
           ledger_agent_serves(number, place - 1,
                               atomic_load_explicit(&mount->registry_key, memory_order_relaxed));
}

uint32_t durable_agent_cares(struct mount *mount, const struct rpc_auth *auth, bool *wake)
{
    if (__builtin_expect(auth->identity != NULL, false) && !auth->identity->keytab)
        return 0; /* the agent has no ticket of the user */
    uint32_t number = ledger_agent_number(), user = mount_auth_user(auth);
    if (user && is_served(mount, number) && ledger_agent_vouches(number, user))
        return user;
    if (!atomic_load_explicit(&mount->agent_wanted, memory_order_relaxed))
        atomic_store_explicit(&mount->agent_wanted, true, memory_order_relaxed);
    if (atomic_load_explicit(&wanted_user, memory_order_relaxed) != user)
        atomic_store_explicit(&wanted_user, user, memory_order_relaxed);
    if (!atomic_load_explicit(&wanted, memory_order_relaxed) &&
        (sys_now_ns() >= atomic_load(&again_ns) || number != atomic_load(&again_number)) &&
        !atomic_exchange(&wanted, true))
        *wake = true;
    return 0;
}

void durable_agent_meet(struct mount *mount)
{
    uint32_t number = ledger_agent_number();
    bool has_ticket = mount->security < CONF_SECURITY_KRB5 || mount->server->conf->krb5_keytab;
    if (number && has_ticket && !ledger_agent_knows(number))
        (void)ledger_agent_ask(atomic_load(&mount->registry_key), mount->device);
}

/* The first wanted mount of which the agent has not said that it serves it; NULL: there is none. */
static const struct mount *unserved(uint32_t number)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        const struct mount *mount = mounts_at(i);
        if (atomic_load(&mount->agent_wanted) && !is_served(mount, number))
            return mount;
    }
    return NULL;
}

static bool is_vouched(uint32_t number)
{
    uint32_t user = atomic_load(&wanted_user);
    return user != 0 && ledger_agent_vouches(number, user);
}

/* Asks for all mounts that want the agent. False: it has no place for one of them. */
static bool ask(uint32_t number)
{
    bool found = true;
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts_at(i);
        if (!atomic_load(&mount->agent_wanted))
            continue;
        int place = ledger_agent_ask(atomic_load(&mount->registry_key), mount->device);
        atomic_store(&mount->agent_place, place < 0 ? 0 : (unsigned)place + 1);
        found = found && place >= 0;
    }
    if (number && !is_vouched(number))
        mount_vouch_show();
    return found;
}

/* ---- starting ---- */

/* Our variables in the program's environment, and that of Kerberos which is not about a user, as
 * they were at its start. Later the environment is the program's, which may empty it, or move it
 * while it is read. */
static char *settings[ENVIRONMENT_MAX];
static unsigned setting_count;

void durable_agent_prepare(void)
{
    for (char **at = environ; at && *at && setting_count < ENVIRONMENT_MAX; at++) {
        if (strncmp(*at, "DIRECTNFS_", 10) != 0 && strncmp(*at, "KRB5_CONFIG=", 12) != 0)
            continue;
        char *copy = sys_alloc(strlen(*at) + 1);
        if (copy)
            settings[setting_count++] = strcpy(copy, *at);
    }
}

/* What the child needs. All is made before the child exists: it has the memory of this process. */
struct start {
    char command[PATH_MAX], log[RUN_PATH_MAX + 32];
    char *arguments[3], *environment[ENVIRONMENT_MAX + 2];
    int descriptors;     /* their numbers are less than this */
    volatile int result; /* -errno: why it could not become another program */
};

/* Finds the command that belongs to this library. */
static bool find_command(char command[PATH_MAX])
{
    Dl_info library;
    return dladdr((void *)(uintptr_t)durable_agent_seek, &library) && library.dli_fname &&
           run_command_of(library.dli_fname, command);
}

/* Fills in our variables only: the others may be many, and do not concern the agent. What would go
 * to the program's standard error goes to a file of the run directory, as nothing of the program is
 * kept open. */
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

/* In the child, which has the memory of this process until it is another program, while this thread
 * waits. So it calls no function of libc. */
static inline __attribute__((always_inline, noreturn)) void become(struct start *start)
{
    sys_call0(SYS_setsid);
    sys_call1(SYS_chdir, "/");
    if (sys_call3(SYS_close_range, 0, ~0U, 0) != 0) /* before Linux 5.9, or a filter refuses it */
        for (int fd = 0; fd < start->descriptors; fd++)
            sys_call1(SYS_close, fd);
    sys_call4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0); /* 0, 1 and 2 */
    sys_call1(SYS_dup, 0);
    sys_call1(SYS_dup, 0);
    start->result =
        (int)sys_call3(SYS_execve, start->command, start->arguments, start->environment);
    for (;;)
        sys_call1(SYS_exit_group, 127);
}

/* "/proc/PID/exe" */
static inline __attribute__((always_inline)) void name_program(int pid, char name[24])
{
    static const char before[] = "/proc/", behind[] = "/exe";
    char digits[12];
    int count = 0, at = 0;
    for (int i = 0; before[i]; i++)
        name[at++] = before[i];
    for (; pid > 0; pid /= 10)
        digits[count++] = (char)('0' + pid % 10);
    while (count > 0)
        name[at++] = digits[--count];
    for (int i = 0; behind[i]; i++)
        name[at++] = behind[i];
    name[at] = '\0';
}

/*
 * In the child in between, when the grandchild has given up the memory. The grandchild is another
 * program by now, the agent; or it has ended, or is about to, as execve(2) failed, or a filter of
 * system calls killed it for that. Then this waits for it: if the program is the first process of
 * its namespace, it would else be told of its end.
 */
static inline __attribute__((always_inline)) void see_to_end(struct start *start, int agent)
{
    const struct timespec pause = {0, 1000000};
    char name[24], target[8];
    int status = 0;
    name_program(agent, name);
    for (int ms = 0; ms < ANSWER_MS; ms++) {
        if (sys_call4(SYS_wait4, agent, &status, WNOHANG, NULL) == agent) {
            if (start->result == 0 && WIFSIGNALED(status))
                start->result = -EPERM;
            return;
        }
        /* A process that ends has no program any more. */
        if (start->result == 0 &&
            sys_call4(SYS_readlinkat, AT_FDCWD, name, target, sizeof(target)) != -ENOENT)
            return;
        sys_call2(SYS_nanosleep, &pause, NULL);
    }
}

/*
 * Starts an agent that is no child of the program: the program would meet a child in wait() and
 * SIGCHLD. It is the child of a child that is no more. That one had no exit signal, so the program
 * did not meet it either. (execve(2) would have given it one.) *agent: the pid. 0 or -errno.
 */
__attribute__((noinline)) static int start_apart(struct start *start, volatile int *agent)
{
    *agent = 0;
    start->result = 0;
    int child = (int)sys_call5(SYS_clone, CLONE_VM | CLONE_VFORK, 0, 0, 0, 0);
    if (child == 0) {
        int pid = (int)sys_call5(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            become(start);
        *agent = pid;
        if (pid > 0)
            see_to_end(start, pid);
        for (;;)
            sys_call1(SYS_exit_group, 0);
    }
    if (child < 0)
        return child;
    while (sys_call4(SYS_wait4, child, NULL, __WALL, NULL) == -EINTR)
        ;
    return *agent < 0 ? *agent : start->result;
}

static void say(enum ledger_agent_lack lack, const char *what, int error)
{
    char subject[32];
    ledger_agent_lack(lack, error);
    snprintf(subject, sizeof(subject), "no agent: %d", lack);
    if (run_may_say(subject, SAY_EVERY_S))
        log_warning("no agent can be had (%s%s%s): each write(2) waits for its server, as with "
                    "write_behind_max = 0; `directnfs check` tells more",
                    what, error ? ": " : "", error ? strerrordesc_np(error) : "");
}

/* Is the agent that was started still there? It may have ended at once, as it could not be the
 * agent; and its number may be another process's by now. */
static bool is_running(void)
{
    if (started.pid == 0)
        return false;
    if (started.starttime == 0 && run_identity_of(started.pid, &started) != 0)
        return sys_kill((pid_t)started.pid, 0) != -ESRCH; /* there is no descriptor to look with */
    return run_identity_alive(&started);
}

/* Starts an agent. False, after a line on the log: it cannot. */
static bool start_one(void)
{
    static SYS_LARGE struct start start; /* for the thread that has set `seeking` */
    volatile int pid;
    if (!find_command(start.command)) {
        say(LEDGER_AGENT_LACKS_COMMAND,
            "beside the library is no command directnfs that can be trusted", 0);
        return false;
    }
    fill(&start);
    int result = start_apart(&start, &pid);
    if (result < 0) {
        say(LEDGER_AGENT_LACKS_PROCESS, "a process cannot be started", -result);
        return false;
    }
    started = (struct run_identity){.pid = (uint32_t)pid};
    return true;
}

bool durable_agent_is_wanted(void)
{
    return atomic_load(&wanted);
}

static void say_late(uint32_t number, const struct mount *mount)
{
    char what[320];
    if (!mount) {
        say(LEDGER_AGENT_LACKS_VOUCHER, "it does not know that it may send as this user and groups",
            0);
    } else if (number == 0) {
        say(LEDGER_AGENT_LACKS_READY, "one has begun, and is not ready: is it stopped?", 0);
    } else if (atomic_load(&mount->agent_place) == 0) {
        say(LEDGER_AGENT_LACKS_PLACE, "it has no place for another server", 0);
    } else {
        snprintf(what, sizeof(what),
                 "it does not answer, or is not in contact with server %.64s for %.128s, and its "
                 "log says why",
                 mount->server->conf->name, mount->path);
        say(LEDGER_AGENT_LACKS_ANSWER, what, 0);
    }
}

/* There was no answer: for how many ms nobody is to ask again. */
static int be_late(uint32_t number, const struct mount *mount)
{
    uint64_t now_ns = sys_now_ns();
    if (since_ns == 0)
        since_ns = now_ns;
    else if (now_ns - since_ns > LATE_MS * UINT64_C(1000000))
        say_late(number, mount);
    pause_ms = pause_ms == 0                  ? AGAIN_MS
               : pause_ms * 2 < AGAIN_MOST_MS ? pause_ms * 2
                                              : AGAIN_MOST_MS;
    return pause_ms;
}

/* Makes sure that there is an agent, or will be. False, after a line on the log: there is none, and
 * none can be had. */
static bool see_to_one(bool *tried)
{
    if (ledger_agent_is_there() || is_running())
        return true; /* it may be ready soon, or be ending */
    if (!*tried && !ledger_agent_may_start())
        return true; /* another process starts one */
    if (!*tried) {
        *tried = true;
        if (start_one())
            return true;
    } else {
        say(LEDGER_AGENT_LACKS_REASON, "directnfs agent ended at once; it wrote why to its log", 0);
    }
    ledger_agent_not_started();
    return false;
}

/* Waits until the agent is there, and has answered. 0: it has; else for how many ms nobody is to
 * ask again. */
static int seek(void)
{
    uint64_t now_ns = sys_now_ns(), until_ns = now_ns + ANSWER_MS * UINT64_C(1000000), ask_ns = 0;
    uint32_t number, asked = 0;
    const struct mount *mount;
    bool tried = false;
    while ((mount = unserved(number = ledger_agent_number())) || !is_vouched(number)) {
        now_ns = sys_now_ns();
        if (now_ns > until_ns)
            return be_late(number, mount);
        if (now_ns >= ask_ns || number != asked) {
            if (!ask(number))
                until_ns = now_ns;
            asked = number;
            ask_ns = now_ns + ASK_MS * UINT64_C(1000000);
        }
        if (!see_to_one(&tried))
            return START_AGAIN_MS;
        sys_nanosleep_ms(STEP_MS);
    }
    ledger_agent_lack(LEDGER_AGENT_LACKS_NOTHING, 0);
    since_ns = 0;
    pause_ms = 0;
    return 0;
}

void durable_agent_seek(void)
{
    if (!atomic_load(&wanted) || atomic_exchange(&seeking, true))
        return;
    int again_ms = seek();
    atomic_store(&again_ns, again_ms ? sys_now_ns() + (uint64_t)again_ms * 1000000 : 0);
    atomic_store(&again_number, ledger_agent_number());
    atomic_store(&wanted, false);
    atomic_store(&seeking, false);
}

void durable_agent_fork_child(void)
{
    atomic_store(&wanted, false);
    atomic_store(&seeking, false);
    atomic_store(&again_ns, 0);
    started = (struct run_identity){.pid = 0}; /* the parent started it */
    since_ns = 0;
    pause_ms = 0;
}
