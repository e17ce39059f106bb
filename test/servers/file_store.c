/* See file_store.h. */
#include "file_store.h"

struct file_store file_store;

struct file_server_node *file_server_node_of(int fd)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0)
        return NULL;
    for (unsigned i = 0; i < file_store.node_count; i++) {
        if (file_store.nodes[i].inode == status.st_ino && !file_store.nodes[i].twin) {
            close(fd);
            return &file_store.nodes[i];
        }
    }
    if (file_store.node_count == FILE_SERVER_NODES)
        abort();
    struct file_server_node *node = &file_store.nodes[file_store.node_count++];
    *node = (struct file_server_node){
        .inode = status.st_ino, .fd = fd, .shown = fd, .directory = S_ISDIR(status.st_mode)};
    return node;
}

struct file_server_node *file_server_twin_of(int fd)
{
    for (unsigned i = 0; i < file_store.node_count; i++) {
        if (file_store.nodes[i].twin)
            return &file_store.nodes[i];
    }
    struct file_server_node *node = file_server_node_of(fd);
    if (!node || file_store.node_count == FILE_SERVER_NODES)
        abort();
    struct file_server_node *twin = &file_store.nodes[file_store.node_count++];
    *twin = (struct file_server_node){.inode = node->inode,
                                      .twin = true,
                                      .fd = memfd_create("twin", MFD_CLOEXEC),
                                      .shown = node->fd};
    return twin;
}

struct nfs_fh file_server_handle(const struct file_server_node *node)
{
    struct nfs_fh fh = {.len = FILE_SERVER_HANDLE};
    uint32_t handles = atomic_load(&file_store.control->handles);
    memcpy(fh.data, node->twin ? "twin" : "file", 4);
    memcpy(fh.data + 4, &handles, 4);
    memcpy(fh.data + 8, &node->inode, 8);
    return fh;
}

bool file_server_take(_Atomic unsigned *count)
{
    unsigned now = atomic_load(count);
    while (now > 0 && !atomic_compare_exchange_weak(count, &now, now - 1))
        ;
    return now > 0;
}

static struct file_server_node *file_server_find(const struct nfs_fh *fh, uint32_t *status)
{
    ino_t inode;
    uint32_t handles;
    struct stat now;
    *status = NFS3ERR_BADHANDLE;
    if (fh->len != FILE_SERVER_HANDLE)
        return NULL;
    memcpy(&inode, fh->data + 8, 8);
    memcpy(&handles, fh->data + 4, 4);
    *status = NFS3ERR_STALE;
    if (handles != atomic_load(&file_store.control->handles))
        return NULL;
    for (unsigned i = 0; i < file_store.node_count; i++) {
        struct file_server_node *node = &file_store.nodes[i];
        if (node->inode != inode || node->twin != (memcmp(fh->data, "twin", 4) == 0))
            continue;
        *status = fstat(node->shown, &now) != 0 || now.st_nlink == 0 ? NFS3ERR_STALE : NFS3_OK;
        return *status == NFS3_OK ? node : NULL;
    }
    return NULL;
}

struct file_server_node *file_server_of_call(unsigned procedure, const struct nfs_fh *fh,
                                             uint32_t *status)
{
    struct file_control *control = file_store.control;
    struct file_server_node *node = file_server_find(fh, status);
    uint32_t failure = atomic_load(&control->fail_status[procedure]);
    if (node && node->directory && atomic_load(&control->spares_directories))
        return node;
    if (file_server_take(&control->fail_count[procedure]) && failure != NFS3_OK)
        *status = failure;
    return node;
}

static struct nfs_time file_server_time(struct timespec time)
{
    return (struct nfs_time){(uint32_t)time.tv_sec, (uint32_t)time.tv_nsec};
}

void file_server_attr(const struct file_server_node *node, struct nfs_attr *attr)
{
    struct stat status;
    fstat(node->shown, &status);
    *attr = (struct nfs_attr){.type = node->directory ? NFS_DIR : NFS_REG,
                              .mode = status.st_mode & 07777,
                              .nlink = (uint32_t)status.st_nlink,
                              .uid = status.st_uid,
                              .gid = status.st_gid,
                              .size = (uint64_t)status.st_size,
                              .used = (uint64_t)status.st_blocks * 512,
                              .fsid = status.st_dev,
                              .fileid = status.st_ino,
                              .atime = file_server_time(status.st_atim),
                              .mtime = file_server_time(status.st_mtim),
                              .ctime = file_server_time(status.st_ctim)};
    if (node->directory) {
        attr->ctime.sec += (uint32_t)atomic_load(&file_store.control->root_ctime_error);
        return;
    }
    attr->fileid += (uint64_t)atomic_load(&file_store.control->fileid_error);
    attr->ctime.sec += (uint32_t)atomic_load(&file_store.control->ctime_error);
    attr->size += (uint64_t)atomic_load(&file_store.control->size_error);
}

void file_server_post(const struct file_server_node *node, struct nfs_post_attr *post)
{
    post->present = node && !atomic_load(&file_store.control->no_attributes);
    if (post->present)
        file_server_attr(node, &post->attr);
}

void file_server_save(struct file_server_node *node)
{
    struct stat status;
    if (node->dirty)
        return;
    fstat(node->fd, &status);
    node->durable_size = (size_t)status.st_size;
    node->durable = malloc(node->durable_size + 1);
    if (pread(node->fd, node->durable, node->durable_size, 0) != (ssize_t)node->durable_size)
        abort();
    node->dirty = true;
}

void file_server_commit(struct file_server_node *node)
{
    free(node->durable);
    node->durable = NULL;
    node->dirty = false;
}

void file_server_durable_size(struct file_server_node *node, size_t size)
{
    if (!node->dirty)
        return;
    node->durable = realloc(node->durable, size + 1);
    if (size > node->durable_size)
        memset(node->durable + node->durable_size, 0, size - node->durable_size);
    node->durable_size = size;
}

void file_server_durable_write(struct file_server_node *node, const void *data, size_t length,
                               uint64_t offset)
{
    if (!node->dirty)
        return;
    if (offset + length > node->durable_size)
        file_server_durable_size(node, offset + length);
    memcpy(node->durable + offset, data, length);
}
