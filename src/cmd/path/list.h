/*
 * Network paths as administrators know them: what running processes see of each path, what was said
 * about it, and the nfstab.
 */
#ifndef CMD_PATH_LIST_H
#define CMD_PATH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/print.h"
#include "cmd/snapshot.h"
#include "config/nfstab.h"

/* How an administrator names a path. */
struct cmd_path_name {
    const char *server, *path;
    const char *local; /* empty: every local address */
};

/* A path, for the processes of one user. stats_snapshot_read() says how far text is printable. */
struct cmd_path {
    uid_t user; /* CMD_NO_USER: no process has used it; it is only in the nfstab */
    char server[DIRECTNFS_NAME_BYTES];
    char path[DIRECTNFS_ADDRESS_BYTES];
    char local[DIRECTNFS_ADDRESS_BYTES];

    bool configured;   /* in the nfstab that this command finds */
    bool offline;      /* an administrator took it offline */
    uint64_t since_ns; /* CLOCK_REALTIME, of the offline state or of `worst`; 0: never */

    /* Sums over the running processes that have it. stats_sight_is_better() chooses the process
     * that `worst`, `since_ns` and `reason` come from. */
    unsigned processes;
    unsigned worst; /* the worst enum directnfs_channel_state that a process sees */
    unsigned seen[DIRECTNFS_CHANNEL_STATES]; /* processes, by enum directnfs_channel_state */
    unsigned lost;                           /* of seen[DOWN]: processes that had tried it */
    uint64_t oldest_ns; /* CLOCK_MONOTONIC: when the oldest call was sent, if one waits long; 0 */
    uint64_t channels, outstanding, sent_bytes, received_bytes;
    uint64_t reissued, downs;
    struct directnfs_latency latency;
    uint64_t peer_ends_ns, own_ends_ns;  /* CLOCK_REALTIME: when certificates end (TLS); 0: none */
    uint64_t ticket_ends_ns;             /* and the first ticket (Kerberos) */
    uint32_t security;                   /* DIRECTNFS_SECURITY_... of all open connections */
    char tls[DIRECTNFS_ADDRESS_BYTES];   /* of a connection that is open; empty: in clear */
    char reason[DIRECTNFS_REASON_BYTES]; /* for the worst state that a process sees */
};

struct cmd_path_list {
    struct cmd_path *paths; /* sorted by server, path, local and user; the caller frees it */
    size_t count;
};

/* Makes the list; `tab` may be NULL. False: no memory, and the list is not complete. */
bool cmd_path_list_make(struct cmd_path_list *list, const struct cmd_snapshot *snapshot,
                        const struct conf_nfstab *tab);

/*
 * The state in one word. An offline path is "offline", or "draining" while calls use it. Another
 * path has the worst state that a process sees (down, silent, up, unused), or "unused" if none
 * does. `*count`: how many processes see that.
 */
const char *cmd_path_state(const struct cmd_path *path, unsigned *count);

/* True if it could carry calls: it is not offline, and not down in all processes that tried it. */
bool cmd_path_usable(const struct cmd_path *path);

/* True if it is the path of this name. */
bool cmd_path_is(const struct cmd_path *path, const struct cmd_path_name *name);

/* True if without that path the processes of a user would have no path to the server that could
 * carry calls. `user`: this user only; CMD_NO_USER: any. */
bool cmd_path_is_last(const struct cmd_path_list *list, uid_t user,
                      const struct cmd_path_name *name);

/*
 * Tells processes that a path is offline, or online again: those of `user`, or of all users that
 * have a run directory (CMD_NO_USER). `*told`: the number of directories.
 * 0: done.
 * -errno: of the first that failed (run_offline_set()).
 */
int cmd_path_say(const char *command, uid_t user, const struct cmd_path_name *name, bool offline,
                 unsigned *told);

/* The reason of such a failure, and what to do. Static. */
const char *cmd_path_say_problem(int error);

#endif
