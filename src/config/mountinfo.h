/*
 * The kernel's mount table, /proc/PID/mountinfo: see proc_pid_mountinfo(5).
 */
#ifndef CONF_MOUNTINFO_H
#define CONF_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>

/* One mount. The strings lie in the text of struct conf_mountinfo, octal escapes undone. */
struct conf_mount {
    unsigned id;
    unsigned parent;
    unsigned major; /* st_dev of files in it */
    unsigned minor;
    const char *root;          /* of the mount, inside the file system */
    const char *mount_point;   /* relative to the process's root */
    const char *options;       /* per mount */
    const char *type;          /* for example "nfs" */
    const char *source;        /* for example "server:/export" */
    const char *super_options; /* per file system, separated by commas */
    unsigned line;             /* in the text, from 1 */
};

/* The table in the kernel's order. Zero-initialised is empty; owned by the caller, freed by
 * conf_mountinfo_free(), not changed in between. */
struct conf_mountinfo {
    struct conf_mount *mounts;
    size_t count;
    size_t malformed; /* lines that were not understood and are left out */
    char *text;
};

/* Parses `length` bytes (any bytes; copied). Lines that are not of the format are counted and left
 * out. Returns 0 or -ENOMEM. */
int conf_mountinfo_parse(struct conf_mountinfo *info, const char *text, size_t length);

/* Reads and parses a file. Returns 0 or a negative errno value. */
int conf_mountinfo_load(struct conf_mountinfo *info, const char *file);

/* The mount that is seen at exactly this mount point: the last one of those stacked there. NULL if
 * there is none. */
const struct conf_mount *conf_mountinfo_at(const struct conf_mountinfo *info,
                                           const char *mount_point);

/*
 * Finds `name` in a comma-separated option list, as "name" or "name=value" (of several the last).
 * Returns false if it is not there; else true, with the value (empty without "=") copied to
 * `value`, cut at `size`. `value` may be NULL.
 */
bool conf_mount_option(const char *options, const char *name, char *value, size_t size);

/* Which version of NFS a mount of the kernel's client speaks. */
enum conf_nfs {
    CONF_NFS_NONE, /* it is another file system */
    CONF_NFS_3,
    CONF_NFS_40,
    CONF_NFS_41,   /* or 4.2 */
    CONF_NFS_OTHER /* 2, or one that came later */
};
enum conf_nfs conf_mount_nfs(const struct conf_mount *mount);

/*
 * Does the kernel's client get the data of the mount at this mount point by layouts (pNFS)? `text`,
 * which is changed, is /proc/PID/mountstats. True: with the type of them, cut at `size`.
 */
bool conf_mount_layout(char *text, const char *mount_point, char *type, size_t size);

void conf_mountinfo_free(struct conf_mountinfo *info);

#endif
