/*
 * What the parts of `directnfs check` share: check.c reads the configuration, check_server.c
 * contacts servers, check_wait.c keeps the kernel and the resolver from blocking for ever.
 */
#ifndef CMD_CHECK_H
#define CMD_CHECK_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cmd/check/report.h"
#include "config/nfstab.h"
#include "config/tunables.h"

/* The state of one check. Owned by cmd_check(). */
struct check {
    const struct conf_tunables *tunables;
    int timeout_ms;   /* for each question */
    const char *read; /* a file to read for a while, absolute; or NULL */
    bool read_found;  /* it lies below a mount */
    unsigned mounts;  /* exports of all servers */
    unsigned served;  /* of these: would be served by the library */
    struct check_report report;
};

/* Contacts a server on each path and prints what would be used and how. */
void check_server(struct check *check, const struct conf_server *server);

/*
 * conf_path_resolve(), bounded. Returns 0, an EAI_ code, or EAI_AGAIN when the resolver took longer
 * (it is left alone then, in a thread that dies with the command).
 */
int check_resolve(const char *text, int family, int timeout_ms, struct sockaddr_storage *address,
                  socklen_t *length);

/* statx(2), bounded (reach_statx; *timeout_ms is an int): the mount point may be a kernel mount of a
 * server that does not answer. Returns 0 or -errno, -ETIMEDOUT in that case. */
int check_statx(const void *timeout_ms, const char *path, int flags, struct statx *status);

#endif
