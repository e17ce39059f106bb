/*
 * Other libraries that define names of ours and come after us. Some are preloaded (tcmalloc has an
 * mmap(), fakeroot a stat()), some are libraries of the program. Our wrapper calls such a function
 * as the real one. If that function makes its system call by syscall(), the wrapper would be
 * entered again, and the two would call each other for ever. So syscall() looks at its caller.
 *
 * What libc alone defines is found here, too: dlsym() takes a thousand instructions for a name.
 *
 * This runs before any constructor, too. So nothing here allocates, or calls what others may
 * define. dlsym() would allocate a message for each missing name.
 */
#include <link.h>

#include "preload/preload.h"

enum { OTHERS = 32, WORDS = (PRELOAD_SYMBOLS + 63) / 64 };

struct other {
    _Atomic uintptr_t from, to; /* its place in memory */
    _Atomic uint64_t defined[WORDS];
};

/* Found once, by the first thread that asks. Two threads at a time write the same values. */
static struct other others[OTHERS];
static _Atomic uint64_t defined[WORDS];          /* by any library after us */
static _Atomic uintptr_t libcs[PRELOAD_SYMBOLS]; /* by libc, and no library before it; or 0 */
static atomic_int count = -1;                    /* -1: not found yet */

#define NAME(name, ...) #name,
static const char *const names[] = {PRELOAD_ALL(NAME, PRELOAD_NOTHING)};

static bool is_in(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD &&
            address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

/* Symbols of an object: its dynamic section says where they are. */
struct symbols {
    const ElfW(Sym) * table;
    const char *text;
    const uint32_t *hash, *gnu_hash; /* one of them may be missing */
    const ElfW(Half) * versions;     /* may be missing */
};

static struct symbols symbols_of(const struct dl_phdr_info *object)
{
    struct symbols symbols = {0};
    const ElfW(Dyn) *entry = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        /* If ld.so cannot write to this section, it leaves the addresses of the file. */
        uintptr_t address = entry->d_un.d_ptr;
        if (address < object->dlpi_addr)
            address += object->dlpi_addr;
        if (entry->d_tag == DT_SYMTAB)
            symbols.table = (const void *)address;
        else if (entry->d_tag == DT_STRTAB)
            symbols.text = (const void *)address;
        else if (entry->d_tag == DT_HASH)
            symbols.hash = (const void *)address;
        else if (entry->d_tag == DT_GNU_HASH)
            symbols.gnu_hash = (const void *)address;
        else if (entry->d_tag == DT_VERSYM)
            symbols.versions = (const void *)address;
    }
    return symbols;
}

/* Not strcmp(), which a sanitizer defines. */
static bool is_same(const char *one, const char *other)
{
    for (; *one == *other; one++, other++)
        if (*one == '\0')
            return true;
    return false;
}

static bool is_definition(const struct symbols *symbols, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &symbols->table[index];
    return symbol->st_shndx != SHN_UNDEF && is_same(symbols->text + symbol->st_name, name);
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/*
 * The place of the definition in the table of symbols; 0: there is none.
 * Layout of gnu_hash: number of buckets, first symbol, words of the filter, its shift. Then follow
 * the filter, the buckets, and a hash for each symbol. The last bit of a hash ends its bucket.
 */
static uint32_t gnu_find(const struct symbols *symbols, const char *name, uint32_t hash)
{
    const uint32_t *table = symbols->gnu_hash;
    enum { BITS = 8 * sizeof(ElfW(Addr)) };
    const ElfW(Addr) *filter = (const void *)(table + 4);
    const uint32_t *buckets = (const void *)(filter + table[2]), *hashes = buckets + table[0];
    ElfW(Addr) word = filter[hash / BITS % table[2]];
    if (!(word >> hash % BITS & word >> (hash >> table[3]) % BITS & 1))
        return 0;
    uint32_t index = table[0] ? buckets[hash % table[0]] : 0;
    if (index < table[1] || index == 0)
        return 0;
    for (;; index++) {
        uint32_t one = hashes[index - table[1]];
        if ((one | 1) == (hash | 1) && is_definition(symbols, index, name))
            return index;
        if (one & 1)
            return 0;
    }
}

static uint32_t find(const struct symbols *symbols, const char *name, uint32_t hash)
{
    if (!symbols->table || !symbols->text)
        return 0;
    if (symbols->gnu_hash)
        return gnu_find(symbols, name, hash);
    for (uint32_t index = 1; symbols->hash && index < symbols->hash[1]; index++)
        if (is_definition(symbols, index, name))
            return index;
    return 0;
}

/* Is it a plain function, of the version that dlsym() takes? */
static bool is_plain(const struct symbols *symbols, uint32_t index)
{
    const ElfW(Sym) *symbol = &symbols->table[index];
    enum { HIDDEN = 0x8000 };
    return (symbol->st_info & 15) == STT_FUNC && symbol->st_value != 0 &&
           (symbol->st_info >> 4 == STB_GLOBAL || symbol->st_info >> 4 == STB_WEAK) &&
           symbols->versions && !(symbols->versions[index] & HIDDEN);
}

struct search {
    bool after; /* our library was met; the dynamic linker lists objects in its order of search */
    int count;
    uint64_t before[WORDS]; /* what libraries between ours and this one define */
    uint32_t hashes[PRELOAD_SYMBOLS];
};

static void note_place(struct other *other, const struct dl_phdr_info *object)
{
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD)
            continue;
        from = begin < from ? begin : from;
        to = begin + part->p_memsz > to ? begin + part->p_memsz : to;
    }
    atomic_store_explicit(&other->from, from, memory_order_relaxed);
    atomic_store_explicit(&other->to, to, memory_order_relaxed);
}

static int look(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct search *search = argument;
    (void)size;
    if (!search->after) {
        search->after = is_in(object, (uintptr_t)&count);
        return 0;
    }
    struct symbols symbols = symbols_of(object);
    uint64_t found[WORDS] = {0}, any = 0;
    bool is_libc = is_in(object, (uintptr_t)preload_lookup());
    for (int symbol = 0; symbol < PRELOAD_SYMBOLS; symbol++) {
        uint32_t index = find(&symbols, names[symbol], search->hashes[symbol]);
        uint64_t bit = UINT64_C(1) << symbol % 64;
        if (index == 0)
            continue;
        found[symbol / 64] |= bit;
        if (is_libc && !(search->before[symbol / 64] & bit) && is_plain(&symbols, index))
            atomic_store_explicit(&libcs[symbol], object->dlpi_addr + symbols.table[index].st_value,
                                  memory_order_relaxed);
    }
    struct other *other = is_libc || search->count == OTHERS ? NULL : &others[search->count];
    for (int i = 0; i < WORDS; i++) {
        any |= found[i];
        search->before[i] |= found[i];
        atomic_fetch_or_explicit(&defined[i], found[i], memory_order_relaxed);
        if (other)
            atomic_store_explicit(&other->defined[i], found[i], memory_order_relaxed);
    }
    if (other && any) {
        note_place(other, object);
        search->count++;
    }
    return 0;
}

PRELOAD_SLOW static int find_others(void)
{
    struct search search; /* no initial value, as the compiler could call memset() */
    search.after = false;
    search.count = 0;
    for (int i = 0; i < WORDS; i++)
        search.before[i] = 0;
    for (int symbol = 0; symbol < PRELOAD_SYMBOLS; symbol++)
        search.hashes[symbol] = gnu_hash(names[symbol]);
    /* libc's: a sanitizer has its own before us, and would start in the midst of ours. */
    __typeof__(&dl_iterate_phdr) iterate = preload_lookup()(RTLD_NEXT, "dl_iterate_phdr");
    iterate(look, &search);
    atomic_store_explicit(&count, search.count, memory_order_release);
    return search.count;
}

static int count_others(void)
{
    int known = atomic_load_explicit(&count, memory_order_acquire);
    return PRELOAD_LIKELY(known >= 0) ? known : find_others();
}

static bool has_bit(const _Atomic uint64_t *words, enum preload_symbol symbol)
{
    return atomic_load_explicit(&words[symbol / 64], memory_order_relaxed) >> symbol % 64 & 1;
}

bool preload_is_defined(enum preload_symbol symbol)
{
    count_others();
    return has_bit(defined, symbol);
}

void *preload_of_libc(enum preload_symbol symbol)
{
    count_others();
    return (void *)atomic_load_explicit(&libcs[symbol], memory_order_relaxed);
}

bool preload_is_behind(const void *caller, enum preload_symbol symbol)
{
    for (int i = count_others() - 1; i >= 0; i--) {
        uintptr_t from = atomic_load_explicit(&others[i].from, memory_order_relaxed);
        uintptr_t to = atomic_load_explicit(&others[i].to, memory_order_relaxed);
        if ((uintptr_t)caller - from < to - from)
            return has_bit(others[i].defined, symbol);
    }
    return false;
}
