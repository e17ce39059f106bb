/* Which instance of a server is up, by the verifiers in its answers. */
#ifndef MOUNT_VERIFIER_H
#define MOUNT_VERIFIER_H

#include "mount/mount.h"

/* Notes the verifier of a reply. The call was sent at `sent_ns`, and carried out at `told` by the
 * server's clock; 0: not known. */
void mount_server_saw(struct mount_server *server, uint64_t verifier, uint64_t sent_ns,
                      int64_t told);

struct ledger_file;
/*
 * Was the server up at `time` of its clock, as far as this process was told? Then it was not a
 * server that recovers that changed a file at that time: OpenZFS, for one, gives what it finds in
 * its log the time at which it comes up. The file's uncommitted data tells from which instance it
 * is. `verifier`: of the instance that is up now, as the COMMIT returned it.
 */
bool mount_server_was_up(struct mount_server *server, uint64_t verifier, int64_t time,
                         struct ledger_file *file);

/*
 * The verifier of the server's instance at the other end of a connection, which was made at
 * `connected_ns` and is still alive. False: not known; a COMMIT will tell.
 *
 * A connection never outlives an instance. If it existed when the verifier was seen, and still
 * does, it leads to the instance that has that verifier.
 */
bool mount_server_verifier(struct mount_server *server, uint64_t connected_ns, uint64_t *verifier);

#endif
