/*
 * MOUNT of one export on one path, for check_export.c.
 */
#ifndef CMD_CHECK_MOUNT_H
#define CMD_CHECK_MOUNT_H

#include "cmd/check_path.h"

/* MNT. False, and said why, if the export cannot be used. */
bool check_mount(struct check *check, const struct conf_export *export,
                 const struct mount3_target *target, struct nfs3_fh *handle);

/* After a refusal: the source port may be why. */
void check_explain_port(struct check *check, const struct mount3_target *target);

/* Says whether calls must come from a port below 1024. `fh` is the export's root. */
void check_ports(struct check *check, const struct conf_export *export,
                 const struct check_path *path, const struct nfs3_fh *fh);

#endif
