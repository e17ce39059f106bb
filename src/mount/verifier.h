/* Which instance of a server is up: by the verifiers that its answers have. */
#ifndef MOUNT_VERIFIER_H
#define MOUNT_VERIFIER_H

#include "mount/mount.h"

/* Notes the verifier that a reply to a call sent at `sent_ns` had, and by whose clock the call was
 * carried out at `told`; 0: that is not known. */
void mount_server_saw(struct mount_server *server, uint64_t verifier, uint64_t sent_ns,
                      int64_t told);

struct ledger_file;
/*
 * Was the server up at `time` of its clock, as far as this process was told? Then who changed a
 * file at that time was not a server that recovers: OpenZFS, for one, dates what it finds in its
 * log with the time at which it comes up. The file's uncommitted data tells of which instance it
 * was; `verifier` is that of the instance that is up now, as the COMMIT returned it.
 */
bool mount_server_was_up(struct mount_server *server, uint64_t verifier, int64_t time,
                         struct ledger_file *file);

/*
 * The verifier of the instance of the server that is at the other end of a connection made at
 * `connected_ns` and still alive. False: not known; a COMMIT will tell.
 *
 * A connection never outlives an instance. One that existed when the verifier was seen, and still
 * does, leads to the instance that has it.
 */
bool mount_server_verifier(struct mount_server *server, uint64_t connected_ns, uint64_t *verifier);

#endif
