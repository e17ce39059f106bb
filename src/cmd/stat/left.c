/* directnfs stat: the views agents and strays, about what processes did not live to send. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/stat/view.h"

static const char *state_of(const struct stats_agent *agent)
{
    return agent->state == STATS_AGENT_ALIVE     ? "alive"
           : agent->state == STATS_AGENT_LACKING ? "cannot be had"
                                                 : "none";
}

#define AGENT_COLUMNS(COLUMN)                                                                 \
    COLUMN("USER", CMD_TEXT, cmd_table_text(table, user, SIZE_MAX))                           \
    COLUMN("STATE", CMD_TEXT, cmd_table_text(table, state_of(agent), SIZE_MAX))               \
    COLUMN("PID", CMD_NUMBER, cmd_table_number(table, alive ? agent->pid : 0), .key = "pnum") \
    COLUMN("SINCE", CMD_TEXT, cmd_table_text(table, since, sizeof(since)))                    \
    COLUMN("WATCHED", CMD_NUMBER, cmd_table_number(table, agent->watched))                    \
    COLUMN("SERVERS", CMD_NUMBER, cmd_table_number(table, agent->servers))                    \
    COLUMN("UNSENT", CMD_NUMBER, cmd_table_number(table, agent->unsent))                      \
    COLUMN("NOBODYS", CMD_NUMBER, cmd_table_number(table, agent->strays))                     \
    COLUMN("REASON", CMD_CUT_END, cmd_table_text(table, agent->lack, sizeof(agent->lack)))

static const struct cmd_column agent_columns[] = {AGENT_COLUMNS(CMD_AS_COLUMN)};
const struct stat_columns stat_agent_columns = {agent_columns,
                                                sizeof(agent_columns) / sizeof(agent_columns[0])};

void stat_agents_fill(struct cmd_table *table, const struct stat_set *set)
{
    for (unsigned i = 0; i < set->snapshot->agent_count; i++) {
        const struct stats_agent *agent = &set->snapshot->agents[i];
        bool alive = agent->state == STATS_AGENT_ALIVE;
        char number[CMD_USER_NUMBER], since[CMD_TIME_BYTES] = "";
        const char *user = cmd_user_name(agent->uid, number);
        if (alive)
            cmd_time(since, agent->since_ns);
        AGENT_COLUMNS(CMD_AS_CELL)
    }
}

#define STRAY_COLUMNS(COLUMN)                                                                   \
    COLUMN("FILENAME", CMD_CUT_START, cmd_table_text(table, stray->path, sizeof(stray->path)))  \
    COLUMN("INODE", CMD_NUMBER, cmd_table_number(table, stray->inode))                          \
    COLUMN("BYTES", CMD_NUMBER, cmd_table_number(table, stray->bytes))                          \
    COLUMN("SVRNAME", CMD_CUT_END, cmd_table_text(table, stray->server, sizeof(stray->server))) \
    COLUMN("SINCE", CMD_TEXT, cmd_table_text(table, since, sizeof(since)))                      \
    COLUMN("USER", CMD_TEXT, cmd_table_text(table, user, SIZE_MAX))                             \
    COLUMN("STATE", CMD_TEXT, cmd_table_text(table, stray->whole ? "whole" : "unusable", 9))    \
    COLUMN("STRAY", CMD_TEXT, cmd_table_text(table, stray->file, sizeof(stray->file)))          \
    COLUMN("MOUNT", CMD_CUT_START, cmd_table_text(table, stray->mount, sizeof(stray->mount)))

static const struct cmd_column stray_columns[] = {STRAY_COLUMNS(CMD_AS_COLUMN)};
const struct stat_columns stat_stray_columns = {stray_columns,
                                                sizeof(stray_columns) / sizeof(stray_columns[0])};

void stat_strays_fill(struct cmd_table *table, const struct stat_set *set)
{
    for (unsigned i = 0; i < set->snapshot->stray_count; i++) {
        const struct stats_stray *stray = &set->snapshot->strays[i];
        char number[CMD_USER_NUMBER], since[CMD_TIME_BYTES] = "";
        const char *user = cmd_user_name(stray->uid, number);
        if (set->server && strcmp(stray->server, set->server) != 0)
            continue;
        if (stray->whole)
            cmd_time(since, stray->since_ns);
        STRAY_COLUMNS(CMD_AS_CELL)
    }
}
