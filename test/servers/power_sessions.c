/* See power_sessions.h. */
#include "power_sessions.h"

struct odd sessions_odd;

static void sessions_sound(void)
{
    sessions_odd.silent = 0;
    sessions_odd.minor = 0;
    sessions_odd.answer = ODD_NONE;
    for (unsigned op = 0; op <= V41_RECLAIM_COMPLETE; op++)
        sessions_odd.of[op].left = 0;
}

static void sessions_tell(FILE *out)
{
    unsigned owners = 0, alive = 0;
    for (const struct owner *owner = memory.owners; owner; owner = owner->next)
        owners++;
    for (uint32_t i = 0; i < memory.sessions; i++)
        alive += memory.session[i] != NULL;
    control_counter(out, "clients", owners);
    control_counter(out, "sessions", alive);
    for (unsigned op = 0; op <= V41_RECLAIM_COMPLETE; op++) {
        char name[16];
        snprintf(name, sizeof name, "op%u", op);
        if (sessions_odd.of[op].calls)
            control_counter(out, name, sessions_odd.of[op].calls);
    }
    fputc('\n', out);
}

static bool sessions_odd_answer(const char *name)
{
    static const char *const names[ODD_ANSWERS] = {
        [ODD_NONE] = "none",        [ODD_SESSION] = "session", [ODD_SEQUENCE] = "sequence",
        [ODD_SLOT] = "slot",        [ODD_TARGET] = "target",   [ODD_GRANT] = "grant",
        [ODD_NO_GRANT] = "no-grant"};
    for (unsigned i = 0; i < ODD_ANSWERS; i++) {
        if (strcmp(name, names[i]) == 0) {
            sessions_odd.answer = i;
            return true;
        }
    }
    return false;
}

static bool sessions_silent(char **words, unsigned count)
{
    uint64_t op;
    for (unsigned i = 1; i < count; i++) {
        if (!word_number(words[i], V41_RECLAIM_COMPLETE, &op))
            return false;
        sessions_odd.silent |= UINT64_C(1) << op;
    }
    return count > 1;
}

static bool sessions_status(char **words, unsigned count)
{
    uint64_t op, status, left = UINT64_MAX;
    if (count < 3 || count > 4 || !word_number(words[1], V41_RECLAIM_COMPLETE, &op) ||
        !word_number(words[2], UINT32_MAX, &status) ||
        (count > 3 && !word_number(words[3], UINT32_MAX, &left)))
        return false;
    sessions_odd.of[op].status = (uint32_t)status;
    sessions_odd.of[op].left = left;
    return true;
}

bool sessions_command(char **words, unsigned count, FILE *out)
{
    uint64_t number;
    const char *name = words[0];
    if (strcmp(name, "status") == 0)
        return sessions_status(words, count);
    if (strcmp(name, "silent") == 0)
        return sessions_silent(words, count);
    if (strcmp(name, "odd") == 0)
        return count == 2 && sessions_odd_answer(words[1]);
    if (count == 1 && strcmp(name, "forget") == 0)
        sessions_forget_all();
    else if (count == 1 && strcmp(name, "sound") == 0)
        sessions_sound();
    else if (count == 1 && strcmp(name, "operations") == 0)
        sessions_tell(out);
    else if (count != 2 || !word_number(words[1], UINT32_MAX, &number))
        return false;
    else if (strcmp(name, "slots") == 0)
        memory.slots = (uint32_t)number;
    else if (strcmp(name, "lease") == 0)
        memory.lease_s = (uint32_t)number;
    else if (strcmp(name, "grace") == 0)
        memory.grace = number != 0;
    else if (strcmp(name, "minor") == 0)
        sessions_odd.minor = (uint32_t)number;
    else
        return false;
    return true;
}
