/* See wire.h. */
#include "wire.h"

const unsigned char *wire_get_opaque(struct wire_reader *r, uint32_t most, uint32_t *length)
{
    *length = wire_get32(r);
    if (*length > most)
        r->bad = true;
    const unsigned char *bytes = wire_get_bytes(r, *length);
    wire_get_bytes(r, -*length & 3);
    return r->bad ? NULL : bytes;
}

void wire_get_handle(struct wire_reader *r, struct nfs_handle *handle)
{
    const unsigned char *bytes = wire_get_opaque(r, NFS_HANDLE_MAX, &handle->length);
    if (bytes)
        memcpy(handle->data, bytes, handle->length);
    else
        handle->length = 0;
}

void wire_put_opaque(struct wire_writer *w, const void *bytes, uint32_t length)
{
    wire_put32(w, length);
    wire_put_bytes(w, bytes, length);
    wire_put_bytes(w, "\0\0\0", -length & 3);
}

void wire_put_handle(struct wire_writer *w, const struct nfs_handle *handle)
{
    wire_put_opaque(w, handle->data, handle->length);
}

void wire_call_begin(struct wire_writer *w, uint32_t xid, uint32_t program, uint32_t procedure,
                     uint32_t uid, uint32_t gid)
{
    static const char machine[] = "bench";
    wire_put32(w, 0);
    wire_put32(w, xid);
    wire_put32(w, RPC_CALL);
    wire_put32(w, RPC_VERSION);
    wire_put32(w, program);
    wire_put32(w, 3);
    wire_put32(w, procedure);
    wire_put32(w, RPC_AUTH_SYS);
    wire_put32(w, 4 + 4 + 8 + 4 + 4 + 4);
    wire_put32(w, 0);
    wire_put_opaque(w, machine, sizeof machine - 1);
    wire_put32(w, uid);
    wire_put32(w, gid);
    wire_put32(w, 0);
    wire_put32(w, RPC_AUTH_NONE);
    wire_put32(w, 0);
}

void wire_call_version(unsigned char *start, uint32_t version)
{
    wire_store32(start + 20, version);
}

void wire_record_end(const struct wire_writer *w, unsigned char *start, size_t payload)
{
    size_t length = (size_t)(w->at - start) - 4 + payload;
    wire_store32(start, RPC_LAST_FRAGMENT | (uint32_t)length);
}

bool wire_get_reply(struct wire_reader *r, uint32_t *xid)
{
    uint32_t length;
    *xid = wire_get32(r);
    uint32_t type = wire_get32(r);
    uint32_t status = wire_get32(r);
    wire_get32(r);
    wire_get_opaque(r, RPC_AUTH_MAX, &length);
    uint32_t accepted = wire_get32(r);
    return !r->bad && type == RPC_REPLY && status == RPC_ACCEPTED && accepted == RPC_SUCCESS;
}

void wire_get_post_op(struct wire_reader *r, uint64_t *size)
{
    if (!wire_get_bool(r))
        return;
    const unsigned char *bytes = wire_get_bytes(r, NFS_FATTR_BYTES);
    if (bytes && size)
        *size = (uint64_t)wire_load32(bytes + 20) << 32 | wire_load32(bytes + 24);
}

void wire_get_wcc(struct wire_reader *r)
{
    if (wire_get_bool(r))
        wire_get_bytes(r, 24);
    wire_get_post_op(r, NULL);
}

socklen_t wire_address(const char *text, uint16_t port, struct sockaddr_storage *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(address, &v4, sizeof v4);
        return sizeof v4;
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(address, &v6, sizeof v6);
        return sizeof v6;
    }
    return 0;
}

uint16_t wire_address_port(const struct sockaddr_storage *address)
{
    in_port_t port; // at the same place in both families
    memcpy(&port, (const char *)address + offsetof(struct sockaddr_in, sin_port), sizeof port);
    return ntohs(port);
}
