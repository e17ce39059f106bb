#include "nfs/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "run/log_limit.h"
#include "stats/catalogue.h"
#include "stats/count.h"
#include "net/health.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { SAY_EVERY_S = 60 }; /* on the log */

uint32_t nfs_transfer_size(uint32_t granted, int wanted)
{
    uint32_t size = granted < RPC_PAYLOAD_MAX ? granted : RPC_PAYLOAD_MAX;
    if (wanted > 0 && size > (uint32_t)wanted)
        size = (uint32_t)wanted;
    if (size > 4096)
        size -= size % 4096;
    return size ? size : 4096;
}

void nfs_call_send(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count)
{
    rpc_submit(client->server, calls, count);
}

void nfs_call_wait(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count)
{
    if (client->timeout_ms > 0)
        rpc_wait_for(calls, count, client->timeout_ms);
    else if (__builtin_expect(client->timeout_ms < 0, false))
        rpc_wait_in_turn(calls, count);
    else
        rpc_wait(calls, count);
}

void nfs_call_run(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count)
{
    nfs_call_send(client, calls, count);
    nfs_call_wait(client, calls, count);
}

static void count_on_mount(const struct rpc_call *call, uint64_t rtt_ns, bool error)
{
    enum directnfs_operation operation = call->procedure == NFS_PROC_READ    ? DIRECTNFS_READ
                                         : call->procedure == NFS_PROC_WRITE ? DIRECTNFS_WRITE
                                                                             : DIRECTNFS_OTHER;
    struct stats_answer answer = {.rtt_ns = rtt_ns, .error = error};
    if (operation != DIRECTNFS_OTHER && !error)
        answer.bytes = operation == DIRECTNFS_READ ? call->received : call->payload_length;
    if (call->queued_ns && call->queued_ns < call->sent_ns)
        answer.queue_ns = call->sent_ns - call->queued_ns;
    stats_mount_call(call->counted, operation, &answer);
}

static const char *name_of(const struct rpc_call *call)
{
    return stats_procedure_name(call->procedure) + strlen("NFS_");
}

/* Is it a probe without an answer? Then no server failed to do anything. */
static bool is_probe_in_vain(const struct rpc_call *call)
{
    bool unanswered = call->unsettled || call->sent_ns == 0 || call->error == -ETIMEDOUT;
    return call->error != 0 && unanswered && call->channel && call->channel->server->options.hidden;
}

void nfs_call_count(const struct rpc_call *call, int error)
{
    uint64_t rtt_ns = call->answered_ns - call->sent_ns;
    if (is_probe_in_vain(call))
        return;
    stats_call(call->procedure, rtt_ns, error != 0);
    if (call->counted)
        count_on_mount(call, rtt_ns, error != 0);
    if ((call->error == -EBADMSG || error == -EBADMSG) &&
        net_server_may_say(call->channel->server, SAY_EVERY_S))
        log_error("server %s: the answer to %s is garbage", call->channel->server->name,
                  name_of(call));
}

void nfs_call_senseless(const struct rpc_call *call, const char *what)
{
    char subject[512];
    const char *server = call->channel->server->name;
    snprintf(subject, sizeof(subject), "answer %s %.400s", what, server);
    if (run_may_say(subject, SAY_EVERY_S))
        log_error("server %s: the answer to %s makes no sense: %s", server, name_of(call), what);
}

void nfs_call_refused(const struct rpc_call *call, const char *status)
{
    char subject[512];
    const char *server = call->channel->server->name;
    snprintf(subject, sizeof(subject), "%s %.400s", status, server);
    if (run_may_say(subject, SAY_EVERY_S))
        log_warning("server %s: a call was answered %s; its program gets EIO", server, status);
}

void nfs_call_moved(const struct rpc_call *call)
{
    char subject[512];
    const char *server = call->channel->server->name;
    snprintf(subject, sizeof(subject), "moved %.400s", server);
    if (run_may_say(subject, SAY_EVERY_S))
        log_error("server %s: a file system has moved to another server, which is not followed: "
                  "its files fail with an error. Mount it from where it is now, and correct the "
                  "nfstab",
                  server);
}

bool nfs_call_repeated(const struct rpc_call *call)
{
    return call->unsettled || (call->error == 0 && call->resent && !call->exact);
}

void nfs_patience_begin(const struct nfs_client *client, struct nfs_patience *patience)
{
    patience->until_ns =
        client->timeout_ms > 0 ? sys_now_ns() + (uint64_t)client->timeout_ms * 1000000 : UINT64_MAX;
}

int nfs_call_again(const struct nfs_client *client, struct nfs_patience *patience, bool at_once)
{
    enum { FIRST_MS = 10, DOUBLED = 9, LONGEST_MS = 5000, SAY_AFTER = 15 };
    if (patience->until_ns == 0)
        nfs_patience_begin(client, patience);
    else if (sys_now_ns() >= patience->until_ns)
        return -ETIMEDOUT;
    if (at_once && patience->turns++ == 0)
        return 0;
    int pause = patience->waits < DOUBLED ? FIRST_MS << patience->waits : LONGEST_MS;
    if (pause > LONGEST_MS)
        pause = LONGEST_MS;
    if (++patience->waits % SAY_AFTER == 0 && net_server_may_say(client->server, SAY_EVERY_S))
        log_warning("server %s: %s, %u times now; going on", client->server->name,
                    at_once ? "does not carry out a call, as it does not know its session"
                            : "asks to come back later (JUKEBOX)",
                    patience->waits);
    if (!at_once)
        stats_add(&stats_own->counters.jukebox_waits, 1);
    uint64_t left_ms = (patience->until_ns - sys_now_ns()) / 1000000;
    rpc_pause(left_ms < (uint64_t)pause ? (int)left_ms : pause);
    return 0;
}
