/* directnfs stat: the view mounts: what each costs, as nfsiostat(8) shows it for the kernel's. */
#include "cmd/cmd.h"
#include "cmd/stat/view.h"

#define MOUNT_COLUMNS(COLUMN)                                                               \
    COLUMN("SVRNAME", CMD_CUT_END, cmd_table_text(table, sum->name, sizeof(sum->name)))     \
    COLUMN("MOUNT", CMD_CUT_START, cmd_table_text(table, sum->mount, sizeof(sum->mount)))   \
    COLUMN("USER", CMD_TEXT, cmd_table_text(table, user, SIZE_MAX))                         \
    COLUMN("OPERATION", CMD_TEXT, cmd_table_text(table, stats_operation_name(i), SIZE_MAX)) \
    COLUMN("CALLS", CMD_NUMBER, cmd_table_count(table, one->calls))                         \
    COLUMN("BYTES", CMD_NUMBER, cmd_table_count(table, one->bytes))                         \
    COLUMN("KB_CALL", CMD_NUMBER, cmd_table_real(table, means.kilobytes))                   \
    COLUMN("RESENT", CMD_NUMBER, cmd_table_count(table, one->resent))                       \
    COLUMN("ERRORS", CMD_NUMBER, cmd_table_count(table, one->errors))                       \
    COLUMN("RTT_US", CMD_NUMBER, cmd_table_real(table, means.rtt_us))                       \
    COLUMN("QUEUE_US", CMD_NUMBER, cmd_table_real(table, means.queue_us))                   \
    COLUMN("EXE_US", CMD_NUMBER, cmd_table_real(table, means.exe_us))                       \
    COLUMN("PROCESSES", CMD_NUMBER, cmd_table_number(table, mount->processes))              \
    COLUMN("DIRNAME", CMD_CUT_START, cmd_table_text(table, sum->directory, sizeof(sum->directory)))

static const struct cmd_column columns[] = {MOUNT_COLUMNS(CMD_AS_COLUMN)};
const struct stat_columns stat_mount_columns = {columns, sizeof(columns) / sizeof(columns[0])};

void stat_mounts_fill(struct cmd_table *table, const struct stat_set *set)
{
    for (size_t m = 0; m < set->mounts.count; m++) {
        const struct cmd_mount *mount = &set->mounts.list[m];
        const struct directnfs_mount_stats *sum = &mount->sum;
        char number[CMD_USER_NUMBER];
        const char *user = cmd_user_name(mount->user, number);
        for (unsigned i = 0; i < DIRECTNFS_OPERATIONS; i++) {
            const struct directnfs_operation_stats *one = &sum->operations[i];
            struct cmd_operation means = cmd_operation(one);
            MOUNT_COLUMNS(CMD_AS_CELL)
        }
    }
}
