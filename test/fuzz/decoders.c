/*
 * The NFSv3 codec. Byte 0 says which message, the others are it. What was decoded is encoded to as
 * many bytes as were read, and these decode to the same; the head of READ results is found where
 * the decoder finds it, met piece by piece.
 */
#include "nfs3_messages.h"
#include "fuzz.h"

/* The order is that of byte 0 in the corpus. */
static const struct kind {
    int (*get)(struct xdr_reader *r, void *v);
    int (*put)(struct xdr_writer *w, const void *v);
} kinds[] = {
    {get_fh_args, put_fh_args},         {get_setattr_args, put_setattr_args},
    {get_lookup_args, put_lookup_args}, {get_access_args, put_access_args},
    {get_read_args, put_read_args},     {get_write_args, put_write_args},
    {get_commit_args, put_commit_args}, {get_getattr_res, put_getattr_res},
    {get_setattr_res, put_setattr_res}, {get_lookup_res, put_lookup_res},
    {get_access_res, put_access_res},   {get_read_res, put_read_res},
    {get_write_res, put_write_res},     {get_fsinfo_res, put_fsinfo_res},
    {get_commit_res, put_commit_res},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), LARGEST = NFS3_ARGS_MAX };

static size_t encode(const struct kind *kind, const union decoded *v, uint8_t buffer[LARGEST])
{
    struct xdr_writer w;
    xdr_writer_init(&w, buffer, LARGEST);
    must(kind->put(&w, v) == 0);
    return (size_t)(w.p - buffer);
}

static void check_kind(const struct kind *kind, const struct exact *message)
{
    uint8_t once[LARGEST], twice[LARGEST];
    union decoded v;
    size_t left;
    if (decode_part(message, message->size, kind->get, &v, &left) != 0)
        return;
    size_t size = encode(kind, &v, once);
    must(size == message->size - left);
    struct exact again = {once, size};
    must(decode_part(&again, size, kind->get, &v, &left) == 0 && left == 0);
    must(encode(kind, &v, twice) == size && memcmp(once, twice, size) == 0);
}

/* Bytes arrive one by one: more are asked for until the head is there, but never more than that. */
static void check_read_head(const struct exact *message)
{
    struct nfs3_read_res res;
    struct xdr_reader r;
    xdr_reader_init(&r, message->data, message->size);
    int whole = nfs3_read_res_get(&r, UINT32_MAX, &res);
    size_t wanted = 1, head = 0;
    int found = 0;
    for (size_t have = 0; have <= message->size && found == 0; have++) {
        uint8_t *block = malloc(have ? have : 1);
        uint32_t data = UINT32_MAX;
        must(block != NULL);
        memcpy(block, message->data, have);
        found = nfs3_read_head(block, have, &head, &data);
        must(found != 1 || (have >= wanted && head <= have && head <= NFS3_READ_HEAD_MAX));
        must(found != 0 || (head > have && head <= NFS3_READ_HEAD_MAX && data == 0));
        wanted = found == 0 ? head : wanted;
        if (whole == 0 && found == 1)
            must(head == message->size - xdr_reader_left(&r) &&
                 data == (res.status == NFS3_OK ? res.count : 0));
        free(block);
    }
    must(whole != 0 || found == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return -1;
    uint8_t which = data[0];
    struct exact message = {malloc(size), size - 1};
    must(message.data != NULL);
    memcpy(message.data, data + 1, size - 1);
    check_kind(&kinds[which % KINDS], &message);
    if (kinds[which % KINDS].get == get_read_res)
        check_read_head(&message);
    free(message.data);
    return 0;
}
