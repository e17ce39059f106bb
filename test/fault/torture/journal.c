/* See journal.h. */
#include "journal.h"
#include "map.h"

const char *const api_names[API_COUNT] = {
#define X(name) #name,
    APIS
#undef X
};

const struct files_of_test files_of_test[FILES] = {{"small", 4096, 256, 8, 6},
                                                   {"odd", 12344, 64, 4, 5},
                                                   {"large", 65536, 24, 2, 4},
                                                   {"huge", BLOCK_MOST, 5, 1, 1}};

const char *const change_names[CHANGE_COUNT] = {
#define X(name) #name,
    CHANGES
#undef X
};

struct journal *journal;

size_t root_length;

struct journal *journal_map(const char *path, bool make)
{
    return map_file(path, sizeof(struct journal), make);
}

void failed(const char *format, ...)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    va_list arguments;
    pthread_mutex_lock(&once);
    va_start(arguments, format);
    if (!journal->failure[0])
        vsnprintf(journal->failure, sizeof journal->failure, format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&once);
    atomic_store(&journal->failed, true);
}

bool is_refusal(ssize_t result)
{
    return result == -ENOSPC || result == -EDQUOT || result == -EROFS || result == -EIO;
}

bool failed_as_planned(ssize_t result)
{
    unsigned effects = atomic_load(&journal->effects);
    if (!(effects & (result == -ETIMEDOUT ? ALWAYS_FAIL : CALLS_FAIL)) ||
        !(result >= 0 || is_refusal(result) || result == -ETIMEDOUT))
        return false;
    atomic_fetch_add(&journal->errors, 1);
    return true;
}

const char *file_path(unsigned file, char path[512])
{
    const char *directory = journal->directory + root_length;
    if (file < FILES)
        snprintf(path, 512, "%s/%s", directory, files_of_test[file].name);
    else if (file < FILES + SIZED)
        snprintf(path, 512, "%s/sized%u", directory, file - FILES);
    else
        snprintf(path, 512, "%s/records%u", directory, file - FILES - SIZED);
    return path;
}

unsigned round_of_step(uint32_t step)
{
    return step / 4;
}

unsigned worker_slots(void)
{
    return journal->processes * journal->threads;
}

unsigned slots(void)
{
    return worker_slots() + VISITORS;
}

unsigned owner_of(unsigned file, unsigned block, unsigned round)
{
    return (block / files_of_test[file].stripe + round * 7 + file) % slots();
}

/* ---- stamps ---- */

uint64_t stamp_mask(unsigned file, unsigned block, unsigned word)
{
    return mix((uint64_t)file << 56 ^ (uint64_t)block << 32 ^ word);
}

void stamp(void *to, unsigned file, unsigned block, uint32_t sequence, unsigned writer)
{
    uint64_t value = STAMP_CHECK << 48 | (uint64_t)(writer & 0xffff) << 32 | sequence;
    unsigned char *bytes = to;
    for (unsigned i = 0; i < files_of_test[file].size / 8; i++) {
        uint64_t word = value ^ stamp_mask(file, block, i);
        memcpy(bytes + 8 * (size_t)i, &word, 8);
    }
}

/* Says what a word, of which the stamp is `value`, was found to be. */
static void stamp_name(char name[96], uint64_t word, uint64_t value, const char *kind,
                       uint32_t least)
{
    uint32_t number = (uint32_t)value;
    if (value >> 48 != STAMP_CHECK)
        snprintf(name, 96, "%016llx, which nobody wrote there", (unsigned long long)word);
    else
        snprintf(name, 96, "%s %u of writer %u (%s)", kind, number,
                 (unsigned)(value >> 32 & 0xffff), number < least ? "LOST or STALE" : "too new");
}

bool stamp_check(const void *from, unsigned file, unsigned block, uint32_t least, uint32_t most,
                 const char *when)
{
    const unsigned char *bytes = from;
    for (unsigned i = 0; i < files_of_test[file].size / 8; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * (size_t)i, 8);
        uint64_t value = word ^ stamp_mask(file, block, i);
        uint32_t sequence = (uint32_t)value;
        if (value >> 48 == STAMP_CHECK && sequence >= least && sequence <= most)
            continue;
        char found[96];
        stamp_name(found, word, value, "write", least);
        failed("%s: file %s block %u byte %u: found %s, expected %u..%u", when,
               files_of_test[file].name, block, i * 8, found, least, most);
        return false;
    }
    return true;
}

/* ---- sized files ---- */

uint64_t sized_stamp(unsigned file, unsigned word, uint32_t number, unsigned writer)
{
    return (STAMP_CHECK << 48 | (uint64_t)(writer & 0xffff) << 32 | number) ^
           stamp_mask(FILES + file, 0, word);
}

uint32_t sized_cuts(uint64_t stable)
{
    return (uint32_t)(stable >> 32);
}

enum bound bound_of_reads(void)
{
    return atomic_load(&journal->effects) & (DATA_FORGET | DATA_REFUSED) ? BOUND_SYNCED
                                                                         : BOUND_ACKED;
}

enum bound bound_of_sizes(void)
{
    return atomic_load(&journal->effects) & DATA_REFUSED ? BOUND_SYNCED : BOUND_ACKED;
}

void sized_look(unsigned file, enum bound bound, unsigned from, unsigned to,
                struct sized_view *view)
{
    struct sized *sized = &journal->sized[file];
    view->stable = atomic_load(&sized->stable);
    view->least = bound == BOUND_ACKED ? atomic_load(&sized->least) : (uint32_t)view->stable;
    view->most = atomic_load(&sized->most);
    for (unsigned i = from; i < to; i++)
        view->words[i] = atomic_load_explicit(bound == BOUND_ACKED ? &sized->words[i].acked
                                                                   : &sized->words[i].synced,
                                              memory_order_relaxed);
}

bool sized_check_size(unsigned file, const struct sized_view *view, uint64_t least, uint64_t most,
                      const char *when)
{
    struct sized *sized = &journal->sized[file];
    uint32_t now = atomic_load(&sized->most);
    /* A cut that began since then allows every size. */
    if (sized_cuts(atomic_load(&sized->stable)) != sized_cuts(view->stable) ||
        (most >= view->least && least <= (now > view->most ? now : view->most)))
        return true;
    failed("%s: sized file %u has %s%llu bytes, expected %u..%u: a size that %s", when, file,
           least == most        ? ""
           : most < view->least ? "at most "
                                : "at least ",
           (unsigned long long)(most < view->least ? most : least), view->least, now,
           most < view->least ? "went back (LOST)" : "came back (STALE)");
    return false;
}

bool sized_check_words(unsigned file, const struct sized_view *view, const void *bytes,
                       unsigned from, unsigned to, const char *when)
{
    struct word *words = journal->sized[file].words;
    for (unsigned i = from; i < to; i++) {
        uint64_t found;
        uint32_t least = view->words[i];
        memcpy(&found, (const unsigned char *)bytes + 8 * (size_t)(i - from), 8);
        uint32_t zeroed = atomic_load(&words[i].zeroed), most = atomic_load(&words[i].issued);
        uint64_t value = found ^ stamp_mask(FILES + file, 0, i);
        uint32_t number = (uint32_t)value;
        bool known = value >> 48 == STAMP_CHECK;
        if (found == 0 ? zeroed >= least : known && number >= least && number <= most)
            continue;
        char what[96];
        stamp_name(what, found, value, "operation", least);
        if (found == 0)
            strcpy(what, "zeros (LOST)");
        failed("%s: sized file %u byte %u: found %s, expected %u..%u%s", when, file, i * 8, what,
               least, most, zeroed >= least ? " or zeros" : "");
        return false;
    }
    return true;
}

void journal_forget(void)
{
    for (unsigned i = 0; i < FILES * BLOCKS; i++) {
        struct block *block = &journal->blocks[i / BLOCKS][i % BLOCKS];
        atomic_store(&block->acked, atomic_load(&block->synced));
    }
    for (unsigned file = 0; file < SIZED; file++) {
        struct sized *sized = &journal->sized[file];
        atomic_store(&sized->least, (uint32_t)atomic_load(&sized->stable));
        for (unsigned i = 0; i < WORDS; i++)
            atomic_store(&sized->words[i].acked, atomic_load(&sized->words[i].synced));
    }
}

void raise_to(_Atomic uint32_t *number, uint32_t value)
{
    uint32_t old = atomic_load(number);
    while (old < value && !atomic_compare_exchange_weak(number, &old, value))
        ;
}
