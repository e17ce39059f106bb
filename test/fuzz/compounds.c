/*
 * The NFSv4.1 codec. Byte 0 says which reply, the others are it. The payload of a READ, and the end
 * of an EXCHANGE_ID, are found where the decoder finds them, met piece by piece.
 */
#include "nfs4_messages.h"
#include "fuzz.h"

typedef int finder(const uint8_t *results, size_t have, size_t *head, uint32_t *length);

/* Bytes arrive one by one: more are asked for until the head is there. */
static int find(finder *finder, const uint8_t *data, size_t size, size_t *head, uint32_t *length)
{
    int found = 0;
    for (size_t have = 0; have <= size && found == 0; have++) {
        uint8_t *block = malloc(have ? have : 1);
        must(block != NULL);
        memcpy(block, data, have);
        found = finder(block, have, head, length);
        must(found <= 1);
        must(found != 1 || finder != nfs4_read_head || *head <= have);
        must(found != 1 || finder != nfs4_exchange_id_find || (*head == 0 && *length <= have));
        free(block);
    }
    return found;
}

static void check_read(const struct xdr_reader *end, const struct reply *reply, bool good,
                       const uint8_t *data, size_t size)
{
    size_t head = 0;
    uint32_t length = 0;
    int found = find(nfs4_read_head, data, size, &head, &length);
    if (good && reply->status == NFS4_OK)
        must(found == 1 && head == (size_t)(end->p - data) && length == reply->count);
}

static void check_exchange_id(const struct xdr_reader *end, const struct reply *reply, bool good,
                              const uint8_t *data, size_t size)
{
    size_t head = 0;
    uint32_t length = 0;
    int found = find(nfs4_exchange_id_find, data, size, &head, &length);
    if (good && reply->status == NFS4_OK)
        must(found == 1 && length == (size_t)(end->p - data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return -1;
    enum reply_kind kind = (enum reply_kind)(data[0] % REPLY_KINDS);
    struct reply reply;
    struct xdr_reader r;
    uint8_t *message = malloc(size);
    must(message != NULL);
    memcpy(message, data + 1, --size);
    xdr_reader_init(&r, message, size);
    bool good = reply_get(&r, kind, &reply) == 0;
    must(!good || (r.p >= message && r.p <= message + size));
    if (kind == REPLY_READ)
        check_read(&r, &reply, good, message, size);
    if (kind == REPLY_EXCHANGE_ID)
        check_exchange_id(&r, &reply, good, message, size);
    free(message);
    return 0;
}
