/*
 * What a server of NFS version 4.1 reads and writes: the numbers of RFC 8881, and XDR (RFC 4506).
 *
 * It shares nothing with src/nfs on purpose: what is misread in the RFC is not misread twice, and
 * so a test shows it.
 */
#ifndef TEST_V41_WIRE_H
#define TEST_V41_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

enum v41_op {
    V41_ACCESS = 3,
    V41_CLOSE = 4,
    V41_COMMIT = 5,
    V41_GETATTR = 9,
    V41_GETFH = 10,
    V41_LOOKUP = 15,
    V41_OPEN = 18,
    V41_PUTFH = 22,
    V41_PUTROOTFH = 24,
    V41_READ = 25,
    V41_READDIR = 26,
    V41_RESTOREFH = 31,
    V41_SAVEFH = 32,
    V41_SECINFO = 33,
    V41_SETATTR = 34,
    V41_VERIFY = 37,
    V41_WRITE = 38,
    V41_BIND_CONN_TO_SESSION = 41,
    V41_EXCHANGE_ID = 42,
    V41_CREATE_SESSION = 43,
    V41_DESTROY_SESSION = 44,
    V41_FREE_STATEID = 45,
    V41_SECINFO_NO_NAME = 52,
    V41_SEQUENCE = 53,
    V41_TEST_STATEID = 55,
    V41_DESTROY_CLIENTID = 57,
    V41_RECLAIM_COMPLETE = 58,
    V41_OPS = 64, /* room for arrays */
    V41_ILLEGAL = 10044
};

enum v41_status {
    V41_OK = 0,
    V41_NOENT = 2,
    V41_ACCES = 13,
    V41_EXIST = 17,
    V41_NOTDIR = 20,
    V41_ISDIR = 21,
    V41_INVAL = 22,
    V41_FBIG = 27,
    V41_NOSPC = 28,
    V41_STALE = 70,
    V41_BADHANDLE = 10001,
    V41_NOTSUPP = 10004,
    V41_TOOSMALL = 10005,
    V41_DELAY = 10008,
    V41_GRACE = 10013,
    V41_WRONGSEC = 10016,
    V41_CLID_INUSE = 10017,
    V41_MOVED = 10019,
    V41_NOFILEHANDLE = 10020,
    V41_MINOR_VERS_MISMATCH = 10021,
    V41_STALE_CLIENTID = 10022,
    V41_OLD_STATEID = 10024,
    V41_BAD_STATEID = 10025,
    V41_NOT_SAME = 10027,
    V41_RESTOREFH_EMPTY = 10030,
    V41_NO_GRACE = 10033,
    V41_BADXDR = 10036,
    V41_OPENMODE = 10038,
    V41_OP_ILLEGAL = 10044,
    V41_BADSESSION = 10052,
    V41_BADSLOT = 10053,
    V41_COMPLETE_ALREADY = 10054,
    V41_CONN_NOT_BOUND = 10055,
    V41_SEQ_MISORDERED = 10063,
    V41_SEQUENCE_POS = 10064,
    V41_REQ_TOO_BIG = 10065,
    V41_REP_TOO_BIG = 10066,
    V41_REP_TOO_BIG_TO_CACHE = 10067,
    V41_RETRY_UNCACHED_REP = 10068,
    V41_TOO_MANY_OPS = 10070,
    V41_OP_NOT_IN_SESSION = 10071,
    V41_CLIENTID_BUSY = 10074,
    V41_SEQ_FALSE_RETRY = 10076,
    V41_BAD_HIGH_SLOT = 10077,
    V41_DEADSESSION = 10078,
    V41_NOT_ONLY_OP = 10081
};

/* ---- reading: beyond the end everything is 0, and `bad` stays ---- */

struct v41_in {
    const uint8_t *at, *end;
    bool bad;
};

const uint8_t *v41_take(struct v41_in *in, size_t length);

static inline uint32_t v41_word_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

uint32_t v41_u32(struct v41_in *in);
uint64_t v41_u64(struct v41_in *in);

/* Only 0 and 1 are booleans. */
bool v41_bool(struct v41_in *in);

struct v41_bytes {
    const uint8_t *data;
    uint32_t length;
};

struct v41_bytes v41_opaque(struct v41_in *in, uint32_t most);

/* A bitmap4: the first 96 attributes; others are unknown to everybody here. */
struct v41_bitmap {
    uint32_t words[3];
};

struct v41_bitmap v41_bitmap(struct v41_in *in);

static inline bool v41_has(const struct v41_bitmap *map, unsigned attribute)
{
    return map->words[attribute / 32] >> attribute % 32 & 1;
}

static inline void v41_add(struct v41_bitmap *map, unsigned attribute)
{
    map->words[attribute / 32] |= (uint32_t)1 << attribute % 32;
}

/* ---- writing: see put_word() too ---- */

void v41_set_word(uint8_t *at, uint32_t value);
void v41_put64(struct bytes *out, uint64_t value);

/* Without its length. */
void v41_put_fixed(struct bytes *out, const void *data, size_t length);
void v41_put_opaque(struct bytes *out, const void *data, size_t length);
void v41_put_bitmap(struct bytes *out, const struct v41_bitmap *map);

#endif
