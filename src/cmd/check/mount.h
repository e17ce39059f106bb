/*
 * MOUNT of one export on one path, for check_export.c.
 */
#ifndef CMD_CHECK_MOUNT_H
#define CMD_CHECK_MOUNT_H

#include "cmd/check/path.h"

/* MNT. False, and said why, if the export cannot be used by it; how bad that is, `severity` says.
 */
bool check_mount(struct check *check, const struct conf_export *export,
                 const struct check_path *path, enum check_severity severity,
                 struct nfs3_fh *handle);

/* After a refusal: the source port may be why. */
void check_explain_port(struct check *check, const struct check_path *path);

/* Says whether calls must come from a port below 1024. `fh` is the root of `directory`,
 * which is NULL where MOUNT is not needed. */
void check_ports(struct check *check, const char *directory, const struct check_path *path,
                 const struct nfs3_fh *fh);

#endif
