// tlsloop: what OpenSSL takes alone for records of TLS 1.3, between two ends in memory.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECORDS = 64, ROUNDS = 100, HEAD = 136, CALL = 108 };

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "tlsloop: %s\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// Two ends, each of which reads what the other one writes.
static void join(SSL_CTX *context, SSL *ends[2])
{
    BIO *ways[2] = {BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem())};
    for (int i = 0; i < 2; i++) {
        ends[i] = SSL_new(context);
        need(ends[i] != NULL, "SSL_new");
        BIO_set_mem_eof_return(ways[i], -1);
        BIO_up_ref(ways[i]);
    }
    for (int i = 0; i < 2; i++)
        SSL_set_bio(ends[i], ways[i], ways[1 - i]);
    SSL_set_connect_state(ends[0]);
    SSL_set_accept_state(ends[1]);
    for (int turn = 0; turn < 8; turn++)
        SSL_do_handshake(ends[turn % 2]);
    need(SSL_is_init_finished(ends[0]) && SSL_is_init_finished(ends[1]), "handshake");
}

static void take(SSL *end, uint8_t *bytes, size_t size)
{
    while (size > 0) {
        int got = SSL_read(end, bytes, (int)size);
        need(got > 0, "SSL_read");
        size -= (size_t)got;
    }
}

int main(int argc, char **argv)
{
    static uint8_t bytes[16384];
    SSL *ends[2];
    size_t size = argc == 4 ? (size_t)atol(argv[3]) : 0;
    if (size < 1 || size + HEAD > sizeof(bytes)) {
        fputs("usage: tlsloop CERTIFICATE KEY SIZE\n"
              "Prints what a record with SIZE bytes takes to be made, and to be read as a head and "
              "the rest; and\n"
              "the same of a short one: microseconds of CPU.\n",
              stderr);
        return 2;
    }
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    need(context && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
             SSL_CTX_use_certificate_file(context, argv[1], SSL_FILETYPE_PEM) == 1 &&
             SSL_CTX_use_PrivateKey_file(context, argv[2], SSL_FILETYPE_PEM) == 1,
         "the certificate");
    join(context, ends);
    const size_t sizes[] = {size + HEAD, CALL};
    double written[2] = {0, 0}, read[2] = {0, 0};
    memset(bytes, 'x', sizeof(bytes));
    for (int round = 0; round < ROUNDS; round++) {
        for (int kind = 0; kind < 2; kind++) {
            double begun = now_us();
            for (int i = 0; i < RECORDS; i++)
                need(SSL_write(ends[0], bytes, (int)sizes[kind]) == (int)sizes[kind], "SSL_write");
            written[kind] += now_us() - begun;
            for (int i = 0; i < RECORDS; i++)
                take(ends[1], bytes, sizes[kind]);
            for (int i = 0; i < RECORDS; i++)
                need(SSL_write(ends[1], bytes, (int)sizes[kind]) == (int)sizes[kind], "SSL_write");
            begun = now_us();
            for (int i = 0; i < RECORDS; i++) {
                if (kind == 0)
                    take(ends[0], bytes, HEAD);
                take(ends[0], bytes, kind == 0 ? size : CALL);
            }
            read[kind] += now_us() - begun;
        }
    }
    const double all = ROUNDS * RECORDS;
    printf("{\"size\": %zu, \"write\": %.3f, \"read\": %.3f, \"small_write\": %.3f, "
           "\"small_read\": %.3f, \"cipher\": \"%s\"}\n",
           size, written[0] / all, read[0] / all, written[1] / all, read[1] / all,
           SSL_CIPHER_get_name(SSL_get_current_cipher(ends[0])));
    return 0;
}
