#include "mount/credentials.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "ledger/store/users.h"
#include "reach/server.h"
#include "reach/kerberos.h"
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

void mount_auth_start(void)
{
    struct utsname name;
    if (sys_call1(SYS_uname, &name) == 0)
        snprintf(machine, sizeof(machine), "%s", name.nodename);
    reach_kerberos_start();
}

_Static_assert((int)LEDGER_USER_GROUPS == (int)REACH_GROUPS_MAX, "all of them");

/* As whom the user's calls are made under Kerberos; with AUTH_SYS NULL. False: no memory. */
static bool find_identity(const struct mount *mount, uint32_t uid,
                          const struct rpc_identity **identity)
{
    *identity = NULL;
    if (__builtin_expect(mount->security < CONF_SECURITY_KRB5, true))
        return true;
    *identity = reach_kerberos_identity(mount->server->conf, mount->security, uid);
    return *identity != NULL;
}

static const struct rpc_auth *credentials(const struct ledger_user *user,
                                          const struct rpc_identity *identity)
{
    struct auth_entry *first = atomic_load(&auths);
    for (struct auth_entry *e = first; e; e = e->next) {
        if (e->auth.identity == identity && e->user.uid == user->uid && e->user.gid == user->gid &&
            e->user.group_count == user->group_count &&
            memcmp(e->user.groups, user->groups, user->group_count * sizeof(user->groups[0])) == 0)
            return &e->auth;
    }
    struct auth_entry *made = sys_alloc_zeroed(sizeof(*made));
    if (!made)
        return NULL;
    made->user = *user;
    if (identity)
        rpc_auth_secure(&made->auth, user->gid, identity);
    else
        rpc_auth_sys(&made->auth, machine, user->uid, user->gid, user->groups, user->group_count);
    made->next = first;
    while (!atomic_compare_exchange_weak(&auths, &made->next, made))
        ;
    return &made->auth;
}

const struct rpc_auth *mount_credentials_of(const struct mount *mount,
                                            const struct ledger_user *user)
{
    const struct rpc_identity *identity;
    return find_identity(mount, user->uid, &identity) ? credentials(user, identity) : NULL;
}

static void user_now(const struct mount *mount, struct ledger_user *user)
{
    struct reach_identity now;
    reach_identity_now(mount->server->conf, &now);
    *user = (struct ledger_user){.uid = now.uid, .gid = now.gid, .group_count = now.group_count};
    memcpy(user->groups, now.groups, now.group_count * sizeof(now.groups[0]));
}

const struct rpc_auth *mount_auth_now(const struct mount *mount)
{
    struct ledger_user user;
    user_now(mount, &user);
    return mount_credentials_of(mount, &user);
}

const struct rpc_auth *mount_auth_plain(const struct mount *mount)
{
    struct ledger_user user;
    user_now(mount, &user);
    return credentials(&user, NULL);
}

uint32_t mount_auth_user(const struct rpc_auth *auth)
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

void mount_auth_move(void)
{
    for (struct auth_entry *e = atomic_load(&auths); e; e = e->next)
        atomic_store(&e->number, 0);
}
