/*
 * An NFSv3 and MOUNT server for the tests of src/file: a process that serves real directories, so
 * that file numbers and change times are the kernel's, and does to its client what a test asks for.
 *
 * UNSTABLE writes reach the file at once, as on a real server. What the file would be after a loss
 * of power is kept aside until COMMIT.
 */
#ifndef TEST_FILE_SERVER_H
#define TEST_FILE_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nfs3_server.h"

enum {
    FILE_SERVER_NODES = 256,
    FILE_SERVER_CONNECTIONS = 64,
    FILE_SERVER_HELD = 512,
    FILE_SERVER_HANDLE = 16
};

enum file_server_command {
    FILE_SERVER_LOSE_POWER = 1, /* uncommitted data vanishes, connections break, new verifier */
    FILE_SERVER_NEW_VERIFIER,   /* only that */
    FILE_SERVER_RESET,          /* connections break */
    FILE_SERVER_RELEASE,        /* what was held is executed */
    FILE_SERVER_DROP_HELD,      /* what was held is forgotten, and its connections break */
    FILE_SERVER_STOP,           /* connections break and new ones are refused ... */
    FILE_SERVER_REFUSE,         /* only new connections are refused ... */
    FILE_SERVER_START           /* ... until now */
};

/* What answers to READ and WRITE say that cannot be. */
enum file_server_lie {
    FILE_SERVER_TRUTH,
    FILE_SERVER_NOTHING, /* no bytes, and neither an error nor the end */
    FILE_SERVER_MORE,    /* a byte more than was asked for; of WRITE */
    FILE_SERVER_WEAK,    /* less stable than was asked for */
    FILE_SERVER_HALF,    /* half of the bytes, and the end; of READ */
    FILE_SERVER_BEYOND,  /* bytes behind the end */
    FILE_SERVER_GROWS    /* no lie: somebody makes the file longer before the attributes are taken */
};

/* What tests set and read; shared memory of all processes of a test. */
struct file_control {
    in_port_t port;
    _Atomic unsigned calls[NFS3_PROC_COUNT]; /* executed */
    _Atomic unsigned writes[3];              /* by stable_how */
    _Atomic unsigned longest_read, longest_write;
    /* For the next `fail_count` calls. */
    _Atomic unsigned fail_count[NFS3_PROC_COUNT];
    _Atomic uint32_t fail_status[NFS3_PROC_COUNT];
    /* After that many calls more (1: the next): executed, but the connection breaks. */
    _Atomic unsigned drop_after[NFS3_PROC_COUNT];
    /* Likewise: executed, then power fails. */
    _Atomic unsigned power_after[NFS3_PROC_COUNT];
    _Atomic uint32_t short_read, short_write; /* bytes of a reply at most; 0: no limit */
    _Atomic unsigned lie;                     /* enum file_server_lie */
    _Atomic uint64_t full_at; /* there is no room for bytes of a file from here on; 0: no limit */
    _Atomic uint32_t rtmax, wtmax;
    _Atomic uint64_t maxfilesize;
    _Atomic uint32_t committed; /* at least */
    _Atomic uint32_t access;    /* bits that ACCESS may grant */
    _Atomic uint32_t hold;      /* procedures (bits) that are not executed for now */
    _Atomic unsigned held;
    _Atomic unsigned delay_ms; /* before each call */
    _Atomic unsigned commit_delay_ms; /* before each COMMIT */
    /* Of other programs (MOUNT): so many are answered by breaking the connection; what was seen of
     * them; while `mount_waits` none is answered. */
    _Atomic unsigned mount_resets;
    _Atomic unsigned mount_calls, mount_port, mount_groups;
    _Atomic bool mount_waits;
    /* Part of all handles: when it changes, those given before are stale. */
    _Atomic uint32_t handles;
    _Atomic int fileid_error, ctime_error, size_error;
    _Atomic int root_ctime_error; /* of directories */
    _Atomic bool no_attributes;
    /* What is looked up as "twin" is another file than the one that has this name on the disk: with
     * the same number and times, but a handle and data of its own. */
    _Atomic bool twins;
    _Atomic bool restless; /* each WRITE is answered with another verifier */
    _Atomic uint64_t verifier;
    _Atomic uint64_t lost_bytes; /* of files that power losses changed */
};

struct file_server_node {
    ino_t inode;
    bool twin;
    int fd;
    int shown; /* whose attributes it has; `fd`, but for a twin */
    bool directory;
    bool dirty; /* `durable` is what the file will be after a loss of power */
    char *durable;
    size_t durable_size;
};

struct file_server_connection {
    int fd; /* -1: free */
    unsigned number;
    uint8_t *in;
    size_t have, room;
};

struct file_server_held {
    unsigned connection, number;
    uint8_t *record;
    size_t length;
};

/* The server process's own. */
static struct {
    struct file_control *control;
    int listener;
    bool stopped; /* it is bound, and does not listen */
    struct file_server_node nodes[FILE_SERVER_NODES];
    unsigned node_count;
    struct file_server_connection connections[FILE_SERVER_CONNECTIONS];
    unsigned numbers;
    struct file_server_held held[FILE_SERVER_HELD];
    unsigned held_count;
} file_server;

/* ---- files ---- */

static inline struct file_server_node *file_server_node_of(int fd)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0)
        return NULL;
    for (unsigned i = 0; i < file_server.node_count; i++) {
        if (file_server.nodes[i].inode == status.st_ino && !file_server.nodes[i].twin) {
            close(fd);
            return &file_server.nodes[i];
        }
    }
    if (file_server.node_count == FILE_SERVER_NODES)
        abort();
    struct file_server_node *node = &file_server.nodes[file_server.node_count++];
    *node = (struct file_server_node){
        .inode = status.st_ino, .fd = fd, .shown = fd, .directory = S_ISDIR(status.st_mode)};
    return node;
}

/* The twin of the file that is open as `fd`: only one is ever asked for. */
static inline struct file_server_node *file_server_twin_of(int fd)
{
    for (unsigned i = 0; i < file_server.node_count; i++) {
        if (file_server.nodes[i].twin)
            return &file_server.nodes[i];
    }
    struct file_server_node *node = file_server_node_of(fd);
    if (!node || file_server.node_count == FILE_SERVER_NODES)
        abort();
    struct file_server_node *twin = &file_server.nodes[file_server.node_count++];
    *twin = (struct file_server_node){.inode = node->inode,
                                      .twin = true,
                                      .fd = memfd_create("twin", MFD_CLOEXEC),
                                      .shown = node->fd};
    return twin;
}

static inline struct nfs3_fh file_server_handle(const struct file_server_node *node)
{
    struct nfs3_fh fh = {.len = FILE_SERVER_HANDLE};
    uint32_t handles = atomic_load(&file_server.control->handles);
    memcpy(fh.data, node->twin ? "twin" : "file", 4);
    memcpy(fh.data + 4, &handles, 4);
    memcpy(fh.data + 8, &node->inode, 8);
    return fh;
}

static inline bool file_server_take(_Atomic unsigned *count)
{
    unsigned now = atomic_load(count);
    while (now > 0 && !atomic_compare_exchange_weak(count, &now, now - 1))
        ;
    return now > 0;
}

static inline struct file_server_node *file_server_find(const struct nfs3_fh *fh, uint32_t *status)
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
    if (handles != atomic_load(&file_server.control->handles))
        return NULL;
    for (unsigned i = 0; i < file_server.node_count; i++) {
        struct file_server_node *node = &file_server.nodes[i];
        if (node->inode != inode || node->twin != (memcmp(fh->data, "twin", 4) == 0))
            continue;
        *status = fstat(node->shown, &now) != 0 || now.st_nlink == 0 ? NFS3ERR_STALE : NFS3_OK;
        return *status == NFS3_OK ? node : NULL;
    }
    return NULL;
}

/* Of which file a call speaks, and how it is to be answered: a failure that a test asked for counts
 * as one of the file. */
static inline struct file_server_node *
file_server_of_call(unsigned procedure, const struct nfs3_fh *fh, uint32_t *status)
{
    struct file_control *control = file_server.control;
    struct file_server_node *node = file_server_find(fh, status);
    uint32_t failure = atomic_load(&control->fail_status[procedure]);
    if (file_server_take(&control->fail_count[procedure]) && failure != NFS3_OK)
        *status = failure;
    return node;
}

static inline struct nfs3_time file_server_time(struct timespec time)
{
    return (struct nfs3_time){(uint32_t)time.tv_sec, (uint32_t)time.tv_nsec};
}

static inline void file_server_attr(const struct file_server_node *node, struct nfs3_attr *attr)
{
    struct stat status;
    fstat(node->shown, &status);
    *attr = (struct nfs3_attr){.type = node->directory ? NFS3_DIR : NFS3_REG,
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
        attr->ctime.sec += (uint32_t)atomic_load(&file_server.control->root_ctime_error);
        return;
    }
    attr->fileid += (uint64_t)atomic_load(&file_server.control->fileid_error);
    attr->ctime.sec += (uint32_t)atomic_load(&file_server.control->ctime_error);
    attr->size += (uint64_t)atomic_load(&file_server.control->size_error);
}

static inline void file_server_post(const struct file_server_node *node,
                                    struct nfs3_post_attr *post)
{
    post->present = node && !atomic_load(&file_server.control->no_attributes);
    if (post->present)
        file_server_attr(node, &post->attr);
}

static inline void file_server_save(struct file_server_node *node)
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

static inline void file_server_commit(struct file_server_node *node)
{
    free(node->durable);
    node->durable = NULL;
    node->dirty = false;
}

/* What is on stable storage at once must survive the loss of other data. */
static inline void file_server_durable_size(struct file_server_node *node, size_t size)
{
    if (!node->dirty)
        return;
    node->durable = realloc(node->durable, size + 1);
    if (size > node->durable_size)
        memset(node->durable + node->durable_size, 0, size - node->durable_size);
    node->durable_size = size;
}

static inline void file_server_durable_write(struct file_server_node *node, const void *data,
                                             size_t length, uint64_t offset)
{
    if (!node->dirty)
        return;
    if (offset + length > node->durable_size)
        file_server_durable_size(node, offset + length);
    memcpy(node->durable + offset, data, length);
}

/* ---- connections ---- */

static inline void file_server_break(struct file_server_connection *connection)
{
    if (connection->fd < 0)
        return;
    struct linger abortive = {1, 0};
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
    close(connection->fd);
    connection->fd = -1;
}

static inline void file_server_break_all(void)
{
    for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++)
        file_server_break(&file_server.connections[i]);
}

static inline void file_server_lose_power(void)
{
    for (unsigned i = 0; i < file_server.node_count; i++) {
        struct file_server_node *node = &file_server.nodes[i];
        struct stat status;
        if (!node->dirty)
            continue;
        /* No server's clock goes on for what it lost. */
        if (fstat(node->fd, &status) != 0 || ftruncate(node->fd, 0) != 0 ||
            pwrite(node->fd, node->durable, node->durable_size, 0) !=
                (ssize_t)node->durable_size ||
            futimens(node->fd, (struct timespec[]){status.st_atim, status.st_mtim}) != 0)
            abort();
        atomic_fetch_add(&file_server.control->lost_bytes, node->durable_size + 1);
        file_server_commit(node);
    }
    file_server_break_all();
    /* And those that the kernel accepted for us: for the client they exist. */
    int fd;
    while ((fd = accept4(file_server.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
    atomic_fetch_add(&file_server.control->verifier, 0x0101);
}

static inline bool file_server_send(struct file_server_connection *connection, const void *data,
                                    size_t length)
{
    while (length > 0) {
        ssize_t sent = send(connection->fd, data, length, MSG_NOSIGNAL);
        if (sent <= 0) {
            file_server_break(connection);
            return false;
        }
        data = (const char *)data + sent;
        length -= (size_t)sent;
    }
    return true;
}

/* ---- procedures: arguments from `r`, results to `w`, and for READ the payload ---- */

static inline void file_server_lookup(struct xdr_reader *r, struct xdr_writer *w)
{
    struct nfs3_lookup_args args;
    struct nfs3_lookup_res res = {0};
    nfs3_lookup_args_get(r, &args);
    struct file_server_node *directory =
                                file_server_of_call(NFS3_PROC_LOOKUP, &args.dir, &res.status),
                            *node = NULL;
    if (res.status == NFS3_OK) {
        int fd = openat(directory->fd, args.name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == EISDIR)
            fd = openat(directory->fd, args.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool twin =
            fd >= 0 && atomic_load(&file_server.control->twins) && strcmp(args.name, "twin") == 0;
        node = twin ? file_server_twin_of(fd) : file_server_node_of(fd);
        res.status = node ? NFS3_OK : NFS3ERR_NOENT;
    }
    if (node)
        res.fh = file_server_handle(node);
    file_server_post(node, &res.attr);
    file_server_post(directory, &res.dir_attr);
    nfs3_lookup_res_put(w, &res);
}

static inline void file_server_read(struct xdr_reader *r, struct xdr_writer *w, uint8_t **payload,
                                    size_t *length)
{
    struct file_control *control = file_server.control;
    struct nfs3_read_args args;
    struct nfs3_read_res res = {0};
    nfs3_read_args_get(r, &args);
    struct file_server_node *node = file_server_of_call(NFS3_PROC_READ, &args.fh, &res.status);
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

static inline void file_server_write(struct xdr_reader *r, struct xdr_writer *w)
{
    struct file_control *control = file_server.control;
    struct nfs3_write_args args;
    struct nfs3_write_res res = {0};
    nfs3_write_args_get(r, &args);
    const uint8_t *data = xdr_get_fixed(r, args.count);
    struct file_server_node *node = file_server_of_call(NFS3_PROC_WRITE, &args.fh, &res.status);
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
    }
    if (res.status == NFS3_OK) {
        res.committed = args.stable;
        if (res.committed < atomic_load(&control->committed))
            res.committed = atomic_load(&control->committed);
        atomic_fetch_add(&control->writes[args.stable], 1);
        if (res.committed == NFS3_UNSTABLE)
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
            res.committed = NFS3_UNSTABLE;
    }
    file_server_post(node, &res.wcc.after);
    nfs3_write_res_put(w, &res);
}

static inline void file_server_commit_call(struct xdr_reader *r, struct xdr_writer *w)
{
    struct nfs3_commit_args args;
    struct nfs3_commit_res res = {0};
    nfs3_commit_args_get(r, &args);
    struct file_server_node *node = file_server_of_call(NFS3_PROC_COMMIT, &args.fh, &res.status);
    if (res.status == NFS3_OK) {
        file_server_commit(node);
        res.verifier = atomic_load(&file_server.control->verifier);
    }
    file_server_post(node, &res.wcc.after);
    nfs3_commit_res_put(w, &res);
}

static inline void file_server_setattr(struct xdr_reader *r, struct xdr_writer *w)
{
    struct nfs3_setattr_args args;
    struct nfs3_setattr_res res = {0};
    nfs3_setattr_args_get(r, &args);
    struct file_server_node *node = file_server_of_call(NFS3_PROC_SETATTR, &args.fh, &res.status);
    if (res.status == NFS3_OK && args.attr.set_size) {
        if (ftruncate(node->fd, (off_t)args.attr.size) != 0)
            res.status = NFS3ERR_IO;
        file_server_durable_size(node, args.attr.size);
    }
    file_server_post(node, &res.wcc.after);
    nfs3_setattr_res_put(w, &res);
}

/* GETATTR, ACCESS and FSINFO. */
static inline void file_server_ask(unsigned procedure, struct xdr_reader *r, struct xdr_writer *w)
{
    struct file_control *control = file_server.control;
    struct nfs3_access_args args = {0};
    uint32_t status;
    if (procedure == NFS3_PROC_ACCESS)
        nfs3_access_args_get(r, &args);
    else
        nfs3_fh_args_get(r, (struct nfs3_fh_args *)&args);
    struct file_server_node *node = file_server_of_call(procedure, &args.fh, &status);
    if (procedure == NFS3_PROC_GETATTR) {
        struct nfs3_getattr_res res = {.status = status};
        if (status == NFS3_OK)
            file_server_attr(node, &res.attr);
        nfs3_getattr_res_put(w, &res);
    } else if (procedure == NFS3_PROC_ACCESS) {
        struct nfs3_access_res res = {.status = status,
                                      .access = args.access & atomic_load(&control->access)};
        file_server_post(node, &res.attr);
        nfs3_access_res_put(w, &res);
    } else {
        struct nfs3_fsinfo_res res = {.status = status,
                                      .rtmax = atomic_load(&control->rtmax),
                                      .wtmax = atomic_load(&control->wtmax),
                                      .maxfilesize = atomic_load(&control->maxfilesize)};
        file_server_post(node, &res.attr);
        nfs3_fsinfo_res_put(w, &res);
    }
}

/* Where the call comes from, and how many groups its AUTH_SYS credential has besides the first. */
static inline void file_server_look(int fd, const uint8_t *credential, uint32_t size)
{
    struct file_control *control = file_server.control;
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

static inline void file_server_mount(uint32_t procedure, struct xdr_reader *r, struct xdr_writer *w)
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
    xdr_put_u32(w, node ? 0 : NFS3ERR_NOENT);
    if (!node)
        return;
    struct nfs3_fh fh = file_server_handle(node);
    xdr_put_opaque(w, fh.data, fh.len);
    xdr_put_u32(w, 1);
    xdr_put_u32(w, 1); /* AUTH_SYS */
}

/* ---- calls ---- */

static inline uint32_t file_server_procedure(const uint8_t *record)
{
    return xdr_load_u32(record + 12) == NFS3_PROGRAM ? xdr_load_u32(record + 20) : 0;
}

/* After the call was executed: false, nothing is to be answered. */
static inline bool file_server_fate(struct file_server_connection *connection, uint32_t procedure)
{
    struct file_control *control = file_server.control;
    atomic_fetch_add(&control->calls[procedure], 1);
    bool lose = atomic_load(&control->power_after[procedure]) == 1;
    bool drop = atomic_load(&control->drop_after[procedure]) == 1;
    file_server_take(&control->power_after[procedure]);
    file_server_take(&control->drop_after[procedure]);
    if (lose)
        file_server_lose_power();
    else if (drop)
        file_server_break(connection);
    return !lose && !drop;
}

static inline void file_server_execute(struct file_server_connection *connection,
                                       const uint8_t *record, size_t length)
{
    uint8_t reply[1024], *payload = NULL;
    size_t payload_length = 0;
    struct xdr_reader r;
    struct xdr_writer w;
    uint32_t program, procedure, size, unused;
    xdr_reader_init(&r, record, length);
    xdr_writer_init(&w, reply, sizeof(reply));
    xdr_put_u32(&w, 0); /* the record mark */
    xdr_put_u32(&w, xdr_get_u32(&r));
    xdr_put_u32(&w, 1); /* REPLY, MSG_ACCEPTED, empty verifier, SUCCESS */
    for (int i = 0; i < 4; i++)
        xdr_put_u32(&w, 0);
    xdr_get_u64(&r);
    program = xdr_get_u32(&r);
    xdr_get_u32(&r);
    procedure = xdr_get_u32(&r);
    xdr_get_u32(&r);
    const uint8_t *credential = xdr_get_opaque(&r, 400, &size);
    xdr_get_u32(&r); /* the verifier */
    xdr_get_opaque(&r, 400, &unused);
    unsigned delay = atomic_load(&file_server.control->delay_ms);
    if (program == NFS3_PROGRAM && procedure == NFS3_PROC_COMMIT)
        delay += atomic_load(&file_server.control->commit_delay_ms);
    if (delay)
        usleep(delay * 1000);
    if (program != NFS3_PROGRAM)
        file_server_look(connection->fd, credential, size);
    if (program != NFS3_PROGRAM)
        file_server_mount(procedure, &r, &w);
    else if (procedure == NFS3_PROC_LOOKUP)
        file_server_lookup(&r, &w);
    else if (procedure == NFS3_PROC_READ)
        file_server_read(&r, &w, &payload, &payload_length);
    else if (procedure == NFS3_PROC_WRITE)
        file_server_write(&r, &w);
    else if (procedure == NFS3_PROC_COMMIT)
        file_server_commit_call(&r, &w);
    else if (procedure == NFS3_PROC_SETATTR)
        file_server_setattr(&r, &w);
    else if (procedure == NFS3_PROC_GETATTR || procedure == NFS3_PROC_ACCESS ||
             procedure == NFS3_PROC_FSINFO)
        file_server_ask(procedure, &r, &w);
    else if (procedure != NFS3_PROC_NULL)
        abort();
    size_t head = (size_t)(w.p - reply),
           padded = payload_length + xdr_pad((uint32_t)payload_length);
    xdr_store_u32(reply, 0x80000000u | (uint32_t)(head - 4 + padded));
    if (program != NFS3_PROGRAM && file_server_take(&file_server.control->mount_resets)) {
        file_server_break(connection);
        return;
    }
    if ((program != NFS3_PROGRAM || file_server_fate(connection, procedure)) &&
        connection->fd >= 0 && file_server_send(connection, reply, head))
        file_server_send(connection, payload, padded);
    free(payload);
}

static inline void file_server_call(struct file_server_connection *connection, uint8_t *record,
                                    size_t length)
{
    struct file_control *control = file_server.control;
    bool nfs = xdr_load_u32(record + 12) == NFS3_PROGRAM;
    if (!nfs || !(atomic_load(&control->hold) & 1u << file_server_procedure(record))) {
        file_server_execute(connection, record, length);
        return;
    }
    if (file_server.held_count == FILE_SERVER_HELD)
        abort();
    struct file_server_held *held = &file_server.held[file_server.held_count++];
    held->connection = (unsigned)(connection - file_server.connections);
    held->number = connection->number;
    held->record = malloc(length);
    held->length = length;
    memcpy(held->record, record, length);
    atomic_store(&control->held, file_server.held_count);
}

/* Executes or forgets what was held. Of a connection that is gone it is executed all the same. */
static inline void file_server_let_go(bool execute)
{
    unsigned count = file_server.held_count;
    file_server.held_count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct file_server_held *held = &file_server.held[i];
        struct file_server_connection *connection = &file_server.connections[held->connection];
        struct file_server_connection gone = {.fd = -1};
        if (connection->number != held->number)
            connection = &gone;
        if (execute)
            file_server_execute(connection, held->record, held->length);
        else
            file_server_break(connection);
        free(held->record);
    }
    atomic_store(&file_server.control->held, 0);
}

static inline void file_server_receive(struct file_server_connection *connection)
{
    if (connection->room - connection->have < 65536) {
        connection->room = connection->room * 2 + 131072;
        connection->in = realloc(connection->in, connection->room);
    }
    ssize_t got = recv(connection->fd, connection->in + connection->have,
                       connection->room - connection->have, MSG_DONTWAIT);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            file_server_break(connection);
        return;
    }
    connection->have += (size_t)got;
    size_t at = 0;
    while (connection->fd >= 0 && connection->have - at >= 4) {
        size_t length = xdr_load_u32(connection->in + at) & 0x7fffffffu;
        if (connection->have - at - 4 < length)
            break;
        file_server_call(connection, connection->in + at + 4, length);
        at += 4 + length;
    }
    if (connection->fd < 0)
        return;
    connection->have -= at;
    memmove(connection->in, connection->in + at, connection->have);
}

static inline void file_server_accept(void)
{
    int fd = accept4(file_server.listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++) {
        struct file_server_connection *connection = &file_server.connections[i];
        if (connection->fd >= 0)
            continue;
        connection->fd = fd;
        connection->number = ++file_server.numbers;
        connection->have = 0;
        return;
    }
    abort();
}

static inline int file_server_bound(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &size) != 0)
        abort();
    return fd;
}

/* Bound by its number the port stays ours while nobody listens there: who connects is refused, and
 * meets no server of another test. */
static inline int file_server_listener(in_port_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int any = file_server_bound(&address), fd = file_server_bound(&address);
    close(any);
    if (listen(fd, 64) != 0)
        abort();
    *port = ntohs(address.sin_port);
    return fd;
}

static inline void file_server_obey(char command)
{
    struct file_control *control = file_server.control;
    switch (command) {
    case FILE_SERVER_LOSE_POWER:
        file_server_lose_power();
        break;
    case FILE_SERVER_NEW_VERIFIER:
        atomic_fetch_add(&control->verifier, 0x0101);
        break;
    case FILE_SERVER_RESET:
        file_server_break_all();
        break;
    case FILE_SERVER_RELEASE:
    case FILE_SERVER_DROP_HELD:
        file_server_let_go(command == FILE_SERVER_RELEASE);
        break;
    case FILE_SERVER_STOP:
    case FILE_SERVER_REFUSE:
        shutdown(file_server.listener, SHUT_RDWR);
        file_server.stopped = true;
        if (command == FILE_SERVER_STOP)
            file_server_break_all();
        break;
    case FILE_SERVER_START:
        if (listen(file_server.listener, 64) != 0)
            abort();
        file_server.stopped = false;
        break;
    }
}

/* The server process: until the other end of `commands` is closed. */
static inline void file_server_run(struct file_control *control, int listener, int commands)
{
    file_server.control = control;
    file_server.listener = listener;
    for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++)
        file_server.connections[i].fd = -1;
    for (;;) {
        struct pollfd polls[FILE_SERVER_CONNECTIONS + 2];
        polls[0] = (struct pollfd){.fd = commands, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = file_server.stopped ? -1 : file_server.listener,
                                   .events = POLLIN};
        for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++)
            polls[i + 2] = (struct pollfd){.fd = file_server.connections[i].fd, .events = POLLIN};
        poll(polls, FILE_SERVER_CONNECTIONS + 2, -1);
        char command;
        if (polls[0].revents) {
            if (read(commands, &command, 1) != 1)
                _exit(0);
            file_server_obey(command);
            if (write(commands, &command, 1) != 1)
                _exit(0);
            continue;
        }
        if (polls[1].revents)
            file_server_accept();
        for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++) {
            struct file_server_connection *connection = &file_server.connections[i];
            if (polls[i + 2].revents && connection->fd == polls[i + 2].fd && connection->fd >= 0)
                file_server_receive(connection);
        }
    }
}

#endif
