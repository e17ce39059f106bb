/* For which users and groups the agent vouches: see vouch.h. */
#include "mount/vouch.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "mount/credentials.h"
#include "ledger/agent.h"
#include "mount/mounts.h"
#include "ledger/care.h"
#include "ledger/dirty.h"
#include "ledger/store/users.h"
#include "run/directory.h"
#include "sys/alloc.h"
#include "sys/fd.h"
#include "sys/large.h"
#include "sys/sys.h"

/* ---- the agent's socket ---- */

#define SOCKET "agent.socket"

enum { WAITING_MOST = 128, GROUPS_SHOWN = 65536 /* no process has more */ };

/* Names the socket by a descriptor: the path of the run directory may be longer than an address. */
static socklen_t name_socket(int run, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/" SOCKET, run);
    return sizeof(*address);
}

void mount_vouch_show(void)
{
    struct sockaddr_un address;
    int run = run_open();
    if (run < 0)
        return;
    int fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        /* That is all: the kernel keeps the credentials of the process that connected. */
        (void)sys_connect(fd, (struct sockaddr *)&address, name_socket(run, &address));
        sys_close(fd);
    }
    run_close(run);
}

int mount_vouch_listen(void)
{
    struct sockaddr_un address;
    int run = run_open();
    if (run < 0)
        return run;
    sys_unlinkat(run, SOCKET, 0); /* an earlier agent's */
    int fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = fd < 0 ? fd : 0;
    if (!error)
        error =
            (int)sys_call3(SYS_bind, fd, (struct sockaddr *)&address, name_socket(run, &address));
    if (!error)
        error = (int)sys_call2(SYS_listen, fd, WAITING_MOST);
    run_close(run);
    if (error && fd >= 0)
        sys_close(fd);
    return error ? error : sys_fd_protect(fd);
}

void mount_vouch_deafen(int socket)
{
    int run = socket >= 0 ? run_open() : -1;
    if (run >= 0)
        sys_unlinkat(run, SOCKET, 0);
    run_close(run);
}

/* ---- the users that are vouched for ---- */

/* A user and its groups, as the kernel told them. */
struct shown {
    uint32_t uid, gid;
    unsigned group_count;
    uint32_t groups[GROUPS_SHOWN];
};

/* Copies of users in shared memory, which others can change: only the copies are used. */
static SYS_LARGE struct ledger_user vouched[LEDGER_USERS];
static _Atomic bool is_vouched[LEDGER_USERS];
static _Atomic bool is_agent;

static bool has_group(const struct shown *shown, uint32_t group)
{
    for (unsigned i = 0; i < shown->group_count; i++) {
        if (shown->groups[i] == group)
            return true;
    }
    return group == shown->gid;
}

/* Does the nfstab give this user, or group, to a server? Then any process is that to the server. */
static bool is_configured(uint32_t uid, uint32_t gid, bool user)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        const struct conf_server *conf = mounts_at(i)->server->conf;
        if (user ? conf->uid != CONF_ID_PROCESS && conf->uid == uid
                 : conf->gid != (gid_t)CONF_ID_PROCESS && conf->gid == gid)
            return true;
    }
    return false;
}

static bool is_shown(const struct ledger_user *user, const struct shown *shown)
{
    if (user->uid != shown->uid && !is_configured(user->uid, 0, true))
        return false;
    if (!has_group(shown, user->gid) && !is_configured(0, user->gid, false))
        return false;
    for (unsigned i = 0; i < user->group_count; i++) {
        if (!has_group(shown, user->groups[i]))
            return false;
    }
    return true;
}

/* Vouches for all users that a process with these credentials may be; NULL: for all. */
static void vouch_for(const struct shown *shown)
{
    for (uint32_t number = 1; number < LEDGER_USERS; number++) {
        struct ledger_user user;
        if (atomic_load(&is_vouched[number]) || !ledger_user_get(number, &user) ||
            (shown && !is_shown(&user, shown)))
            continue;
        vouched[number] = user;
        atomic_store(&is_vouched[number], true);
        ledger_agent_vouch(number);
    }
}

static SYS_LARGE struct shown shown; /* large; used by the agent's first thread only */

static void show_own(void)
{
    long count = sys_call2(SYS_getgroups, GROUPS_SHOWN, shown.groups);
    shown.uid = (uint32_t)sys_call0(SYS_geteuid);
    shown.gid = (uint32_t)sys_call0(SYS_getegid);
    shown.group_count = count < 0 ? 0 : (unsigned)count;
}

static bool show_peer(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer), groups = sizeof(shown.groups);
    if (sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    if (sys_getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, shown.groups, &groups) != 0)
        groups = 0;
    shown.uid = peer.uid;
    shown.gid = peer.gid;
    shown.group_count = groups / sizeof(shown.groups[0]);
    return true;
}

/* May this process be any user? Then its registry is root's, and nobody else's. */
static bool may_be_all(void)
{
    const uint64_t needed = UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return sys_call0(SYS_geteuid) == 0 && sys_call2(SYS_capget, &header, data) == 0 &&
           (data[0].effective & needed) == needed;
}

bool mount_vouch_is_agent(void)
{
    return atomic_load_explicit(&is_agent, memory_order_relaxed);
}

void mount_vouch_all(int socket)
{
    int fd;
    atomic_store(&is_agent, true);
    show_own();
    vouch_for(may_be_all() ? NULL : &shown);
    while (socket >= 0 &&
           (fd = (int)sys_call4(SYS_accept4, socket, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (show_peer(fd))
            vouch_for(&shown);
        sys_close(fd);
    }
}

const struct rpc_auth *mount_vouch_of_writer(const struct mount *mount, struct ledger_file *file,
                                             const struct rpc_auth *own)
{
    uint32_t number = ledger_file_user(file);
    const struct rpc_auth *auth = NULL;
    if (number != 0 && number < LEDGER_USERS && atomic_load(&is_vouched[number]))
        auth = mount_credentials_of(mount, &vouched[number]);
    return auth ? auth : own;
}
