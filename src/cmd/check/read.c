/*
 * directnfs check --read: the throughput of a path, and how much of it is left to a program that
 * waits for each read.
 */
#include "cmd/check/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/print.h"
#include "sys/sys.h"

#define READ_NS    1000000000u          /* reading takes this long */
#define REGION_MAX ((uint64_t)64 << 20) /* bytes of the file that are read again and again */
#define PIECE_MAX  ((size_t)8 << 20)
#define SMALL_READ ((size_t)8 << 10) /* bytes of a read, as databases do it */
#define SKEW_FAR   1.0               /* seconds between clocks */

/* Finds the file below the root, name by name. 0 or -errno. */
static int look_up(const struct nfs_client *client, const struct nfs_fh *root, const char *path,
                   struct nfs_fh *fh)
{
    char *copy = cmd_need(strdup(path)), *rest = copy;
    int error = 0;
    *fh = *root;
    for (char *name; error == 0 && (name = strsep(&rest, "/")) != NULL;) {
        struct nfs_fh directory = *fh;
        struct nfs_post_attr attr;
        if (*name)
            error = nfs_lookup(client, &directory, name, fh, &attr);
    }
    free(copy);
    return error;
}

/* Reads bytes 0 to `region` of the file. */
struct reading {
    const struct nfs_client *client;
    const struct nfs_fh *fh;
    uint64_t region;
    char *buffer;      /* PIECE_MAX bytes */
    uint64_t bytes;    /* that were read ... */
    uint64_t taken_ns; /* ... in this time */
};

/* Reads for READ_NS; if `once`, only once through the region. A slow path gets small pieces, so
 * that it does not take longer. 0 or -errno. */
static int read_for_a_while(struct reading *reading, bool once)
{
    uint64_t start = sys_now_ns(), now = start, at = 0;
    size_t piece = reading->client->read_max;
    reading->bytes = 0;
    while (now - start < READ_NS && !(once && reading->bytes >= reading->region)) {
        size_t length = reading->region - at < piece ? (size_t)(reading->region - at) : piece;
        struct iovec vector = {.iov_base = reading->buffer, .iov_len = length};
        const struct nfs_data data = {&vector, 1, length, length};
        struct nfs_transfer transfer;
        int error = nfs_read(reading->client, reading->fh, at, &data, &transfer);
        if (error)
            return error;
        if (transfer.length == 0)
            return -ENODATA; /* the file became shorter */
        reading->bytes += transfer.length;
        at += transfer.length;
        if (at >= reading->region)
            at = 0;
        uint64_t before = now;
        now = sys_now_ns();
        if (now - before < READ_NS / 20 && piece < PIECE_MAX)
            piece = 2 * piece < PIECE_MAX ? 2 * piece : PIECE_MAX;
    }
    reading->taken_ns = now - start;
    return 0;
}

static void say_failure(const char *what, const char *file, int error)
{
    check_say(CHECK_ERROR, "read", "%s of %s: %s", what, file, strerror(-error));
    check_remedy("name a file that user and group of the calls may read");
}

static double seconds(int64_t sec, int64_t nsec)
{
    return (double)sec + (double)nsec / 1e9;
}

/* The reads, from `start` to `end` here, may have set the time of access by the server's clock:
 * compares the two clocks. */
static void say_clock(const struct nfs_attr *before, const struct nfs_attr *after, double start,
                      double end)
{
    if (before->atime.sec == after->atime.sec && before->atime.nsec == after->atime.nsec)
        return;
    double at = seconds(after->atime.sec, after->atime.nsec);
    double skew = at < start ? start - at : at > end ? at - end : 0;
    check_say(skew > SKEW_FAR ? CHECK_WARNING : CHECK_INFO, "clock",
              "the server's is %.1f s %s, by the time of access that reading set", skew,
              at < start ? "behind" : "ahead");
    if (skew > SKEW_FAR)
        check_remedy("let both follow one time server (chrony, NTP)");
}

static double now_here(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return seconds(now.tv_sec, now.tv_nsec);
}

/* Asks for the verifier by a COMMIT of nothing. All paths to one server instance give the same. */
static void compare_verifiers(const struct check_path *path, const struct nfs_fh *fh,
                              struct check_root *root)
{
    bool repeated;
    uint64_t verifier;
    if (nfs_commit(&path->client, fh, 0, 1, &verifier, &repeated) != 0)
        return; /* the user may only read */
    if (root->path == path) {
        root->verifier = verifier;
    } else if (root->verifier != 0 && root->verifier != verifier) {
        check_say(CHECK_ERROR, "same server",
                  "the write verifier differs from that of path %zu: another instance of a server "
                  "answers here, which does not vouch for writes over that path",
                  root->path->number);
        check_remedy("all paths of a stanza must lead to one server, or to one node of a cluster");
    }
}

/* ---- one small read after the other ---- */

static double mib(double bytes)
{
    return bytes / (1 << 20);
}

/* Reports what it means that a read of `length` bytes takes `read_us`. In that time at most
 * read_ahead_max bytes are read ahead. */
static void say_waiting(const struct check_path *path, size_t length, uint64_t read_us)
{
    int most = path->check->tunables.read_ahead_max;
    double seconds_taken = (double)(read_us ? read_us : 1) / 1e6;
    double waiting = mib((double)length) / seconds_taken;
    double ahead = mib(most) / seconds_taken;
    char words[80] = "nothing is read ahead (read_ahead_max)";
    if (ahead > path->mib_per_s)
        ahead = path->mib_per_s;
    if (ahead < waiting)
        ahead = waiting;
    if (most > 0)
        snprintf(words, sizeof(words), "at most %.0f MiB/s where it is read ahead", ahead);
    check_say(CHECK_INFO, "waiting",
              "a read of %zu bytes takes %" PRIu64
              " us (median), which is %.1f MiB/s for who waits "
              "for each; %s",
              length, read_us, waiting, words);
    check_number("read_us", read_us);
    check_number("waiting_bytes_per_second", (uint64_t)(waiting * (1 << 20)));
    if (most > 0)
        check_number("ahead_bytes_per_second", (uint64_t)(ahead * (1 << 20)));
    else if (path->mib_per_s > 2 * waiting)
        check_remedy("set read_ahead_max in directnfs.conf for programs that read files from front "
                     "to back without O_DIRECT");
}

static size_t small_length(const struct reading *reading)
{
    return reading->region < SMALL_READ ? (size_t)reading->region : SMALL_READ;
}

/* Reads the beginning of the file. 0 or -errno. */
static int read_small(void *argument)
{
    struct reading *reading = argument;
    size_t length = small_length(reading);
    struct iovec vector = {.iov_base = reading->buffer, .iov_len = length};
    const struct nfs_data data = {&vector, 1, length, length};
    struct nfs_transfer transfer;
    return nfs_read(reading->client, reading->fh, 0, &data, &transfer);
}

/* ---- the file ---- */

/* Measures over a server of its own, with all sockets that the library would open. */
static void measure(struct check_path *path, const struct nfs_fh *fh, uint64_t size,
                    const struct check_root *root)
{
    const struct conf_tunables *tunables = &path->check->tunables;
    unsigned connections =
        path->stanza->connections ? path->stanza->connections : (unsigned)tunables->connections;
    struct nfs_client client = path->client;
    int error = reach_over(&path->address, reach_port_policy(tunables), connections, tunables,
                           path->tls, &client.server);
    struct reading reading = {
        .client = &client,
        .fh = fh,
        .region = size < REGION_MAX ? size : REGION_MAX,
        .buffer = malloc(PIECE_MAX),
    };
    if (!reading.buffer)
        error = -ENOMEM;
    if (error == 0 && root->path == path)
        error = read_for_a_while(&reading, true); /* into the server's memory */
    if (error == 0)
        error = read_for_a_while(&reading, false);
    uint64_t read_us = 0;
    if (error == 0)
        error = check_time(read_small, &reading, &read_us);
    if (error < 0) {
        say_failure("READ", path->check->read, error);
    } else {
        path->mib_per_s = mib((double)reading.bytes) / ((double)reading.taken_ns / 1e9);
        check_say(CHECK_INFO, "read",
                  "%.0f MiB/s, one reader, at most %u sockets: %.1f MiB in %.1f s, mostly from the "
                  "server's memory",
                  path->mib_per_s, connections, mib((double)reading.bytes),
                  (double)reading.taken_ns / 1e9);
        check_number("bytes_per_second", (uint64_t)(path->mib_per_s * (1 << 20)));
        say_waiting(path, small_length(&reading), read_us);
    }
    free(reading.buffer);
    rpc_server_destroy(client.server);
}

void check_read(struct check_path *path, struct check_root *root)
{
    struct check *check = path->check;
    const char *mount = root->export->mount;
    struct nfs_fh fh;
    struct nfs_attr before, after;
    if (check->read == NULL || !check_lies_in(check->read, mount))
        return;
    check->read_found = true;
    int error = look_up(&path->client, &root->handle, check->read + strlen(mount), &fh);
    if (error == 0)
        error = nfs_getattr(&path->client, &fh, &before);
    if (error) {
        say_failure("LOOKUP", check->read, error);
        return;
    }
    if (before.type != NFS_REG || before.size == 0) {
        check_say(CHECK_ERROR, "read", "%s is %s", check->read,
                  before.type != NFS_REG ? "no regular file" : "empty");
        check_remedy("name a file with some megabytes");
        return;
    }
    compare_verifiers(path, &fh, root);
    double start = now_here();
    measure(path, &fh, before.size, root);
    if (nfs_getattr(&path->client, &fh, &after) == 0)
        say_clock(&before, &after, start, now_here());
}
