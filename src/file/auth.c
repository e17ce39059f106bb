#include "file/auth.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "ledger/store/users.h"
#include "reach/server.h"
#include "sys/alloc.h"
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

void file_auth_start(void)
{
    struct utsname name;
    if (sys_call1(SYS_uname, &name) == 0)
        snprintf(machine, sizeof(machine), "%s", name.nodename);
}

_Static_assert((int)LEDGER_USER_GROUPS == (int)REACH_GROUPS_MAX, "all of them");

const struct rpc_auth *file_auth_of(const struct ledger_user *user)
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
    return file_auth_of(&user);
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
