#include "file/auth.h"

#include <stdio.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/un.h>
#include <sys/utsname.h>

#include "ledger/agent.h"
#include "ledger/care.h"
#include "ledger/dirty.h"
#include "ledger/store/users.h"
#include "reach/server.h"
#include "run/directory.h"
#include "sys/alloc.h"
#include "sys/fd.h"
#include "sys/sys.h"

/* Credentials that were in use, newest first; only added to. */
struct auth_entry {
    struct auth_entry *next;
    struct ledger_user user;
    _Atomic uint32_t number; /* of `user`; 0: not asked for yet */
    struct rpc_auth auth;
};
static _Atomic(struct auth_entry *) auths;
static char machine[65];

/* ---- a process's own ---- */

void file_auth_start(void)
{
    struct utsname name;
    if (sys_call1(SYS_uname, &name) == 0)
        snprintf(machine, sizeof(machine), "%s", name.nodename);
}

_Static_assert((int)LEDGER_USER_GROUPS == (int)REACH_GROUPS_MAX, "all of them");

static const struct rpc_auth *auth_of(const struct ledger_user *user)
{
    struct auth_entry *first = atomic_load(&auths);
    for (struct auth_entry *e = first; e; e = e->next) {
        if (e->user.uid == user->uid && e->user.gid == user->gid &&
            e->user.group_count == user->group_count &&
            memcmp(e->user.groups, user->groups, user->group_count * sizeof(user->groups[0])) == 0)
            return &e->auth;
    }
    struct auth_entry *made = sys_alloc_zeroed(sizeof(*made));
    if (!made)
        return NULL;
    made->user = *user;
    rpc_auth_sys(&made->auth, machine, user->uid, user->gid, user->groups, user->group_count);
    made->next = first;
    while (!atomic_compare_exchange_weak(&auths, &made->next, made))
        ;
    return &made->auth;
}

const struct rpc_auth *file_auth_now(const struct file_mount *mount)
{
    struct reach_identity now;
    reach_identity_now(mount->server->conf, &now);
    struct ledger_user user = {.uid = now.uid, .gid = now.gid, .group_count = now.group_count};
    memcpy(user.groups, now.groups, now.group_count * sizeof(now.groups[0]));
    return auth_of(&user);
}

uint32_t file_auth_user(const struct rpc_auth *auth)
{
    struct auth_entry *entry =
        (struct auth_entry *)((char *)auth - offsetof(struct auth_entry, auth));
    uint32_t number = atomic_load_explicit(&entry->number, memory_order_relaxed);
    if (number == 0) {
        number = ledger_user_number(&entry->user);
        atomic_store_explicit(&entry->number, number, memory_order_relaxed);
    }
    return number;
}

void file_auth_move(void)
{
    for (struct auth_entry *e = atomic_load(&auths); e; e = e->next)
        atomic_store(&e->number, 0);
}

/* ---- the agent's socket ---- */

#define SOCKET "agent.socket"

enum { WAITING_MOST = 128, GROUPS_SHOWN = 65536 /* no process has more */ };

/* The path of the run directory may be longer than an address. */
static socklen_t name_socket(int run, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/" SOCKET, run);
    return sizeof(*address);
}

void file_auth_show(void)
{
    struct sockaddr_un address;
    int run = run_open();
    if (run < 0)
        return;
    int fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        /* That is all: the kernel keeps who it was. */
        (void)sys_connect(fd, (struct sockaddr *)&address, name_socket(run, &address));
        sys_close(fd);
    }
    run_close(run);
}

int file_auth_listen(void)
{
    struct sockaddr_un address;
    int run = run_open();
    if (run < 0)
        return run;
    sys_unlinkat(run, SOCKET, 0); /* of an agent that is no more */
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

void file_auth_deafen(int socket)
{
    int run = socket >= 0 ? run_open() : -1;
    if (run >= 0)
        sys_unlinkat(run, SOCKET, 0);
    run_close(run);
}

/* ---- who is vouched for ---- */

/* As the kernel tells. */
struct shown {
    uint32_t uid, gid;
    unsigned group_count;
    uint32_t groups[GROUPS_SHOWN];
};

/* Copies of what is in shared memory, which others can change: this is what is used. */
static struct ledger_user vouched[LEDGER_USERS];
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

/* What an nfstab says of a server is told to it, whoever it is. */
static bool is_configured(uint32_t uid, uint32_t gid, bool user)
{
    for (unsigned i = 0; i < file_mount_count(); i++) {
        const struct conf_server *conf = file_mount_at(i)->server->conf;
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

/* Vouches for all that somebody who was shown may be; NULL: for all. */
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

static struct shown shown; /* large; of the agent's first thread */

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

/* May this process be anybody? Its registry is root's then, and nobody else's. */
static bool may_be_all(void)
{
    const uint64_t needed = UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return sys_call0(SYS_geteuid) == 0 && sys_call2(SYS_capget, &header, data) == 0 &&
           (data[0].effective & needed) == needed;
}

bool file_auth_is_agent(void)
{
    return atomic_load_explicit(&is_agent, memory_order_relaxed);
}

void file_auth_vouch(int socket)
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

const struct rpc_auth *file_auth_of_writer(struct ledger_file *file, const struct rpc_auth *own)
{
    uint32_t number = ledger_file_user(file);
    const struct rpc_auth *auth = NULL;
    if (number != 0 && number < LEDGER_USERS && atomic_load(&is_vouched[number]))
        auth = auth_of(&vouched[number]);
    return auth ? auth : own;
}
