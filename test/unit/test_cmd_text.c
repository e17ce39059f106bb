/* Output of the directnfs command: printable text, tables, JSON. */
#include <stdlib.h>
#include <string.h>

#include "../../src/cmd/print.c"
#include "../../src/cmd/table.c"
#include "unit.h"

static void printable_is(const char *text, size_t limit, const char *expected)
{
    char *result = cmd_printable(text, limit);
    assert_string_equal(result, expected);
    free(result);
}

UNIT_TEST(printable_keeps_text)
{
    printable_is("", 10, "");
    printable_is("/srv/pg data\\x", 100, "/srv/pg data\\x");
    printable_is("d\xc3\xa9j\xc3\xa0 \xe2\x82\xac \xf0\x9f\x90\x98", 100,
                 "d\xc3\xa9j\xc3\xa0 \xe2\x82\xac \xf0\x9f\x90\x98");
}

UNIT_TEST(printable_escapes_controls)
{
    printable_is("a\x1b[31mb\n\x7f", 100, "a\\x1b[31mb\\x0a\\x7f");
    printable_is("\xc2\x9b", 100, "\\xc2\\x9b"); /* CSI of C1 */
    printable_is("a\xe2\x80\xae"
                 "b",
                 100, "a\\xe2\\x80\\xaeb"); /* right-to-left override */
}

UNIT_TEST(printable_escapes_what_is_no_utf8)
{
    printable_is("\xff\xfe", 100, "\\xff\\xfe");
    printable_is("\xc0\xaf", 100, "\\xc0\\xaf");          /* overlong */
    printable_is("\xe0\x80\xaf", 100, "\\xe0\\x80\\xaf"); /* overlong */
    printable_is("\xed\xa0\x80", 100, "\\xed\\xa0\\x80"); /* surrogate */
    printable_is("\xf4\x90\x80\x80", 100, "\\xf4\\x90\\x80\\x80");
    printable_is("x\xe2\x82", 100, "x\\xe2\\x82"); /* ends in the middle */
}

UNIT_TEST(printable_stops_at_the_limit)
{
    static const char unterminated[4] = {'a', 'b', 'c', 'd'};
    printable_is(unterminated, sizeof(unterminated), "abcd");
    /* A character that the limit cuts is not read beyond it. */
    static const char cut[2] = {'x', (char)0xc3};
    printable_is(cut, sizeof(cut), "x\\xc3");
}

static const struct cmd_column columns[] = {
    {.name = "NAME"}, {.name = "N", .kind = CMD_NUMBER}, {.name = "LAST"}};

static char *print(const struct cmd_table *table, size_t width)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cmd_table_print(table, width, out);
    fclose(out);
    return text;
}

UNIT_TEST(table_aligns_columns)
{
    struct cmd_table table = {.columns = columns, .column_count = 3, .key_columns = 1};
    cmd_table_text(&table, "\xc3\xa9t\xc3\xa9", 100);
    cmd_table_number(&table, 12345);
    cmd_table_text(&table, "x", 100);
    cmd_table_text(&table, "longer name", 100);
    cmd_table_real(&table, 7.25);
    cmd_table_text(&table, "", 100);
    char *text = print(&table, 0);
    assert_string_equal(text, "NAME             N  LAST\n"
                              "\xc3\xa9t\xc3\xa9          12345  x\n"
                              "longer name    7.2  \n");
    free(text);
    cmd_table_free(&table);
}

UNIT_TEST(table_without_rows_says_so)
{
    struct cmd_table table = {.columns = columns, .column_count = 3, .none = "none"};
    char *text = print(&table, 0);
    assert_string_equal(text, "none\n");
    free(text);
}

UNIT_TEST(table_is_split_at_the_width)
{
    struct cmd_table table = {.columns = columns, .column_count = 3, .key_columns = 1};
    cmd_table_text(&table, "key", 100);
    cmd_table_number(&table, 12345);
    cmd_table_text(&table, "value", 100);
    char *text = print(&table, 12);
    assert_string_equal(text, "NAME      N\n"
                              "key   12345\n"
                              "\n"
                              "NAME  LAST\n"
                              "key   value\n");
    free(text);
    cmd_table_free(&table);
}

UNIT_TEST(json_is_well_formed)
{
    char *text;
    size_t size;
    struct cmd_json json = {.out = open_memstream(&text, &size)};
    cmd_json_open(&json, NULL, '{');
    cmd_json_text(&json, "NAME", "q\"b\\n\n\x01 \xff\xc3\xa9", 100);
    cmd_json_number(&json, "Number", UINT64_MAX);
    cmd_json_real(&json, "real", 1.26);
    cmd_json_open(&json, "empty", '[');
    cmd_json_close(&json, ']');
    cmd_json_open(&json, "list", '[');
    cmd_json_number(&json, NULL, 1);
    cmd_json_number(&json, NULL, 2);
    cmd_json_close(&json, ']');
    cmd_json_close(&json, '}');
    fclose(json.out);
    assert_string_equal(text, "{\n"
                              "  \"name\": \"q\\\"b\\\\n\\u000a\\u0001 \\ufffd\xc3\xa9\",\n"
                              "  \"number\": 18446744073709551615,\n"
                              "  \"real\": 1.260,\n"
                              "  \"empty\": [],\n"
                              "  \"list\": [\n"
                              "    1,\n"
                              "    2\n"
                              "  ]\n"
                              "}\n");
    free(text);
}

UNIT_TEST(json_of_a_table_has_an_object_per_row)
{
    char *text;
    size_t size;
    struct cmd_json json = {.out = open_memstream(&text, &size)};
    struct cmd_table table = {.columns = columns, .column_count = 3};
    for (int i = 0; i < 2; i++) {
        cmd_table_text(&table, "a", 100);
        cmd_table_number(&table, 7);
        cmd_table_text(&table, "\"", 100);
    }
    cmd_json_table(&json, NULL, &table);
    fclose(json.out);
    assert_string_equal(text,
                        "[\n"
                        "  {\n    \"name\": \"a\",\n    \"n\": 7,\n    \"last\": \"\\\"\"\n  },\n"
                        "  {\n    \"name\": \"a\",\n    \"n\": 7,\n    \"last\": \"\\\"\"\n  }\n"
                        "]\n");
    free(text);
    cmd_table_free(&table);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
