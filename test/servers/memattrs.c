/* See memattrs.h. */
#include "memattrs.h"

#define HANDLE_MAGIC 0x6d656d31u
struct server server = {.most = 1 << 20};

uint32_t status_of(int error)
{
    switch (-error) {
    case 0:
        return NFS_OK;
    case EPERM:
    case ENOENT:
    case ENXIO:
    case EACCES:
    case EEXIST:
    case EXDEV:
    case ENODEV:
    case ENOTDIR:
    case EISDIR:
    case EINVAL:
    case EFBIG:
    case ENOSPC:
    case EROFS:
    case EMLINK:
        return (uint32_t)-error;
    case ENAMETOOLONG:
        return NFS_NAMETOOLONG;
    case EDQUOT:
        return NFS_DQUOT;
    case ESTALE:
        return NFS_STALE;
    case EOPNOTSUPP:
        return NFS_NOTSUPP;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return NFS_SERVERFAULT;
    default:
        return NFS_IO;
    }
}

// Attributes and handles

static void put_time(struct wire_writer *w, const struct timespec *t)
{
    wire_put32(w, (uint32_t)t->tv_sec);
    wire_put32(w, (uint32_t)t->tv_nsec);
}

uint32_t file_type(const struct stat *st)
{
    return S_ISREG(st->st_mode)    ? 1
           : S_ISDIR(st->st_mode)  ? 2
           : S_ISBLK(st->st_mode)  ? 3
           : S_ISCHR(st->st_mode)  ? 4
           : S_ISLNK(st->st_mode)  ? 5
           : S_ISSOCK(st->st_mode) ? 6
                                   : 7;
}

void put_attributes(struct wire_writer *w, const struct stat *st)
{
    wire_put32(w, file_type(st));
    wire_put32(w, st->st_mode & 07777);
    wire_put32(w, (uint32_t)st->st_nlink);
    wire_put32(w, st->st_uid);
    wire_put32(w, st->st_gid);
    wire_put64(w, (uint64_t)st->st_size);
    wire_put64(w, (uint64_t)st->st_blocks * 512);
    wire_put64(w, 0);
    wire_put64(w, st->st_dev);
    wire_put64(w, st->st_ino);
    put_time(w, &st->st_atim);
    put_time(w, &st->st_mtim);
    put_time(w, &st->st_ctim);
}

void put_post_op(struct wire_writer *w, const struct file *f)
{
    if (!f || server.no_attributes) {
        wire_put32(w, 0);
        return;
    }
    wire_put32(w, 1);
    put_attributes(w, &f->st);
}

void put_wcc(struct wire_writer *w, const struct stat *before, const struct file *after)
{
    if (!before || server.no_attributes) {
        wire_put32(w, 0);
    } else {
        wire_put32(w, 1);
        wire_put64(w, (uint64_t)before->st_size);
        put_time(w, &before->st_mtim);
        put_time(w, &before->st_ctim);
    }
    put_post_op(w, after);
}

void put_handle(struct wire_writer *w, const struct file *f)
{
    wire_put32(w, 24);
    wire_put32(w, HANDLE_MAGIC);
    wire_put32(w, server.instance);
    wire_put64(w, f->st.st_dev);
    wire_put64(w, f->st.st_ino);
}

// The file of the handle that comes next.  NULL with a status when there is none (or r went bad).
static struct file *get_file(struct wire_reader *r, uint32_t *status)
{
    struct nfs_handle handle;
    wire_get_handle(r, &handle);
    struct wire_reader h = {handle.data, handle.data + handle.length, false};
    uint32_t magic = wire_get32(&h), instance = wire_get32(&h);
    uint64_t dev = wire_get64(&h), ino = wire_get64(&h);
    if (h.bad || h.at != h.end || magic != HANDLE_MAGIC) {
        *status = NFS_BADHANDLE;
        return NULL;
    }
    struct file *f = instance == server.instance ? file_find(dev, ino) : NULL;
    *status = f ? NFS_OK : NFS_STALE;
    return f;
}

struct file *get_fresh_file(struct wire_reader *r, bool always, uint32_t *status)
{
    struct file *f = get_file(r, status);
    int error = !f ? 0 : always ? file_refresh(f) : file_refresh_if_old(f);
    if (!error)
        return f;
    *status = status_of(error);
    return NULL;
}

void get_name(struct wire_reader *r, char name[NAME_MAX + 1], int *error)
{
    uint32_t length;
    const unsigned char *bytes = wire_get_opaque(r, PATH_MAX, &length);
    *error = 0;
    name[0] = '\0';
    if (!bytes)
        return;
    if (length > NAME_MAX) {
        *error = -ENAMETOOLONG;
    } else if (length == 0 || memchr(bytes, '\0', length) || memchr(bytes, '/', length)) {
        *error = -EINVAL;
    } else {
        memcpy(name, bytes, length);
        name[length] = '\0';
    }
}

static void get_new_time(struct wire_reader *r, struct timespec *t, bool *set)
{
    uint32_t how = wire_get32(r);
    *t = (struct timespec){.tv_nsec = how == 0 ? UTIME_OMIT : UTIME_NOW};
    if (how == 2) {
        t->tv_sec = wire_get32(r);
        t->tv_nsec = wire_get32(r);
    }
    if (how > 2 || (how == 2 && t->tv_nsec > 999999999))
        r->bad = true;
    *set |= how != 0;
}

void get_new_attributes(struct wire_reader *r, struct new_attributes *a)
{
    memset(a, 0, sizeof *a);
    if ((a->set_mode = wire_get_bool(r)))
        a->mode = wire_get32(r) & 07777;
    if ((a->set_uid = wire_get_bool(r)))
        a->uid = wire_get32(r);
    if ((a->set_gid = wire_get_bool(r)))
        a->gid = wire_get32(r);
    if ((a->set_size = wire_get_bool(r)))
        a->size = wire_get64(r);
    get_new_time(r, &a->times[0], &a->set_times);
    get_new_time(r, &a->times[1], &a->set_times);
}

int apply_attributes(struct file *f, const struct new_attributes *a)
{
    if ((a->set_uid || a->set_gid) &&
        fchown(f->fd, a->set_uid ? a->uid : (uid_t)-1, a->set_gid ? a->gid : (gid_t)-1) < 0)
        return -errno;
    if (a->set_mode && fchmod(f->fd, a->mode) < 0)
        return -errno;
    if (a->set_size) {
        if (!S_ISREG(f->st.st_mode))
            return S_ISDIR(f->st.st_mode) ? -EISDIR : -EINVAL;
        if (a->size > INT64_MAX)
            return -EFBIG;
        if (server.before_resize)
            server.before_resize();
        if (ftruncate(f->fd, (off_t)a->size) < 0)
            return -errno;
    }
    if (a->set_times && futimens(f->fd, a->times) < 0)
        return -errno;
    f->touched = TICK_NONE;
    return file_refresh(f);
}
