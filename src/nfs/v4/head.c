/* Where the payload of a reply begins: walks over results that arrive in pieces. */
#include "nfs/v4/xdr.h"

/* A walk over results. Only their first `have` bytes are here. */
struct walk {
    const uint8_t *results;
    size_t have, at;
};

/* Are the bytes here that are needed now? */
static bool walk_has(const struct walk *walk, size_t bytes)
{
    return walk->have >= walk->at && walk->have - walk->at >= bytes;
}

static uint32_t walk_word(struct walk *walk)
{
    uint32_t word = xdr_load_u32(walk->results + walk->at);
    walk->at += 4;
    return word;
}

/* Goes past a value that follows its length. 1 or 0 as in rpc_payload_find (walk->at: the bytes
 * needed), or -EBADMSG. */
static int walk_opaque(struct walk *walk, uint32_t most)
{
    if (!walk_has(walk, 4)) {
        walk->at += 4;
        return 0;
    }
    uint32_t length = walk_word(walk);
    if (length > most)
        return -EBADMSG;
    size_t size = (size_t)length + xdr_pad(length);
    bool there = walk_has(walk, size);
    walk->at += size;
    return there;
}

/* The head of a reply: its status, its tag, and the number of operations. Returns as walk_op(). */
static int walk_compound(struct walk *walk)
{
    if (!walk_has(walk, 12)) { /* mostly it has no tag */
        walk->at += 12;
        return 0;
    }
    walk->at += 4;
    int result = walk_opaque(walk, NFS4_OPAQUE_MAX);
    if (result <= 0)
        return result;
    if (!walk_has(walk, 4)) {
        walk->at += 4;
        return 0;
    }
    return walk_word(walk) > 0 ? 1 : 2;
}

/* The head of an operation. Returns as walk_opaque(), or 2: the reply ends with it. */
static int walk_op(struct walk *walk, uint32_t op)
{
    if (!walk_has(walk, 8)) {
        walk->at += 8;
        return 0;
    }
    uint32_t got = walk_word(walk), status = walk_word(walk);
    if (status != NFS4_OK)
        return 2;
    return got == op ? 1 : -EBADMSG;
}

/* The results before those of READ. Returns as walk_op(). */
static int walk_to_read(struct walk *walk)
{
    enum { SEQUENCE_SIZE = NFS4_SESSION_ID + 20, BITMAP_MAX = 8, ATTRIBUTES_MAX = 512 };
    int result = walk_compound(walk);
    if (result == 1)
        result = walk_op(walk, NFS4_OP_SEQUENCE);
    if (result != 1)
        return result;
    walk->at += SEQUENCE_SIZE;
    result = walk_op(walk, NFS4_OP_PUTFH);
    if (result == 1)
        result = walk_op(walk, NFS4_OP_GETATTR);
    if (result != 1)
        return result;
    if (!walk_has(walk, 4)) {
        walk->at += 4;
        return 0;
    }
    uint32_t words = walk_word(walk);
    if (words > BITMAP_MAX)
        return -EBADMSG;
    walk->at += 4 * words;
    result = walk_opaque(walk, ATTRIBUTES_MAX);
    return result == 1 ? walk_op(walk, NFS4_OP_READ) : result;
}

int nfs4_read_head(const uint8_t *results, size_t have, size_t *head_len, uint32_t *data_len)
{
    struct walk walk = {results, have, 0};
    *data_len = 0;
    int result = walk_to_read(&walk);
    if (result == 1 && !walk_has(&walk, 8)) {
        walk.at += 8;
        result = 0;
    } else if (result == 1) {
        if (walk_word(&walk) > 1)
            result = -EBADMSG;
        else
            *data_len = walk_word(&walk);
    }
    *head_len = walk.at;
    return result > 0 ? 1 : result;
}

int nfs4_exchange_id_find(const uint8_t *results, size_t have, size_t *head, uint32_t *length)
{
    enum { FIXED = 8 + 4 + 4 + 4 + 8 };
    struct walk walk = {results, have, 0};
    uint32_t found = 0;
    *head = 0;
    *length = 0;
    int result = walk_compound(&walk);
    if (result == 1)
        result = walk_op(&walk, NFS4_OP_EXCHANGE_ID);
    if (result == 1) {
        walk.at += FIXED;
        result = walk_opaque(&walk, NFS4_OPAQUE_MAX);
        if (result == 1)
            result = walk_opaque(&walk, NFS4_OPAQUE_MAX);
        if (result == 1 && walk_has(&walk, 4))
            found = walk_word(&walk);
        else if (result == 1)
            result = 0;
        if (found > 1)
            return -EBADMSG;
        for (int i = 0; i < 2 && result == 1 && found == 1; i++)
            result = walk_opaque(&walk, NFS4_OPAQUE_MAX);
        if (result == 1 && found == 1) {
            result = walk_has(&walk, 12);
            walk.at += 12;
        }
    }
    if (result <= 0)
        return result;
    *length = (uint32_t)walk.at;
    return 1;
}
