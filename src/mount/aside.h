/* Data of a mount's file that is set aside: which file it belongs to (run/strays.h). */
#ifndef MOUNT_ASIDE_H
#define MOUNT_ASIDE_H

#include "ledger/strays.h"
#include "mount/mount.h"

/* `mount` NULL: it is not known. `path`: the mount's, if the file's is not known. */
struct run_stray mount_stray(const struct mount *mount, const char *path,
                             const struct ledger_file *file);
/* Sets aside all that is not committed of the file: see ledger_file_set_aside(). */
int mount_set_aside(const struct mount *mount, const char *path, struct ledger_file *file,
                    struct ledger_aside *aside);

#endif
