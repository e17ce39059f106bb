/*
 * The files of the server of v41_server.h, in memory, and what its tests set and read.
 *
 * UNSTABLE writes reach a file at once, as on a real server. What the file would be after a loss of
 * power is kept aside until COMMIT.
 */
#ifndef TEST_V41_STORE_H
#define TEST_V41_STORE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <time.h>

#include "v41_wire.h"

enum {
    V41_NODES = 64,
    V41_NAME = 64,
    V41_HANDLE_MOST = 128,
    V41_SLOTS = 64,
    V41_FILE_MOST = 1 << 28
};

/* Replies that cannot be true. */
enum v41_lie {
    V41_TRUTH,
    V41_OTHER_SESSION, /* SEQUENCE tells another session, */
    V41_OTHER_SEQUENCE,
    V41_OTHER_SLOT,
    V41_FAR_TARGET,    /* or that slots beyond all should be used */
    V41_MORE_SLOTS,    /* CREATE_SESSION grants more than was asked for, */
    V41_NO_SLOTS,      /* or none, */
    V41_SMALL_REPLIES, /* or replies in which no attributes have room */
    V41_MORE_READ,     /* a byte more than was asked for */
    V41_NO_READ,       /* no bytes, and not the end */
    V41_MORE_WRITTEN,
    V41_NO_WRITTEN,
    V41_WEAK_WRITTEN, /* less stable than was asked for */
    V41_WRONG_OP,     /* the last result is one of another operation */
    V41_WRONG_COUNT,  /* more results are promised than there are */
    V41_NO_SIZE       /* GETATTR leaves the size out */
};

/*
 * Everything is 0 at first but what v41_control_init() sets. Arrays are by operation. What is
 * counted down: 1 means the next one.
 */
struct v41_control {
    /* Of the answers to the next `fail_count` operations of this kind. */
    _Atomic unsigned fail_count[V41_OPS];
    _Atomic uint32_t fail_status[V41_OPS];
    /* The connection ends with the n-th COMPOUND from now that has the operation: it is not
     * executed; or it is, but not answered. */
    _Atomic unsigned drop_before[V41_OPS], drop_after[V41_OPS];
    _Atomic unsigned power_after[V41_OPS]; /* likewise, executed; then power fails */
    /* COMPOUNDs with one of these operations (a bit each): not executed, or executed and not
     * answered, until v41_release(). */
    _Atomic uint64_t hold_calls, hold_replies;
    _Atomic unsigned held;
    /* The connection ends when so many bytes of a call have come, or of a reply are sent; once. */
    _Atomic unsigned cut_call, cut_reply;
    _Atomic unsigned delay_ms; /* of each COMPOUND */

    _Atomic unsigned slots;     /* granted at most */
    _Atomic unsigned target;    /* 1 + sr_target_highest_slotid; 0: all that were granted */
    _Atomic uint32_t flags;     /* sr_status_flags */
    _Atomic uint32_t largest;   /* of requests and of replies */
    _Atomic uint32_t cached;    /* largest reply that is kept */
    _Atomic uint32_t lease_s;   /* as told; nothing expires by itself */
    _Atomic unsigned lie;       /* enum v41_lie */
    _Atomic uint32_t minor;     /* version that is spoken */
    _Atomic uint32_t layouts;   /* types of them; with some it is a metadata server */
    _Atomic bool insist_open;   /* no anonymous state */
    _Atomic bool grace;         /* OPEN has to wait */
    _Atomic bool bind_needed;   /* SEQUENCE does not bind a connection by itself */
    _Atomic bool by_address;    /* a client has another client id at each address */
    _Atomic bool silent;        /* nothing is executed or answered */
    _Atomic bool refuse;        /* new connections end at once */
    _Atomic bool restless;      /* each WRITE tells another verifier */
    _Atomic uint32_t committed; /* by WRITE, at least */
    _Atomic uint32_t short_read, short_write; /* bytes at most; 0: as asked */
    _Atomic uint64_t full_at;                 /* no room behind that; 0: there is */
    _Atomic uint32_t access;                  /* that ACCESS may grant */
    _Atomic unsigned handle_length;
    _Atomic uint32_t handles;  /* part of all handles: when it changes, those given are stale */
    _Atomic uint32_t flavor;   /* that SECINFO and SECINFO_NO_NAME tell; */
    _Atomic uint32_t services; /* not 0: those of Kerberos, a bit each: krb5, krb5i, krb5p */
    _Atomic uint64_t verifier, owner_minor;
    char owner[V41_NAME], scope[V41_NAME]; /* set before the server starts */

    /* What was seen. */
    _Atomic unsigned calls[V41_OPS]; /* operations that were executed, whatever came of it */
    _Atomic unsigned compounds, connections, replays, uncached_retries, misordered, false_retries;
    _Atomic unsigned writes[3]; /* executed, by stable_how */
    _Atomic unsigned kept;      /* COMPOUNDs whose reply was to be kept */
    _Atomic unsigned bad_calls; /* against the RFC, or with bytes behind the end */
    _Atomic unsigned bound, highest_slot, clients, sessions, opens;
    _Atomic unsigned last_minor, last_flavor;
    _Atomic uint64_t lost_bytes; /* of files that a loss of power changed */
};

void v41_control_init(struct v41_control *control);

/* True if this is one of the next `*count`. */
bool v41_counts(_Atomic unsigned *count);

/* True if the count ends with this one. */
bool v41_ends(_Atomic unsigned *count);

struct v41_node {
    uint64_t id; /* 0: free */
    uint64_t parent;
    char name[V41_NAME];
    bool directory;
    uint32_t mode;
    uint8_t *data, *durable;
    size_t size, durable_size;
    bool dirty; /* `durable` is what the file will be after a loss of power */
    uint64_t change;
    struct timespec atime, mtime, ctime;
};

/* Under the server's lock. */
struct v41_store {
    struct v41_node nodes[V41_NODES]; /* the first is the root */
    uint64_t ids;
};

/* NULL: there is no room. */
struct v41_node *v41_node_new(struct v41_store *store, struct v41_node *parent, const char *name,
                              bool directory);
struct v41_node *v41_child(struct v41_store *store, const struct v41_node *parent, const void *name,
                           size_t length);
void v41_node_commit(struct v41_node *node);
void v41_node_write(struct v41_node *node, struct v41_bytes data, uint64_t offset, bool stable);

/* A size that was set is stable. */
void v41_node_cut(struct v41_node *node, size_t size);
void v41_store_lose_power(struct v41_store *store, struct v41_control *control);
void v41_store_free(struct v41_store *store);

/* The node of a path such as "/export/file": what is missing is made, directories but the last. */
struct v41_node *v41_node_at(struct v41_store *store, const char *path);

/* ---- handles ---- */

void v41_put_handle(struct bytes *out, const struct v41_control *control,
                    const struct v41_node *node);
struct v41_node *v41_handle_node(struct v41_store *store, const struct v41_control *control,
                                 struct v41_bytes handle, uint32_t *status);

#endif
