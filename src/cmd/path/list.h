/*
 * Network paths as administrators know them: what running processes see of each, put together with
 * what was said of it and with the nfstab.
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

/* A path, for the processes of one user. Text is printable as far as stats_snapshot_read()
 * says.
 */
struct cmd_path {
    uid_t user; /* CMD_NO_USER: no process has used it, it is in the nfstab only */
    char server[DIRECTNFS_NAME_BYTES];
    char path[DIRECTNFS_ADDRESS_BYTES];
    char local[DIRECTNFS_ADDRESS_BYTES];

    bool configured;   /* in the nfstab that this command finds */
    bool offline;      /* an administrator said so */
    uint64_t since_ns; /* CLOCK_REALTIME: of that, else of `worst` as stats_sight_is_better() says;
                          0: never */

    /* Sums over the running processes that have it. */
    unsigned processes;
    unsigned worst; /* enum directnfs_channel_state: that one of them sees */
    unsigned seen[DIRECTNFS_CHANNEL_STATES]; /* processes, by enum directnfs_channel_state */
    unsigned lost;                           /* of seen[DOWN]: that had tried it */
    uint64_t oldest_ns; /* CLOCK_MONOTONIC: when the oldest call was sent, if one waits long; 0 */
    uint64_t channels, outstanding, sent_bytes, received_bytes;
    uint64_t reissued, downs;
    struct directnfs_latency latency;
    char reason[DIRECTNFS_REASON_BYTES]; /* of the worst state that a process sees */
};

struct cmd_path_list {
    struct cmd_path *paths; /* by server, path, local and user; freed by the caller */
    size_t count;
};

/* Puts it together; `tab` may be NULL. False without memory: it is not complete then. */
bool cmd_path_list_make(struct cmd_path_list *list, const struct cmd_snapshot *snapshot,
                        const struct conf_nfstab *tab);

/*
 * The state in a word: offline, or draining as long as calls are under way on it; else the worst
 * that a process sees (down, silent, up, unused), else unused. `*count`: how many processes see
 * that.
 */
const char *cmd_path_state(const struct cmd_path *path, unsigned *count);

/* Could it carry calls: neither offline, nor down in all processes that tried it? */
bool cmd_path_usable(const struct cmd_path *path);

/* Is it the path of this name? */
bool cmd_path_is(const struct cmd_path *path, const struct cmd_path_name *name);

/* Would taking that path offline leave the processes of some user, or of `user` (else CMD_NO_USER),
 * without a path to the server that could carry calls? */
bool cmd_path_is_last(const struct cmd_path_list *list, uid_t user,
                      const struct cmd_path_name *name);

/*
 * Says that a path is offline or online again to the processes of `user`, or of all users that have
 * a run directory (CMD_NO_USER). 0 and the number of directories in `*told`, or -errno of the first
 * that failed (run_offline_set()).
 */
int cmd_path_say(const char *command, uid_t user, const struct cmd_path_name *name, bool offline,
                 unsigned *told);

/* Why that failed, and what to do. Static. */
const char *cmd_path_say_problem(int error);

#endif
