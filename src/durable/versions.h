/*
 * One export may be mounted in both versions of NFS, or nfstabs may name it so. In each version a
 * file has a handle of its own, and so an entry of its own in the registry. What was written in one
 * version is not seen by the other before the server has it. So each version sends its own data,
 * whatever waits in the other; but a file is adopted only when none of its data waits there.
 */
#ifndef DURABLE_VERSIONS_H
#define DURABLE_VERSIONS_H

#include "mount/mount.h"
#include "ledger/file.h"

/*
 * Commits what was written to the file with this number in the other version, if a mount of this
 * process can. *changed: it did something, and what is known of the file is old. False: some of it
 * still waits.
 */
bool durable_versions_settle(const struct mount *mount, dev_t device, ino_t number, bool *changed);

#endif
