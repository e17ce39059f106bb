/*
 * directnfs stat latency: does the server take the time, or the network? A server answers a NULL
 * call without a look at any file. So the call takes as long as the way there and back.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/stat/view.h"
#include "config/nfstab.h"
#include "net/pool.h"
#include "nfs/nfs.h"
#include "rpc/rpc.h"
#include "sys/sys.h"

enum { CALLS = 9, ANSWER_MS = 1000 };
#define ASKING_NS UINT64_C(3000000000) /* for all paths together */

static int by_value(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* The median of some calls, in nanoseconds. 0: there was no answer. */
static uint64_t time_null(const struct nfs_client *client)
{
    uint64_t times[CALLS];
    for (int i = -1; i < CALLS; i++) { /* the first one connects */
        uint64_t before = sys_now_ns();
        if (nfs_null(client) != 0)
            return 0;
        if (i >= 0)
            times[i] = sys_now_ns() - before;
    }
    qsort(times, CALLS, sizeof(times[0]), by_value);
    return times[CALLS / 2];
}

static bool set_address(const char *text, size_t limit, char *to, size_t size,
                        struct sockaddr_storage *address)
{
    size_t count;
    snprintf(to, size, "%.*s", (int)limit, text);
    return to[0] == '\0' || (conf_address_family(to) != AF_UNSPEC &&
                             conf_path_resolve(to, AF_UNSPEC, address, 1, &count) == 0);
}

/* Times NULL over a connection of this command; as time_null(). */
static uint64_t ask(const struct directnfs_path_stats *path,
                    const struct directnfs_server_stats *server)
{
    struct net_address address = {0};
    if (!set_address(path->path, sizeof(path->path) - 1, address.peer_text,
                     sizeof(address.peer_text), &address.peer) ||
        !set_address(path->local, sizeof(path->local) - 1, address.local_text,
                     sizeof(address.local_text), &address.local))
        return 0;
    net_address_set_port(&address.peer, (uint16_t)server->nfsport);
    const struct net_server_options options = {.name = address.peer_text,
                                               .connections_max = 1,
                                               .port_policy = NET_PORT_AUTO,
                                               .retransmit_timeout_s = ANSWER_MS / 1000 + 2,
                                               .hidden = true,
                                               .once = true};
    struct nfs_client client = {.version = server->version == 4 ? &nfs_version41 : &nfs_version3,
                                .auth = &rpc_auth_none,
                                .timeout_ms = ANSWER_MS};
    if (net_server_create(&options, &address, 1, &client.server) != 0)
        return 0;
    uint64_t null_ns = time_null(&client);
    rpc_server_destroy(client.server);
    return null_ns;
}

/* The mean of an operation on a server's mounts, for all users, in microseconds. 0: there was no
 * call. */
static double mount_us(const struct stat_set *set, const char *name,
                       enum directnfs_operation operation)
{
    struct directnfs_operation_stats sum = {0};
    for (size_t i = 0; i < set->mounts.count; i++) {
        const struct directnfs_mount_stats *mount = &set->mounts.list[i].sum;
        if (strncmp(mount->name, name, DIRECTNFS_ADDRESS_BYTES - 1) != 0)
            continue;
        sum.calls += mount->operations[operation].calls;
        sum.rtt_ns += mount->operations[operation].rtt_ns;
    }
    return cmd_operation(&sum).rtt_us;
}

static const struct directnfs_server_stats *server_of(const struct stat_set *set,
                                                      const struct directnfs_path_stats *path)
{
    for (size_t i = 0; i < set->server_count; i++)
        if (strncmp(set->servers[i]->name, path->name, sizeof(path->name) - 1) == 0)
            return set->servers[i];
    return NULL;
}

static void put_us(struct cmd_table *table, double us)
{
    if (us > 0)
        cmd_table_real(table, us);
    else
        cmd_table_text(table, "-", 1);
}

/* With TLS: this command does not know how to protect its call. */
static bool is_secret(const struct directnfs_path_stats *path,
                      const struct directnfs_server_stats *server)
{
    return path->peer_ends_ns != 0 ||
           memmem(server->security, sizeof(server->security), "tls", 3) != NULL;
}

static const char *mostly(double null_us, double read_us, double write_us, bool secret)
{
    if (secret)
        return "NULL is not asked: TLS";
    double call_us = read_us > write_us ? read_us : write_us;
    return null_us <= 0            ? "NULL has no answer"
           : call_us <= 0          ? ""
           : 2 * null_us > call_us ? "the network"
                                   : "the server";
}

#define COLUMNS(COLUMN)                                                                   \
    COLUMN("SVRNAME", CMD_CUT_END, cmd_table_text(table, path->name, sizeof(path->name))) \
    COLUMN("PATH", CMD_TEXT, cmd_table_text(table, path->path, sizeof(path->path)))       \
    COLUMN("LOCAL", CMD_TEXT, cmd_table_text(table, path->local, sizeof(path->local)))    \
    COLUMN("NULL_US", CMD_NUMBER, put_us(table, null_us))                                 \
    COLUMN("READ_US", CMD_NUMBER, put_us(table, read_us))                                 \
    COLUMN("WRITE_US", CMD_NUMBER, put_us(table, write_us))                               \
    COLUMN("MOSTLY", CMD_TEXT,                                                            \
           cmd_table_text(table, mostly(null_us, read_us, write_us, secret), 32))

void stat_null_print(const struct stat_set *set, size_t width, FILE *out)
{
    static const struct cmd_column columns[] = {COLUMNS(CMD_AS_COLUMN)};
    struct cmd_table rows = {.columns = columns,
                             .column_count = sizeof(columns) / sizeof(columns[0]),
                             .for_people = true},
                     *table = &rows;
    uint64_t began_ns = sys_now_ns();
    for (unsigned i = 0; i < set->sum->path_count; i++) {
        const struct directnfs_path_stats *path = &set->sum->paths[i];
        const struct directnfs_server_stats *server = server_of(set, path);
        if (server == NULL || sys_now_ns() - began_ns > ASKING_NS)
            continue; /* no running process uses it, or the time is over */
        bool secret = is_secret(path, server);
        double null_us = secret ? 0 : (double)ask(path, server) / 1000;
        double read_us = mount_us(set, path->name, DIRECTNFS_READ);
        double write_us = mount_us(set, path->name, DIRECTNFS_WRITE);
        COLUMNS(CMD_AS_CELL)
    }
    if (table->count > 0) {
        fputs("Server or network? NULL, asked now, is the way there and back, without a file:\n",
              out);
        cmd_table_print(table, width, out);
        fputc('\n', out);
    }
    cmd_table_free(table);
}
