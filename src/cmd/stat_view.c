/*
 * directnfs stat: the views servers, channels and files.
 */
#include "cmd/stat_view.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static size_t bounded(size_t count, size_t limit)
{
    return count < limit ? count : limit;
}

/* ---- servers ---- */

static bool same_server(const struct directnfs_server_stats *a,
                        const struct directnfs_server_stats *b)
{
    return strncmp(a->name, b->name, sizeof(a->name)) == 0 &&
           strncmp(a->directory, b->directory, sizeof(a->directory)) == 0 &&
           strncmp(a->mount, b->mount, sizeof(a->mount)) == 0;
}

/* The server of an index in the tables of a process; NULL if there is none. */
static const struct directnfs_server_stats *server_of(const struct directnfs_stats *stats,
                                                      uint32_t index)
{
    if (index >= bounded(stats->server_count, DIRECTNFS_SERVERS) ||
        stats->servers[index].slot == DIRECTNFS_SLOT_FREE)
        return NULL;
    return &stats->servers[index];
}

/* The ID of a server, from 1; 0 for none. */
static size_t server_id(const struct stat_set *set, const struct directnfs_server_stats *server)
{
    for (size_t i = 0; server && i < set->server_count; i++)
        if (same_server(set->servers[i], server))
            return i + 1;
    return 0;
}

void stat_set_servers(struct stat_set *set)
{
    set->server_count = 0;
    set->servers = calloc(set->count * DIRECTNFS_SERVERS + 1, sizeof(*set->servers));
    if (set->servers == NULL)
        return;
    for (size_t i = 0; i < set->count; i++) {
        for (uint32_t s = 0; s < DIRECTNFS_SERVERS; s++) {
            const struct directnfs_server_stats *server = server_of(set->processes[i], s);
            if (server && server_id(set, server) == 0)
                set->servers[set->server_count++] = server;
        }
    }
}

static const struct cmd_column server_columns[] = {
    {"ID", true},        {"SVRNAME", false},    {"DIRNAME", false}, {"MNTPORT", true},
    {"NFSPORT", true},   {"NFSVERSION", false}, {"WTMAX", true},    {"RTMAX", true},
    {"SECURITY", false}, {"MOUNT", false},      {"KIND", false},
};

static void fill_servers(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->server_count; i++) {
        const struct directnfs_server_stats *server = set->servers[i];
        char version[24];
        snprintf(version, sizeof(version), "NFSv%u", server->version);
        cmd_table_number(table, i + 1);
        cmd_table_text(table, server->name, sizeof(server->name));
        cmd_table_text(table, server->directory, sizeof(server->directory));
        cmd_table_number(table, server->mntport);
        cmd_table_number(table, server->nfsport);
        cmd_table_text(table, version, sizeof(version));
        cmd_table_number(table, server->wtmax);
        cmd_table_number(table, server->rtmax);
        cmd_table_text(table, server->security, sizeof(server->security));
        cmd_table_text(table, server->mount, sizeof(server->mount));
        cmd_table_text(
            table, server->kind == DIRECTNFS_KERNEL_BACKED ? "kernel-backed" : "standalone", 16);
    }
}

/* ---- channels ---- */

static const struct cmd_column channel_columns[] = {
    {"PNUM", true},       {"SVRNAME", false},   {"PATH", false},  {"LOCAL", false},
    {"CH_ID", true},      {"SVR_ID", true},     {"SENDS", true},  {"RECVS", true},
    {"PINGS", true},      {"RECO", true},       {"STATE", false}, {"OUTSTANDING", true},
    {"SENT_BYTES", true}, {"RECV_BYTES", true}, {"RTT_US", true}, {"REISSUED", true},
};

static const char *channel_state(uint32_t state)
{
    static const char *const names[] = {
        [DIRECTNFS_CHANNEL_DOWN] = "down",
        [DIRECTNFS_CHANNEL_UP] = "up",
        [DIRECTNFS_CHANNEL_PROBING] = "probing",
        [DIRECTNFS_CHANNEL_OFFLINE] = "offline",
    };
    return state < LENGTH(names) ? names[state] : "unknown";
}

static void fill_channels_of(const struct stat_set *set, const struct directnfs_stats *stats,
                             struct cmd_table *table)
{
    for (size_t i = 0; i < bounded(stats->channel_count, DIRECTNFS_CHANNELS); i++) {
        const struct directnfs_channel_stats *channel = &stats->channels[i];
        if (channel->slot == DIRECTNFS_SLOT_FREE)
            continue;
        const struct directnfs_server_stats *server = server_of(stats, channel->server);
        cmd_table_number(table, stats->pid);
        cmd_table_text(table, server ? server->name : "-", sizeof(server->name));
        cmd_table_text(table, channel->path, sizeof(channel->path));
        cmd_table_text(table, channel->local, sizeof(channel->local));
        cmd_table_number(table, channel->id);
        cmd_table_number(table, server_id(set, server));
        cmd_table_number(table, channel->sends);
        cmd_table_number(table, channel->recvs);
        cmd_table_number(table, channel->pings);
        cmd_table_number(table, channel->reconnects);
        cmd_table_text(table, channel_state(channel->state), 16);
        cmd_table_number(table, channel->outstanding);
        cmd_table_number(table, channel->sent_bytes);
        cmd_table_number(table, channel->received_bytes);
        cmd_table_number(table, channel->rtt_us);
        cmd_table_number(table, channel->reissued);
    }
}

static void fill_channels(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->count; i++)
        fill_channels_of(set, set->processes[i], table);
}

/* ---- files ---- */

static const struct cmd_column file_columns[] = {
    {"FILENAME", false}, {"FILESIZE", true}, {"PNUM", true}, {"SVR_ID", true}, {"STATE", false},
};

static void fill_files_of(const struct stat_set *set, const struct directnfs_stats *stats,
                          struct cmd_table *table)
{
    for (size_t i = 0; i < bounded(stats->file_count, DIRECTNFS_FILES); i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        if (file->slot == DIRECTNFS_SLOT_FREE)
            continue;
        char state[DIRECTNFS_REASON_BYTES + 32];
        bool direct = file->state == DIRECTNFS_FILE_DIRECT;
        bool reason = !direct && file->reason[0] != '\0';
        snprintf(state, sizeof(state), "%s%s%.*s%s", direct ? "direct" : "kernel",
                 reason ? ": " : "", reason ? (int)sizeof(file->reason) : 0, file->reason,
                 file->slot == DIRECTNFS_SLOT_CLOSED ? " (closed)" : "");
        cmd_table_text(table, file->name, sizeof(file->name));
        cmd_table_number(table, file->size);
        cmd_table_number(table, stats->pid);
        cmd_table_number(table, server_id(set, server_of(stats, file->server)));
        cmd_table_text(table, state, sizeof(state));
    }
}

static void fill_files(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->count; i++)
        fill_files_of(set, set->processes[i], table);
}

/* ---- printing ---- */

static struct cmd_table table_of(const struct cmd_column *columns, size_t count, size_t keys)
{
    return (struct cmd_table){.columns = columns, .column_count = count, .key_columns = keys};
}

/* One pair of functions for each view that is a plain table. */
#define PLAIN_VIEW(view, columns, keys, none)                                        \
    static void print_##view(const struct stat_set *set, size_t width, FILE *out)    \
    {                                                                                \
        struct cmd_table table = table_of(columns, LENGTH(columns), keys);           \
        fill_##view(set, &table);                                                    \
        cmd_table_print(&table, width, none, out);                                   \
        cmd_table_free(&table);                                                      \
    }                                                                                \
    static void print_json_##view(const struct stat_set *set, struct cmd_json *json, \
                                  const char *key)                                   \
    {                                                                                \
        struct cmd_table table = table_of(columns, LENGTH(columns), keys);           \
        fill_##view(set, &table);                                                    \
        cmd_json_table(json, key, &table);                                           \
        cmd_table_free(&table);                                                      \
    }

PLAIN_VIEW(servers, server_columns, 2, "No server was mounted.")
PLAIN_VIEW(channels, channel_columns, 5, "No connection was made.")
PLAIN_VIEW(files, file_columns, 0, "No file of a configured mount was opened.")

const struct stat_view stat_views[STAT_VIEWS] = {
    {"servers", "Servers", print_servers, print_json_servers},
    {"channels", "Channels", print_channels, print_json_channels},
    {"files", "Files", print_files, print_json_files},
    {"stats", "Calls by process", stat_counters_print, stat_counters_print_json},
};
