/*
 * The kernel's mount table, /proc/PID/mountinfo: see proc_pid_mountinfo(5).
 */
#ifndef CONF_MOUNTINFO_H
#define CONF_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>

#include "config/nfstab.h"

/* One mount. The strings are in the text of struct conf_mountinfo, without octal escapes. */
struct conf_mount {
    unsigned id;
    unsigned parent;
    unsigned major; /* st_dev of files in it */
    unsigned minor;
    const char *root;          /* inside the file system */
    const char *mount_point;   /* relative to the process's root */
    const char *options;       /* of the mount */
    const char *type;          /* for example "nfs" */
    const char *source;        /* for example "server:/export" */
    const char *super_options; /* of the file system, separated by commas */
    unsigned line;             /* in the text, from 1 */
};

/* The table in the kernel's order; zero-initialised it is empty. The caller owns it, does not
 * change it, and frees it by conf_mountinfo_free(). */
struct conf_mountinfo {
    struct conf_mount *mounts;
    size_t count;
    size_t malformed; /* lines that were not understood, and are left out */
    char *text;
};

/* Parses `length` bytes (any bytes; they are copied). Lines in another format are counted and left
 * out. 0 or -ENOMEM. */
int conf_mountinfo_parse(struct conf_mountinfo *info, const char *text, size_t length);

/* Reads and parses a file. 0 or -errno. */
int conf_mountinfo_load(struct conf_mountinfo *info, const char *file);

/* The mount that is seen at exactly this mount point: the last of those stacked there. NULL: there
 * is none. */
const struct conf_mount *conf_mountinfo_at(const struct conf_mountinfo *info,
                                           const char *mount_point);

/*
 * Finds `name` in a comma-separated option list, as "name" or "name=value"; the last one if there
 * are several. False: it is not there. True: the value (empty without "=") is copied to `value`,
 * cut at `size`. `value` may be NULL.
 */
bool conf_mount_option(const char *options, const char *name, char *value, size_t size);

/* The version of NFS that a mount of the kernel's client speaks. */
enum conf_nfs {
    CONF_NFS_NONE, /* it is another file system */
    CONF_NFS_3,
    CONF_NFS_40,
    CONF_NFS_41,   /* or 4.2 */
    CONF_NFS_OTHER /* 2, or a later one */
};
enum conf_nfs conf_mount_nfs(const struct conf_mount *mount);

/* How the kernel's client protects the calls of an NFS mount: nfs(5), `sec` and `xprtsec`. */
struct conf_mount_protection {
    enum conf_security security; /* CONF_SECURITY_AUTO: one that we do not know */
    bool tls;                    /* over TLS; */
    bool mutual;                 /* it has a certificate, too (mtls) */
};
struct conf_mount_protection conf_mount_protection(const struct conf_mount *mount);

/* Does the kernel's client get the data of the mount at this mount point by layouts (pNFS)? `text`
 * is /proc/PID/mountstats, and is changed. True: their type is in `type`, cut at `size`. */
bool conf_mount_layout(char *text, const char *mount_point, char *type, size_t size);

void conf_mountinfo_free(struct conf_mountinfo *info);

#endif
