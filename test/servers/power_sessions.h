/*
 * What powerserver.c is told of sessions, those of NFSv4.1. Operations by their numbers in RFC
 * 8881.
 *
 *     forget                   leases end, no client and no session is known any more
 *     lease SECONDS            what it tells of them: they end with nothing else
 *     slots N                  it wants no more slots to be used, and gives no more; 0: as it likes
 *     grace 0|1                data is not to be had, by NFS4ERR_GRACE
 *     status OP STATUS [N]     the next N operations (all) are answered so, not carried out
 *     silent OP...             COMPOUNDs with one of these are not answered
 *     minor N                  the only minor version that it speaks
 *     odd NAME                 what its replies claim: session, sequence, slot, target, grant,
 *                              no-grant (see enum odd_answer)
 *     sound                    an end of the last four
 *     operations               how many of each came, and how many clients and sessions there are
 */
#ifndef FAULT_SESSIONS_H
#define FAULT_SESSIONS_H

#include "control.h"

static struct odd sessions_odd;

static inline void sessions_sound(void)
{
    sessions_odd.silent = 0;
    sessions_odd.minor = 0;
    sessions_odd.answer = ODD_NONE;
    for (unsigned op = 0; op <= V41_RECLAIM_COMPLETE; op++)
        sessions_odd.of[op].left = 0;
}

static inline void sessions_tell(FILE *out)
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

static inline bool sessions_odd_answer(const char *name)
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

static inline bool sessions_silent(char **words, unsigned count)
{
    uint64_t op;
    for (unsigned i = 1; i < count; i++) {
        if (!word_number(words[i], V41_RECLAIM_COMPLETE, &op))
            return false;
        sessions_odd.silent |= UINT64_C(1) << op;
    }
    return count > 1;
}

static inline bool sessions_status(char **words, unsigned count)
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

/* False: it is none of these commands. */
static inline bool sessions_command(char **words, unsigned count, FILE *out)
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

#endif
