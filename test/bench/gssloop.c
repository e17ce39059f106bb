// gssloop: what the library of Kerberos takes alone, for messages as RPCSEC_GSS has them. It makes
// contexts with itself: the ticket is in $KRB5CCNAME, the keys of the service in $KRB5_KTNAME.
#include <errno.h>
#include <gssapi/gssapi.h>
#include <gssapi/gssapi_ext.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TOKENS = 128,  // wrapped before one of them is unwrapped again
    CONTEXTS = 64, // whose memory is measured
    MORE = 512     // bytes that a wrapped message has more, at most
};

static gss_OID_desc krb5 = {9, (void *)"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"};

static void need(OM_uint32 major, const char *what)
{
    if (!GSS_ERROR(major))
        return;
    fprintf(stderr, "gssloop: %s: %#x\n", what, major);
    exit(1);
}

// Contexts of both ends, with the flags that the library asks for.
static void make(gss_name_t service, gss_ctx_id_t *ours, gss_ctx_id_t *theirs)
{
    gss_buffer_desc there = GSS_C_EMPTY_BUFFER, back = GSS_C_EMPTY_BUFFER;
    OM_uint32 minor, major;
    *ours = *theirs = GSS_C_NO_CONTEXT;
    do {
        OM_uint32 ignored;
        major = gss_init_sec_context(&minor, GSS_C_NO_CREDENTIAL, ours, service, &krb5,
                                     GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG, 0,
                                     NULL, &back, NULL, &there, NULL, NULL);
        need(major, "init_sec_context");
        gss_release_buffer(&ignored, &back);
        if (there.length > 0)
            need(gss_accept_sec_context(&minor, theirs, GSS_C_NO_CREDENTIAL, &there, NULL, NULL,
                                        NULL, &back, NULL, NULL, NULL),
                 "accept_sec_context");
        gss_release_buffer(&ignored, &there);
    } while (major & GSS_S_CONTINUE_NEEDED);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// A MIC of `size` bytes, and its verification: microseconds.
static void time_mic(gss_ctx_id_t ours, gss_ctx_id_t theirs, uint8_t *bytes, size_t size,
                     double times[2])
{
    gss_buffer_desc message = {size, bytes}, mic;
    OM_uint32 minor;
    unsigned turns = size > 1000 ? 4000 : 20000;
    double begun = now_us();
    for (unsigned i = 0; i < turns; i++) {
        need(gss_get_mic(&minor, ours, GSS_C_QOP_DEFAULT, &message, &mic), "get_mic");
        gss_release_buffer(&minor, &mic);
    }
    times[0] = (now_us() - begun) / turns;
    need(gss_get_mic(&minor, theirs, GSS_C_QOP_DEFAULT, &message, &mic), "get_mic");
    begun = now_us();
    for (unsigned i = 0; i < turns; i++)
        need(gss_verify_mic(&minor, ours, &message, &mic, NULL), "verify_mic");
    times[1] = (now_us() - begun) / turns;
    gss_release_buffer(&minor, &mic);
}

static size_t wrap(gss_ctx_id_t context, uint8_t *token, size_t size)
{
    gss_iov_buffer_desc vectors[] = {{GSS_IOV_BUFFER_TYPE_HEADER, GSS_C_EMPTY_BUFFER},
                                     {GSS_IOV_BUFFER_TYPE_DATA, {size, NULL}},
                                     {GSS_IOV_BUFFER_TYPE_PADDING, GSS_C_EMPTY_BUFFER},
                                     {GSS_IOV_BUFFER_TYPE_TRAILER, GSS_C_EMPTY_BUFFER}};
    OM_uint32 minor;
    need(gss_wrap_iov_length(&minor, context, 1, GSS_C_QOP_DEFAULT, NULL, vectors, 4),
         "wrap_iov_length");
    for (int i = 0; i < 4; i++) {
        vectors[i].buffer.value = token;
        token += vectors[i].buffer.length;
    }
    need(gss_wrap_iov(&minor, context, 1, GSS_C_QOP_DEFAULT, NULL, vectors, 4), "wrap_iov");
    return vectors[0].buffer.length + size + vectors[2].buffer.length + vectors[3].buffer.length;
}

// A message of `size` bytes, encrypted where it is, and one of the other end decrypted:
// microseconds.
static void time_wrap(gss_ctx_id_t ours, gss_ctx_id_t theirs, uint8_t *bytes, size_t size,
                      double times[2])
{
    size_t room = size + MORE, lengths[TOKENS];
    uint8_t *tokens = calloc(TOKENS, room);
    unsigned rounds = size > 1000 ? 20 : 200;
    OM_uint32 minor;
    if (!tokens)
        exit(1);
    for (int i = 0; i < TOKENS; i++)
        memcpy(tokens + i * room, bytes, size);
    double begun = now_us();
    for (unsigned round = 0; round < rounds; round++)
        for (int i = 0; i < TOKENS; i++)
            wrap(ours, tokens + i * room, size);
    times[0] = (now_us() - begun) / rounds / TOKENS;
    times[1] = 0;
    for (unsigned round = 0; round < rounds; round++) {
        for (int i = 0; i < TOKENS; i++)
            lengths[i] = wrap(theirs, tokens + i * room, size);
        begun = now_us();
        for (int i = 0; i < TOKENS; i++) {
            gss_iov_buffer_desc vectors[] = {
                {GSS_IOV_BUFFER_TYPE_STREAM, {lengths[i], tokens + i * room}},
                {GSS_IOV_BUFFER_TYPE_DATA, GSS_C_EMPTY_BUFFER}};
            need(gss_unwrap_iov(&minor, ours, NULL, NULL, vectors, 2), "unwrap_iov");
        }
        times[1] += (now_us() - begun) / rounds / TOKENS;
    }
    free(tokens);
}

int main(int argc, char **argv)
{
    static uint8_t bytes[1 << 20];
    gss_ctx_id_t ours, theirs, many[CONTEXTS];
    gss_name_t service;
    OM_uint32 minor;
    if (argc != 3 || atol(argv[2]) < 1 || (size_t)atol(argv[2]) > sizeof(bytes)) {
        fputs("usage: gssloop SERVICE@HOST SIZE\n"
              "Prints what a MIC and a wrapped message take, of SIZE bytes and of 128: "
              "microseconds of CPU.\n",
              stderr);
        return 2;
    }
    size_t size = (size_t)atol(argv[2]);
    gss_buffer_desc text = {strlen(argv[1]), argv[1]};
    need(gss_import_name(&minor, &text, GSS_C_NT_HOSTBASED_SERVICE, &service), "import_name");
    make(service, &ours, &theirs);
    memset(bytes, 'x', sizeof(bytes));
    double mic[2], small_mic[2], wrapped[2], small_wrapped[2], verifier[2];
    time_mic(ours, theirs, bytes, size, mic);
    time_mic(ours, theirs, bytes, 128, small_mic);
    time_mic(ours, theirs, bytes, 4, verifier);
    time_wrap(ours, theirs, bytes, size, wrapped);
    time_wrap(ours, theirs, bytes, 128, small_wrapped);
    gss_ctx_id_t ended[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++)
        make(service, &many[i], &ended[i]);
    for (int i = 0; i < CONTEXTS; i++)
        gss_delete_sec_context(&minor, &ended[i], NULL);
    size_t with = mallinfo2().uordblks;
    for (int i = 0; i < CONTEXTS; i++)
        gss_delete_sec_context(&minor, &many[i], NULL);
    printf("{\"size\": %zu, \"mic\": %.3f, \"verify\": %.3f, \"small_mic\": %.3f, "
           "\"small_verify\": %.3f, \"verifier\": %.3f, "
           "\"wrap\": %.3f, \"unwrap\": %.3f, \"small_wrap\": %.3f, \"small_unwrap\": %.3f, "
           "\"context_bytes\": %zu}\n",
           size, mic[0], mic[1], small_mic[0], small_mic[1], verifier[1], wrapped[0], wrapped[1],
           small_wrapped[0], small_wrapped[1], (with - mallinfo2().uordblks) / CONTEXTS);
    return 0;
}
