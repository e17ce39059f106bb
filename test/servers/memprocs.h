// The procedures of MOUNT and NFS version 3 that memserver answers, on the files of memfiles.h.
#ifndef BENCH_MEMPROCS_H
#define BENCH_MEMPROCS_H

#include <sys/statvfs.h>

#include "memattrs.h"

struct credential {
    uint32_t uid, gid, groups, group[16];
};

// What a procedure gives back beside its result: payload to be sent after it.
struct payload {
    const unsigned char *data;
    size_t length;
};

// The procedures.  Each decodes its arguments, then writes its result; it need not look at
// args->bad before it changes something only where a zero argument is harmless.

typedef void procedure(struct wire_reader *args, struct wire_writer *w,
                       const struct credential *who, struct payload *payload);

#define PROCEDURE(name)                                             \
    void name(struct wire_reader *args, struct wire_writer *w,      \
              __attribute__((unused)) const struct credential *who, \
              __attribute__((unused)) struct payload *payload)

PROCEDURE(do_null);

uint32_t access_granted(const struct stat *st, const struct credential *who);

// What is read of a file.
struct span {
    uint64_t offset;
    uint32_t count; // asked for; then what is there, in the file's mapping
    bool ends;      // at the end of the file
};

// A status; after NFS_STALE *f is NULL.
uint32_t file_span(struct file **f, struct span *span);

// Writes as much of it as is done at a time, and makes it as stable as is asked.  *count: bytes.  A
// status; after NFS_STALE *f is NULL.
uint32_t file_put_data(struct file **f, const unsigned char *data, uint32_t *count, uint64_t offset,
                       uint32_t stable);
uint32_t file_commit(const struct file *f);

struct nfs_procedures {
    const char *name;
    procedure *run;
};
extern const struct nfs_procedures nfs_procedures[NFS_PROCEDURES], mount_procedures[4];

#endif
