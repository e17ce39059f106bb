/* See memprocs.h. */
#include "memprocs.h"

// The procedures.  Each decodes its arguments, then writes its result; it need not look at
// args->bad before it changes something only where a zero argument is harmless.

PROCEDURE(do_null)
{
    (void)args;
    (void)w;
}

PROCEDURE(do_getattr)
{
    uint32_t status;
    struct file *f = get_fresh_file(args, true, &status);
    wire_put32(w, status);
    if (f)
        put_attributes(w, &f->st);
}

PROCEDURE(do_setattr)
{
    uint32_t status;
    struct new_attributes attributes;
    struct stat before;
    struct file *f = get_fresh_file(args, true, &status);
    get_new_attributes(args, &attributes);
    bool guarded = wire_get_bool(args);
    struct timespec ctime = {0, 0};
    if (guarded) {
        ctime.tv_sec = wire_get32(args);
        ctime.tv_nsec = wire_get32(args);
    }
    if (args->bad)
        return;
    if (f) {
        before = f->st;
        if (guarded && (uint32_t)before.st_ctim.tv_sec != (uint32_t)ctime.tv_sec)
            status = NFS_NOT_SYNC;
        else if (guarded && before.st_ctim.tv_nsec != ctime.tv_nsec)
            status = NFS_NOT_SYNC;
        else
            status = status_of(apply_attributes(f, &attributes));
        if (status == NFS_STALE)
            f = NULL;
    }
    wire_put32(w, status);
    put_wcc(w, f ? &before : NULL, f);
}

PROCEDURE(do_lookup)
{
    uint32_t status;
    int error;
    char name[NAME_MAX + 1];
    struct file *found = NULL, *dir = get_fresh_file(args, false, &status);
    get_name(args, name, &error);
    if (args->bad)
        return;
    if (dir)
        status = status_of(error ? error : file_lookup(dir, name, &found));
    wire_put32(w, status);
    if (status == NFS_OK) {
        put_handle(w, found);
        put_post_op(w, found);
    }
    put_post_op(w, dir);
}

static bool in_group(const struct credential *who, gid_t gid)
{
    for (uint32_t i = 0; i < who->groups; i++)
        if (who->group[i] == gid)
            return true;
    return who->gid == gid;
}

uint32_t access_granted(const struct stat *st, const struct credential *who)
{
    mode_t mode = st->st_mode;
    uint32_t granted = 0;
    mode_t bits = who->uid == 0               ? 6 | ((mode & 0111) || S_ISDIR(mode) ? 1 : 0)
                  : who->uid == st->st_uid    ? mode >> 6 & 7
                  : in_group(who, st->st_gid) ? mode >> 3 & 7
                                              : mode & 7;
    if (bits & 4)
        granted |= 0x01; // READ
    if (bits & 2)
        granted |= S_ISDIR(mode) ? 0x04 | 0x08 | 0x10 : 0x04 | 0x08; // MODIFY, EXTEND, DELETE
    if (bits & 1)
        granted |= S_ISDIR(mode) ? 0x02 : 0x20; // LOOKUP, EXECUTE
    return granted;
}

PROCEDURE(do_access)
{
    uint32_t status;
    struct file *f = get_fresh_file(args, true, &status);
    uint32_t asked = wire_get32(args);
    wire_put32(w, status);
    put_post_op(w, f);
    if (f)
        wire_put32(w, access_granted(&f->st, who) & asked);
}

uint32_t file_span(struct file **f, struct span *span)
{
    if (span->count > server.most)
        span->count = server.most;
    // Whether the end moved is worth a question to the kernel; what lies before it is not.
    if (span->offset + span->count >= (uint64_t)(*f)->st.st_size && file_refresh(*f) < 0) {
        *f = NULL;
        return NFS_STALE;
    }
    if (!S_ISREG((*f)->st.st_mode))
        return S_ISDIR((*f)->st.st_mode) ? NFS_ISDIR : NFS_INVAL;
    if (span->offset > INT64_MAX)
        return NFS_INVAL;
    uint64_t size = (uint64_t)(*f)->st.st_size;
    if (span->offset >= size)
        span->count = 0;
    else if (span->count > size - span->offset)
        span->count = (uint32_t)(size - span->offset);
    span->ends = span->offset + span->count >= size;
    return span->count ? status_of(file_map(*f, span->offset + span->count)) : NFS_OK;
}

PROCEDURE(do_read)
{
    uint32_t status;
    struct file *f = get_fresh_file(args, false, &status);
    uint64_t offset = wire_get64(args);
    struct span span = {offset, wire_get32(args), false};
    if (args->bad)
        return;
    if (f)
        status = file_span(&f, &span);
    wire_put32(w, status);
    put_post_op(w, f);
    if (status != NFS_OK)
        return;
    wire_put32(w, span.count);
    wire_put32(w, span.ends);
    wire_put32(w, span.count);
    if (span.count)
        *payload = (struct payload){f->map + offset, span.count};
    server.read_bytes += span.count;
}

uint32_t file_put_data(struct file **f, const unsigned char *data, uint32_t *count, uint64_t offset,
                       uint32_t stable)
{
    ssize_t written = file_write(*f, data, *count < server.most ? *count : server.most, offset);
    if (written >= 0 && stable != NFS_UNSTABLE) {
        int error = file_sync(*f);
        written = error ? error : written;
    }
    uint32_t status = written < 0 ? status_of((int)written) : NFS_OK;
    *count = written < 0 ? 0 : (uint32_t)written;
    server.written_bytes += *count;
    if (status == NFS_STALE)
        *f = NULL;
    return status;
}

PROCEDURE(do_write)
{
    uint32_t status, length;
    struct stat before;
    struct file *f = get_fresh_file(args, false, &status);
    uint64_t offset = wire_get64(args);
    uint32_t count = wire_get32(args), stable = wire_get32(args);
    const unsigned char *data = wire_get_opaque(args, TRANSFER_MOST, &length);
    if (stable > NFS_FILE_SYNC || count > length)
        args->bad = true;
    if (args->bad)
        return;
    if (f) {
        before = f->st;
        status = file_put_data(&f, data, &count, offset, stable);
    }
    wire_put32(w, status);
    put_wcc(w, f ? &before : NULL, f);
    if (status != NFS_OK)
        return;
    wire_put32(w, count);
    wire_put32(w, stable);
    wire_put_bytes(w, server.verifier, sizeof server.verifier);
}

// CREATE in a directory that exists.  The verifier of an exclusive one is kept in the time stamps,
// where a repeated request finds it (RFC 1813, section 3.3.8).
static int create_file(struct file *dir, const char *name, uint32_t how,
                       const unsigned char *verifier, struct new_attributes *a,
                       const struct credential *who, struct file **found)
{
    if (how == NFS_CREATE_EXCLUSIVE) {
        *a = (struct new_attributes){.set_times = true};
        a->times[0].tv_sec = wire_load32(verifier) & INT32_MAX;
        a->times[1].tv_sec = wire_load32(verifier + 4) & INT32_MAX;
    }
    if (!S_ISDIR(dir->st.st_mode))
        return -ENOTDIR;
    int fd = openat(dir->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (geteuid() == 0 && !a->set_uid && !a->set_gid && fchown(fd, who->uid, who->gid) < 0) {
            int error = -errno;
            close(fd);
            return error;
        }
        int error = file_adopt(fd, true, found);
        return error ? error : apply_attributes(*found, a);
    }
    if (errno != EEXIST || how == NFS_CREATE_GUARDED)
        return -errno;
    int error = file_lookup(dir, name, found);
    if (error)
        return error;
    if (!S_ISREG((*found)->st.st_mode))
        return -EEXIST;
    if (how == NFS_CREATE_EXCLUSIVE)
        return (*found)->st.st_atim.tv_sec == a->times[0].tv_sec &&
                       (*found)->st.st_mtim.tv_sec == a->times[1].tv_sec
                   ? 0
                   : -EEXIST;
    struct new_attributes size_only = {.set_size = a->set_size, .size = a->size};
    return a->set_size ? apply_attributes(*found, &size_only) : 0;
}

PROCEDURE(do_create)
{
    uint32_t status;
    int error;
    char name[NAME_MAX + 1];
    struct new_attributes attributes = {0};
    const unsigned char *verifier = NULL;
    struct file *found = NULL, *dir = get_fresh_file(args, true, &status);
    get_name(args, name, &error);
    uint32_t how = wire_get32(args);
    if (how == NFS_CREATE_EXCLUSIVE)
        verifier = wire_get_bytes(args, NFS_VERIFIER_BYTES);
    else
        get_new_attributes(args, &attributes);
    if (how > NFS_CREATE_EXCLUSIVE)
        args->bad = true;
    if (args->bad)
        return;
    struct stat before;
    if (dir) {
        before = dir->st;
        if (!error)
            error = create_file(dir, name, how, verifier, &attributes, who, &found);
        status = status_of(error);
        if (file_refresh(dir) < 0)
            dir = NULL;
    }
    wire_put32(w, status);
    if (status == NFS_OK) {
        wire_put32(w, 1);
        put_handle(w, found);
        put_post_op(w, found);
    }
    put_wcc(w, dir ? &before : NULL, dir);
}

PROCEDURE(do_fsstat)
{
    uint32_t status;
    struct statvfs st;
    struct file *f = get_fresh_file(args, true, &status);
    if (f && fstatvfs(f->fd, &st) < 0)
        status = status_of(-errno);
    wire_put32(w, status);
    put_post_op(w, f);
    if (status != NFS_OK)
        return;
    wire_put64(w, (uint64_t)st.f_blocks * st.f_frsize);
    wire_put64(w, (uint64_t)st.f_bfree * st.f_frsize);
    wire_put64(w, (uint64_t)st.f_bavail * st.f_frsize);
    wire_put64(w, st.f_files);
    wire_put64(w, st.f_ffree);
    wire_put64(w, st.f_favail);
    wire_put32(w, 0); // invarsec
}

// The file of the arguments, and what results about it begin with; NULL: that is all.
static struct file *file_told_of(struct wire_reader *args, struct wire_writer *w)
{
    uint32_t status;
    struct file *f = get_fresh_file(args, true, &status);
    wire_put32(w, status);
    put_post_op(w, f);
    return status == NFS_OK ? f : NULL;
}

PROCEDURE(do_fsinfo)
{
    if (!file_told_of(args, w))
        return;
    for (int i = 0; i < 2; i++) { // READ, then WRITE: most, preferred, multiple
        wire_put32(w, server.most);
        wire_put32(w, server.most);
        wire_put32(w, 4096);
    }
    wire_put32(w, 65536); // dtpref
    wire_put64(w, INT64_MAX);
    wire_put32(w, 0); // time_delta
    wire_put32(w, 1);
    wire_put32(w, 0x1b); // LINK, SYMLINK, HOMOGENEOUS, CANSETTIME
}

PROCEDURE(do_pathconf)
{
    if (!file_told_of(args, w))
        return;
    wire_put32(w, 32000); // linkmax
    wire_put32(w, NAME_MAX);
    wire_put32(w, 1); // no_trunc
    wire_put32(w, 1); // chown_restricted
    wire_put32(w, 0); // case_insensitive
    wire_put32(w, 1); // case_preserving
}

uint32_t file_commit(const struct file *f)
{
    uint32_t status = status_of(file_sync(f));
    return status == NFS_OK && server.commit_fails && server.commit_fails(f) ? NFS_IO : status;
}

PROCEDURE(do_commit)
{
    uint32_t status;
    struct stat before;
    struct file *f = get_fresh_file(args, true, &status);
    wire_get64(args);
    wire_get32(args);
    if (args->bad)
        return;
    if (f) {
        before = f->st;
        status = file_commit(f);
    }
    wire_put32(w, status);
    put_wcc(w, f ? &before : NULL, f);
    if (status == NFS_OK)
        wire_put_bytes(w, server.verifier, sizeof server.verifier);
}

PROCEDURE(do_mount)
{
    uint32_t length;
    const unsigned char *path = wire_get_opaque(args, 1024, &length);
    if (!path)
        return;
    while (length > 1 && path[length - 1] == '/')
        length--;
    bool ours =
        (length == strlen(server.directory) && !memcmp(path, server.directory, length)) ||
        (length == strlen(server.real_directory) && !memcmp(path, server.real_directory, length));
    wire_put32(w, ours ? NFS_OK : NFS_ACCES);
    if (!ours)
        return;
    put_handle(w, files.root);
    wire_put32(w, 1);
    wire_put32(w, RPC_AUTH_SYS);
}

PROCEDURE(do_unmount)
{
    uint32_t length;
    (void)w;
    wire_get_opaque(args, 1024, &length);
}

const struct nfs_procedures nfs_procedures[NFS_PROCEDURES] =
    {
        [NFS_NULL] = {"NULL", do_null},
        [NFS_GETATTR] = {"GETATTR", do_getattr},
        [NFS_SETATTR] = {"SETATTR", do_setattr},
        [NFS_LOOKUP] = {"LOOKUP", do_lookup},
        [NFS_ACCESS] = {"ACCESS", do_access},
        [NFS_READ] = {"READ", do_read},
        [NFS_WRITE] = {"WRITE", do_write},
        [NFS_CREATE] = {"CREATE", do_create},
        [NFS_FSSTAT] = {"FSSTAT", do_fsstat},
        [NFS_FSINFO] = {"FSINFO", do_fsinfo},
        [NFS_PATHCONF] = {"PATHCONF", do_pathconf},
        [NFS_COMMIT] = {"COMMIT", do_commit},
},
                            mount_procedures[4] = {
                                [MOUNT_NULL] = {"MOUNT_NULL", do_null},
                                [MOUNT_MNT] = {"MOUNT_MNT", do_mount},
                                [MOUNT_UMNT] = {"MOUNT_UMNT", do_unmount},
};
