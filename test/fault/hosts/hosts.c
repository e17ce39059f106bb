/* See hosts.h. */
#include "hosts.h"
#include "map.h"

const struct files_of_hosts files_of_hosts[FILES] = {
    {"pages", 4096, 32}, {"small", 1000, 64}, {"large", BLOCK_MOST, 12}};

struct journal *journal;

struct journal *journal_map(const char *path, bool make)
{
    return map_file(path, sizeof(struct journal), make);
}

void failed(const char *format, ...)
{
    static _Thread_local char text[FAILURE_MOST];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!atomic_exchange(&journal->failed, true))
        memcpy(journal->failure, text, sizeof text);
}

struct turn *turn_of(uint32_t number)
{
    return &journal->turns[number % 4];
}

const char *file_path(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", journal->directory, name);
    return path;
}

void wait_on(_Atomic uint32_t *word, uint32_t value, long ns)
{
    struct timespec pause = {.tv_nsec = ns};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &pause);
}

/* ---- stamps ---- */

static uint64_t word_mask(unsigned file, uint64_t offset)
{
    return mix((uint64_t)(file + 1) << 48 ^ offset);
}

void block_fill(unsigned char *bytes, unsigned file, unsigned block, uint32_t version)
{
    unsigned size = files_of_hosts[file].size;
    for (unsigned at = 0; at < size; at += WORD) {
        uint64_t word = word_mask(file, (uint64_t)block * size + at) ^ version;
        memcpy(bytes + at, &word, WORD);
    }
}

uint64_t word_version(const unsigned char *bytes, unsigned file, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, bytes, WORD);
    word ^= word_mask(file, offset);
    return word > UINT32_MAX ? UINT64_MAX : word;
}

struct versions block_versions(const unsigned char *bytes, unsigned file, unsigned block)
{
    struct versions found = {UINT64_MAX, 0};
    unsigned size = files_of_hosts[file].size;
    for (unsigned at = 0; at < size; at += WORD) {
        uint64_t version = word_version(bytes + at, file, (uint64_t)block * size + at);
        found.least = version < found.least ? version : found.least;
        found.most = version > found.most ? version : found.most;
    }
    return found;
}

bool block_check(const unsigned char *bytes, unsigned file, unsigned block, uint32_t least,
                 const char *who)
{
    struct versions found = block_versions(bytes, file, block);
    uint32_t issued = atomic_load(&journal->blocks[file][block].issued);
    if (found.most == UINT64_MAX)
        failed("TORN: %s: file %s block %u has bytes that nobody wrote there", who,
               files_of_hosts[file].name, block);
    else if (found.least < least)
        failed("LOST: %s: file %s block %u has version %llu; %u was made stable, lately in turn %u",
               who, files_of_hosts[file].name, block, (unsigned long long)found.least, least,
               atomic_load(&journal->blocks[file][block].synced_turn));
    else if (found.most > issued)
        failed("TORN: %s: file %s block %u has version %llu; the last one is %u", who,
               files_of_hosts[file].name, block, (unsigned long long)found.most, issued);
    return !atomic_load(&journal->failed);
}
