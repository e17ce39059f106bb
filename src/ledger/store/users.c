#include "ledger/store/users.h"

#include <string.h>

#include "ledger/store/map.h"

enum { FREE, BEING_MADE, MADE };

static struct ledger_user_place *place_at(uint32_t number)
{
    return &ledger_map.shared->users[number];
}

bool ledger_user_get(uint32_t number, struct ledger_user *user)
{
    if (number == 0 || number >= LEDGER_USERS ||
        atomic_load_explicit(&place_at(number)->state, memory_order_acquire) != MADE)
        return false;
    *user = place_at(number)->user;
    if (user->group_count > LEDGER_USER_GROUPS)
        user->group_count = LEDGER_USER_GROUPS;
    return true;
}

static bool is_same(const struct ledger_user *a, const struct ledger_user *b)
{
    return a->uid == b->uid && a->gid == b->gid && a->group_count == b->group_count &&
           memcmp(a->groups, b->groups, a->group_count * sizeof(a->groups[0])) == 0;
}

/* Two processes may each make a place for the same user: that does no harm. If its maker was
 * killed, a place stays as it is. */
uint32_t ledger_user_number(const struct ledger_user *user)
{
    struct ledger_user other;
    for (uint32_t number = 1; number < LEDGER_USERS; number++) {
        uint32_t free = FREE;
        if (ledger_user_get(number, &other) && is_same(user, &other))
            return number;
        if (!atomic_compare_exchange_strong(&place_at(number)->state, &free, BEING_MADE))
            continue;
        place_at(number)->user = *user;
        atomic_store_explicit(&place_at(number)->state, MADE, memory_order_release);
        return number;
    }
    return 0;
}
