/* See kinds.h. */
#include "kinds.h"

enum { VISIT_MS = 350 };

static unsigned any_path(struct plan *p)
{
    return plan_pick(p, 1, p->paths);
}

/* A path that is bad from some moment on, and good again. */
static void plan_period(struct plan *p, unsigned path, const char *bad, unsigned least,
                        unsigned most)
{
    unsigned from = plan_pick(p, 5, 80), to = from + plan_pick(p, least, most);
    plan_add(p, from, TO_PROXY, "%u %s", path, bad);
    plan_add(p, to, TO_PROXY, "%u pass", path);
}

static void plan_calm(struct plan *p)
{
    (void)p;
}

static void plan_reset(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 5); i > 0; i--)
        plan_add(p, plan_pick(p, 0, PLAN_MS - 30), TO_PROXY, "%u reset", any_path(p));
}

static void plan_reset_all(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 0, PLAN_MS - 30), TO_PROXY, "all reset");
}

/* Shorter than what is taken for dead: what was under way arrives late. */
static void plan_freeze(struct plan *p)
{
    plan_period(p, any_path(p), "blackhole", 40, 150);
}

/* Longer than that. */
static void plan_blackhole(struct plan *p)
{
    static const char *const kinds[] = {"blackhole", "blackhole calls", "blackhole replies"};
    unsigned path = any_path(p);
    plan_period(p, path, kinds[plan_pick(p, 0, 2)], 700, 1300);
}

static void plan_refuse(struct plan *p)
{
    unsigned path = any_path(p), from = plan_pick(p, 5, 80);
    plan_add(p, from, TO_PROXY, "%u refuse", path);
    plan_add(p, from + 1, TO_PROXY, "%u reset", path);
    plan_add(p, from + plan_pick(p, 20, 200), TO_PROXY, "%u pass", path);
}

static void plan_refuse_all(struct plan *p)
{
    unsigned from = plan_pick(p, 5, 80);
    plan_add(p, from, TO_PROXY, "all refuse");
    plan_add(p, from + 1, TO_PROXY, "all reset");
    plan_add(p, from + plan_pick(p, 20, 200), TO_PROXY, "all pass");
}

static void plan_mess(struct plan *p)
{
    unsigned path = any_path(p);
    plan_add(p, 0, TO_PROXY, "%u delay %u %u", path, plan_pick(p, 0, 4), plan_pick(p, 0, 8));
    plan_add(p, 0, TO_PROXY, "%u reorder calls %u", path, plan_pick(p, 0, 60));
    plan_add(p, 0, TO_PROXY, "%u reorder replies %u", path, plan_pick(p, 0, 60));
    plan_add(p, 0, TO_PROXY, "%u duplicate calls %u", path, plan_pick(p, 0, 30));
    plan_add(p, plan_pick(p, 1, 100), TO_PROXY, "%u reset", path);
    if (plan_pick(p, 0, 1))
        plan_add(p, 1, TO_PROXY, "%u split %u", path, plan_pick(p, 200, 9000));
}

static void plan_stall(struct plan *p)
{
    unsigned path = any_path(p);
    plan_add(p, 0, TO_PROXY, "%u stall %u %s 10", path, plan_pick(p, 5, 40),
             plan_pick(p, 0, 1) ? "calls" : "replies");
    plan_add(p, plan_pick(p, 60, 180), TO_PROXY, "%u reset", path);
}

static void plan_split(struct plan *p)
{
    plan_add(p, 0, TO_PROXY, "%u split %u", any_path(p), plan_pick(p, 20, 1500));
}

static void plan_dropafter(struct plan *p)
{
    plan_add(p, 0, TO_PROXY, "%u dropafter %u", any_path(p), plan_pick(p, 3, 60));
}

/* A call or a reply that is lost although the connection lives: it is sent again in the end. */
static void plan_drop(struct plan *p)
{
    plan_add(p, plan_pick(p, 0, 100), TO_PROXY, "%u drop %s 20 %u", any_path(p),
             plan_pick(p, 0, 1) ? "calls" : "replies", plan_pick(p, 1, 3));
}

static void plan_corrupt(struct plan *p)
{
    plan_add(p, plan_pick(p, 0, 100), TO_PROXY, "%u corrupt %s 20 %u", any_path(p),
             plan_pick(p, 0, 1) ? "xid" : "mark", plan_pick(p, 1, 2));
}

/* What a reply says is wrong, and that cannot be overheard: the call fails. */
static void plan_damage(struct plan *p)
{
    plan_add(p, plan_pick(p, 0, 100), TO_PROXY, "%u corrupt %s 20 %u", any_path(p),
             plan_pick(p, 0, 1) ? "status" : "length", plan_pick(p, 1, 5));
}

enum { NOSPC = 28, ROFS = 30, DQUOT = 69, JUKEBOX = 10008 }; /* RFC 1813, section 2.6 */

static void plan_jukebox(struct plan *p)
{
    static const unsigned procedures[] = {NFS_READ, NFS_WRITE, NFS_COMMIT, NFS_GETATTR,
                                          NFS_SETATTR};
    plan_add(p, 0, TO_PROXY, "%u answer %d %u 30 %u", any_path(p), JUKEBOX,
             procedures[plan_pick(p, 0, 4)], plan_pick(p, 1, 3));
}

/* The server fills up, to the last byte or nearly so, and has room again. */
static void plan_full(struct plan *p)
{
    unsigned from = plan_pick(p, 5, 80), status = plan_pick(p, 0, 1) ? NOSPC : DQUOT;
    unsigned percent = plan_pick(p, 0, 1) ? 100 : plan_pick(p, 5, 50);
    plan_add(p, from, TO_PROXY, "all answer %u %d %u", status, NFS_WRITE, percent);
    if (plan_pick(p, 0, 1))
        plan_add(p, from, TO_PROXY, "all answer %u %d %u", status, NFS_COMMIT, percent);
    plan_add(p, from + plan_pick(p, 20, 120), TO_PROXY, "all pass");
}

/* That it is full is seen only when it writes to its disk. */
static void plan_full_commit(struct plan *p)
{
    unsigned from = plan_pick(p, 5, 80), status = plan_pick(p, 0, 1) ? NOSPC : DQUOT;
    plan_add(p, from, TO_PROXY, "all answer %u %d %u", status, NFS_COMMIT, plan_pick(p, 20, 100));
    plan_add(p, from + plan_pick(p, 20, 120), TO_PROXY, "all pass");
}

static void plan_read_only(struct plan *p)
{
    static const int procedures[] = {NFS_WRITE, NFS_COMMIT, NFS_SETATTR, NFS_CREATE};
    unsigned from = plan_pick(p, 5, 80);
    for (unsigned i = 0; i < sizeof procedures / sizeof *procedures; i++)
        plan_add(p, from, TO_PROXY, "all answer %d %d 100", ROFS, procedures[i]);
    plan_add(p, from + plan_pick(p, 20, 120), TO_PROXY, "all pass");
}

/* The server says that it restarted, though it did not; or it says so on one path only, as if
 * behind each there were another. */
static void plan_verifier(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--) {
        unsigned at = plan_pick(p, 0, 190), verifier = plan_pick(p, 0, 9);
        if (plan_pick(p, 0, 3))
            plan_add(p, at, TO_PROXY, "all verifier %u", verifier);
        else
            plan_add(p, at, TO_PROXY, "%u verifier %u", any_path(p), verifier);
    }
}

static void plan_halfclose(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 190), TO_PROXY, "%u halfclose", any_path(p));
}

static void plan_limit(struct plan *p)
{
    unsigned path = any_path(p);
    plan_add(p, 0, TO_PROXY, "%u limit %u", path, plan_pick(p, 1, 2));
    plan_add(p, 20, TO_PROXY, "%u reset", path);
}

/* A path that dies again and again, each time just back. */
static void plan_flap(struct plan *p)
{
    unsigned path = any_path(p);
    for (unsigned at = plan_pick(p, 0, 40), i = plan_pick(p, 3, 8); i > 0; i--) {
        plan_add(p, at, TO_PROXY, "%u refuse", path);
        plan_add(p, at, TO_PROXY, "%u reset", path);
        at += plan_pick(p, 1, 30);
        plan_add(p, at, TO_PROXY, "%u pass", path);
        at += plan_pick(p, 1, 60);
    }
}

/* An administrator takes a path out of use, and back. */
static void plan_offline(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 0, 80);
    plan_add(p, at, TO_COMMAND, "path offline %u", path);
    plan_add(p, at + plan_pick(p, 1, 100), TO_COMMAND, "path online %u", path);
}

/*
 * A path goes black with one WRITE in the network. The client leaves the path, the same bytes are
 * written again over another one, and then the WRITE comes to the server after all.
 */
static void plan_hold(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u blackhole after %u", path, plan_pick(p, 1, 20),
             plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + 1500, TO_PROXY, "%u pass", path);
}

/* The same, but the server has queued the WRITE when the path dies with a reset. */
static void plan_late(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u %s late after %u", path, plan_pick(p, 1, 20),
             plan_pick(p, 0, 3) ? "refuse" : "reset", plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + HOLD_MS + 150, TO_PROXY, "%u pass", path);
}

static void plan_power_loss(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 2); i > 0; i--) {
        unsigned at = plan_pick(p, 10, 180);
        plan_loss(p, at, any_survivors(p));
        plan_up(p, at, 40);
    }
}

/* The server is full when it restarts: what it lost cannot be written again yet. */
static void plan_full_loss(struct plan *p)
{
    plan_full(p);
    plan_power_loss(p);
}

/* Its disk fails some of the COMMITs, and has then lost what they were for. */
static void plan_bad_disk(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 5, 180), TO_POWER, "badcommit %u", plan_pick(p, 1, 5));
}

/* After a restart it takes and gives other lengths than before. */
static void plan_limits(struct plan *p)
{
    unsigned at = plan_pick(p, 10, 100);
    plan_loss(p, at, plan_pick(p, 0, 90));
    plan_add(p, at, TO_POWER, "most %u", 4096 << plan_pick(p, 0, 6));
    plan_up(p, at, 40);
}

/* Longer than COMMITs of others are waited for, or not. */
static void plan_slow_commits(struct plan *p)
{
    plan_add(p, 0, TO_POWER, "slow %u commits", plan_pick(p, 0, 3) ? plan_pick(p, 20, 300) : 1300);
    plan_add(p, plan_pick(p, 50, 200), TO_POWER, "slow 0 commits");
}

/* The server exports again, with other handles of the same files. */
static void plan_rehandle(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 2); i > 0; i--) {
        if (plan_pick(p, 0, 1))
            plan_add(p, plan_pick(p, 10, 180), TO_POWER, "rehandle same %u", plan_pick(p, 1, 20));
        else
            plan_add(p, plan_pick(p, 10, 180), TO_POWER, "rehandle same");
    }
}

/* And as part of a restart. */
static void plan_rehandle_loss(struct plan *p)
{
    unsigned at = plan_pick(p, 10, 180);
    plan_loss(p, at, plan_pick(p, 0, 90));
    plan_add(p, at, TO_POWER, "rehandle same");
    plan_up(p, at, 40);
}

static void plan_server_reset(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 4); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 190), TO_POWER, "reset");
}

static void plan_slow(struct plan *p)
{
    plan_add(p, 0, TO_POWER, "slow %u", plan_pick(p, 1, 40));
    plan_add(p, plan_pick(p, 50, 200), TO_POWER, "slow 0");
}

/* The disk hangs in one WRITE, and the connection is lost meanwhile. */
static void plan_park(struct plan *p)
{
    plan_add(p, plan_pick(p, 5, 60), TO_POWER, "park %u %u reset", plan_pick(p, 1, 10),
             plan_pick(p, 100, 300));
    p->length_ms = 500;
}

static void plan_restart(struct plan *p)
{
    plan_add(p, plan_pick(p, 10, 100), TO_RESTART, "restart");
}

/* As hold and late, with a change of size. */
static void plan_hold_size(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u setattr blackhole after %u", path, plan_pick(p, 1, 6),
             plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + 1500, TO_PROXY, "%u pass", path);
}

static void plan_late_size(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u setattr %s late after %u", path, plan_pick(p, 1, 6),
             plan_pick(p, 0, 3) ? "refuse" : "reset", plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + HOLD_MS + 150, TO_PROXY, "%u pass", path);
}

/* A process is killed in the midst of its calls. */
static void plan_kill(struct plan *p)
{
    plan_add(p, plan_pick(p, 30, 180), TO_WORKER, "kill");
}

/* All at once. Those that come next see to what is not committed. Had the files new handles
 * besides, nothing could prove that it is theirs. */
static void plan_kill_all(struct plan *p)
{
    plan_add(p, plan_pick(p, 30, 180), TO_WORKER, "kill all");
}

/* The agent is killed, and those who write behind start another one. */
static void plan_kill_agent(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 190), TO_WORKER, "kill the agent");
}

/* And a process, a little later or before: what it left is nobody's, or the agent had it. */
static void plan_kill_both(struct plan *p)
{
    unsigned at = plan_pick(p, 30, 180), apart = plan_pick(p, 0, 1) ? plan_pick(p, 0, 3) : 20;
    bool agent_first = plan_pick(p, 0, 2) > 0;
    plan_add(p, at, TO_WORKER, agent_first ? "kill the agent" : "kill");
    plan_add(p, at + apart, TO_WORKER, agent_first ? "kill" : "kill the agent");
}

/* A process is stopped in the midst of its calls, and goes on. */
static void plan_stop(struct plan *p)
{
    unsigned at = plan_pick(p, 5, 100);
    plan_add(p, at, TO_WORKER, "stop");
    plan_add(p, at + (plan_pick(p, 0, 3) ? plan_pick(p, 20, 300) : 1500), TO_WORKER, "continue");
}

/*
 * A process gets a file by the kernel from then on, and so do all others. The kernel's writes go to
 * the directory behind the server's back, so that no loss of power takes them; but one that brings
 * back a page that was not committed takes all that was written on it.
 */
static void plan_hand_over(struct plan *p)
{
    plan_add(p, plan_pick(p, 5, 150), TO_FILE, "%u", plan_pick(p, 1, 64 * FILES));
}

/* And one of its calls comes to the server when others write there: it hangs when it is killed. */
static void plan_killed(struct plan *p, unsigned most, const char *what)
{
    unsigned at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u %slate after %u", any_path(p), plan_pick(p, 1, most),
             what, plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + plan_pick(p, 10, 60), TO_WORKER, "kill stuck");
    p->length_ms = 100 + STUCK_MS + HOLD_MS + 150;
}

static void plan_kill_late(struct plan *p)
{
    plan_killed(p, 20, "");
}

static void plan_kill_size(struct plan *p)
{
    plan_killed(p, 6, "setattr ");
}

/* ---- visitors ---- */

/* `index`: of the visitor. Returns when it comes. */
static unsigned plan_visit(struct plan *p, unsigned index, unsigned least, const char *name)
{
    unsigned at = plan_pick(p, least, least + 60);
    plan_add(p, at, TO_VISITOR, "%u %s", index, name);
    if (p->length_ms < at + VISIT_MS)
        p->length_ms = at + VISIT_MS + plan_pick(p, 0, 1);
    return at;
}

static const char *any_visit(struct plan *p)
{
    const struct visit *visit;
    do
        visit = &visits[plan_pick(p, 0, VISITS - 1)];
    while (visit->narrow || (journal->keeps_user && strcmp(visit->name, "user") == 0));
    return visit->name;
}

/* One or two at a time; some end before the round does. */
static void plan_worlds(struct plan *p)
{
    for (unsigned i = 0, count = plan_pick(p, 1, VISITORS); i < count; i++) {
        unsigned at = plan_visit(p, i, 0, any_visit(p));
        if (plan_pick(p, 0, 1))
            plan_add(p, at + plan_pick(p, 50, VISIT_MS - 50), TO_VISITOR, "%u end", i);
    }
}

static void plan_worlds_loss(struct plan *p)
{
    static const char *const writers[] = {"map", "stream", "output", "apart"};
    plan_visit(p, 0, 0, writers[plan_pick(p, 0, 3)]);
    if (plan_pick(p, 0, 1))
        plan_visit(p, 1, 0, writers[plan_pick(p, 0, 3)]);
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--) {
        unsigned at = plan_pick(p, 20, p->length_ms - 50);
        plan_loss(p, at, any_survivors(p));
        plan_up(p, at, 20);
    }
}

/* Somebody opens files that others must have by the kernel. */
static void plan_worlds_back(struct plan *p)
{
    unsigned at = plan_visit(p, 0, 0, plan_pick(p, 0, 2) ? "apart" : "map");
    at = plan_visit(p, 1, at + 80, plan_pick(p, 0, 1) ? "plain" : "exec") + VISIT_MS;
    plan_loss(p, at, 0);
    plan_up(p, at, 20);
}

/* COMMITs take their time, and so files are long on their way when somebody is killed. */
static void plan_worlds_kill(struct plan *p)
{
    plan_add(p, 0, TO_POWER, "slow %u commits", plan_pick(p, 10, 120));
    if (plan_pick(p, 0, 2) == 0) {
        unsigned at = plan_pick(p, 20, 80);
        plan_add(p, at, TO_FILE, "%u", plan_pick(p, 1, 64 * FILES));
        plan_add(p, at + plan_pick(p, 1, 60), TO_WORKER, "kill");
    } else {
        unsigned at = plan_visit(p, 0, 0, any_visit(p));
        plan_add(p, at + plan_pick(p, 30, VISIT_MS), TO_VISITOR, "0 kill");
    }
    plan_visit(p, 1, 0, any_visit(p));
    plan_add(p, p->length_ms - 20, TO_POWER, "slow 0 commits");
}

/* They come while the server takes no connection: the kernel serves them, and who comes later. */
static void plan_worlds_refuse(struct plan *p)
{
    plan_add(p, 5, TO_PROXY, "all refuse");
    plan_add(p, 5, TO_PROXY, "all reset");
    plan_visit(p, 0, 6, plan_pick(p, 0, 1) ? "plain" : any_visit(p));
    plan_add(p, plan_pick(p, 80, 300), TO_PROXY, "all pass");
    plan_visit(p, 1, 300, "plain");
}

/* Without the registry it cannot wait for what others have not committed: nothing may be lost. */
static void plan_narrow(struct plan *p)
{
    plan_visit(p, 0, 0, "narrow");
}

enum { REFUSES = CALLS_FAIL | DATA_REFUSED };

const struct kind kinds[] = {
    {"calm", plan_calm, TO_PROXY, 2, 1, 0},
    {"reset", plan_reset, TO_PROXY, 6, 1, 0},
    {"reset-all", plan_reset_all, TO_PROXY, 4, 1, 0},
    {"freeze", plan_freeze, TO_PROXY, 6, 1, 0},
    {"blackhole", plan_blackhole, TO_PROXY, 2, 1, 0},
    {"refuse", plan_refuse, TO_PROXY, 5, 1, 0},
    {"refuse-all", plan_refuse_all, TO_PROXY, 3, 1, 0},
    {"mess", plan_mess, TO_PROXY, 6, 1, 0},
    {"stall", plan_stall, TO_PROXY, 4, 1, 0},
    {"split", plan_split, TO_PROXY, 3, 1, 0},
    {"dropafter", plan_dropafter, TO_PROXY, 4, 1, 0},
    {"drop", plan_drop, TO_PROXY, 1, 1, 0},
    {"corrupt", plan_corrupt, TO_PROXY, 2, 1, 0},
    {"damage", plan_damage, TO_PROXY, 3, 1, REFUSES | OF_V3 | OF_CLEAR},
    {"jukebox", plan_jukebox, TO_PROXY, 2, 1, OF_CLEAR},
    {"verifier", plan_verifier, TO_PROXY, 5, 1, OF_V3 | OF_CLEAR},
    {"halfclose", plan_halfclose, TO_PROXY, 3, 1, 0},
    {"flap", plan_flap, TO_PROXY, 3, 1, 0},
    {"full", plan_full, TO_PROXY, 4, 1, REFUSES | OF_V3 | OF_CLEAR},
    {"full-commit", plan_full_commit, TO_PROXY, 3, 1, CALLS_FAIL | OF_V3 | OF_CLEAR},
    {"read-only", plan_read_only, TO_PROXY, 3, 1, REFUSES | OF_V3 | OF_CLEAR},
    {"limit", plan_limit, TO_PROXY, 3, 1, 0},
    {"hold", plan_hold, TO_PROXY, 2, 2, 0},
    {"late", plan_late, TO_PROXY, 5, 2, 0},
    {"power-loss", plan_power_loss, TO_POWER, 14, 1, 0},
    {"full-loss", plan_full_loss, TO_POWER, 4, 1, REFUSES | OF_V3 | OF_CLEAR},
    {"bad-disk", plan_bad_disk, TO_POWER, 4, 1, CALLS_FAIL | DATA_FORGET},
    {"limits", plan_limits, TO_POWER, 3, 1, 0},
    {"slow-commits", plan_slow_commits, TO_POWER, 2, 1, 0},
    {"rehandle", plan_rehandle, TO_POWER, 3, 1, NEW_HANDLES},
    {"rehandle-loss", plan_rehandle_loss, TO_POWER, 3, 1, NEW_HANDLES},
    {"server-reset", plan_server_reset, TO_POWER, 3, 1, 0},
    {"slow", plan_slow, TO_POWER, 3, 1, 0},
    {"park", plan_park, TO_POWER, 3, 1, 0},
    {"forget", plan_forget, TO_POWER, 5, 1, OF_SESSIONS},
    {"slots", plan_slots, TO_POWER, 4, 1, OF_SESSIONS},
    {"grace", plan_grace, TO_POWER, 4, 1, OF_SESSIONS},
    {"restart", plan_restart, TO_RESTART, 8, 1, 0},
    {"offline", plan_offline, TO_COMMAND, 3, 2, 0},
    {"hand-over", plan_hand_over, TO_WORKER, 4, 1, MOVES_FILES},
    {"kill-all", plan_kill_all, TO_WORKER, 2, 1, NO_OTHERS | KILLS},
    {"stop", plan_stop, TO_WORKER, 2, 1, 0},
    {"kill", plan_kill, TO_WORKER, 4, 1, NEW_PROCESSES | KILLS},
    {"kill-agent", plan_kill_agent, TO_WORKER, 4, 1, KILLS_AGENT},
    {"kill-both", plan_kill_both, TO_WORKER, 4, 1, REFUSES | NO_OTHERS},
    {"kill-late", plan_kill_late, TO_PROXY, 3, 1, NEW_PROCESSES | KILLS},
    {"hold-size", plan_hold_size, TO_PROXY, 2, 2, 0},
    {"late-size", plan_late_size, TO_PROXY, 4, 2, 0},
    {"kill-size", plan_kill_size, TO_PROXY, 3, 1, NEW_PROCESSES | KILLS},
    {"worlds", plan_worlds, TO_WORKER, 5, 1, MOVES_FILES | NEW_PROCESSES},
    {"worlds-loss", plan_worlds_loss, TO_POWER, 4, 1, MOVES_FILES | NEW_PROCESSES},
    {"worlds-back", plan_worlds_back, TO_POWER, 3, 1, MOVES_FILES | NEW_PROCESSES},
    {"worlds-kill", plan_worlds_kill, TO_POWER, 3, 1, MOVES_FILES | NO_OTHERS},
    {"worlds-refuse", plan_worlds_refuse, TO_PROXY, 2, 1, MOVES_FILES | NEW_PROCESSES},
    {"narrow", plan_narrow, TO_WORKER, 1, 1, MOVES_FILES | NO_OTHERS},
    {"appends", plan_calm, TO_WORKER, 4, 1, MOSTLY_APPENDS},
    {"tamper", plan_tamper, TO_PROXY, 8, 1, OF_SEALED},
    {"rekey", plan_rekey, TO_PROXY, 3, 1, OF_TLS},
    {"deny", plan_deny, TO_PROXY, 4, 1, OF_TLS},
    {"ticket-away", plan_ticket_away, TO_COMMAND, 4, 1, OF_KERBEROS},
    {"ticket-ends", plan_ticket_ends, TO_COMMAND, 2, 1, OF_KERBEROS},
    {"kdc-away", plan_kdc_away, TO_COMMAND, 4, 1, OF_KERBEROS},
};

static bool excluded(unsigned effects)
{
    const unsigned fails = MOVES_FILES | CALLS_FAIL, comes = NEW_HANDLES | NEW_PROCESSES;
    const unsigned both = KILLS | KILLS_AGENT;
    return (effects & fails) == fails || (effects & comes) == comes || (effects & both) == both;
}

void plan_make(struct plan *p, uint64_t seed, unsigned round, unsigned paths,
               const bool allowed[KINDS])
{
    unsigned total = 0;
    *p = (struct plan){.random = mix(mix(seed) + round) | 1, .paths = paths, .length_ms = PLAN_MS};
    for (unsigned i = 0; i < KINDS; i++)
        total += allowed[i] ? kinds[i].weight : 0;
    for (unsigned n = plan_pick(p, 0, 2) == 0 ? 2 : 1; n > 0 && total > 0; n--) {
        unsigned at = plan_pick(p, 1, total), i = 0;
        for (;; i++) {
            unsigned weight = allowed[i] ? kinds[i].weight : 0;
            if (at <= weight)
                break;
            at -= weight;
        }
        unsigned effects = kinds[i].effects;
        if (effects & KILLS && journal->no_agent)
            effects |= REFUSES;
        if (excluded(p->effects | effects))
            continue;
        if (kinds[i].effects & NO_OTHERS) {
            *p = (struct plan){.random = p->random, .paths = paths, .length_ms = PLAN_MS};
            n = 1;
        }
        strcat(strcat(p->names, p->names[0] ? "+" : ""), kinds[i].name);
        kinds[i].plan(p);
        p->effects |= effects;
    }
}
