/* See power_execute.h. */
#include "power_execute.h"

enum { SEEN = 1 << 16 };

uint64_t random_state;

static uint64_t seen[SEEN]; /* digests of executed WRITEs */

uint64_t bad_count;

struct counters counters;

/* ---- handles ---- */

/* Another file under the same name: the same bytes, owner, mode and times. The old one is not
 * removed: its owner could think that nobody misses it. */
static void file_replace(const char *path)
{
    char name[PATH_MAX], old[PATH_MAX];
    struct stat st;
    ssize_t copied = 1;
    int from = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(name, sizeof name, "%.*s.new", PATH_MAX - 8, path);
    int to = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (from < 0 || to < 0 || fstat(from, &st) < 0)
        die("%s: %s", path, strerror(errno));
    while (copied > 0)
        copied = copy_file_range(from, NULL, to, NULL, 1 << 30, 0);
    snprintf(old, sizeof old, "%.*s.before/%llu", PATH_MAX - 32, server.real_directory,
             (unsigned long long)st.st_ino);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    if (copied < 0 || fchown(to, st.st_uid, st.st_gid) < 0 || fchmod(to, st.st_mode) < 0 ||
        futimens(to, times) < 0 || link(path, old) < 0 || rename(name, path) < 0)
        die("%s: %s", path, strerror(errno));
    close(from);
    close(to);
}

static void files_replace(void)
{
    char *roots[] = {server.real_directory, NULL}, before[PATH_MAX];
    snprintf(before, sizeof before, "%.*s.before", PATH_MAX - 8, server.real_directory);
    if (mkdir(before, 0700) < 0 && errno != EEXIST)
        die("%s: %s", before, strerror(errno));
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    FTSENT *entry;
    if (!tree)
        die("%s: %s", server.real_directory, strerror(errno));
    while ((entry = fts_read(tree))) {
        if (entry->fts_info == FTS_F)
            file_replace(entry->fts_path);
    }
    fts_close(tree);
    files_tick();
    files_sweep();
    stable_forget();
}

void rehandle(bool others)
{
    counters.rehandles++;
    if (others)
        files_replace();
    server.instance++;
}

/* ---- calls ---- */

/* What the server must know of a call beside answering it. */
struct change {
    struct file *file; /* NULL: no call of the below, or of a file that is not known */
    uint64_t offset;
    uint32_t length, stable;
    const unsigned char *data;
    struct new_attributes attributes;
};

/* The attributes of a SETATTR of NFSv4.1: of the size only. */
static void get_new_size(struct wire_reader *r, struct new_attributes *attributes)
{
    wire_get_bytes(r, V41_ID_BYTES);
    attributes->set_size = get_bitmap(r) == V41_BIT(A_SIZE);
    wire_get32(r);
    if (attributes->set_size)
        attributes->size = wire_get64(r);
}

static struct change change_of(const struct call *call)
{
    struct change change = {0};
    struct wire_reader r = call->args;
    uint32_t status;
    if (call->program != NFS_PROGRAM ||
        (call->procedure != NFS_WRITE && call->procedure != NFS_COMMIT &&
         call->procedure != NFS_SETATTR && call->procedure != NFS_READ))
        return change;
    change.file = get_fresh_file(&r, true, &status);
    if (call->in_session)
        r = call->operation;
    if (call->procedure == NFS_SETATTR && call->in_session)
        get_new_size(&r, &change.attributes);
    else if (call->procedure == NFS_SETATTR)
        get_new_attributes(&r, &change.attributes);
    if (call->procedure != NFS_WRITE || r.bad)
        return change;
    if (call->in_session)
        wire_get_bytes(&r, V41_ID_BYTES);
    change.offset = wire_get64(&r);
    if (!call->in_session)
        wire_get32(&r);
    change.stable = wire_get32(&r);
    change.data = wire_get_opaque(&r, TRANSFER_MOST, &change.length);
    change.length = change.length < server.most ? change.length : server.most;
    if (!change.data)
        change.file = NULL;
    return change;
}

/* Was this very WRITE executed before? The data are stamped: no two writes of a test are equal. */
static bool executed_before(const struct change *change)
{
    uint64_t digest = mix(change->offset ^ change->file->st.st_ino << 40) | 1;
    for (uint32_t i = 0; i + 8 <= change->length; i += 8) {
        uint64_t word;
        memcpy(&word, change->data + i, 8);
        digest = mix(digest ^ word);
    }
    bool before = seen[digest % SEEN] == digest;
    seen[digest % SEEN] = digest;
    return before;
}

static bool succeeded(const unsigned char *reply, size_t length)
{
    return length >= 32 && wire_load32(reply + 28) == NFS_OK;
}

bool commit_is_bad(const struct file *file)
{
    if (bad_count == 0 || --bad_count > 0)
        return false;
    counters.bad++;
    stable_lose_pages(file, &random_state);
    counters.lost_pages = lost_pages;
    return true;
}

struct message *execute(const struct message *record, const struct call *call)
{
    unsigned char head[REPLY_MOST];
    struct wire_writer w = {head, head + sizeof head, false};
    struct payload payload = {NULL, 0};
    files_tick();
    struct change change = change_of(call);
    if (change.file)
        stable_notice(change.file);
    /* What is told is what each call made of the file, not what a tick of the clock ago it was. */
    if (change.file)
        change.file->touched = change.file->fresh = 0;
    if (change.file && call->procedure == NFS_WRITE && change.stable == NFS_UNSTABLE)
        stable_keep(change.file, change.offset, change.offset + change.length);
    if (!request_execute(record->data + 4, record->length - 4, &w, &payload))
        return NULL;
    size_t length = (size_t)(w.at - head), padding = -payload.length & 3;
    wire_record_end(&w, head, payload.length + padding);
    counters.stale += length >= 32 && wire_load32(head + 28) == NFS_STALE;
    bool again = call->in_session && memory.told_again;
    counters.again_told += again;
    if (change.file && !again && succeeded(head, length)) {
        if (call->procedure == NFS_WRITE) {
            counters.writes++;
            counters.again += executed_before(&change);
            stable_write(change.file, change.offset, change.offset + change.length, change.data,
                         change.stable != NFS_UNSTABLE);
        }
        if (call->procedure == NFS_COMMIT) {
            counters.commits++;
            stable_commit(change.file);
        }
        if (change.attributes.set_size)
            stable_size(change.file, change.attributes.size);
        stable_seen(change.file);
    }
    struct message *m = need(sizeof *m + length + payload.length + padding);
    m->length = length + payload.length + padding;
    memcpy(m->data, head, length);
    if (payload.length && !mapping_store(m->data + length, payload.data, payload.length)) {
        free(m); /* the kernel cut the file just now */
        return execute(record, call);
    }
    return m;
}
