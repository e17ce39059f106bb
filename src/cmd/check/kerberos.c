/* directnfs check: what a mount with Kerberos needs, step by step. */
#include "cmd/check/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rpc/secure/gss.h"

static bool fail(const struct rpc_gss_fault *fault, const char *label)
{
    check_say(CHECK_ERROR, label, "%s: %s", rpc_gss_reason(fault->why),
              fault->text[0] ? fault->text : "no reason is told");
    if (rpc_gss_remedy(fault->why)[0])
        check_remedy("%s", rpc_gss_remedy(fault->why));
    check_word("reason", rpc_gss_reason(fault->why));
    return false;
}

/* Whose ticket it is, and until when. */
static void say_ticket(const struct rpc_identity *identity, const struct rpc_gss_making *making)
{
    char name[256], until[64] = "for ever";
    uint64_t lifetime_s;
    if (!rpc_gss_whose(making, name, sizeof(name), &lifetime_s))
        return;
    time_t ends = time(NULL) + (time_t)lifetime_s;
    struct tm local;
    if (lifetime_s < UINT32_MAX && localtime_r(&ends, &local))
        strftime(until, sizeof(until), "until %Y-%m-%d %H:%M:%S", &local);
    check_say(CHECK_INFO, "ticket", "of %s, for uid %u, %s%s%s", name, identity->uid, until,
              identity->keytab ? ", renewed from " : "", identity->keytab ? identity->keytab : "");
    check_word("principal", name);
    check_number("ticket_s", lifetime_s);
}

/* The ticket of the user, and that for the server, which the KDC gives. */
static bool get_tickets(const struct rpc_identity *identity)
{
    struct rpc_gss_making making = {.cache = 0};
    struct rpc_gss_token token = {NULL, 0};
    struct rpc_gss_fault fault;
    bool good = rpc_gss_load(&fault) && rpc_gss_acquire(&making, identity, &fault);
    if (!good)
        return fail(&fault, "ticket");
    say_ticket(identity, &making);
    good = rpc_gss_step(&making, NULL, 0, &token, &fault) >= 0;
    if (good)
        check_say(CHECK_INFO, "service", "the KDC gives a ticket for %s", identity->server);
    else
        fail(&fault, "service");
    rpc_gss_token_free(&token);
    rpc_gss_making_end(&making);
    return good;
}

bool check_kerberos(struct check_path *path, struct check_kerberos *kerberos)
{
    const struct rpc_identity *identity = path->client.auth->identity;
    if (kerberos->asked)
        return kerberos->works;
    kerberos->asked = true;
    if (!get_tickets(identity))
        return false;
    if (!path->client.server)
        return true;
    int error = nfs_null(&path->client);
    enum reach_why why = reach_why_as(REACH_NFS, error, &path->check->tunables, path->client.auth);
    if (error != 0) {
        check_say(CHECK_ERROR, "context", "%s: %s", reach_reason(why), strerror(-error));
        if (reach_remedy(why)[0])
            check_remedy("%s", reach_remedy(why));
        check_word("reason", reach_reason(why));
        return false;
    }
    check_say(CHECK_INFO, "context", "made with the server");
    kerberos->works = true;
    return true;
}
