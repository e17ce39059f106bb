/*
 * The procedures of NFS, typed and synchronous, for all versions. The client's `version`, a table,
 * is the only place that knows in which version a server is asked.
 *
 * All return 0 or -errno: the meaning of the server's status (v3/status.h), or what the RPC layer
 * said (rpc_wait()). A server that answers JUKEBOX is asked again after a pause. A server that does
 * not answer is waited for. Both go on for as long as it takes, unless the client has a time limit.
 */
#ifndef NFS_NFS_H
#define NFS_NFS_H

#include <sys/uio.h>

#include "nfs/types.h"
#include "rpc/rpc.h"

struct nfs_version;
struct nfs_session; /* for version 4.1: v4/session.h */

/* The fence of a server's sessions (v4/fence.h). The strings live as long as the sessions. */
struct nfs_fence {
    const char *server, *name;
    const char *directory; /* at the server: where its token is */
};

enum { NFS_OWNER_SHOWN = 64 };

/* What people are told about a session. */
struct nfs_session_facts {
    uint64_t client;                 /* the client id */
    uint32_t slots, free;            /* how many calls may be in flight, and how many more could be
                                        now */
    uint32_t lease_s;                /* how long the server waits for us */
    uint32_t owner_length;           /* of the server's owner; its first bytes follow */
    char owner[NFS_OWNER_SHOWN + 1]; /* ? for bytes that cannot be printed */
};

/* How a server is called, and with which credential. Owned by the caller, only read here. */
enum {
    NFS_IN_TURN = -1 /* as 0, but -EKEYEXPIRED after a second without a ticket: others wait */
};

struct nfs_client {
    const struct nfs_version *version;
    struct nfs_session *session; /* NULL: the version has none */
    struct net_server *server;
    const struct rpc_auth *auth;
    struct directnfs_mount_stats *counted; /* where its calls are counted; NULL: for no mount */
    uint32_t read_max;                     /* bytes in one READ and one WRITE: 1..RPC_PAYLOAD_MAX */
    uint32_t write_max;
    int timeout_ms; /* 0: for ever, as a hard mount; else -ETIMEDOUT or the error of connecting; or
                       NFS_IN_TURN */
};

/* The most bytes of one READ or WRITE of the client. A server that restarted may take less in a
 * session than when the client was made. */
size_t nfs_longest(const struct nfs_client *client, bool write);

/* How many bytes one READ or WRITE has: what the server grants, at most the tunable `wanted` (0: it
 * is not set), in whole pages. */
uint32_t nfs_transfer_size(uint32_t granted, int wanted);

/* What came of an nfs_read() or nfs_write(). */
struct nfs_transfer {
    size_t length;  /* bytes from `offset` on, without a gap */
    bool eof;       /* read: the end of the file was met */
    bool two_ends;  /* read: data go on after the size that came with them, or end before it */
    bool at_once;   /* after -EAGAIN from an _end function: call again without a pause */
    bool unsettled; /* also after an error: an older copy of a call may yet be carried out */
    bool repeated;  /* also after an error: a call may have been carried out before, with
                       another outcome */
    uint64_t connected_ns;     /* when the newest connection that answered was made */
    uint64_t sent_ns;          /* when the first call that went well was sent, */
    uint64_t answered_ns;      /* and when the last one was answered */
    uint64_t verifier;         /* write: one for all parts */
    uint32_t committed;        /* write: the weakest of all parts (enum nfs_stable) */
    struct nfs_post_attr attr; /* the latest of all parts, if each had some */
    bool before_present;       /* write: each part told the ctime before it */
    struct nfs_time before;    /* the first of those ctimes */
    unsigned parts;            /* write: how many were answered */
};

/* How long the transfer waited for the server. */
static inline uint64_t nfs_transfer_ns(const struct nfs_transfer *transfer)
{
    return transfer->answered_ns > transfer->sent_ns ? transfer->answered_ns - transfer->sent_ns
                                                     : 0;
}

/* The memory that the bytes come from, or go to. */
struct nfs_data {
    const struct iovec *vectors;
    int count;
    size_t length;  /* bytes: the sum of the vectors, or less */
    size_t certain; /* read: how many of them the file has, as far as is known: see rpc_call */
};

/* What a version of NFS does. The functions below say what the members do. An RPC call knows the
 * version that began it (`made_by`). */
struct nfs_version {
    unsigned number;  /* of the RPC program */
    const char *name; /* as in nfstab(5) */
    int (*null)(const struct nfs_client *client);
    int (*getattr)(const struct nfs_client *client, const struct nfs_fh *fh, struct nfs_attr *attr);
    int (*setattr)(const struct nfs_client *client, const struct nfs_fh *fh,
                   const struct nfs_sattr *sattr, struct nfs_wcc *wcc, bool *unsettled);
    int (*lookup)(const struct nfs_client *client, const struct nfs_fh *directory, const char *name,
                  struct nfs_fh *fh, struct nfs_post_attr *attr);
    int (*access)(const struct nfs_client *client, const struct nfs_fh *fh, uint32_t *access,
                  struct nfs_post_attr *attr);
    int (*fsinfo)(const struct nfs_client *client, const struct nfs_fh *fh,
                  struct nfs_fsinfo_res *res);
    int (*commit)(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
                  uint32_t count, uint64_t *verifier, bool *repeated);
    void (*read_begin)(struct rpc_call *call, const struct nfs_client *client,
                       const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data);
    int (*read_end)(const struct rpc_call *call, uint64_t offset, struct nfs_transfer *transfer);
    void (*write_begin)(struct rpc_call *call, const struct nfs_client *client,
                        const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                        enum nfs_stable stable);
    int (*write_end)(const struct rpc_call *call, enum nfs_stable stable,
                     struct nfs_transfer *transfer);
    /* A WRITE, FILE_SYNC, that the server refuses with -ECANCELED if the file's `change` is not the
     * expected one. NULL: the version has none. */
    void (*write_if_begin)(struct rpc_call *call, const struct nfs_client *client,
                           const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                           const struct nfs_attr *expected);
    int (*write_if_end)(const struct rpc_call *call, const struct nfs_attr *expected,
                        struct nfs_transfer *transfer);
    /* v4/session.h says what these do. NULL: the version has no sessions, and MOUNT tells the
     * root. */
    int (*root)(const struct nfs_client *client, const char *directory, struct nfs_fh *fh);
    /* Which flavors of security the server takes at the directory, as MOUNT numbers them; *count:
     * how many, at most NFS_FLAVORS_MAX. 0 or -errno. NULL: MOUNT tells. */
    int (*flavors)(const struct nfs_client *client, const char *directory, uint32_t *flavors,
                   uint32_t *count);
    struct nfs_session *(*session_new)(void (*made)(void *of), void *of);
    void (*session_end)(const struct nfs_client *client);
    void (*session_after_fork)(struct nfs_session *session);
    int (*session_renew)(const struct nfs_client *client);
    /* The longest payload of a call over it, or of a reply; 0: not known yet. */
    uint32_t (*session_most)(const struct nfs_session *session, bool write);
    /* Sets the session's fence, before the session is made. Returns a flag that becomes true, for
     * good, when this process has lost the fence. */
    const _Atomic bool *(*session_fence)(struct nfs_session *session,
                                         const struct nfs_fence *fence);
    /*
     * Does this host have the fence, as far as is known without a call? It must have had it for as
     * long as this process knows the fence.
     * 0: yes. *term differs for each time that a host took the fence.
     * -EPERM: no.
     * -EAGAIN: it had it, and whether it still has it cannot be told now.
     */
    int (*session_hold)(struct nfs_session *session, uint64_t *term);
    int (*leads_here)(const struct nfs_client *over);
    bool (*session_facts)(struct nfs_session *session, struct nfs_session_facts *facts);
    void (*session_show)(struct nfs_session *session, const char *server);
};

extern const struct nfs_version nfs_version3, nfs_version41;

static inline int nfs_null(const struct nfs_client *client)
{
    return client->version->null(client);
}

static inline int nfs_getattr(const struct nfs_client *client, const struct nfs_fh *fh,
                              struct nfs_attr *attr)
{
    return client->version->getattr(client, fh, attr);
}

/* *unsettled, also after an error: an older copy of the call may yet be carried out. */
static inline int nfs_setattr(const struct nfs_client *client, const struct nfs_fh *fh,
                              const struct nfs_sattr *sattr, struct nfs_wcc *wcc, bool *unsettled)
{
    return client->version->setattr(client, fh, sattr, wcc, unsettled);
}

/* `name` is one component. -ENAMETOOLONG: it is longer than NFS_NAME_MAX. */
static inline int nfs_lookup(const struct nfs_client *client, const struct nfs_fh *directory,
                             const char *name, struct nfs_fh *fh, struct nfs_post_attr *attr)
{
    return client->version->lookup(client, directory, name, fh, attr);
}

/* *access: the bits asked for (enum nfs_access); then those granted. */
static inline int nfs_access(const struct nfs_client *client, const struct nfs_fh *fh,
                             uint32_t *access, struct nfs_post_attr *attr)
{
    return client->version->access(client, fh, access, attr);
}

static inline int nfs_fsinfo(const struct nfs_client *client, const struct nfs_fh *fh,
                             struct nfs_fsinfo_res *res)
{
    return client->version->fsinfo(client, fh, res);
}

/* Commits the bytes [offset, offset + count); count 0: to the end of the file. *repeated: the
 * server may have carried it out before, with another outcome. */
static inline int nfs_commit(const struct nfs_client *client, const struct nfs_fh *fh,
                             uint64_t offset, uint32_t count, uint64_t *verifier, bool *repeated)
{
    return client->version->commit(client, fh, offset, count, verifier, repeated);
}

/*
 * One READ or WRITE as a call of its own, for callers that keep many in flight. It has at most
 * client->read_max (write_max) bytes and RPC_VECTORS_MAX vectors. The memory must stay valid and
 * unchanged until the call is answered. The `_end` functions judge the answer:
 * 0: it went well; see the transfer. Its length may be short.
 * -EAGAIN: make the call again, mostly after JUKEBOX.
 * Another -errno: it failed.
 */
static inline void nfs_read_begin(struct rpc_call *call, const struct nfs_client *client,
                                  const struct nfs_fh *fh, uint64_t offset,
                                  const struct nfs_data *data)
{
    call->made_by = client->version;
    client->version->read_begin(call, client, fh, offset, data);
    call->counted = client->counted;
}

static inline int nfs_read_end(const struct rpc_call *call, uint64_t offset,
                               struct nfs_transfer *transfer)
{
    transfer->sent_ns = call->sent_ns;
    transfer->answered_ns = call->answered_ns;
    transfer->at_once = false;
    return call->made_by->read_end(call, offset, transfer);
}

static inline void nfs_write_begin(struct rpc_call *call, const struct nfs_client *client,
                                   const struct nfs_fh *fh, uint64_t offset,
                                   const struct nfs_data *data, enum nfs_stable stable)
{
    call->made_by = client->version;
    client->version->write_begin(call, client, fh, offset, data, stable);
    call->counted = client->counted;
}

static inline int nfs_write_end(const struct rpc_call *call, enum nfs_stable stable,
                                struct nfs_transfer *transfer)
{
    transfer->sent_ns = call->sent_ns;
    transfer->answered_ns = call->answered_ns;
    transfer->at_once = false;
    return call->made_by->write_end(call, stable, transfer);
}

static inline void nfs_write_if_begin(struct rpc_call *call, const struct nfs_client *client,
                                      const struct nfs_fh *fh, uint64_t offset,
                                      const struct nfs_data *data, const struct nfs_attr *expected)
{
    call->made_by = client->version;
    client->version->write_if_begin(call, client, fh, offset, data, expected);
    call->counted = client->counted;
}

static inline int nfs_write_if_end(const struct rpc_call *call, const struct nfs_attr *expected,
                                   struct nfs_transfer *transfer)
{
    transfer->sent_ns = call->sent_ns;
    transfer->answered_ns = call->answered_ns;
    transfer->at_once = false;
    return call->made_by->write_if_end(call, expected, transfer);
}

/* Send calls that were begun; and wait for calls that were sent, within the client's time limit. */
void nfs_call_send(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count);
void nfs_call_wait(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count);
/* nfs_call_send() and nfs_call_wait(). */
void nfs_call_run(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count);

/*
 * Reads data->length bytes into data->vectors, in parts of client->read_max that are in flight
 * together. It goes on after short replies. Returns 0 when all bytes, or those up to the end of the
 * file, are there. Else returns the error that stopped it; transfer->length bytes before it are
 * there.
 */
int nfs_read(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
             const struct nfs_data *data, struct nfs_transfer *transfer);

/*
 * Writes data->length bytes with the stability asked for, in parts as nfs_read(). If the server
 * restarts amidst, parts come back with different verifiers. Then it writes everything again, and
 * in the end FILE_SYNC. So one verifier holds for all, or `committed` says that none is needed. The
 * memory must not change during the call. After an error, transfer->length bytes before it are
 * written.
 */
int nfs_write(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
              const struct nfs_data *data, enum nfs_stable stable, struct nfs_transfer *transfer);

/*
 * Writes FILE_SYNC, one part after the other, while nobody else changes the file. `expected` is
 * what the server last said of the file; each part that ends brings it up to date. -ECANCELED: the
 * file is not as expected.
 *
 * With NFSv4.1 the server itself compares (VERIFY, RFC 8881 section 18.31), and the rest was not
 * written. NFSv3 cannot ask for that. It tells afterwards how the file was before
 * (transfer->before), and -ECANCELED only keeps the following parts from being written.
 */
int nfs_write_if(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
                 const struct nfs_data *data, struct nfs_attr *expected,
                 struct nfs_transfer *transfer);

#endif
