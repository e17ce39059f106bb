/* See check.h. */
#include "check.h"

static int files[ALL_FILES];

unsigned checks;

static bool check_sized(unsigned file, const struct sized_view *view, const char *when)
{
    static unsigned char buffer[WORDS * 8 + 1];
    struct stat st;
    memset(buffer, 0, sizeof buffer);
    ssize_t got = pread(files[FILES + file], buffer, sizeof buffer, 0);
    if (got < 0 || fstat(files[FILES + file], &st) < 0) {
        failed("%s: sized file %u cannot be read", when, file);
        return false;
    }
    return sized_check_words(file, view, buffer, 0, WORDS, when) &&
           sized_check_size(file, view, (uint64_t)st.st_size, (uint64_t)st.st_size, when);
}

static bool check_log(unsigned log, const struct log_view *view, const char *when)
{
    static unsigned char buffer[LOG_ROOM];
    ssize_t got = pread(files[FILES + SIZED + log], buffer, sizeof buffer, 0);
    if (got < 0) {
        failed("%s: records%u cannot be read", when, log);
        return false;
    }
    return records_check(log, view, buffer, (size_t)got, when);
}

static bool is_ours(const char *name)
{
    char path[512];
    for (unsigned file = 0; file < ALL_FILES; file++) {
        if (strcmp(strrchr(file_path(file, path), '/') + 1, name) == 0)
            return true;
    }
    return false;
}

/* Nobody made a file there. */
static bool check_names(const char *when)
{
    DIR *directory = opendir(journal->directory);
    const struct dirent *entry;
    if (!directory)
        die("%s: %s", journal->directory, strerror(errno));
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] != '.' && !is_ours(entry->d_name))
            failed("%s: a file %s, which nobody made", when, entry->d_name);
    }
    closedir(directory);
    return !atomic_load(&journal->failed);
}

bool check_files(const struct bounds *bounds, const char *when)
{
    static unsigned char buffer[BLOCK_MOST];
    checks++;
    if (!check_names(when))
        return false;
    for (unsigned file = 0; file < FILES; file++) {
        size_t size = files_of_test[file].size;
        off_t end = lseek(files[file], 0, SEEK_END);
        if (end != (off_t)(size * files_of_test[file].count)) {
            failed("%s: file %s has %lld bytes", when, files_of_test[file].name, (long long)end);
            return false;
        }
        for (unsigned block = 0; block < files_of_test[file].count; block++) {
            if (pread(files[file], buffer, size, (off_t)(block * size)) != (ssize_t)size) {
                failed("%s: file %s block %u cannot be read", when, files_of_test[file].name,
                       block);
                return false;
            }
            /* Visitors may be at work. */
            uint32_t most = atomic_load(&journal->blocks[file][block].issued);
            if (!stamp_check(buffer, file, block, bounds->least[file][block], most, when))
                return false;
        }
    }
    for (unsigned file = 0; file < SIZED; file++) {
        if (!check_sized(file, &bounds->sized[file], when))
            return false;
    }
    for (unsigned log = 0; log < LOGS; log++) {
        if (!check_log(log, &bounds->logs[log], when))
            return false;
    }
    return true;
}

const struct bounds *bounds_now(enum bound bound)
{
    static struct bounds bounds;
    for (unsigned file = 0; file < FILES; file++) {
        for (unsigned block = 0; block < files_of_test[file].count; block++) {
            struct block *b = &journal->blocks[file][block];
            bounds.least[file][block] = atomic_load(bound == BOUND_ACKED ? &b->acked : &b->synced);
        }
    }
    for (unsigned file = 0; file < SIZED; file++)
        sized_look(file, bound, 0, WORDS, &bounds.sized[file]);
    for (unsigned log = 0; log < LOGS; log++)
        records_look(log, bound, true, &bounds.logs[log]);
    return &bounds;
}

bool check_now(enum bound bound, unsigned round, const char *when)
{
    char text[128];
    snprintf(text, sizeof text, "round %u, %s, as the kernel sees it", round, when);
    return check_files(bounds_now(bound), text);
}

void files_make(void)
{
    static unsigned char buffer[BLOCK_MOST];
    for (unsigned file = 0; file < ALL_FILES; file++) {
        char path[512];
        files[file] = open(file_path(file, path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (files[file] < 0)
            die("%s: %s", path, strerror(errno));
        for (unsigned block = 0; file < FILES && block < files_of_test[file].count; block++) {
            size_t size = files_of_test[file].size;
            stamp(buffer, file, block, 0, 0);
            if (pwrite(files[file], buffer, size, (off_t)(block * size)) != (ssize_t)size)
                die("%s: %s", path, strerror(errno));
        }
        if (fsync(files[file]) < 0)
            die("%s: %s", path, strerror(errno));
    }
}

/* ---- sabotage ---- */

static unsigned longest_sized(void)
{
    unsigned file = 0;
    for (unsigned i = 1; i < SIZED; i++) {
        if (atomic_load(&journal->sized[i].least) > atomic_load(&journal->sized[file].least))
            file = i;
    }
    return file;
}

static unsigned written_block(void)
{
    unsigned block = 0;
    while (block < files_of_test[0].count - 1 && atomic_load(&journal->blocks[0][block].acked) == 0)
        block++;
    return block;
}

bool sabotage_ready(void)
{
    return atomic_load(&journal->sized[longest_sized()].least) > 0 &&
           atomic_load(&journal->blocks[0][written_block()].acked) > 0 &&
           lseek(files[FILES + SIZED], 0, SEEK_END) > RECORD;
}

static void sabotage_write(unsigned file, const void *data, size_t size, off_t offset)
{
    if (pwrite(files[file], data, size, offset) != (ssize_t)size)
        die("sabotage: %s", strerror(errno));
}

/* The longest sized file: its end is gone, or what was cut off is back. */
static void sabotage_size(bool longer)
{
    unsigned file = longest_sized();
    off_t size = lseek(files[FILES + file], 0, SEEK_END);
    uint64_t word = sized_stamp(file, (unsigned)size / 8, 1, 0);
    if (longer)
        sabotage_write(FILES + file, &word, 8, size);
    else if (ftruncate(files[FILES + file], size - 8) != 0)
        die("sabotage: %s", strerror(errno));
}

static void sabotage_block(const char *how)
{
    static unsigned char buffer[BLOCK_MOST];
    unsigned block = written_block();
    size_t size = files_of_test[0].size;
    off_t offset = (off_t)block * (off_t)size;
    uint32_t sequence = atomic_load(&journal->blocks[0][block].acked);
    if (strcmp(how, "elsewhere") == 0)
        stamp(buffer, 0, block + 1, sequence, 0);
    else if (strcmp(how, "lost") != 0)
        stamp(buffer, 0, block, sequence - 1, 0);
    if (strcmp(how, "end") == 0)
        offset = (off_t)files_of_test[0].count * (off_t)size;
    sabotage_write(0, buffer, strcmp(how, "torn") == 0 ? size / 2 : size, offset);
}

/* The last record is gone, there twice, or only half there. */
static void sabotage_record(const char *how)
{
    unsigned char last[RECORD];
    int fd = files[FILES + SIZED];
    off_t end = lseek(fd, 0, SEEK_END);
    if (pread(fd, last, sizeof last, end - RECORD) != RECORD ||
        (strcmp(how, "record-lost") == 0 && ftruncate(fd, end - RECORD) != 0) ||
        (strcmp(how, "record-torn") == 0 && ftruncate(fd, end - 8) != 0))
        die("sabotage: %s", strerror(errno));
    if (strcmp(how, "record-twice") == 0)
        sabotage_write(FILES + SIZED, last, sizeof last, end);
}

void sabotage(const char *how)
{
    char path[512];
    if (strncmp(how, "record", 6) == 0) {
        sabotage_record(how);
    } else if (strcmp(how, "cut") == 0 || strcmp(how, "longer") == 0) {
        sabotage_size(how[0] == 'l');
    } else if (strcmp(how, "stray") == 0) {
        snprintf(path, sizeof path, "%s/%s", journal->directory, how);
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    } else {
        sabotage_block(how);
    }
}
