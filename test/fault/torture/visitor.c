/* See visitor.h. */
#include "visitor.h"

/* Maps of the files that a visitor stores to and looks at. */
static unsigned char *maps[FILES];

/* How this process was started. */
static char **visit_words;

/* ---- maps ---- */

static void map_files(struct worker *w, int protection)
{
    for (unsigned file = 0; file < FILES; file++) {
        if (w->lacks[file])
            continue;
        size_t size = (size_t)files_of_test[file].size * files_of_test[file].count;
        void *map = mmap(NULL, size, protection, MAP_SHARED, w->plain[file], 0);
        if (map == MAP_FAILED)
            failed("round %u, slot %u: mmap of file %s: %s", w->round, w->slot,
                   files_of_test[file].name, strerror(errno));
        else
            maps[file] = map;
    }
}

static void map_to_write(struct worker *w)
{
    map_files(w, PROT_READ | PROT_WRITE);
}

static void map_to_read(struct worker *w)
{
    map_files(w, PROT_READ);
}

/* Word by word: none is seen, or stored, in parts. */
static void copy_words(void *to, const void *from, size_t length)
{
    volatile uint64_t *out = to;
    const volatile uint64_t *in = from;
    for (size_t i = 0; i < length / 8; i++)
        out[i] = in[i];
}

static void map_do(struct worker *w, bool writes)
{
    struct operation *op = &w->operations[0];
    op->writes = writes;
    choose(w, op);
    begin(w, op);
    if (!maps[op->file])
        return;
    unsigned char *there = maps[op->file] + op->offset;
    copy_words(op->writes ? there : op->buffer, op->writes ? op->buffer : there, op->length);
    operation_end(w, op, API_map, (ssize_t)op->length);
}

static void map_act(struct worker *w)
{
    unsigned what = pick(w, 100), file = pick(w, FILES);
    if (what >= 10)
        map_do(w, what >= 50);
    else if (!w->lacks[file] && msync(maps[file], 4096, MS_SYNC) == 0)
        sync_file(w, file, pick(w, SYNCS));
}

static void look_act(struct worker *w)
{
    map_do(w, false);
}

/* ---- streams ---- */

static ssize_t stream_write(FILE *stream, const struct operation *op)
{
    if (fseeko(stream, op->offset, SEEK_SET) == 0 &&
        fwrite(op->buffer, 1, op->length, stream) == op->length && fflush(stream) == 0)
        return (ssize_t)op->length;
    return -errno;
}

/* At the end, which the kernel knows. */
static void stream_append(struct worker *w, unsigned file)
{
    struct operation *op = &w->operations[0];
    char path[512];
    off_t size = sized_size(w, file);
    if (size < 0 || size > SIZED_BYTES - PIECE_MOST)
        return;
    op->writes = true;
    op->end = sized_end;
    op->file = FILES + file;
    op->offset = size;
    op->length = 8 * (1 + (size_t)pick(w, PIECE_MOST / 8));
    FILE *stream = fopen(file_path(op->file, path), "ae");
    if (!stream) {
        sized_failed(w, file, "fopen: %s", strerror(errno));
        return;
    }
    sized_write_begin(w, op, CHANGE_append);
    operation_end(w, op, API_stream, stream_write(stream, op));
    if (fclose(stream) != 0)
        sized_failed(w, file, "fclose: %s", strerror(errno));
}

static void stream_act(struct worker *w)
{
    static FILE *streams[FILES];
    struct operation *op = &w->operations[0];
    unsigned file = pick(w, SIZED);
    uint32_t nobody = 0;
    char path[512];
    if (pick(w, 4) == 0 && !w->lacks[FILES + file] && !atomic_load(&journal->sized[file].half) &&
        atomic_compare_exchange_strong(&journal->sized[file].holder, &nobody, w->slot + 1)) {
        stream_append(w, file);
        atomic_store(&journal->sized[file].holder, 0);
    }
    op->writes = true;
    choose(w, op);
    if (!op->writes || pick(w, 3) == 0) {
        act(w);
        return;
    }
    if (!streams[op->file] && !(streams[op->file] = fopen(file_path(op->file, path), "r+e"))) {
        failed("fopen of file %s: %s", files_of_test[op->file].name, strerror(errno));
        return;
    }
    begin(w, op);
    operation_end(w, op, API_stream, stream_write(streams[op->file], op));
}

/* ---- what else programs do ---- */

/* Standard output is a file of the test from now on. */
static void become_output(struct worker *w)
{
    unsigned file;
    do
        file = pick(w, ALL_FILES);
    while (w->lacks[file]);
    if (dup2(w->plain[file], STDOUT_FILENO) < 0)
        failed("dup2: %s", strerror(errno));
    w->plain[file] = STDOUT_FILENO;
}

/* What is opened later belongs to nobody else: only files that are open are used. */
static void become_nobody(struct worker *w)
{
    (void)w;
    if (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0)
        failed("setresuid: %s", strerror(errno));
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the kernel forgot it */
}

static void nobody_act(struct worker *w)
{
    if (pick(w, 40) == 0 && !maps[0] && !maps[1])
        map_to_read(w);
    act(w);
}

/* The directory above that of the files: no run directory, no devices, no /proc. */
static void change_root(struct worker *w)
{
    char root[sizeof journal->directory];
    size_t length = (size_t)(strrchr(journal->directory, '/') - journal->directory);
    memcpy(root, journal->directory, length);
    root[length] = '\0';
    if (chroot(root) != 0 || chdir("/") != 0)
        failed("round %u, slot %u: chroot to %s: %s", w->round, w->slot, root, strerror(errno));
    root_length = length;
}

/* Half of what it does comes before the exec. */
static void exec_act(struct worker *w)
{
    static unsigned acts;
    char descriptors[ALL_FILES][16], *arguments[8 + ALL_FILES];
    unsigned count = 0;
    act(w);
    if (++acts < BUSY_ACTS || !w->can_exec)
        return;
    buffers_check(w);
    while (visit_words[count]) {
        arguments[count] = visit_words[count];
        count++;
    }
    for (unsigned file = 0; file < ALL_FILES; file++) {
        snprintf(descriptors[file], sizeof descriptors[file], "%d", w->plain[file]);
        arguments[count++] = descriptors[file];
    }
    arguments[count] = NULL;
    execv("/proc/self/exe", arguments);
    failed("execv: %s", strerror(errno));
}

/* ---- the process ---- */

const struct visit visits[] = {
    {"plain", NULL, act, .fixed_only = false},
    {"map", map_to_write, map_act, .fixed_only = true},
    {"look", map_to_read, look_act, .fixed_only = true},
    {"stream", NULL, stream_act, .fixed_only = false},
    {"output", become_output, act, .fixed_only = false},
    {"exec", NULL, exec_act, .fixed_only = false},
    {"user", become_nobody, nobody_act, .fixed_only = true},
    {"root", change_root, act, .fixed_only = false},
    {"apart", NULL, act, .apart = true},
    {"narrow", NULL, act, .narrow = true},
};

const struct visit *visit_find(const char *name)
{
    for (unsigned i = 0; i < VISITS; i++) {
        if (strcmp(visits[i].name, name) == 0)
            return &visits[i];
    }
    die("no visit %s", name);
}

/* Some files, one of the unsized ones at least; all of them for good, if one process needs the
 * kernel. */
static void choose_files(struct worker *w, const struct visit *visit)
{
    unsigned one = pick(w, 3);
    for (unsigned file = 0; file < ALL_FILES; file++) {
        w->lacks[file] = pick(w, 2) || (file >= FILES && visit->fixed_only);
        if (file == one)
            w->lacks[file] = false;
        if (!w->lacks[file])
            atomic_store(&journal->moved[file], true);
    }
}

int visitor_process(int argc, char **argv)
{
    static struct worker w;
    if (argc < 6)
        die("usage: --visitor JOURNAL INDEX ROUND VISIT");
    journal = journal_map(argv[2], false);
    unsigned index = (unsigned)number_option("visitor", argv[3], 0, VISITORS - 1);
    const struct visit *visit = visit_find(argv[5]);
    w.slot = worker_slots() + index;
    w.round = (unsigned)number_option("round", argv[4], 0, UINT32_MAX);
    w.random = mix(journal->seed ^ (uint64_t)w.round << 32 ^ w.slot) | 1;
    choose_files(&w, visit);
    for (int i = 6; i < argc && i - 6 < ALL_FILES; i++)
        w.plain[i - 6] = (int)number_option("descriptor", argv[i], 0, INT32_MAX);
    w.alone = true; /* it may have come when the server gave no answer */
    w.can_exec = argc == 6 && visit->act == exec_act;
    argv[6] = NULL;
    visit_words = argv;
    bool early = visit->begin == change_root && pick(&w, 2);
    if (early)
        change_root(&w);
    worker_open(&w);
    if (visit->begin && !early)
        visit->begin(&w);
    while (!atomic_load(&journal->stop) && !atomic_load(&journal->failed) &&
           !atomic_load(&journal->visit_ends[index])) {
        visit->act(&w);
        atomic_fetch_add(&journal->visited[index], 1);
    }
    buffers_check(&w);
    return atomic_load(&journal->failed) ? 1 : 0;
}
