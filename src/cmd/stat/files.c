/* directnfs stat: the view files: one row for each file, summed over processes. */
#include "cmd/cmd.h"
#include "cmd/files.h"
#include "cmd/stat/view.h"

enum { SIZES_MS = 1000 }; /* most time, for sizes that only the kernel knows */

static double mean_us(uint64_t ns, uint64_t count)
{
    return count ? (double)ns / 1000 / (double)count : 0;
}

#define FILE_COLUMNS(COLUMN)                                                                   \
    COLUMN("FILENAME", CMD_CUT_START, cmd_table_text(table, sum->name, sizeof(sum->name)))     \
    COLUMN("FILESIZE", CMD_NUMBER, cmd_table_number(table, sum->size))                         \
    COLUMN("PROCESSES", CMD_NUMBER, cmd_table_number(table, file->processes))                  \
    COLUMN("UNCOMMITTED", CMD_NUMBER, cmd_table_number(table, uncommitted))                    \
    COLUMN("UNSENT", CMD_NUMBER, cmd_table_number(table, unsent))                              \
    COLUMN("STATE", CMD_CUT_END, cmd_table_text(table, state, sizeof(state)))                  \
    COLUMN("READS", CMD_NUMBER, cmd_table_count(table, sum->reads))                            \
    COLUMN("READ_BYTES", CMD_NUMBER, cmd_table_count(table, sum->read_bytes))                  \
    COLUMN("READ_US", CMD_NUMBER, cmd_table_real(table, mean_us(sum->read_ns, sum->reads)))    \
    COLUMN("WRITES", CMD_NUMBER, cmd_table_count(table, sum->writes))                          \
    COLUMN("WRITE_BYTES", CMD_NUMBER, cmd_table_count(table, sum->write_bytes))                \
    COLUMN("WRITE_US", CMD_NUMBER, cmd_table_real(table, mean_us(sum->write_ns, sum->writes))) \
    COLUMN("SYNCS", CMD_NUMBER, cmd_table_count(table, sum->syncs))                            \
    COLUMN("SYNC_US", CMD_NUMBER, cmd_table_real(table, mean_us(sum->sync_ns, sum->syncs)))    \
    COLUMN("SVR_ID", CMD_NUMBER, cmd_table_number(table, stat_server_id(set, file->server)))

static const struct cmd_column file_columns[] = {FILE_COLUMNS(CMD_AS_COLUMN)};
const struct stat_columns stat_file_columns = {file_columns,
                                               sizeof(file_columns) / sizeof(file_columns[0])};

void stat_files_fill(struct cmd_table *table, const struct stat_set *set)
{
    struct cmd_files files = {0};
    bool listed = true;
    for (size_t i = 0; listed && i < set->count; i++)
        listed = cmd_files_add(&files, set->processes[i], NULL);
    cmd_need(listed ? &files : NULL);
    if (!set->last)
        cmd_files_ask_sizes(&files, SIZES_MS);
    for (size_t i = 0; i < files.count; i++) {
        const struct cmd_file *file = &files.list[i];
        const struct directnfs_file_stats *sum = &file->sum;
        char state[CMD_FILE_STATE];
        uint64_t uncommitted = stat_uncommitted_in(set, sum, false);
        uint64_t unsent = stat_uncommitted_in(set, sum, true);
        cmd_file_state(file, state);
        FILE_COLUMNS(CMD_AS_CELL)
    }
    cmd_files_free(&files);
}
