#include "stats/count.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "stats/segment.h"
#include "sys/fd.h"
#include "sys/large.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum state { PRIVATE, OPEN, FAILED, FORKED, FINISHED };
enum { BACK_STEP = 8192 };

/* The segment is mapped over these pages, so its address never changes. */
static union {
    struct directnfs_stats stats;
    uint8_t pages[STATS_BYTES];
} memory SYS_LARGE __attribute__((aligned(STATS_PAGE)));

struct directnfs_stats *const stats_own = &memory.stats;

/* They take what the tables have no room for; nobody reads them. */
static struct directnfs_path_stats unshown_path;
static struct directnfs_session_stats unshown_session;
static struct directnfs_channel_stats unshown_channel;
static struct directnfs_file_stats unshown_file;

/* Guards the tables, and everything below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int state = PRIVATE;
static int failure;
static uint64_t backed; /* a bit for each BACK_STEP bytes of the segment's file that have memory */
_Static_assert(STATS_BYTES <= 64 * BACK_STEP, "a bit for each step");
static uint32_t last_channel_id;
static uint64_t last_closed_ns;
static struct run_identity identity;

/* A clock would cost too much here: this is called very often. */
void stats_touch(void)
{
    static _Atomic uint64_t touched;
    uint64_t ticks = sys_ticks();
    if (atomic_load_explicit(&touched, memory_order_relaxed) == ticks)
        return;
    atomic_store_explicit(&touched, ticks, memory_order_relaxed);
    stats_set(&memory.stats.updated_ns, sys_clock_ns(CLOCK_REALTIME_COARSE));
}

/* Copies a string (NULL: none) into a field. If it is too long, `tail` keeps its end. */
static void copy_text(char *field, size_t size, const char *text, bool tail)
{
    size_t length = text ? strlen(text) : 0;
    strncpy(field, text ? text : "", size - 1);
    if (length >= size && tail)
        snprintf(field, size, "...%s", text + length - (size - 4));
}

static void read_program(char *name, size_t size)
{
    int fd = sys_proc_open("self/comm", O_RDONLY);
    ssize_t length = fd < 0 ? 0 : sys_read(fd, name, size - 1);
    if (fd >= 0)
        sys_close(fd);
    name[length > 0 ? length : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

/* Gives memory to a range of the segment's file. */
static int back(int fd, size_t from, size_t to)
{
    from = from / BACK_STEP;
    to = (to + BACK_STEP - 1) / BACK_STEP;
    int error = sys_fd_reserve(fd, from * BACK_STEP, (to - from) * BACK_STEP);
    if (error)
        return error;
    for (; from < to; from++)
        backed |= UINT64_C(1) << from;
    return 0;
}

/* Under the lock: is there memory for this slot of the segment? */
static bool ensure_backed(const void *slot, size_t size)
{
    char name[STATS_NAME];
    size_t from = (size_t)((const uint8_t *)slot - memory.pages), to = from + size;
    int now = atomic_load(&state);
    if ((now != OPEN && now != FINISHED) ||
        (backed >> (from / BACK_STEP) & 1 && backed >> ((to - 1) / BACK_STEP) & 1))
        return true;
    stats_segment_name(name, &identity);
    int fd = now == FINISHED ? -EBADF : run_open_named(name, O_RDWR);
    if (fd < 0)
        return false;
    int error = back(fd, from, to);
    sys_close(fd);
    return error == 0;
}

/* Gives memory to all that is used already, and to what a process that asks a server uses soon:
 * else the file is opened again for each. */
static int back_used(int fd)
{
    int error = back(fd, 0, offsetof(struct directnfs_stats, mounts));
    for (unsigned i = 0; !error && i < STATS_TABLES; i++) {
        const struct stats_table *table = &stats_tables[i];
        size_t used = stats_used(&memory.stats, table);
        if (used == 0 &&
            (i == STATS_MOUNTS || i == STATS_PATHS || i == STATS_CHANNELS || i == STATS_FILES))
            used = table->slot;
        error = used ? back(fd, table->offset, table->offset + used) : 0;
    }
    return error;
}

/* Makes the file with what was counted so far, and maps it in place of the private memory. */
static int make_segment(int run)
{
    char name[STATS_NAME];
    stats_segment_name(name, &identity);
    int fd = run_open_file(run, name, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    int error = sys_fd_lengthen(fd, STATS_BYTES);
    if (!error)
        error = back_used(fd);
    if (!error)
        error = stats_write_raw(fd, &memory.stats);
    if (!error) {
        void *mapped = sys_mmap(memory.pages, STATS_BYTES, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_FIXED, fd, 0);
        error = sys_mmap_failed(mapped) ? (int)(long)mapped : 0;
    }
    if (error)
        sys_unlinkat(run, name, 0);
    sys_close(fd);
    return error;
}

static int open_segment(int run)
{
    char path[RUN_PATH_MAX];
    struct directnfs_stats *stats = &memory.stats;
    int error = run_identity_self(&identity);
    if (error)
        return error;
    stats->magic = DIRECTNFS_STATS_MAGIC;
    stats->layout = DIRECTNFS_STATS_LAYOUT;
    stats->size = sizeof(*stats);
    stats->pid = identity.pid;
    stats->starttime = identity.starttime;
    stats->uid = (uint32_t)run_owner();
    stats->pid_namespace = run_pid_namespace();
    read_program(stats->program, sizeof(stats->program));
    stats->started_ns = sys_clock_ns(CLOCK_REALTIME);
    stats_touch();
    error = make_segment(run);
    if (error == -EEXIST) {
        /* This process made it before exec(). */
        stats_fold(run, &identity, NULL, STATS_LOCK_MS);
        error = make_segment(run);
    }
    if (error)
        log_warning("no statistics of this process will be seen: cannot make its file in %s: %s",
                    run_name(path), strerror(-error));
    return error;
}

int stats_open(void)
{
    pthread_mutex_lock(&lock);
    int now = atomic_load(&state);
    bool first = now == PRIVATE || now == FORKED;
    int run = -1;
    if (first) {
        run = run_make();
        failure = run < 0 ? run : open_segment(run);
        atomic_store(&state, failure ? FAILED : OPEN);
    }
    int error = failure;
    pthread_mutex_unlock(&lock);
    if (now == PRIVATE && !error)
        stats_reap_at_start(run);
    run_close(run);
    return error;
}

/* A child that uses the network makes its segment. */
static void open_in_child(void)
{
    if (__builtin_expect(atomic_load_explicit(&state, memory_order_relaxed) == FORKED, 0))
        stats_open();
}

void stats_call(unsigned procedure, uint64_t latency_ns, bool error)
{
    if (procedure >= DIRECTNFS_PROCEDURES)
        return;
    open_in_child();
    struct directnfs_procedure_stats *stats = &memory.stats.counters.procedures[procedure];
    if (error)
        stats_add(&stats->errors, 1);
    if (stats_alone(&stats->latency, latency_ns))
        stats_touch();
}

uint64_t stats_usual_ns(const struct directnfs_latency *latency)
{
    uint64_t left = stats_get(&latency->calls) / 100;
    unsigned bucket = DIRECTNFS_HISTOGRAM_BUCKETS;
    while (left > 0 && bucket-- > 0) {
        uint64_t calls = stats_get(&latency->histogram[bucket]);
        if (calls > left)
            return UINT64_C(1000) << bucket;
        left -= calls;
    }
    return 0;
}

/* Zeroes what is counted in a slot of a table. */
static void zero_counts(unsigned table, void *slot)
{
    const struct stats_fields *fields = &stats_tables[table].fields;
    for (size_t i = 0; i < fields->count; i++) {
        const struct stats_field *field = &fields->list[i];
        if (field->kind == STATS_COUNT || field->kind == STATS_WAITED ||
            field->kind == STATS_LATENCY)
            memset(stats_at(field, slot), 0, field->bound);
    }
}

/* Stores a count, or the state of a slot. A reader that sees it sees what was written before,
 * too. */
static void publish(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- servers ---- */

/* Under the lock: enters the mount of a new server, which begins to count. */
static void enter_mount(unsigned id)
{
    struct directnfs_mount_stats *mount = &memory.stats.mounts[id];
    const struct directnfs_server_stats *server = &memory.stats.servers[id];
    if (!ensure_backed(mount, sizeof(*mount)))
        return;
    copy_text(mount->name, sizeof(mount->name), server->name, false);
    copy_text(mount->directory, sizeof(mount->directory), server->directory, false);
    copy_text(mount->mount, sizeof(mount->mount), server->mount, false);
    publish(&mount->slot, DIRECTNFS_SLOT_USED);
    if (id >= memory.stats.mount_count)
        publish(&memory.stats.mount_count, id + 1);
}

unsigned stats_server(const struct stats_server *server)
{
    struct directnfs_server_stats wanted = {.slot = DIRECTNFS_SLOT_USED,
                                            .kind = server->kind,
                                            .mntport = server->mntport,
                                            .nfsport = server->nfsport,
                                            .version = server->version,
                                            .wtmax = server->wtmax,
                                            .rtmax = server->rtmax};
    copy_text(wanted.name, sizeof(wanted.name), server->name, false);
    copy_text(wanted.directory, sizeof(wanted.directory), server->directory, true);
    copy_text(wanted.mount, sizeof(wanted.mount), server->mount, true);
    copy_text(wanted.security, sizeof(wanted.security), server->security, false);

    pthread_mutex_lock(&lock);
    unsigned count = memory.stats.server_count, id = 0;
    while (id < count && !stats_same_server(&memory.stats.servers[id], &wanted))
        id++;
    if (id < DIRECTNFS_SERVERS) {
        memory.stats.servers[id] = wanted;
        publish(&memory.stats.server_count, id < count ? count : id + 1);
        if (memory.stats.mounts[id].slot != DIRECTNFS_SLOT_USED)
            enter_mount(id);
    }
    stats_touch();
    pthread_mutex_unlock(&lock);
    return id;
}

struct directnfs_mount_stats *stats_mount(unsigned server)
{
    pthread_mutex_lock(&lock);
    struct directnfs_mount_stats *mount =
        server < memory.stats.mount_count ? &memory.stats.mounts[server] : NULL;
    bool shown = mount && mount->slot == DIRECTNFS_SLOT_USED;
    pthread_mutex_unlock(&lock);
    return shown ? mount : NULL;
}

/* ---- sessions ---- */

struct directnfs_session_stats *stats_session(const char *name)
{
    struct directnfs_session_stats wanted = {.slot = DIRECTNFS_SLOT_USED};
    copy_text(wanted.name, sizeof(wanted.name), name, false);
    pthread_mutex_lock(&lock);
    unsigned count = memory.stats.session_count;
    struct directnfs_session_stats *found = memory.stats.sessions;
    while (found < &memory.stats.sessions[count] && strcmp(found->name, wanted.name) != 0)
        found++;
    if (found == &memory.stats.sessions[count]) {
        if (count < DIRECTNFS_SESSIONS && ensure_backed(found, sizeof(*found))) {
            *found = wanted;
            publish(&memory.stats.session_count, count + 1);
        } else {
            found = &unshown_session;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- paths ---- */

struct directnfs_path_stats *stats_path(unsigned server, const char *path, const char *local)
{
    struct directnfs_path_stats wanted = {
        .slot = DIRECTNFS_SLOT_USED, .server = server, .since_ns = sys_clock_ns(CLOCK_REALTIME)};
    copy_text(wanted.path, sizeof(wanted.path), path, false);
    copy_text(wanted.local, sizeof(wanted.local), local, false);

    pthread_mutex_lock(&lock);
    if (server < memory.stats.server_count)
        copy_text(wanted.name, sizeof(wanted.name), memory.stats.servers[server].name, false);
    struct directnfs_path_stats *found = memory.stats.paths;
    unsigned count = memory.stats.path_count;
    while (found < &memory.stats.paths[count] &&
           (found->server != server || strcmp(found->path, wanted.path) != 0 ||
            strcmp(found->local, wanted.local) != 0))
        found++;
    if (found == &memory.stats.paths[count]) {
        if (count < DIRECTNFS_PATHS && ensure_backed(found, sizeof(*found))) {
            *found = wanted;
            publish(&memory.stats.path_count, count + 1);
        } else {
            found = &unshown_path;
            stats_add(&memory.stats.counters.paths_not_shown, 1);
        }
    }
    stats_touch();
    pthread_mutex_unlock(&lock);
    return found;
}

void stats_path_state(struct directnfs_path_stats *path, enum directnfs_channel_state now,
                      const char *reason)
{
    pthread_mutex_lock(&lock);
    if (path->state != now) {
        stats_set(&path->since_ns, sys_clock_ns(CLOCK_REALTIME));
        if (now == DIRECTNFS_CHANNEL_DOWN)
            stats_add(&path->downs, 1);
        stats_set(&path->state, now);
    }
    copy_text(path->reason, sizeof(path->reason), reason, false);
    stats_touch();
    pthread_mutex_unlock(&lock);
}

/* ---- channels ---- */

struct directnfs_channel_stats *stats_channel(unsigned server, const char *path, const char *local)
{
    struct directnfs_channel_stats *channel = &unshown_channel;
    open_in_child();
    pthread_mutex_lock(&lock);
    unsigned count = memory.stats.channel_count, index = 0;
    while (index < count && memory.stats.channels[index].slot != DIRECTNFS_SLOT_FREE)
        index++;
    if (index < DIRECTNFS_CHANNELS &&
        ensure_backed(&memory.stats.channels[index], sizeof(*channel))) {
        channel = &memory.stats.channels[index];
        memset(channel, 0, sizeof(*channel));
        channel->server = server;
        channel->id = ++last_channel_id;
        copy_text(channel->path, sizeof(channel->path), path, false);
        copy_text(channel->local, sizeof(channel->local), local, false);
        publish(&channel->slot, DIRECTNFS_SLOT_USED);
        if (index == count)
            stats_set(&memory.stats.channel_count, index + 1);
    } else {
        stats_add(&memory.stats.counters.channels_not_shown, 1);
    }
    stats_touch();
    pthread_mutex_unlock(&lock);
    return channel;
}

void stats_channel_free(struct directnfs_channel_stats *channel)
{
    pthread_mutex_lock(&lock);
    publish(&channel->slot, DIRECTNFS_SLOT_FREE);
    pthread_mutex_unlock(&lock);
}

/* ---- files ---- */

static uint64_t hash_name(const char *name, unsigned server)
{
    uint64_t hash = 14695981039346656037u + server;
    while (*name)
        hash = (hash ^ (uint8_t)*name++) * 1099511628211u;
    return hash;
}

/* The slot of this file; else a free one; else the one that was closed longest ago; else NULL. */
static struct directnfs_file_stats *file_slot(uint64_t hash, unsigned server)
{
    struct directnfs_file_stats *oldest = NULL;
    unsigned count = memory.stats.file_count;
    for (unsigned i = 0; i < count; i++) {
        struct directnfs_file_stats *file = &memory.stats.files[i];
        if (file->name_hash == hash && file->server == server)
            return file;
        if (file->slot == DIRECTNFS_SLOT_CLOSED && (!oldest || file->closed_ns < oldest->closed_ns))
            oldest = file;
    }
    if (count < DIRECTNFS_FILES &&
        ensure_backed(&memory.stats.files[count], sizeof(memory.stats.files[0]))) {
        stats_set(&memory.stats.file_count, count + 1);
        return &memory.stats.files[count];
    }
    return oldest;
}

static void count_file(enum directnfs_file_state file_state)
{
    stats_add(file_state == DIRECTNFS_FILE_KERNEL ? &memory.stats.counters.files_kernel
                                                  : &memory.stats.counters.files_direct,
              1);
}

struct directnfs_file_stats *stats_file(const char *name, unsigned server, uint64_t size,
                                        enum directnfs_file_state file_state, const char *reason)
{
    uint64_t hash = hash_name(name, server);
    pthread_mutex_lock(&lock);
    struct directnfs_file_stats *file = file_slot(hash, server);
    if (!file) {
        file = &unshown_file;
        stats_add(&memory.stats.counters.files_not_shown, 1);
    } else {
        bool known =
            file->slot != DIRECTNFS_SLOT_FREE && file->name_hash == hash && file->server == server;
        if (!known) {
            publish(&file->slot, DIRECTNFS_SLOT_FREE);
            file->server = server;
            file->name_hash = hash;
            file->device = file->inode = 0;
            zero_counts(STATS_FILES, file);
            stats_set(&file->opens, 0);
            copy_text(file->name, sizeof(file->name), name, true);
        }
        copy_text(file->reason, sizeof(file->reason), reason, false);
        stats_set(&file->state, file_state);
        stats_set(&file->size, size);
        stats_add(&file->opens, 1);
        publish(&file->slot, DIRECTNFS_SLOT_USED);
    }
    count_file(file_state);
    stats_touch();
    pthread_mutex_unlock(&lock);
    return file;
}

void stats_file_state(struct directnfs_file_stats *file, enum directnfs_file_state file_state,
                      const char *reason)
{
    pthread_mutex_lock(&lock);
    if (file == &unshown_file || file->state != file_state)
        count_file(file_state);
    copy_text(file->reason, sizeof(file->reason), reason, false);
    stats_set(&file->state, file_state);
    stats_touch();
    pthread_mutex_unlock(&lock);
}

void stats_file_close(struct directnfs_file_stats *file)
{
    pthread_mutex_lock(&lock);
    uint32_t opens = stats_get(&file->opens);
    if (opens)
        stats_set(&file->opens, opens - 1);
    if (opens <= 1) {
        uint64_t now_ns = sys_about_ns(); /* several may close in one tick */
        last_closed_ns = now_ns > last_closed_ns ? now_ns : last_closed_ns + 1;
        file->closed_ns = last_closed_ns;
        publish(&file->slot, DIRECTNFS_SLOT_CLOSED);
    }
    stats_touch();
    pthread_mutex_unlock(&lock);
}

/* ---- life ---- */

void stats_after_fork(void)
{
    int now = atomic_load(&state);
    pthread_mutex_init(&lock, NULL); /* another thread of the parent may have held it */
    if (now == OPEN || now == FORKED || now == FINISHED) {
        /* These pages are the parent's segment: move a private copy over them. */
        struct directnfs_stats *copy = stats_allocate();
        if (!copy)
            return;
        stats_copy_used(copy, &memory.stats);
        void *moved = (void *)sys_call5(SYS_mremap, copy, STATS_BYTES, STATS_BYTES,
                                        MREMAP_MAYMOVE | MREMAP_FIXED, memory.pages);
        if (sys_mmap_failed(moved))
            return;
    }
    memset(&memory.stats.counters, 0, sizeof(memory.stats.counters));
    stats_sessions_end(&memory.stats);
    for (unsigned i = 0; i < memory.stats.mount_count; i++)
        zero_counts(STATS_MOUNTS, &memory.stats.mounts[i]);
    for (unsigned i = 0; i < memory.stats.path_count; i++)
        zero_counts(STATS_PATHS, &memory.stats.paths[i]);
    stats_waits_for_nothing(&memory.stats);
    for (unsigned i = 0; i < memory.stats.file_count; i++)
        zero_counts(STATS_FILES, &memory.stats.files[i]);
    for (unsigned i = 0; i < memory.stats.channel_count; i++)
        memory.stats.channels[i].slot = DIRECTNFS_SLOT_FREE;
    memory.stats.channel_count = 0;
    last_channel_id = 0;
    backed = 0;
    atomic_store(&state, now == PRIVATE ? PRIVATE : FORKED);
}

void stats_move(void)
{
    bool seen = atomic_load(&state) == OPEN;
    stats_after_fork();
    if (seen)
        stats_open();
}

void stats_finish(void)
{
    pthread_mutex_lock(&lock);
    if (atomic_load(&state) == OPEN) {
        int run = run_open();
        stats_set(&memory.stats.ended_ns, sys_clock_ns(CLOCK_REALTIME));
        if (run >= 0) {
            stats_fold(run, &identity, &memory.stats, STATS_LOCK_MS);
            run_close(run);
        }
    }
    atomic_store(&state, FINISHED);
    pthread_mutex_unlock(&lock);
}
