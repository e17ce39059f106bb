/*
 * As whom processes of the run directory write behind: users and groups, as the server is told
 * them. A process may have groups that the agent lacks, or be another user for a while. The agent
 * sends what it left as the same, if the agent knows that it may: then it vouches for them
 * (agent.h).
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

/* Their number, from 1 on and less than LEDGER_USERS, which stays theirs; 0: there is no room. */
uint32_t ledger_user_number(const struct ledger_user *user);
/* Who has this number. False: nobody has. */
bool ledger_user_get(uint32_t number, struct ledger_user *user);

#endif
