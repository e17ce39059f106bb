#include "cmd/files.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/sys.h"

/* ---- sums ---- */

/* Finds a file, or adds it without counts. NULL without memory. */
static struct cmd_file *find_file(struct cmd_files *files, const struct directnfs_stats *stats,
                                  const struct directnfs_file_stats *file)
{
    bool known = file->server < stats->server_count && file->server < DIRECTNFS_SERVERS &&
                 stats->servers[file->server].slot != DIRECTNFS_SLOT_FREE;
    const struct directnfs_server_stats *server = known ? &stats->servers[file->server] : NULL;
    char name[DIRECTNFS_FILE_NAME_BYTES + 1];
    snprintf(name, sizeof(name), "%.*s", DIRECTNFS_FILE_NAME_BYTES, file->name);
    uint64_t key = cmd_index_key(cmd_index_key('f', server ? server->name : ""), name);
    size_t found = cmd_index_find(&files->index, key);
    if (found != CMD_INDEX_NONE)
        return &files->list[found];
    if ((files->count & (files->count - 1)) == 0) { /* it grows when the count is a power of two */
        size_t room = files->count ? 2 * files->count : 1;
        struct cmd_file *more = reallocarray(files->list, room, sizeof(*more));
        if (more == NULL)
            return NULL;
        files->list = more;
    }
    if (!cmd_index_add(&files->index, key, files->count))
        return NULL;
    struct cmd_file *added = &files->list[files->count++];
    *added = (struct cmd_file){.server = server, .uid = stats->uid, .key = key};
    added->sum.slot = DIRECTNFS_SLOT_CLOSED;
    memcpy(added->sum.name, file->name, sizeof(added->sum.name));
    return added;
}

/* A process that has the file open knows its size best. Of several sizes the largest is shown. */
static void add_size(struct directnfs_file_stats *sum, const struct directnfs_file_stats *file)
{
    bool better = file->slot == DIRECTNFS_SLOT_USED && sum->slot != DIRECTNFS_SLOT_USED;
    bool worse = file->slot != DIRECTNFS_SLOT_USED && sum->slot == DIRECTNFS_SLOT_USED;
    if (better || (!worse && file->size > sum->size))
        sum->size = file->size;
}

static void add_file(struct cmd_file *to, const struct directnfs_stats *stats,
                     const struct directnfs_file_stats *file)
{
    struct directnfs_file_stats *sum = &to->sum;
    to->pid = to->processes == 0 ? stats->pid : 0;
    to->processes++;
    add_size(sum, file);
    if (file->state == DIRECTNFS_FILE_KERNEL) {
        to->kernel++;
        sum->state = DIRECTNFS_FILE_KERNEL;
        memcpy(sum->reason, file->reason, sizeof(sum->reason));
    }
    if (file->slot == DIRECTNFS_SLOT_USED)
        sum->slot = DIRECTNFS_SLOT_USED;
    if (file->inode) {
        sum->device = file->device;
        sum->inode = file->inode;
    }
    sum->opens += file->opens;
    stats_add_file(sum, file);
}

bool cmd_files_add(struct cmd_files *files, const struct directnfs_stats *stats,
                   bool (*wanted)(const struct directnfs_file_stats *file))
{
    for (uint32_t i = 0; i < stats->file_count && i < DIRECTNFS_FILES; i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        if (file->slot == DIRECTNFS_SLOT_FREE || (wanted && !wanted(file)))
            continue;
        struct cmd_file *to = find_file(files, stats, file);
        if (to == NULL)
            return false;
        add_file(to, stats, file);
    }
    return true;
}

void cmd_files_free(struct cmd_files *files)
{
    free(files->list);
    cmd_index_free(&files->index);
    *files = (struct cmd_files){0};
}

const char *cmd_file_state(const struct cmd_file *file, char text[CMD_FILE_STATE])
{
    const struct directnfs_file_stats *sum = &file->sum;
    if (file->kernel == 0) {
        strcpy(text, sum->slot == DIRECTNFS_SLOT_USED ? "direct" : "direct (closed)");
        return text;
    }
    int length = snprintf(text, CMD_FILE_STATE, "kernel%s%.*s", sum->reason[0] ? ": " : "",
                          (int)sizeof(sum->reason), sum->reason);
    if (file->kernel < file->processes)
        snprintf(text + length, (size_t)(CMD_FILE_STATE - length), " (for %u of %u)", file->kernel,
                 file->processes);
    return text;
}

/* ---- sizes ---- */

struct answer {
    size_t file;
    uint64_t size;
};

static bool is_kernels(const struct cmd_file *file)
{
    return file->kernel > 0 && file->sum.name[0] == '/';
}

/* Most servers give root no rights. And what a user left in shared memory must not lead root
 * anywhere. */
static void act_as(uid_t uid)
{
    static uid_t now = (uid_t)-1;
    const struct passwd *entry = uid == now ? NULL : getpwuid(uid);
    if (uid == now)
        return;
    gid_t gid = entry ? entry->pw_gid : (gid_t)-2;
    if (entry == NULL || initgroups(entry->pw_name, gid) != 0)
        setgroups(0, NULL);
    setfsgid(gid);
    setfsuid(uid);
    now = uid;
}

/* Runs in a process of its own: a server that does not answer may keep it. */
static void ask_all(const struct cmd_files *files, int out)
{
    for (size_t i = 0; i < files->count; i++) {
        const struct directnfs_file_stats *sum = &files->list[i].sum;
        char name[DIRECTNFS_FILE_NAME_BYTES + 1];
        struct statx status;
        if (!is_kernels(&files->list[i]))
            continue;
        if (geteuid() == 0)
            act_as(files->list[i].uid);
        snprintf(name, sizeof(name), "%.*s", DIRECTNFS_FILE_NAME_BYTES, sum->name);
        if (statx(AT_FDCWD, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_BASIC_STATS,
                  &status) != 0)
            continue;
        bool same =
            sum->inode == 0 || (sum->inode == status.stx_ino &&
                                sum->device == makedev(status.stx_dev_major, status.stx_dev_minor));
        const struct answer answer = {i, status.stx_size};
        if (same && write(out, &answer, sizeof(answer)) != sizeof(answer))
            return;
    }
}

/* True: the child said all that it knows, and ends. */
static bool read_answers(struct cmd_files *files, int in, int timeout_ms)
{
    uint64_t end_ns = sys_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct pollfd readable = {.fd = in, .events = POLLIN};
    struct answer answer;
    for (;;) {
        uint64_t now_ns = sys_now_ns();
        int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) : 0;
        if (poll(&readable, 1, left_ms) <= 0)
            return false;
        if (read(in, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
            return true;
        files->list[answer.file].sum.size = answer.size;
    }
}

void cmd_files_ask_sizes(struct cmd_files *files, int timeout_ms)
{
    int ends[2];
    bool any = false;
    for (size_t i = 0; i < files->count; i++)
        any = any || is_kernels(&files->list[i]);
    if (!any || pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        ask_all(files, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    if (child > 0) {
        bool ended = read_answers(files, ends[0], timeout_ms);
        kill(child, SIGKILL);
        waitpid(child, NULL, ended ? 0 : WNOHANG); /* else it may hang; then init reaps it */
    }
    close(ends[0]);
}
