/*
 * How the calls of a mount are protected: by Kerberos, by TLS, or not at all.
 *
 * The nfstab says it, or else the kernel's mount. If the kernel's mount protects less than the
 * nfstab asks for, the mount is closed: the kernel would send in clear, or as anybody, what must
 * not be sent so. Then no file of it goes to the kernel's world. What the engine cannot serve fails
 * with EIO. Names, attributes, and the streams of libc stay with the kernel all the same.
 */
#ifndef MOUNT_PROTECTION_H
#define MOUNT_PROTECTION_H

#include "directnfs/stats.h"
#include "mount/mount.h"

/* Sets what the mount has of it, once its place and its server are known. `unknown`: the nfstab has
 * mistakes, and may ask for anything; then `security` is AUTO. */
void mount_protection_learn(struct mount *mount, bool unknown);

/* How the calls of a mount are protected, for messages and statistics: "sys", "krb5p+tls". */
static inline const char *mount_protection_text(const struct mount *mount)
{
    return reach_protection_text(mount->security, mount->server->tls == CONF_TLS_REQUIRE);
}

/* The same without TLS, as a bit of directnfs/stats.h. Not for a mount that is not known. */
static inline uint32_t mount_protection_bit(const struct mount *mount)
{
    return (uint32_t)DIRECTNFS_SECURITY_SYS << (mount->security - CONF_SECURITY_SYS);
}

/* Are all exports of the server under Kerberos (`all`), or may some be? Also by what the kernel's
 * mounts have. */
bool mount_protection_by_kerberos(const struct mount_server *server, bool all);

/* To be called before the lock of the contact is taken: loads what the mount needs. 0, or -EAGAIN:
 * this thread is in a handler, and another one is to do it. */
int mount_protection_load(struct mount *mount);

void mount_protection_fork_child(void);

/* The text of an -errno of a call to the server, and what to do: by TLS's fault, if it is one. */
const char *mount_error_text(const struct mount_server *server, int error);
/* The same for the first contact of a mount: which security the server takes, if that is it. */
const char *mount_refusal_text(const struct mount *mount, int error);
const char *mount_error_remedy(const struct mount_server *server, int error, enum reach_why why);

/* Can this process protect the calls as they must be? Else `why` of the mount is set. 0 or -errno.
 * Under `contact`. */
int mount_protection_begin(struct mount *mount);

/* All files are left to the kernel: those of closed mounts are nobody's then. They are not read or
 * written any more (EIO); what was written is sent, and fsync vouches for it. */
void mount_protection_bar(void);

/* Is the mount closed to the kernel? */
static inline bool mount_is_closed(const struct mount *mount)
{
    return __builtin_expect(mount->closed, false);
}

#endif
