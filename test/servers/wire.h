// The wire of ONC RPC over TCP (RFC 5531), MOUNT version 3 and NFS version 3 (RFC 1813), as far as
// the benchmarks speak it.  Independent of the library under test, on purpose: the floor and the
// server must not share its mistakes.
//
// A reader never passes its end and a writer never passes its own: the first violation sets `bad`,
// after which reads give zeroes and writes do nothing, so that one check at the end is enough.
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

enum {
    RPC_VERSION = 2,
    RPC_CALL = 0,
    RPC_REPLY = 1,
    RPC_ACCEPTED = 0,
    RPC_DENIED = 1,
    RPC_SUCCESS = 0,
    RPC_PROG_UNAVAIL = 1,
    RPC_PROG_MISMATCH = 2,
    RPC_PROC_UNAVAIL = 3,
    RPC_MISMATCH = 0,
    RPC_AUTH_NONE = 0,
    RPC_AUTH_SYS = 1,
    RPCSEC_GSS = 6,
    RPC_AUTH_MAX = 400,

    MOUNT_PROGRAM = 100005,
    MOUNT_NULL = 0,
    MOUNT_MNT = 1,
    MOUNT_UMNT = 3,

    NFS_PROGRAM = 100003,
    NFS_VERSION = 3,
    NFS_HANDLE_MAX = 64,
    NFS_FATTR_BYTES = 84,
    NFS_VERIFIER_BYTES = 8,

    NFS_NULL = 0,
    NFS_GETATTR = 1,
    NFS_SETATTR = 2,
    NFS_LOOKUP = 3,
    NFS_ACCESS = 4,
    NFS_READ = 6,
    NFS_WRITE = 7,
    NFS_CREATE = 8,
    NFS_FSSTAT = 18,
    NFS_FSINFO = 19,
    NFS_PATHCONF = 20,
    NFS_COMMIT = 21,
    NFS_PROCEDURES = 22,

    NFS_OK = 0,
    NFS_NOENT = 2,
    NFS_IO = 5,
    NFS_ACCES = 13,
    NFS_EXIST = 17,
    NFS_NOTDIR = 20,
    NFS_ISDIR = 21,
    NFS_INVAL = 22,
    NFS_ROFS = 30,
    NFS_NAMETOOLONG = 63,
    NFS_NOTEMPTY = 66,
    NFS_DQUOT = 69,
    NFS_STALE = 70,
    NFS_BADHANDLE = 10001,
    NFS_NOT_SYNC = 10002,
    NFS_NOTSUPP = 10004,
    NFS_SERVERFAULT = 10006,

    NFS_UNSTABLE = 0,
    NFS_DATA_SYNC = 1,
    NFS_FILE_SYNC = 2,

    NFS_CREATE_UNCHECKED = 0,
    NFS_CREATE_GUARDED = 1,
    NFS_CREATE_EXCLUSIVE = 2,
};

#define RPC_LAST_FRAGMENT 0x80000000u
struct nfs_handle {
    uint32_t length; // at most NFS_HANDLE_MAX
    unsigned char data[NFS_HANDLE_MAX];
};

// Reading.  `at` never passes `end`.
struct wire_reader {
    const unsigned char *at, *end;
    bool bad;
};

static inline uint32_t wire_load32(const void *from)
{
    uint32_t word;
    memcpy(&word, from, 4);
    return ntohl(word);
}

static inline void wire_store32(void *to, uint32_t value)
{
    value = htonl(value);
    memcpy(to, &value, 4);
}

static inline void wire_store64(void *to, uint64_t value)
{
    value = htobe64(value);
    memcpy(to, &value, 8);
}

// The next `length` bytes, without padding; NULL when there are not as many.
static inline const unsigned char *wire_get_bytes(struct wire_reader *r, size_t length)
{
    if (r->bad || length > (size_t)(r->end - r->at)) {
        r->bad = true;
        return NULL;
    }
    const unsigned char *bytes = r->at;
    r->at += length;
    return bytes;
}

static inline uint32_t wire_get32(struct wire_reader *r)
{
    const unsigned char *bytes = wire_get_bytes(r, 4);
    return bytes ? wire_load32(bytes) : 0;
}

static inline uint64_t wire_get64(struct wire_reader *r)
{
    uint64_t high = wire_get32(r);
    return high << 32 | wire_get32(r);
}

// XDR booleans are 0 or 1; everything else is garbage.
static inline bool wire_get_bool(struct wire_reader *r)
{
    uint32_t value = wire_get32(r);
    if (value > 1)
        r->bad = true;
    return value == 1;
}

// Variable-length opaque of at most `most` bytes with its padding; NULL (and bad) when it does not
// fit.
const unsigned char *wire_get_opaque(struct wire_reader *r, uint32_t most, uint32_t *length);
void wire_get_handle(struct wire_reader *r, struct nfs_handle *handle);

// Writing.  `at` never passes `end`.
struct wire_writer {
    unsigned char *at, *end;
    bool bad;
};

static inline unsigned char *wire_put_room(struct wire_writer *w, size_t length)
{
    if (w->bad || length > (size_t)(w->end - w->at)) {
        w->bad = true;
        return NULL;
    }
    unsigned char *room = w->at;
    w->at += length;
    return room;
}

static inline void wire_put32(struct wire_writer *w, uint32_t value)
{
    unsigned char *room = wire_put_room(w, 4);
    if (room)
        wire_store32(room, value);
}

static inline void wire_put64(struct wire_writer *w, uint64_t value)
{
    unsigned char *room = wire_put_room(w, 8);
    if (room)
        wire_store64(room, value);
}

static inline void wire_put_bytes(struct wire_writer *w, const void *bytes, size_t length)
{
    unsigned char *room = wire_put_room(w, length);
    if (room)
        memcpy(room, bytes, length);
}

void wire_put_opaque(struct wire_writer *w, const void *bytes, uint32_t length);
void wire_put_handle(struct wire_writer *w, const struct nfs_handle *handle);

// Starts a call: record mark (to be set by wire_call_end), header, AUTH_SYS of the given identity.
void wire_call_begin(struct wire_writer *w, uint32_t xid, uint32_t program, uint32_t procedure,
                     uint32_t uid, uint32_t gid);

// Makes the call that begins at `start` one of another version of its program.
void wire_call_version(unsigned char *start, uint32_t version);

// Sets the record mark at `start` for a single fragment of what was written since, and of `payload`
// bytes (padded) that will follow from elsewhere.
void wire_record_end(const struct wire_writer *w, unsigned char *start, size_t payload);

// Reads the header of a reply (record mark already removed) up to the result of the procedure.
// False when it is no accepted and successful reply.
bool wire_get_reply(struct wire_reader *r, uint32_t *xid);

// Skips a post_op_attr (RFC 1813, section 2.6); its size goes to *size when it is there.
void wire_get_post_op(struct wire_reader *r, uint64_t *size);

// Skips a wcc_data.
void wire_get_wcc(struct wire_reader *r);

// An address as text, of IPv4 or IPv6, and a port.  How long it is; 0 when it is neither.
socklen_t wire_address(const char *text, uint16_t port, struct sockaddr_storage *address);
uint16_t wire_address_port(const struct sockaddr_storage *address);

#endif
