/*
 * One export may be mounted in both versions of NFS, or named so in nfstabs. In each a file has a
 * handle of its own, and so an entry of its own in the registry: what was written in one of them is
 * not seen by the other before the server has it. So each version sends its own, whatever waits in
 * the other; but a file is adopted only when nothing of it waits there.
 */
#ifndef DURABLE_VERSIONS_H
#define DURABLE_VERSIONS_H

#include "mount/mount.h"
#include "ledger/file.h"

/*
 * Commits what was written to the file with this number in the other version, if a mount of this
 * process can. *changed: it did something, and what is known of the file is old. False: some of it
 * waits.
 */
bool durable_versions_settle(const struct mount *mount, dev_t device, ino_t number, bool *changed);

#endif
