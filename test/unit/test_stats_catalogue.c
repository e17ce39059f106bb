/* What the manual says of each counter, and the catalogue: they name the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/catalogue.h"
#include "unit.h"

static char manual[65536];

static int read_manual(void **state)
{
    (void)state;
    FILE *file = fopen("man/directnfs-stats.7", "re");
    if (file == NULL)
        return -1;
    size_t size = fread(manual, 1, sizeof(manual) - 1, file);
    fclose(file);
    return size > 0 && size < sizeof(manual) - 1 ? 0 : -1;
}

/* From this line to the next one that begins so. The caller frees it. */
static char *section(const char *line, const char *next)
{
    const char *start = strstr(manual, line);
    if (start == NULL)
        fail_msg("no line '%s' in the manual", line);
    start += strlen(line);
    const char *end = strstr(start, next);
    return strndup(start, end ? (size_t)(end - start) : strlen(start));
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[length]))
            return true;
    return false;
}

static bool has_column(const struct stats_fields *fields, const char *word)
{
    for (size_t i = 0; i < fields->count; i++)
        if (fields->list[i].name && strcmp(fields->list[i].name, word) == 0)
            return true;
    return false;
}

static const struct {
    const char *view;
    const struct stats_fields *fields;
} views[] = {
    {"\n.Ss servers\n", &stats_tables[STATS_SERVERS].fields},
    {"\n.Ss sessions\n", &stats_tables[STATS_SESSIONS].fields},
    {"\n.Ss processes\n", &stats_process_fields},
    {"\n.Ss channels\n", &stats_tables[STATS_CHANNELS].fields},
    {"\n.Ss paths\n", &stats_tables[STATS_PATHS].fields},
    {"\n.Ss files\n", &stats_tables[STATS_FILES].fields},
    {"\n.Ss stats\n", &stats_counters},
};

UNIT_TEST(every_column_is_in_the_manual)
{
    char *all = section("\n.Sh VIEWS\n", "\n.Ss ");
    for (size_t v = 0; v < sizeof(views) / sizeof(views[0]); v++) {
        char *text = section(views[v].view, "\n.Ss ");
        const struct stats_fields *fields = views[v].fields;
        for (size_t i = 0; i < fields->count; i++) {
            const char *name = fields->list[i].name;
            if (name && !has_word(text, name) && !has_word(all, name))
                fail_msg("%s is not in the section%s", name, views[v].view);
        }
        free(text);
    }
    free(all);
}

UNIT_TEST(every_name_in_the_manual_is_a_column)
{
    for (size_t v = 0; v < sizeof(views) / sizeof(views[0]); v++) {
        char *text = section(views[v].view, "\n.Ss "), *next;
        unsigned found = 0;
        for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
            char *word, *rest = line + strlen(".It");
            if (strncmp(line, ".It ", 4) != 0)
                continue;
            while ((word = strsep(&rest, " ,")) != NULL) {
                if (*word == '\0' || strcmp(word, "UNCOMMITTED_BYTES") == 0 ||
                    strcmp(word, "UNSENT_BYTES") == 0 ||
                    strcmp(word, "PROCESSES") == 0) /* of a sum for people */
                    continue;
                if (!has_column(views[v].fields, word))
                    fail_msg("%s is no column of%s", word, views[v].view);
                found++;
            }
        }
        assert_true(found > 2);
        free(text);
    }
}

UNIT_TEST(every_metric_is_in_the_manual)
{
    char *text = section("\n.Sh METRICS\n", "\n.Sh ");
    const struct stats_fields *lists[] = {&stats_counters, &stats_tables[STATS_PATHS].fields,
                                          &stats_tables[STATS_SESSIONS].fields};
    for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
        for (size_t i = 0; i < lists[l]->count; i++) {
            const struct stats_field *field = &lists[l]->list[i];
            if (field->metric && !has_word(text, field->metric))
                fail_msg("%s is not among the metrics", field->metric);
            assert_true(!field->metric == !field->help);
        }
    free(text);
}

UNIT_TEST(every_procedure_beside_those_of_version_3_is_in_the_manual)
{
    char *text = section("\n.Ss stats\n", "\n.Ss ");
    for (unsigned p = DIRECTNFS_PROCEDURE_MOUNT; p < DIRECTNFS_PROCEDURES; p++) {
        assert_non_null(stats_procedure_name(p));
        if (!has_word(text, stats_procedure_name(p)))
            fail_msg("%s is not in the manual", stats_procedure_name(p));
    }
    free(text);
}

/* What cleaning, sums and differences rely on. */
UNIT_TEST(every_member_is_in_its_record)
{
    for (size_t t = 0; t < STATS_TABLES; t++) {
        const struct stats_table *table = &stats_tables[t];
        bool slot = false;
        for (size_t i = 0; i < table->fields.count; i++) {
            const struct stats_field *field = &table->fields.list[i];
            assert_true(field->offset < table->slot);
            slot |= field->kind == STATS_SLOT && field->offset == 0;
        }
        assert_true(slot);
    }
}

int main(void)
{
    return unit_run(read_manual, NULL);
}
