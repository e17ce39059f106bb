#include "nfs/v4/fence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/v4/call.h"
#include "nfs/v4/types.h"
#include "run/fence.h"
#include "run/log_limit.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    NOBODY = 65534,
    SAY_EVERY_S = 60,
    SAY_ONCE_S = 1000000000, /* for a loss: its subject has the verifier */
    READ_SIZE = 4096,
    NOTE_MS = 500 /* how long to wait for a lock that is held while a server is asked */
};

void nfs4_fence_auth(struct rpc_auth *auth)
{
    rpc_auth_sys(auth, "directnfs", NOBODY, NOBODY, NULL, 0);
}

void nfs4_fence_anybody(struct nfs_client *client, struct rpc_auth *auth)
{
    nfs4_fence_auth(auth);
    if (!client->auth->identity)
        client->auth = auth;
}

/* ---- the token ---- */

static const char head[] = "directnfs fence 1\n";

void nfs4_token_name(const char *fence, char name[NFS4_TOKEN_NAME])
{
    snprintf(name, NFS4_TOKEN_NAME, ".directnfs-fence-%.64s", fence);
}

void nfs4_token_print(const struct nfs4_token *token, char text[NFS4_TOKEN_SIZE])
{
    int length = snprintf(text, NFS4_TOKEN_SIZE, "%s%016llx %s %s\n", head,
                          (unsigned long long)token->verifier, token->host[0] ? token->host : "-",
                          token->time[0] ? token->time : "-");
    memset(text + length, '\n', (size_t)(NFS4_TOKEN_SIZE - length));
}

/* Takes a word that ends with `end`, and returns what follows. NULL: it does not, or is too
 * long. */
static const char *take_word(const char *at, char end, char word[NFS4_TOKEN_WORD])
{
    size_t length = strcspn(at, " \n");
    if (length == 0 || length >= NFS4_TOKEN_WORD || at[length] != end)
        return NULL;
    memcpy(word, at, length);
    word[length] = '\0';
    return at + length + 1;
}

bool nfs4_token_parse(const char *text, size_t length, struct nfs4_token *token)
{
    char copy[NFS4_TOKEN_SIZE + 1], digits[NFS4_TOKEN_WORD], *rest;
    *token = (struct nfs4_token){.verifier = 0};
    if (length < NFS4_TOKEN_SIZE || memcmp(text, head, strlen(head)) != 0)
        return false;
    memcpy(copy, text, NFS4_TOKEN_SIZE);
    copy[NFS4_TOKEN_SIZE] = '\0';
    const char *at = take_word(copy + strlen(head), ' ', digits);
    at = at ? take_word(at, ' ', token->host) : NULL;
    at = at ? take_word(at, '\n', token->time) : NULL;
    if (!at)
        return false;
    token->verifier = strtoull(digits, &rest, 16);
    return *rest == '\0' && token->verifier != 0;
}

int nfs4_token_read(const struct nfs_client *client, const struct nfs_fence *fence,
                    struct nfs4_token *token)
{
    char name[NFS4_TOKEN_NAME], text[NFS4_TOKEN_SIZE];
    struct iovec vector = {text, sizeof(text)};
    struct nfs_data data = {.vectors = &vector, .count = 1, .length = sizeof(text)};
    struct nfs_client asking = *client;
    struct nfs_transfer transfer = {.length = 0};
    struct nfs_post_attr unused;
    struct nfs_fh directory, fh;
    asking.version = &nfs_version41;
    asking.read_max = READ_SIZE;
    nfs4_token_name(fence->name, name);
    int error = nfs4_walk(&asking, fence->directory, &directory);
    if (error == 0)
        error = nfs_lookup(&asking, &directory, name, &fh, &unused);
    if (error == 0)
        error = nfs_read(&asking, &fh, 0, &data, &transfer);
    if (error == 0 && !nfs4_token_parse(text, transfer.length, token))
        error = -EBADMSG;
    return error;
}

enum run_fence_state nfs4_fence_state(const struct nfs_fence *fence, int error,
                                      const struct nfs4_token *token)
{
    struct run_fence now;
    run_fence_look(fence->server, fence->name, &now);
    if (error == 0 && now.state == RUN_FENCE_HELD && token->verifier != now.verifier)
        now.state = RUN_FENCE_LOST;
    return now.state;
}

/* ---- a session's fence ---- */

const _Atomic bool *nfs4_fence_set(struct nfs_session *session, const struct nfs_fence *fence)
{
    session->fence.of = *fence;
    session->fence.locked = -1;
    return &session->fence.lost;
}

int nfs4_fence_hold(struct nfs_session *session, uint64_t *term)
{
    struct nfs4_fence *fence = &session->fence;
    struct run_fence now;
    uint64_t none = 0;
    run_fence_look(fence->of.server, fence->of.name, &now);
    bool held = now.state == RUN_FENCE_HELD;
    if (held)
        atomic_compare_exchange_strong(&fence->term, &none, now.verifier);
    *term = atomic_load(&fence->term);
    if (*term != 0 && now.state == RUN_FENCE_UNKNOWN && !atomic_load(&fence->lost))
        return -EAGAIN;
    if (*term != 0 && (!held || now.verifier != *term))
        atomic_store(&fence->lost, true);
    return held && !atomic_load(&fence->lost) ? 0 : -EPERM;
}

void nfs4_fence_after_fork(struct nfs4_fence *fence)
{
    if (!fence->of.name)
        return;
    if (fence->locked >= 0) /* a thread that does not exist here locked it */
        run_fence_drop(fence->locked);
    fence->locked = -1;
    fence->asking = NULL; /* that thread's; its memory is given up */
    atomic_store(&fence->failed, false);
}

/* The fence is lost for good. The log says so once on the host. */
static int lose(const struct nfs_client *client, const struct nfs4_token *token)
{
    struct nfs4_fence *fence = &client->session->fence;
    uint64_t term = atomic_load(&fence->term);
    char subject[512];
    atomic_store(&fence->lost, true);
    snprintf(subject, sizeof(subject), "fence %.64s %llx %.300s", fence->of.name,
             (unsigned long long)term, fence->of.server);
    if (!run_may_say(subject, SAY_ONCE_S))
        return -EIO;
    if (token)
        log_error("server %s: fence %s: host %s has taken it (%s): what this host still had to "
                  "send is given up, and calls for these files fail with EIO until `directnfs "
                  "fence take` is run here and the programs are started again",
                  fence->of.server, fence->of.name, token->host, token->time);
    else
        log_error("server %s: fence %s: it was taken away from this process: calls for these files "
                  "fail with EIO; start the program again on the host that has the fence",
                  fence->of.server, fence->of.name);
    return -EIO;
}

/* It is not known which host has the fence: until it is, there is no session. */
static int fail(const struct nfs_client *client, int error)
{
    struct nfs4_fence *fence = &client->session->fence;
    char subject[512];
    if (error == -ETIMEDOUT)
        return error;
    atomic_store(&fence->failed, true);
    snprintf(subject, sizeof(subject), "fence ? %.64s %d %.300s", fence->of.name, error,
             fence->of.server);
    if (!run_may_say(subject, SAY_EVERY_S))
        return -EIO;
    if (error == -EPERM)
        log_error("server %s: fence %s: this host does not have it: calls fail with EIO until "
                  "`directnfs fence take` is run here",
                  fence->of.server, fence->of.name);
    else
        log_error("server %s: fence %s: who has it cannot be read from .directnfs-fence-%s in %s: "
                  "%s; calls fail with EIO until it can",
                  fence->of.server, fence->of.name, fence->of.name, fence->of.directory,
                  error == -EBADMSG ? "it makes no sense" : strerrordesc_np(-error));
    return -EIO;
}

/* Notes the loss for processes that begin later, unless the host has taken the fence again. */
static void note_loss(const struct nfs4_fence *fence)
{
    struct run_fence now;
    int locked = run_fence_lock(fence->of.server, fence->of.name, NOTE_MS);
    if (locked < 0)
        return; /* they find out by themselves */
    run_fence_read(locked, &now);
    if (now.verifier == atomic_load(&fence->term)) {
        now.state = RUN_FENCE_LOST;
        run_fence_write(locked, &now);
    }
    run_fence_unlock(locked);
}

/* Does the token say that this host has the fence? */
static int ask(const struct nfs_client *client)
{
    struct nfs4_fence *fence = &client->session->fence;
    struct nfs4_token token;
    struct nfs_client asking = *client;
    asking.session = fence->asking;
    asking.counted = NULL;
    int error = nfs4_token_read(&asking, &fence->of, &token);
    if (error != 0)
        return fail(client, error);
    uint64_t term = atomic_load(&fence->term);
    if (token.verifier == term)
        return 0;
    note_loss(fence);
    return lose(client, &token);
}

int nfs4_fence_begin(const struct nfs_client *client)
{
    struct nfs4_fence *fence = &client->session->fence;
    uint64_t term;
    atomic_store(&fence->failed, false);
    if (atomic_load(&fence->lost))
        return -EIO;
    int error = nfs4_fence_hold(client->session, &term);
    if (error == -EAGAIN)
        return NFS4ERR_DELAY;
    if (error != 0)
        return term != 0 ? lose(client, NULL) : fail(client, error);
    if (client->session->verifier != term)
        client->session->verifier = term;
    fence->asking = nfs4_session_new(NULL, NULL);
    error = fence->asking ? ask(client) : fail(client, -ENOMEM);
    if (error != 0)
        return error;
    int locked = run_fence_lock(fence->of.server, fence->of.name,
                                client->timeout_ms > 0 ? client->timeout_ms : 0);
    if (run_fence_is_shortage(locked))
        return NFS4ERR_DELAY;
    if (locked < 0)
        return fail(client, locked);
    fence->locked = locked;
    return 0;
}

int nfs4_fence_proven(const struct nfs_client *client)
{
    struct nfs4_fence *fence = &client->session->fence;
    run_fence_unlock(fence->locked);
    fence->locked = -1;
    return ask(client);
}

void nfs4_fence_end(const struct nfs_client *client)
{
    struct nfs4_fence *fence = &client->session->fence;
    if (fence->asking) {
        struct nfs_client asking = *client;
        asking.session = fence->asking;
        nfs4_session_end(&asking);
        sys_free(fence->asking);
        fence->asking = NULL;
    }
    if (fence->locked >= 0)
        run_fence_unlock(fence->locked);
    fence->locked = -1;
}

int nfs4_fence_take(const struct nfs_client *client, const struct nfs_fence *fence,
                    uint64_t verifier)
{
    struct nfs_session *session = client->session;
    nfs4_fence_set(session, fence);
    session->fence.taking = true;
    session->verifier = verifier;
    int error = nfs4_session_prepare(client);
    if (error == 0)
        nfs4_session_end(client);
    return error;
}
