/* See setup.h. */
#include "setup.h"

int connect_to(const char *host, uint16_t port)
{
    struct sockaddr_storage address;
    socklen_t length = wire_address(host, port, &address);
    if (!length)
        die("--host %s: expected an IPv4 or IPv6 address", host);
    int one = 1, fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, length) < 0)
        die("%s port %u: %s", host, port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, const unsigned char *bytes, size_t length)
{
    while (length) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n < 0)
            die("send: %s", strerror(errno));
        bytes += n;
        length -= (size_t)n;
    }
}

static void receive_all(int fd, unsigned char *bytes, size_t length)
{
    while (length) {
        ssize_t n = recv(fd, bytes, length, MSG_WAITALL);
        if (n <= 0)
            die("receive: %s", n ? strerror(errno) : "the server closed the connection");
        bytes += n;
        length -= (size_t)n;
    }
}

unsigned char setup_buffer[SETUP_BYTES];

struct wire_writer setup_begin(uint32_t program, uint32_t procedure)
{
    static uint32_t xid = 0x5e700000;
    struct wire_writer w = {setup_buffer, setup_buffer + sizeof setup_buffer, false};
    wire_call_begin(&w, ++xid, program, procedure, geteuid(), getegid());
    return w;
}

struct wire_reader setup_call(int fd, struct wire_writer *w, const char *what)
{
    uint32_t wanted = wire_load32(setup_buffer + 4), xid;
    if (w->bad)
        die("%s: name too long", what);
    wire_record_end(w, setup_buffer, 0);
    send_all(fd, setup_buffer, (size_t)(w->at - setup_buffer));
    size_t length = 0;
    uint32_t mark;
    do {
        unsigned char word[4];
        receive_all(fd, word, 4);
        mark = wire_load32(word);
        size_t fragment = mark & ~RPC_LAST_FRAGMENT;
        if (length + fragment > sizeof setup_buffer)
            die("%s: reply of %zu bytes", what, length + fragment);
        receive_all(fd, setup_buffer + length, fragment);
        length += fragment;
    } while (!(mark & RPC_LAST_FRAGMENT));
    struct wire_reader r = {setup_buffer, setup_buffer + length, false};
    if (!wire_get_reply(&r, &xid) || xid != wanted)
        die("%s: refused by the RPC layer", what);
    return r;
}

void setup_mount(const char *host, uint16_t port, const char *export, struct nfs_handle *root)
{
    int fd = connect_to(host, port);
    struct wire_writer w = setup_begin(MOUNT_PROGRAM, MOUNT_MNT);
    wire_put_opaque(&w, export, (uint32_t)strlen(export));
    struct wire_reader r = setup_call(fd, &w, "MNT");
    uint32_t status = wire_get32(&r);
    if (status)
        die("mount %s: status %u", export, status);
    wire_get_handle(&r, root);
    if (r.bad || !root->length)
        die("mount %s: bad reply", export);
    close(fd);
}

// The handle and the size of a name in a directory; false when there is no such name.
static bool setup_lookup(int fd, struct nfs_handle *at, const char *name, uint64_t *size)
{
    struct wire_writer w = setup_begin(NFS_PROGRAM, NFS_LOOKUP);
    wire_put_handle(&w, at);
    wire_put_opaque(&w, name, (uint32_t)strlen(name));
    struct wire_reader r = setup_call(fd, &w, "LOOKUP");
    uint32_t status = wire_get32(&r);
    if (status == NFS_NOENT)
        return false;
    if (status)
        die("%s: LOOKUP status %u", name, status);
    wire_get_handle(&r, at);
    *size = 0;
    wire_get_post_op(&r, size);
    if (r.bad)
        die("%s: bad LOOKUP reply", name);
    return true;
}

static void setup_create(int fd, const struct nfs_handle *directory, const char *name)
{
    struct wire_writer w = setup_begin(NFS_PROGRAM, NFS_CREATE);
    wire_put_handle(&w, directory);
    wire_put_opaque(&w, name, (uint32_t)strlen(name));
    wire_put32(&w, NFS_CREATE_UNCHECKED);
    wire_put32(&w, 1);
    wire_put32(&w, 0644);
    for (int i = 0; i < 5; i++) // uid, gid, size, atime, mtime: the server's choice
        wire_put32(&w, 0);
    struct wire_reader r = setup_call(fd, &w, "CREATE");
    uint32_t status = wire_get32(&r);
    if (status)
        die("%s: CREATE status %u", name, status);
}

// Bytes from offset to the end of the file, so that every READ will be answered in full.
static void setup_fill(int fd, const struct nfs_handle *handle, uint64_t offset, uint64_t file_size)
{
    static unsigned char block[64 << 10];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (unsigned char)(i * 2654435761u >> 13);
    while (offset < file_size) {
        uint64_t left = file_size - offset;
        uint32_t length = left < sizeof block ? (uint32_t)left : (uint32_t)sizeof block;
        struct wire_writer w = setup_begin(NFS_PROGRAM, NFS_WRITE);
        wire_put_handle(&w, handle);
        wire_put64(&w, offset);
        wire_put32(&w, length);
        wire_put32(&w, NFS_FILE_SYNC);
        wire_put_opaque(&w, block, length);
        struct wire_reader r = setup_call(fd, &w, "WRITE");
        uint32_t status = wire_get32(&r);
        wire_get_wcc(&r);
        uint32_t written = wire_get32(&r);
        if (status || r.bad || !written)
            die("filling the file: WRITE status %u", status);
        offset += written;
    }
}

void setup_file(int fd, const char *file, uint64_t file_size, struct nfs_handle *handle)
{
    char path[4096];
    uint64_t size = 0;
    if (strlen(file) >= sizeof path)
        die("%s: name too long", file);
    strcpy(path, file);
    for (char *rest = path, *name; (name = strsep(&rest, "/"));) {
        if (!*name)
            continue;
        struct nfs_handle directory = *handle;
        if (setup_lookup(fd, handle, name, &size))
            continue;
        if (rest)
            die("%s: no such directory", name);
        setup_create(fd, &directory, name);
        if (!setup_lookup(fd, handle, name, &size))
            die("%s: gone after CREATE", name);
    }
    if (size < file_size)
        setup_fill(fd, handle, size, file_size);
}
