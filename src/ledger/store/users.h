/*
 * The users, with their groups, that processes of the run directory write behind as. The server is
 * told them. A process may have groups that the agent lacks, or be another user for a while. The
 * agent sends what such a process left as the same user and groups, if it knows that it may. Then
 * it vouches for them (agent.h).
 */
#ifndef LEDGER_USERS_H
#define LEDGER_USERS_H

#include <stdbool.h>
#include <stdint.h>

enum { LEDGER_USERS = 256, LEDGER_USER_GROUPS = 16 };

struct ledger_user {
    uint32_t uid, gid, group_count;
    uint32_t groups[LEDGER_USER_GROUPS];
};

/* The number of this user and groups, which does not change: from 1 to LEDGER_USERS - 1. 0: there
 * is no room. */
uint32_t ledger_user_number(const struct ledger_user *user);
/* The user and groups with this number. False: there are none. */
bool ledger_user_get(uint32_t number, struct ledger_user *user);

#endif
