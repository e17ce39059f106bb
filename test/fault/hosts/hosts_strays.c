/* See hosts_strays.h. */
#include "hosts_strays.h"

enum { PIECES_MOST = 4096, PIECE_MOST = 1 << 16 };

struct piece {
    unsigned file;
    uint64_t offset;
    uint32_t length;
    unsigned char *bytes;
};

static struct piece pieces[PIECES_MOST];

static unsigned piece_count;

struct debt {
    uint32_t version; /* 0: none */
    uint32_t last;    /* that the dead may have begun to write; what is newer is of others */
    bool sure;        /* the other host changed the file for good before this one came back */
    bool changed;     /* it began to */
};

static struct debt debts[HOSTS][FILES][BLOCKS_MOST];

int files[FILES];

uint64_t inodes[FILES];

unsigned stray_files, debts_sent, debts_aside, debts_needless, debts_unknown;

static uint64_t issued_before[FILES]; /* this turn, */

unsigned turn_host;

/* ---- the files of the run directory ---- */

static bool stray_is_stray(const char *name)
{
    return strncmp(name, "stray.", 6) == 0;
}

void pieces_free(void)
{
    while (piece_count > 0)
        free(pieces[--piece_count].bytes);
}

/* False: it has no end, so that it is none yet. */
static bool pieces_read(FILE *in, unsigned file)
{
    for (;;) {
        uint64_t offset;
        uint32_t length;
        if (fread(&offset, sizeof offset, 1, in) != 1 || fread(&length, sizeof length, 1, in) != 1)
            return false;
        if (length == 0)
            return true;
        if (length > PIECE_MOST || piece_count == PIECES_MOST)
            return false;
        struct piece *piece = &pieces[piece_count];
        *piece = (struct piece){file, offset, length, need(length)};
        piece_count++;
        if (fread(piece->bytes, length, 1, in) != 1)
            return false;
    }
}

static void stray_read(const char *path)
{
    char line[8192];
    unsigned long long device, inode = 0;
    FILE *in = fopen(path, "r");
    unsigned file = 0, before = piece_count;
    if (!in)
        return;
    while (fgets(line, sizeof line, in) && line[0] != '\n')
        sscanf(line, "file %llu %llu", &device, &inode);
    while (file < FILES && inodes[file] != inode)
        file++;
    if (file < FILES && !pieces_read(in, file)) {
        while (piece_count > before)
            free(pieces[--piece_count].bytes);
    }
    fclose(in);
}

void strays_read(unsigned host, bool then_remove)
{
    DIR *directory = opendir(hosts[host].run);
    const struct dirent *entry;
    pieces_free();
    while (directory && (entry = readdir(directory))) {
        char path[1024];
        if (!stray_is_stray(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", hosts[host].run, entry->d_name);
        stray_read(path);
        if (then_remove && unlink(path) == 0)
            stray_files++;
    }
    if (directory)
        closedir(directory);
}

/* Is this version of a word, or one up to `last`, in one of the pieces? */
static bool word_is_aside(unsigned file, uint64_t offset, uint32_t version, uint32_t last)
{
    for (unsigned i = 0; i < piece_count; i++) {
        const struct piece *piece = &pieces[i];
        uint64_t found;
        if (piece->file == file && offset >= piece->offset &&
            offset + WORD <= piece->offset + piece->length &&
            (found = word_version(piece->bytes + (offset - piece->offset), file, offset)) >=
                version &&
            found <= last)
            return true;
    }
    return false;
}

/* ---- debts ---- */

unsigned words_missing(unsigned file, unsigned block, uint32_t version, uint32_t last,
                       unsigned *aside)
{
    static unsigned char bytes[BLOCK_MOST];
    unsigned size = files_of_hosts[file].size, missing = 0;
    uint64_t start = (uint64_t)block * size;
    *aside = 0;
    if (pread(files[file], bytes, size, (off_t)start) != (ssize_t)size)
        return size / WORD;
    for (unsigned at = 0; at < size; at += WORD) {
        uint64_t now = word_version(bytes + at, file, start + at);
        if (now >= version && now <= last)
            continue;
        if (word_is_aside(file, start + at, version, last))
            ++*aside;
        else if (now < version || now == UINT64_MAX)
            missing++;
    }
    return missing;
}

/* All words of the block: are they newer than this version, so that nobody can tell what became of
 * it? */
static bool is_newer(unsigned file, unsigned block, uint32_t version)
{
    static unsigned char bytes[BLOCK_MOST];
    unsigned size = files_of_hosts[file].size;
    return pread(files[file], bytes, size, (off_t)block * size) == (ssize_t)size &&
           block_versions(bytes, file, block).least > version;
}

bool owes(unsigned host)
{
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++) {
        if (debts[host][i / BLOCKS_MOST][i % BLOCKS_MOST].version)
            return true;
    }
    return false;
}

uint32_t unsynced(unsigned file, unsigned block)
{
    const struct block *b = &journal->blocks[file][block];
    uint32_t written = atomic_load(&b->written);
    return written > atomic_load(&b->synced) &&
                   atomic_load(&b->written_turn) == atomic_load(&journal->step)
               ? written
               : 0;
}

void debts_note(unsigned host, unsigned index)
{
    unsigned aside;
    pieces_free();
    for (unsigned file = 0; file < FILES; file++) {
        unsigned count = files_of_hosts[file].count / PROGRAMS;
        for (unsigned block = index * count; block < (index + 1) * count; block++) {
            uint32_t written = unsynced(file, block);
            uint32_t issued = atomic_load(&journal->blocks[file][block].issued);
            if (written > 0 && words_missing(file, block, written, issued, &aside) > 0)
                debts[host][file][block] = (struct debt){.version = written, .last = issued};
        }
    }
}

void debts_are_sure(unsigned host, unsigned file)
{
    for (unsigned block = 0; block < files_of_hosts[file].count; block++)
        debts[host][file][block].sure = debts[host][file][block].version != 0;
}

/* Versions that were begun of the blocks of a file. */
static uint64_t issued_of(unsigned file)
{
    uint64_t sum = 0;
    for (unsigned block = 0; block < files_of_hosts[file].count; block++)
        sum += atomic_load(&journal->blocks[file][block].issued);
    return sum;
}

void debts_turn_begins(void)
{
    for (unsigned file = 0; file < FILES; file++)
        issued_before[file] = issued_of(file);
}

void debts_turn_ends(unsigned other)
{
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++) {
        unsigned file = i / BLOCKS_MOST;
        if (issued_of(file) != issued_before[file])
            debts[other][file][i % BLOCKS_MOST].changed = true;
    }
}

/* A debt that is not paid? `newer`: nobody can tell. */
static bool is_missing(const struct debt *debt, unsigned file, unsigned block, unsigned *aside,
                       bool *newer)
{
    unsigned missing = words_missing(file, block, debt->version, debt->last, aside);
    *newer = is_newer(file, block, debt->last) && *aside == 0;
    return missing > 0 || (*newer && debt->sure);
}

/* An agent that lives may have begun to send what the program that came back saw. */
static void debts_wait(unsigned host)
{
    uint64_t limit = clock_ns() + milliseconds(PATIENCE_S * 1000);
    unsigned aside;
    bool newer;
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++) {
        const struct debt *debt = &debts[host][i / BLOCKS_MOST][i % BLOCKS_MOST];
        while (debt->version &&
               is_missing(debt, i / BLOCKS_MOST, i % BLOCKS_MOST, &aside, &newer) &&
               agent_find(host) > 0 && clock_ns() < limit) {
            pause_ms(2);
            strays_read(host, false);
        }
    }
}

bool debts_check(unsigned host, const char *when)
{
    unsigned aside;
    bool newer;
    if (!owes(host))
        return true;
    strays_read(host, false);
    debts_wait(host);
    for (unsigned i = 0; i < FILES * BLOCKS_MOST; i++) {
        unsigned file = i / BLOCKS_MOST, block = i % BLOCKS_MOST;
        struct debt *debt = &debts[host][file][block];
        if (!debt->version)
            continue;
        if (is_missing(debt, file, block, &aside, &newer) && !is_overtaken(file, block)) {
            failed("LOST: %s: version %u of file %s block %u, which host %u accepted, is neither "
                   "at the server nor aside",
                   when, debt->version, files_of_hosts[file].name, block, host);
            return false;
        }
        debts_aside += aside > 0;
        bool changed =
            debt->changed || (turn_host != host && issued_of(file) != issued_before[file]);
        debts_needless += aside > 0 && !changed;
        debts_unknown += newer;
        debts_sent += aside == 0 && !newer;
        *debt = (struct debt){0};
    }
    return true;
}
