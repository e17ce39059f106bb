/*
 * External Data Representation (RFC 4506): a bounds-checked reader and writer.
 *
 * Both walk a buffer that the caller owns, and never touch a byte outside it. The first access that
 * does not fit sets `bad` and moves the position to the end. So everything after it fails as well,
 * and a caller codes a whole message and looks at `bad` once. A bad reader yields zeros. Neither
 * structure owns memory or takes locks; both live on the stack.
 */
#ifndef NFS_XDR_H
#define NFS_XDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <endian.h>

struct xdr_writer {
    uint8_t *p;   /* where the next byte goes */
    uint8_t *end; /* first byte that must not be written */
    bool bad;     /* something did not fit */
};

struct xdr_reader {
    const uint8_t *p;   /* the next byte to read */
    const uint8_t *end; /* first byte that must not be read */
    bool bad;           /* the message was too short or held a forbidden value */
};

/* Bytes of padding after `len` bytes of opaque data: 0..3 (RFC 4506 section 4.10). */
static inline uint32_t xdr_pad(uint32_t len)
{
    return (0u - len) & 3u;
}

static inline void xdr_writer_init(struct xdr_writer *w, void *buf, size_t size)
{
    w->p = buf;
    w->end = w->p + size;
    w->bad = false;
}

static inline void xdr_reader_init(struct xdr_reader *r, const void *buf, size_t size)
{
    r->p = buf;
    r->end = r->p + size;
    r->bad = false;
}

/* Bytes of room left to write. */
static inline size_t xdr_writer_left(const struct xdr_writer *w)
{
    return (size_t)(w->end - w->p);
}

/* Bytes not yet read. */
static inline size_t xdr_reader_left(const struct xdr_reader *r)
{
    return (size_t)(r->end - r->p);
}

/* Returns where `n` bytes may be written and moves past them, or NULL if they do not fit. */
static inline uint8_t *xdr_put_room(struct xdr_writer *w, size_t n)
{
    uint8_t *at = w->p;

    if (__builtin_expect(w->bad || xdr_writer_left(w) < n, 0)) {
        w->bad = true;
        w->p = w->end;
        return NULL;
    }
    w->p += n;
    return at;
}

/* Returns where `n` bytes may be read and moves past them, or NULL if they are not there. */
static inline const uint8_t *xdr_get_room(struct xdr_reader *r, size_t n)
{
    const uint8_t *at = r->p;

    if (__builtin_expect(r->bad || xdr_reader_left(r) < n, 0)) {
        r->bad = true;
        r->p = r->end;
        return NULL;
    }
    r->p += n;
    return at;
}

/* Marks the message as malformed; nothing can be read from it any more. */
static inline void xdr_reader_fail(struct xdr_reader *r)
{
    r->bad = true;
    r->p = r->end;
}

/* Unchecked big-endian access to bytes that xdr_put_room() or xdr_get_room() has granted. */
static inline void xdr_store_u32(uint8_t *at, uint32_t v)
{
    v = htobe32(v);
    memcpy(at, &v, 4);
}

static inline void xdr_store_u64(uint8_t *at, uint64_t v)
{
    v = htobe64(v);
    memcpy(at, &v, 8);
}

static inline uint32_t xdr_load_u32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, 4);
    return be32toh(v);
}

static inline uint64_t xdr_load_u64(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, 8);
    return be64toh(v);
}

static inline void xdr_put_u32(struct xdr_writer *w, uint32_t v)
{
    uint8_t *at = xdr_put_room(w, 4);

    if (at)
        xdr_store_u32(at, v);
}

static inline void xdr_put_u64(struct xdr_writer *w, uint64_t v)
{
    uint8_t *at = xdr_put_room(w, 8);

    if (at)
        xdr_store_u64(at, v);
}

static inline void xdr_put_bool(struct xdr_writer *w, bool v)
{
    xdr_put_u32(w, v ? 1 : 0);
}

/* Opaque data of a length both sides know, with zeroed padding and no length word. */
static inline void xdr_put_fixed(struct xdr_writer *w, const void *data, uint32_t len)
{
    uint32_t pad = xdr_pad(len);
    uint8_t *at = xdr_put_room(w, (size_t)len + pad);

    if (!at)
        return;
    if (len)
        memcpy(at, data, len);
    for (uint32_t i = 0; i < pad; i++)
        at[len + i] = 0;
}

/* Opaque data or a string of variable length: the length word, the bytes, zeroed padding. */
static inline void xdr_put_opaque(struct xdr_writer *w, const void *data, uint32_t len)
{
    xdr_put_u32(w, len);
    xdr_put_fixed(w, data, len);
}

static inline uint32_t xdr_get_u32(struct xdr_reader *r)
{
    const uint8_t *at = xdr_get_room(r, 4);

    return at ? xdr_load_u32(at) : 0;
}

static inline uint64_t xdr_get_u64(struct xdr_reader *r)
{
    const uint8_t *at = xdr_get_room(r, 8);

    return at ? xdr_load_u64(at) : 0;
}

/* A boolean is 0 or 1 (RFC 4506 section 4.4); anything else makes the message bad. */
static inline bool xdr_get_bool(struct xdr_reader *r)
{
    uint32_t v = xdr_get_u32(r);

    if (__builtin_expect(v > 1, 0)) {
        xdr_reader_fail(r);
        return false;
    }
    return v != 0;
}

/* Opaque data of known length: returns its `len` bytes inside the buffer, or NULL. */
static inline const uint8_t *xdr_get_fixed(struct xdr_reader *r, uint32_t len)
{
    return xdr_get_room(r, (size_t)len + xdr_pad(len));
}

/*
 * Opaque data or a string of variable length, at most `max` bytes: returns the bytes inside the
 * buffer (not terminated) and their number in *len, or NULL with *len 0.
 */
static inline const uint8_t *xdr_get_opaque(struct xdr_reader *r, uint32_t max, uint32_t *len)
{
    uint32_t n = xdr_get_u32(r);
    const uint8_t *at;

    *len = 0;
    if (__builtin_expect(n > max, 0)) {
        xdr_reader_fail(r);
        return NULL;
    }
    at = xdr_get_fixed(r, n);
    if (at)
        *len = n;
    return at;
}

#endif
