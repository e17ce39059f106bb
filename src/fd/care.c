#include "fd/care.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "durable/sync.h"
#include "fd/life.h"
#include "mount/contact.h"
#include "mount/credentials.h"
#include "mount/mounts.h"
#include "mount/registry.h"
#include "mount/root.h"
#include "mount/vouch.h"
#include "durable/commit.h"
#include "file/file.h"
#include "mount/mount.h"
#include "ledger/agent.h"
#include "mount/watch.h"
#include "ledger/care.h"
#include "ledger/store/layout.h"
#include "ledger/store/processes.h"
#include "ledger/store/stripes.h"
#include "ledger/store/stopped.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"
#include "sys/test_switch.h"
#include "sys/thread.h"

enum {
    LINGER_MS = 2000,      /* it stays so long after the last process and the last byte */
    AGAIN_MS = 1000,       /* until a server that did not take something is asked again: */
    AGAIN_MOST_MS = 30000, /* each time twice as long, up to this */
    POLL_MS = 1000,        /* between looks: data is dirty, or the kernel tells of no deaths */
    EVENTS = 64,
    LEAVES_MS = 300, /* before it leaves it waits at least so long for writes that have begun, */
    STEP_MS = 50,    /* and looks this often whether it can */
    GROUP_BYTES = 2048,
    OTHERS = 256, /* so many descriptors are not for processes that it watches */
    CARERS_MAX = LEDGER_AGENT_SERVERS
};

/* ---- a thread for each server ---- */

/* Each server has a thread, so that a server that does not answer keeps nothing from the others. */
struct carer {
    struct mount_server *server;
    _Atomic uint32_t kicks; /* futex: changes when there is something to do */
    _Atomic uint32_t done;  /* what `kicks` was when all was done */
};

static struct carer carers[CARERS_MAX]; /* only the thread of fd_care() adds to it */
static unsigned carer_count;
static int wakes = -1;      /* an eventfd: it wakes the loop */
static _Atomic bool asked;  /* a process wants something of the agent */
static _Atomic bool leaves; /* the agent promises nothing any more, and ends soon */
static pthread_mutex_t promising =
    PTHREAD_MUTEX_INITIALIZER; /* held while it promises, and while `leaves` is set */
static struct ledger_moments moments;

static void wake_loop(void)
{
    const uint64_t one = 1;
    sys_write(wakes, &one, sizeof(one));
}

/* Answers for the server's places that this mount serves, unless the agent leaves. */
static void serve(const struct mount *mount)
{
    uint64_t key, device;
    pthread_mutex_lock(&promising);
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES && !atomic_load(&leaves); place++) {
        if (ledger_agent_server(place, &key, &device) && key == atomic_load(&mount->registry_key))
            ledger_agent_serve(place, true);
    }
    pthread_mutex_unlock(&promising);
}

/* Is the agent asked for this mount? A mount that nobody writes behind to is not contacted. */
static bool is_asked_for(const struct mount *mount)
{
    uint64_t key, device;
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
        if (ledger_agent_server(place, &key, &device) &&
            (key == atomic_load(&mount->registry_key) || device == mount->device))
            return true;
    }
    return false;
}

/* Asks for the root, if the mount has a fence: only the answer to a call tells that another host
 * has taken it. */
static void look_at_fence(struct mount *mount, const struct rpc_auth *auth)
{
    struct nfs_client client = mount_client(mount, auth);
    struct nfs_fh root = mount_root(mount);
    struct nfs_attr attr;
    if (mount->server->conf->fence)
        (void)nfs_getattr(&client, &root, &attr);
}

/* Contacts a mount, and sends what the dead left there. 0 or -errno. */
static int care_for(struct mount *mount)
{
    const char *reason;
    if (!is_asked_for(mount) || mount_is_past(mount) || mount_is_lost(mount))
        return 0; /* what is left under a fence that another host took is not sent any more */
    int result = mount_contact(mount, &reason);
    const struct rpc_auth *auth = result == 0 ? mount_auth_now(mount) : NULL;
    if (!auth)
        return result ? result : -ENOMEM;
    look_at_fence(mount, auth);
    if (mount_is_lost(mount))
        return 0;
    serve(mount);
    if (sys_test_unsafe(SYS_TEST_AGENT))
        return 0;
    result = durable_commit_dead(mount, auth);
    int old = durable_flush_old(mount, auth, &moments);
    return result ? result : old;
}

static int care_for_all(const struct carer *carer)
{
    int result = 0;
    for (unsigned i = 0; i < mounts_count(); i++) {
        int one = mounts_at(i)->server == carer->server ? care_for(mounts_at(i)) : 0;
        result = result ? result : one;
    }
    return result;
}

static void *care(void *argument)
{
    struct carer *carer = argument;
    int again_ms = AGAIN_MS;
    sys_critical_enter(); /* for ever: as in all threads of ours */
    for (;;) {
        uint32_t kicks = atomic_load(&carer->kicks);
        int result = care_for_all(carer);
        if (result == 0)
            atomic_store(&carer->done, kicks);
        wake_loop();
        again_ms = result == 0                    ? AGAIN_MS
                   : again_ms * 2 < AGAIN_MOST_MS ? again_ms * 2
                                                  : AGAIN_MOST_MS;
        const struct timespec again = {again_ms / 1000, again_ms % 1000 * 1000000};
        sys_futex(&carer->kicks, FUTEX_WAIT_PRIVATE, kicks, result == 0 ? NULL : &again);
    }
    return NULL;
}

static void kick(struct carer *carer)
{
    atomic_fetch_add(&carer->kicks, 1);
    sys_futex(&carer->kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void kick_all(void)
{
    for (unsigned i = 0; i < carer_count; i++)
        kick(&carers[i]);
}

static bool owes_nothing(void)
{
    for (unsigned i = 0; i < carer_count; i++) {
        if (atomic_load(&carers[i].done) != atomic_load(&carers[i].kicks))
            return false;
    }
    return true;
}

/* Starts a thread for each server that the agent is asked for. */
static void employ(void)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts_at(i);
        unsigned known = 0;
        while (known < carer_count && carers[known].server != mount->server)
            known++;
        if (known < carer_count || !is_asked_for(mount) || carer_count == CARERS_MAX)
            continue;
        carers[known].server = mount->server;
        atomic_store(&carers[known].kicks, 1);
        if (sys_thread_start(care, &carers[known], "what was left unsent to a server"))
            carer_count++;
    }
}

/* Finds mounts that were made since this process began. */
static void look_for_mounts(void)
{
    uint64_t key, device;
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
        if (ledger_agent_server(place, &key, &device) && device != 0 && !mount_has_device(device))
            (void)mount_watch_arrived(device);
    }
}

/* ---- what wakes the loop ---- */

/* A thread that hears what processes want. */
static void *listen_to_rings(void *unused)
{
    uint32_t seen = 0;
    (void)unused;
    sys_critical_enter();
    for (;;) {
        ledger_agent_await(&seen);
        atomic_store(&asked, true);
        wake_loop();
    }
    return NULL;
}

/* A thread that guides stopped threads out of the registry's locks. It takes none of these itself.
 */
static void *guide_stopped(void *unused)
{
    (void)unused;
    sys_critical_enter();
    for (;;) {
        ledger_stopped_await();
        ledger_stopped_release();
    }
    return NULL;
}

/* What the data of an epoll event is; else it is a pidfd and the slot. */
enum { OF_WAKES = 0, OF_SIGNALS = -1, OF_SOCKET = -2 };

static bool listen_to(int epoll, int fd, uint64_t tells)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = tells}};
    return sys_call4(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

struct loop {
    int epoll, signals, socket;
    bool polls; /* of some processes the kernel does not tell the death */
    bool ends;  /* a signal asked for it */
    bool stays;
    bool idle;              /* nothing is owed, and no process is watched; */
    uint64_t idle_since_ns; /* since then */
    uint64_t leaves_since_ns;
    bool ticks;       /* something is dirty, or `polls` */
    uint64_t next_ns; /* when it ticks next */
};

/* How the kernel tells of the death of the process that had the slot when it was watched. */
static struct {
    int pid, fd; /* a pidfd + 1; 0: there is none */
} tellers[LEDGER_PROCESSES];
static uint32_t teller_end;   /* there is no teller from this slot on */
static unsigned teller_count; /* how many tellers there are, */
static unsigned teller_most;  /* and how many there may be: descriptors are needed for more */

static void teller_close(uint32_t slot)
{
    if (!tellers[slot].fd)
        return;
    sys_close(tellers[slot].fd - 1);
    tellers[slot].fd = 0;
    teller_count--;
}

/* Opens a teller for the process. -ESRCH: there is no such process. Any other -errno: none can be
 * had. */
static int teller_open(const struct loop *loop, uint32_t slot, int pid)
{
    if (tellers[slot].fd && tellers[slot].pid == pid)
        return 0;
    teller_close(slot);
    int fd = teller_count < teller_most ? (int)sys_call2(SYS_pidfd_open, pid, 0) : -EMFILE;
    if (fd < 0)
        return fd;
    if (!listen_to(loop->epoll, fd, (uint64_t)slot << 32 | (uint32_t)fd)) {
        sys_close(fd);
        return -EMFILE;
    }
    tellers[slot].pid = pid;
    tellers[slot].fd = fd + 1;
    teller_count++;
    teller_end = slot < teller_end ? teller_end : slot + 1;
    return 0;
}

/* Watches the process of this slot, if it asks for that. True: it is dead. */
static bool watch(struct loop *loop, uint32_t slot)
{
    bool watched, alive = true;
    int pid;
    if (!ledger_agent_asked(slot, &pid, &watched)) {
        teller_close(slot);
        return false;
    }
    int result = teller_open(loop, slot, pid);
    if (result == -ESRCH)
        ledger_process_check(slot);
    else if (!watched)
        alive = ledger_agent_watch(slot, pid);
    loop->polls = loop->polls || result != 0; /* an old kernel, or no descriptor is left */
    if (!alive)
        teller_close(slot);
    return result == -ESRCH || !alive;
}

/* Watches all processes that ask for it. True: one of them is dead. */
static bool watch_all(struct loop *loop)
{
    uint32_t end = ledger_process_count();
    bool died = false;
    loop->polls = false;
    for (uint32_t slot = 1; slot < end || slot < teller_end; slot++)
        died = watch(loop, slot) || died;
    teller_end = end;
    return died;
}

static void hear_signal(struct loop *loop)
{
    struct signalfd_siginfo info;
    while (sys_read(loop->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        loop->ends = true;
}

/* Waits for events. True: a process died. */
static bool wait_for_events(struct loop *loop, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    bool died = false;
    uint64_t count;
    int ready = (int)sys_call5(SYS_epoll_pwait, loop->epoll, events, EVENTS, timeout_ms, NULL);
    for (int i = 0; i < ready; i++) {
        uint64_t tells = events[i].data.u64;
        if (tells == (uint64_t)OF_SIGNALS) {
            hear_signal(loop);
        } else if (tells == (uint64_t)OF_SOCKET) {
            mount_vouch_all(loop->socket);
        } else if (tells == OF_WAKES) {
            sys_read(wakes, &count, sizeof(count));
        } else {
            uint32_t slot = (uint32_t)(tells >> 32);
            if (tellers[slot].fd == (int)(uint32_t)tells + 1)
                teller_close(slot);
            ledger_process_check(slot);
            died = true;
        }
    }
    return died;
}

/* ---- the loop ---- */

/* Once in POLL_MS: finds what is old, and deaths of which the kernel does not tell. True: there is
 * something to do. */
static bool tick(struct loop *loop)
{
    uint64_t now_ns = sys_now_ns();
    if (loop->ticks && now_ns < loop->next_ns)
        return false;
    loop->ticks = !ledger_agent_may_sleep(&moments) || loop->polls;
    loop->next_ns = now_ns + POLL_MS * UINT64_C(1000000);
    if (atomic_load(&leaves))
        ledger_agent_all_is_old(&moments);
    if (loop->polls)
        ledger_process_sweep(0);
    return loop->ticks;
}

/* Has another host taken a fence? This process knows only the term before that: the next agent has
 * to begin anew, as programs have. */
static bool has_lost_fence(void)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        if (mount_is_lost(mounts_at(i)))
            return true;
    }
    return false;
}

/* The control groups of a process. */
static bool read_groups(const char *name, char groups[GROUP_BYTES])
{
    int fd = sys_proc_open(name, O_RDONLY);
    ssize_t length = fd < 0 ? fd : sys_read(fd, groups, GROUP_BYTES - 1);
    if (fd >= 0)
        sys_close(fd);
    groups[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Is a process that the agent watches in the agent's own control group? Then the service that both
 * belong to is being stopped. True also if that is not known. */
static bool has_own_service(void)
{
    char own[GROUP_BYTES], other[GROUP_BYTES], name[32];
    bool found = !read_groups("self/cgroup", own), watched;
    int pid;
    for (uint32_t slot = 1; slot < ledger_process_count() && !found; slot++) {
        if (!ledger_agent_asked(slot, &pid, &watched) || !watched)
            continue;
        snprintf(name, sizeof(name), "%d/cgroup", pid);
        found = !read_groups(name, other) || strcmp(own, other) == 0;
    }
    return found;
}

/*
 * The agent was asked to end, and processes of other services go on. From now on their writes wait
 * for the server, until one of them has started another agent; it cannot before this one is gone.
 * This one is needed until nothing is unsent. So it sends what those processes have left behind,
 * too, and does not wait until that is old: the stop of its own service waits for it.
 */
static void leave(struct loop *loop)
{
    pthread_mutex_lock(&promising);
    atomic_store(&leaves, true);
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++)
        ledger_agent_serve(place, false);
    pthread_mutex_unlock(&promising);
    loop->leaves_since_ns = sys_now_ns();
    loop->next_ns = loop->leaves_since_ns + LEAVES_MS * UINT64_C(1000000);
    loop->ticks = true;
    log_info("agent: ends, as it was asked to; other services start another one");
}

static bool has_left(const struct loop *loop)
{
    return atomic_load(&leaves) && !ledger_agent_is_any_dirty() &&
           sys_now_ns() - loop->leaves_since_ns > LEAVES_MS * UINT64_C(1000000);
}

/* From now on the agent owes nothing, and watches no process. */
static void become_idle(struct loop *loop)
{
    loop->idle = true;
    loop->idle_since_ns = sys_now_ns();
    ledger_agent_give_back();
}

/* For how many ms may the loop sleep? -1: until something happens. 0: the agent ends. */
static int look_around(struct loop *loop)
{
    uint64_t now_ns = sys_now_ns(), next_ns = loop->next_ns;
    bool owes = !owes_nothing(), idle = !owes && ledger_agent_watched() == 0;
    if ((idle && loop->ends) || (!owes && (has_lost_fence() || has_left(loop))))
        return 0;
    if (loop->ends && !owes && !atomic_load(&leaves) && !has_own_service())
        leave(loop);
    if (atomic_load(&leaves))
        return STEP_MS;
    if (idle && !loop->idle)
        become_idle(loop);
    loop->idle = idle;
    if (idle && !loop->stays) {
        next_ns = loop->idle_since_ns + LINGER_MS * UINT64_C(1000000);
        if (now_ns >= next_ns)
            return 0;
    } else if (!loop->ticks) {
        return -1;
    }
    return next_ns > now_ns ? (int)((next_ns - now_ns) / 1000000) + 1 : 1;
}

static void go_on(struct loop *loop)
{
    int timeout_ms;
    bool died = true; /* an earlier agent may have left what it had in its care */
    do {
        bool news = atomic_exchange(&asked, false) || died;
        news = watch_all(loop) || news;
        if (news)
            mount_vouch_all(loop->socket);
        if (tick(loop) || news) {
            look_for_mounts();
            employ();
            kick_all();
        }
        timeout_ms = look_around(loop);
        died = timeout_ms != 0 && wait_for_events(loop, timeout_ms);
    } while (timeout_ms != 0);
}

/* Raises the limits: those of the program that started the agent are not meant for it. It has a
 * descriptor for each process that it watches, as long as others are left for sockets, and for
 * looking into /proc. */
static void raise_limits(void)
{
    struct rlimit limit;
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        if (sys_call4(SYS_prlimit64, 0, resource, NULL, &limit) != 0)
            continue;
        limit.rlim_cur = limit.rlim_max;
        sys_call4(SYS_prlimit64, 0, resource, &limit, NULL);
    }
    limit.rlim_max = 0;
    sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
    uint64_t most =
        limit.rlim_max < LEDGER_PROCESSES + OTHERS ? limit.rlim_max : LEDGER_PROCESSES + OTHERS;
    teller_most = most > OTHERS ? (unsigned)(most - OTHERS) : 0;
}

static int begin(struct loop *loop)
{
    const uint64_t signals =
        1 << (SIGTERM - 1) | 1 << (SIGINT - 1) | 1 << (SIGHUP - 1) | 1 << (SIGQUIT - 1);
    loop->epoll = (int)sys_call1(SYS_epoll_create1, EPOLL_CLOEXEC);
    loop->signals =
        (int)sys_call4(SYS_signalfd4, -1, &signals, sizeof(signals), SFD_CLOEXEC | SFD_NONBLOCK);
    wakes = (int)sys_call2(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->socket = mount_vouch_listen(); /* without it only this user is vouched for */
    if (loop->socket >= 0)
        (void)listen_to(loop->epoll, loop->socket, (uint64_t)OF_SOCKET);
    bool fine = loop->epoll >= 0 && loop->signals >= 0 && wakes >= 0 &&
                listen_to(loop->epoll, loop->signals, (uint64_t)OF_SIGNALS) &&
                listen_to(loop->epoll, wakes, OF_WAKES) &&
                sys_thread_start(listen_to_rings, NULL, "what processes ask the agent for") &&
                sys_thread_start(guide_stopped, NULL, "processes that are stopped with a lock");
    if (!fine)
        log_error("agent: no descriptor or no thread is left; it cannot work");
    return fine ? 0 : -EMFILE;
}

int fd_care(bool stays)
{
    struct loop loop = {.stays = stays};
    raise_limits();
    fd_start();
    if (!fd_enabled()) {
        log_error("agent: no mount is configured, or the configuration has a mistake (`directnfs "
                  "check` shows it)");
        return -ENOENT;
    }
    int result = mount_registry_open(); /* the log says why not */
    if (result == 0)
        result = ledger_agent_become();
    if (result == 0)
        result = begin(&loop);
    if (result != 0)
        return result;
    ledger_agent_ready();
    log_info("agent: sends what processes of this run directory leave unsent");
    go_on(&loop);
    mount_vouch_deafen(loop.socket);
    ledger_agent_resign();
    fd_finish();
    return 0;
}
