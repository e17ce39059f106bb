/* See file_procedures.h. */
#include "file_procedures.h"

void file_server_lookup(struct xdr_reader *r, struct xdr_writer *w)
{
    struct nfs3_lookup_args args;
    struct nfs3_lookup_res res = {0};
    nfs3_lookup_args_get(r, &args);
    struct file_server_node *directory =
                                file_server_of_call(NFS_PROC_LOOKUP, &args.dir, &res.status),
                            *node = NULL;
    if (res.status == NFS3_OK) {
        int fd = openat(directory->fd, args.name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == EISDIR)
            fd = openat(directory->fd, args.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool twin =
            fd >= 0 && atomic_load(&file_store.control->twins) && strcmp(args.name, "twin") == 0;
        node = twin ? file_server_twin_of(fd) : file_server_node_of(fd);
        res.status = node ? NFS3_OK : NFS3ERR_NOENT;
    }
    if (node)
        res.fh = file_server_handle(node);
    file_server_post(node, &res.attr);
    file_server_post(directory, &res.dir_attr);
    nfs3_lookup_res_put(w, &res);
}

void file_server_read(struct xdr_reader *r, struct xdr_writer *w, uint8_t **payload, size_t *length)
{
    struct file_control *control = file_store.control;
    struct nfs3_read_args args;
    struct nfs3_read_res res = {0};
    nfs3_read_args_get(r, &args);
    struct file_server_node *node = file_server_of_call(NFS_PROC_READ, &args.fh, &res.status);
    if (args.count > atomic_load(&control->longest_read))
        atomic_store(&control->longest_read, args.count);
    if (res.status == NFS3_OK && args.count > atomic_load(&control->rtmax))
        res.status = NFS3ERR_INVAL;
    if (res.status == NFS3_OK) {
        uint32_t most = atomic_load(&control->short_read), count = args.count;
        if (most && count > most)
            count = most;
        *payload = calloc(1, count + 4);
        ssize_t got = pread(node->fd, *payload, count, (off_t)args.offset);
        struct stat status;
        fstat(node->fd, &status);
        res.count = got > 0 ? (uint32_t)got : 0;
        res.eof = args.offset + res.count >= (uint64_t)status.st_size;
        if (atomic_load(&control->lie) == FILE_SERVER_NOTHING) {
            res.count = 0;
            res.eof = false;
        }
        if (atomic_load(&control->lie) == FILE_SERVER_HALF) {
            res.count /= 2;
            res.eof = true;
        }
        if (atomic_load(&control->lie) == FILE_SERVER_BEYOND)
            res.count = count;
        if (atomic_load(&control->lie) == FILE_SERVER_GROWS &&
            ftruncate(node->fd, status.st_size + 100) != 0)
            abort();
        *length = res.count;
    }
    file_server_post(node, &res.attr);
    nfs3_read_res_put(w, &res);
}

void file_server_write(struct xdr_reader *r, struct xdr_writer *w)
{
    struct file_control *control = file_store.control;
    struct nfs3_write_args args;
    struct nfs3_write_res res = {0};
    nfs3_write_args_get(r, &args);
    const uint8_t *data = xdr_get_fixed(r, args.count);
    struct file_server_node *node = file_server_of_call(NFS_PROC_WRITE, &args.fh, &res.status);
    if (r->bad || args.count > atomic_load(&control->wtmax))
        res.status = NFS3ERR_INVAL;
    if (args.count > atomic_load(&control->longest_write))
        atomic_store(&control->longest_write, args.count);
    if (res.status == NFS3_OK) {
        uint32_t most = atomic_load(&control->short_write);
        res.count = most && args.count > most ? most : args.count;
        uint64_t full_at = atomic_load(&control->full_at);
        if (full_at && args.offset + res.count > full_at)
            res.count = args.offset < full_at ? (uint32_t)(full_at - args.offset) : 0;
        if (res.count == 0 && args.count > 0)
            res.status = NFS3ERR_NOSPC;
        unsigned full = atomic_load(&control->full_after_short);
        if (full && res.count < args.count) {
            atomic_store(&control->full_after_short, 0);
            atomic_store(&control->fail_status[NFS_PROC_WRITE], NFS3ERR_NOSPC);
            atomic_store(&control->fail_count[NFS_PROC_WRITE], full);
        }
    }
    struct nfs_post_attr before;
    file_server_post(node, &before);
    res.wcc.before_present = before.present && !atomic_load(&control->no_before);
    res.wcc.size = before.attr.size;
    res.wcc.mtime = before.attr.mtime;
    res.wcc.ctime = before.attr.ctime;
    if (res.status == NFS3_OK) {
        res.committed = args.stable;
        if (res.committed < atomic_load(&control->committed))
            res.committed = atomic_load(&control->committed);
        atomic_fetch_add(&control->writes[args.stable], 1);
        if (res.committed == NFS_UNSTABLE)
            file_server_save(node);
        else
            file_server_durable_write(node, data, res.count, args.offset);
        if (pwrite(node->fd, data, res.count, (off_t)args.offset) != (ssize_t)res.count)
            res.status = NFS3ERR_NOSPC;
        if (atomic_load(&control->restless))
            atomic_fetch_add(&control->verifier, 1);
        res.verifier = atomic_load(&control->verifier);
        unsigned lie = atomic_load(&control->lie);
        if (lie == FILE_SERVER_NOTHING)
            res.count = 0;
        else if (lie == FILE_SERVER_MORE)
            res.count++;
        else if (lie == FILE_SERVER_WEAK)
            res.committed = NFS_UNSTABLE;
    }
    file_server_post(node, &res.wcc.after);
    uint64_t bare_from = atomic_load(&control->bare_from);
    if (bare_from && args.offset >= bare_from)
        res.wcc.after.present = false;
    nfs3_write_res_put(w, &res);
}

void file_server_commit_call(struct xdr_reader *r, struct xdr_writer *w)
{
    struct nfs3_commit_args args;
    struct nfs3_commit_res res = {0};
    nfs3_commit_args_get(r, &args);
    struct file_server_node *node = file_server_of_call(NFS_PROC_COMMIT, &args.fh, &res.status);
    if (res.status == NFS3_OK) {
        file_server_commit(node);
        res.verifier = atomic_load(&file_store.control->verifier);
    }
    file_server_post(node, &res.wcc.after);
    nfs3_commit_res_put(w, &res);
}

void file_server_setattr(struct xdr_reader *r, struct xdr_writer *w)
{
    struct nfs3_setattr_args args;
    struct nfs3_setattr_res res = {0};
    nfs3_setattr_args_get(r, &args);
    struct file_server_node *node = file_server_of_call(NFS_PROC_SETATTR, &args.fh, &res.status);
    if (res.status == NFS3_OK && args.attr.set_size) {
        if (ftruncate(node->fd, (off_t)args.attr.size) != 0)
            res.status = NFS3ERR_IO;
        file_server_durable_size(node, args.attr.size);
    }
    file_server_post(node, &res.wcc.after);
    nfs3_setattr_res_put(w, &res);
}

void file_server_ask(unsigned procedure, struct xdr_reader *r, struct xdr_writer *w)
{
    struct file_control *control = file_store.control;
    struct nfs3_access_args args = {0};
    uint32_t status;
    if (procedure == NFS_PROC_ACCESS)
        nfs3_access_args_get(r, &args);
    else
        nfs3_fh_args_get(r, (struct nfs3_fh_args *)&args);
    struct file_server_node *node = file_server_of_call(procedure, &args.fh, &status);
    if (procedure == NFS_PROC_GETATTR) {
        struct nfs3_getattr_res res = {.status = status};
        if (status == NFS3_OK)
            file_server_attr(node, &res.attr);
        nfs3_getattr_res_put(w, &res);
    } else if (procedure == NFS_PROC_ACCESS) {
        struct nfs3_access_res res = {.status = status,
                                      .access = args.access & atomic_load(&control->access)};
        file_server_post(node, &res.attr);
        nfs3_access_res_put(w, &res);
    } else {
        struct nfs_fsinfo_res res = {.status = status,
                                     .rtmax = atomic_load(&control->rtmax),
                                     .wtmax = atomic_load(&control->wtmax),
                                     .maxfilesize = atomic_load(&control->maxfilesize)};
        file_server_post(node, &res.attr);
        nfs3_fsinfo_res_put(w, &res);
    }
}

void file_server_look(int fd, const uint8_t *credential, uint32_t size)
{
    struct file_control *control = file_store.control;
    struct sockaddr_in from = {0};
    socklen_t length = sizeof(from);
    struct xdr_reader r;
    uint32_t unused;
    getpeername(fd, (struct sockaddr *)&from, &length);
    xdr_reader_init(&r, credential, size);
    xdr_get_u32(&r);
    xdr_get_opaque(&r, 255, &unused);
    xdr_get_u64(&r);
    atomic_store(&control->mount_groups, xdr_get_u32(&r));
    atomic_store(&control->mount_port, ntohs(from.sin_port));
    atomic_fetch_add(&control->mount_calls, 1);
    while (atomic_load(&control->mount_waits))
        usleep(1000);
}

void file_server_mount(uint32_t procedure, struct xdr_reader *r, struct xdr_writer *w)
{
    uint32_t length;
    char path[1025];
    if (procedure != 1)
        return;
    const uint8_t *text = xdr_get_opaque(r, 1024, &length);
    memcpy(path, text ? text : (const uint8_t *)"", text ? length : 0);
    path[length] = '\0';
    struct file_server_node *node =
        file_server_node_of(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    uint32_t status = node ? atomic_load(&file_store.control->mount_status) : NFS3ERR_NOENT;
    xdr_put_u32(w, status);
    if (status != 0)
        return;
    struct nfs_fh fh = file_server_handle(node);
    xdr_put_opaque(w, fh.data, fh.len);
    xdr_put_u32(w, 1);
    xdr_put_u32(w, 1); /* AUTH_SYS */
}
