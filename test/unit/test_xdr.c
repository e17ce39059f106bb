/* The bounds-checked XDR reader and writer (RFC 4506). */
#include <stdlib.h>
#include <string.h>
#include "nfs/xdr.h"
#include "unit.h"

/* A heap block of exactly this size, so that a sanitizer or valgrind sees any access outside. */
static uint8_t *copy(const char *bytes, size_t size)
{
    volatile size_t room = size; /* unknown to a compiler that warns of what is never reached */
    uint8_t *block = malloc(room);

    assert_non_null(block);
    memcpy(block, bytes, size);
    return block;
}

UNIT_TEST(padding_completes_four_bytes)
{
    assert_int_equal(xdr_pad(0), 0);
    assert_int_equal(xdr_pad(1), 3);
    assert_int_equal(xdr_pad(2), 2);
    assert_int_equal(xdr_pad(3), 1);
    assert_int_equal(xdr_pad(4), 0);
    assert_int_equal(xdr_pad(0xffffffff), 1);
}

UNIT_TEST(a_reader_that_failed_stays_failed)
{
    struct xdr_reader r;
    uint8_t *block = copy("\0\0\0\1\0\0\0\2\0\0", 10);

    xdr_reader_init(&r, block, 10);
    assert_int_equal(xdr_get_u32(&r), 1);
    assert_true(xdr_get_u64(&r) == 0);
    assert_true(r.bad);
    assert_int_equal(xdr_get_u32(&r), 0);
    assert_int_equal(xdr_reader_left(&r), 0);
    assert_null(xdr_get_room(&r, 0));
    free(block);
}

UNIT_TEST(a_writer_that_failed_stays_failed)
{
    uint8_t *block = malloc(6);
    struct xdr_writer w;

    assert_non_null(block);
    memset(block, 0xee, 6);
    xdr_writer_init(&w, block, 6);
    xdr_put_u64(&w, 1);
    xdr_put_u32(&w, 1);
    assert_true(w.bad);
    assert_null(xdr_put_room(&w, 0));
    assert_memory_equal(block, "\xee\xee\xee\xee\xee\xee", 6);
    free(block);
}

UNIT_TEST(opaque_data_is_bounded_by_its_maximum_and_by_the_buffer)
{
    uint8_t *five = copy("\0\0\0\5\1\2\3\4\5\0\0\0", 12);
    uint8_t *cut = copy("\0\0\0\5\1\2\3\4\5\0\0", 11);
    uint8_t *huge = copy("\xff\xff\xff\xff\0\0\0\0", 8);
    struct xdr_reader r;
    uint32_t len;

    xdr_reader_init(&r, five, 12);
    assert_non_null(xdr_get_opaque(&r, 5, &len));
    assert_int_equal(len, 5);
    xdr_reader_init(&r, five, 12);
    assert_null(xdr_get_opaque(&r, 4, &len));
    assert_int_equal(len, 0);
    assert_true(r.bad);
    xdr_reader_init(&r, cut, 11);
    assert_null(xdr_get_opaque(&r, 5, &len));
    assert_true(r.bad);
    xdr_reader_init(&r, huge, 8);
    assert_null(xdr_get_opaque(&r, UINT32_MAX, &len));
    assert_true(r.bad);
    free(five);
    free(cut);
    free(huge);
}

UNIT_TEST(numbers_are_big_endian)
{
    static const uint8_t expected[] = {0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1};
    uint8_t out[sizeof(expected)];
    struct xdr_writer w;
    struct xdr_reader r;

    xdr_writer_init(&w, out, sizeof(out));
    xdr_put_u32(&w, 1);
    xdr_put_u64(&w, 0x0102030405060708u);
    xdr_put_bool(&w, true);
    assert_false(w.bad);
    assert_memory_equal(out, expected, sizeof(expected));
    xdr_reader_init(&r, out, sizeof(out));
    assert_int_equal(xdr_get_u32(&r), 1);
    assert_true(xdr_get_u64(&r) == 0x0102030405060708u);
    assert_true(xdr_get_bool(&r));
    assert_false(r.bad);
}

UNIT_TEST(padding_is_written_as_zeros)
{
    uint8_t out[8];
    struct xdr_writer w;

    memset(out, 0xee, sizeof(out));
    xdr_writer_init(&w, out, sizeof(out));
    xdr_put_opaque(&w, "x", 1);
    assert_false(w.bad);
    assert_memory_equal(out, "\0\0\0\1x\0\0\0", 8);
}

UNIT_TEST(a_boolean_is_0_or_1)
{
    struct xdr_reader r;

    xdr_reader_init(&r, "\0\0\0\2", 4);
    assert_false(xdr_get_bool(&r));
    assert_true(r.bad);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
