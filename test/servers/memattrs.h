// What memserver's procedures are made of: status, attributes, handles and names of the files of
// memfiles.h, on the wire.
#ifndef BENCH_MEMATTRS_H
#define BENCH_MEMATTRS_H

#include <limits.h>

#include "memfiles.h"
#include "wire.h"

struct server {
    uint32_t most; // rtmax and wtmax; of a longer call a part is done
    bool no_attributes, counters;
    const char *directory;
    char real_directory[PATH_MAX];
    uint32_t instance;
    unsigned char verifier[NFS_VERIFIER_BYTES];
    uint64_t nfs_calls[NFS_PROCEDURES], mount_calls[4], read_bytes, written_bytes, garbage;
    bool (*commit_fails)(const struct file *f); // a disk that tells an error; NULL: none does
    uint64_t compounds;                         // of version 4.1
    void (*before_resize)(void); // pages that replies have promised may be gone then; or NULL
};
extern struct server server;

enum { TRANSFER_MOST = 16 << 20 }; // that `most` may be

uint32_t status_of(int error);

// Attributes and handles

uint32_t file_type(const struct stat *st);
void put_attributes(struct wire_writer *w, const struct stat *st);
void put_post_op(struct wire_writer *w, const struct file *f);
void put_wcc(struct wire_writer *w, const struct stat *before, const struct file *after);
void put_handle(struct wire_writer *w, const struct file *f);

// The same, with the attributes as they are now (always) or as of this tick.
struct file *get_fresh_file(struct wire_reader *r, bool always, uint32_t *status);

// A file name as a C string; *error says what is wrong with it.
void get_name(struct wire_reader *r, char name[NAME_MAX + 1], int *error);

// sattr3 (RFC 1813, section 2.6); the times of utimensat say "leave" and "now" by themselves.
struct new_attributes {
    bool set_mode, set_uid, set_gid, set_size, set_times;
    uint32_t mode, uid, gid;
    uint64_t size;
    struct timespec times[2];
};

void get_new_attributes(struct wire_reader *r, struct new_attributes *a);
int apply_attributes(struct file *f, const struct new_attributes *a);

#endif
