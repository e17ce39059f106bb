/*
 * A hash table without locks that all processes map. A fact is in one of two places, which its key
 * gives. A process may read a place while others write it, or after one died that wrote it. Then it
 * gets parts of several facts. The sum over the place is then wrong, and there is no fact.
 *
 * The file has memory only where a place was used, which `backed` tells. A page that is missing
 * while /dev/shm is full would kill a process that reads it. No descriptor of the file is kept: a
 * program that closes all of its descriptors may get that number for another file.
 */
#include "run/facts.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "run/directory.h"
#include "run/identity.h"
#include "sys/fd.h"
#include "sys/sys.h"
#include "sys/thread.h"

#define NAME  "facts"
#define MAGIC UINT64_C(0x3174636146534e44) /* "DNSFact1" in memory: with the layout */

enum { PAGE = 4096, IN_PAGE = 4, PAGES = 2048, PLACES = PAGES * IN_PAGE };

struct place {
    uint64_t sum; /* of what follows; 0: the place is free */
    uint64_t boot, told_ns;
    uint32_t key_size, value_size;
    uint8_t key[RUN_FACT_KEY];
    uint8_t value[RUN_FACT_VALUE];
};
enum { WORDS = sizeof(struct place) / sizeof(uint64_t) };
_Static_assert(sizeof(struct place) * IN_PAGE == PAGE, "places fill a page");

struct table {
    _Atomic uint64_t magic;
    _Atomic uint8_t backed[PAGES];
    uint8_t unused[PAGE - PAGES - sizeof(uint64_t)];
    _Atomic uint64_t places[PLACES][WORDS];
};
_Static_assert(sizeof(struct table) == PAGE * (1 + PAGES), "a page for the head");

static char nowhere;
#define NONE ((struct table *)&nowhere) /* the file cannot be used */

static struct table *_Atomic mapped; /* NULL: not tried yet */
static _Atomic uint64_t mapped_inode;

/* ---- the file ---- */

/* A number for this boot and its clock, which differs in each namespace of times; 0: not known. */
static uint64_t boot(void)
{
    static _Atomic uint64_t known;
    uint64_t id = atomic_load_explicit(&known, memory_order_relaxed);
    if (id == 0)
        atomic_store_explicit(&known, id = run_boot_id() ? run_boot_id() ^ run_time_namespace() : 0,
                              memory_order_relaxed);
    return id;
}

static int open_file(struct stat *status)
{
    int run = run_make();
    int fd = run < 0 ? run : run_open_file(run, NAME, O_RDWR | O_CREAT);
    run_close(run);
    int error = fd < 0 ? fd : sys_fstat(fd, status);
    if (error == 0 && status->st_size == 0)
        error = sys_fd_lengthen(fd, sizeof(struct table));
    else if (error == 0 && status->st_size != sizeof(struct table))
        error = -EBADMSG;
    if (error != 0 && fd >= 0)
        sys_close(fd);
    return error != 0 ? error : fd;
}

static struct table *map_file(void)
{
    struct stat status;
    uint64_t unknown = 0;
    int fd = boot() == 0 ? -ENODATA : open_file(&status);
    if (fd < 0)
        return NONE;
    struct table *table = NONE;
    void *memory = NULL;
    if (sys_fd_reserve(fd, 0, PAGE) == 0)
        memory = sys_mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sys_close(fd);
    if (memory && !sys_mmap_failed(memory))
        table = memory;
    if (table != NONE && !atomic_compare_exchange_strong(&table->magic, &unknown, MAGIC) &&
        unknown != MAGIC) { /* it belongs to another version */
        sys_munmap(memory, sizeof(*table));
        table = NONE;
    }
    if (table != NONE)
        atomic_store(&mapped_inode, status.st_ino);
    return table;
}

static struct table *facts(void)
{
    struct table *found = atomic_load_explicit(&mapped, memory_order_acquire);
    if (found)
        return found;
    struct table *made = map_file();
    if (atomic_compare_exchange_strong(&mapped, &found, made))
        return made;
    if (made != NONE) /* another thread was faster */
        sys_munmap(made, sizeof(*made));
    return found;
}

void run_facts_move(void)
{
    struct table *old = atomic_exchange(&mapped, NULL);
    if (old && old != NONE && sys_thread_alone()) /* else another thread may be reading it */
        sys_munmap(old, sizeof(*old));
}

/* Gets memory for the page of a place. False: there is none. */
static bool back(struct table *table, uint32_t index)
{
    _Atomic uint8_t *backed = &table->backed[index / IN_PAGE];
    struct stat status;
    if (atomic_load_explicit(backed, memory_order_acquire))
        return true;
    int fd = open_file(&status);
    if (fd < 0)
        return false;
    bool done = status.st_ino == atomic_load(&mapped_inode) &&
                sys_fd_reserve(fd, PAGE * (1 + (uint64_t)(index / IN_PAGE)), PAGE) == 0;
    sys_close(fd);
    if (done)
        atomic_store_explicit(backed, 1, memory_order_release);
    return done;
}

/* ---- places ---- */

static uint64_t hash(uint64_t seed, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t sum = seed ^ size;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, size - i < sizeof(word) ? size - i : sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    sum = (sum ^ sum >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return sum ^ sum >> 33;
}

static uint64_t sum_of(const struct place *place)
{
    uint64_t sum = hash(1, &place->boot, sizeof(*place) - offsetof(struct place, boot));
    return sum ? sum : 1;
}

/* False: there is no fact in the place. */
static bool read_place(struct table *table, uint32_t index, struct place *place)
{
    uint64_t words[WORDS];
    if (!atomic_load_explicit(&table->backed[index / IN_PAGE], memory_order_acquire))
        return false;
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&table->places[index][i], memory_order_relaxed);
    memcpy(place, words, sizeof(*place));
    return place->sum != 0 && place->sum == sum_of(place) && place->boot == boot() &&
           (place->told_ns <= sys_about_ns() || place->told_ns <= sys_now_ns()) &&
           place->key_size <= RUN_FACT_KEY && place->value_size <= RUN_FACT_VALUE;
}

static void write_place(struct table *table, uint32_t index, const struct place *place)
{
    uint64_t words[WORDS];
    if (!back(table, index))
        return;
    memcpy(words, place, sizeof(*place));
    for (unsigned i = 0; i < WORDS; i++)
        atomic_store_explicit(&table->places[index][i], words[i], memory_order_relaxed);
}

static bool has_key(const struct place *place, const void *key, size_t size)
{
    return place->key_size == size && memcmp(place->key, key, size) == 0;
}

/* The index of the place with the fact, which is copied to *place; -1: there is none. Then *room is
 * where it may be put: a free place, or the one with the older fact. */
static int64_t find(struct table *table, const void *key, size_t size, struct place *place,
                    uint32_t *room)
{
    uint64_t sum = hash(2, key, size), oldest = UINT64_MAX;
    const uint32_t index[2] = {sum % PLACES, (sum >> 32) % PLACES};
    for (unsigned i = 0; i < 2; i++) {
        bool used = read_place(table, index[i], place);
        uint64_t told_ns = used ? place->told_ns : 0;
        if (used && has_key(place, key, size))
            return index[i];
        if (told_ns < oldest)
            *room = index[i];
        oldest = told_ns < oldest ? told_ns : oldest;
    }
    return -1;
}

bool run_fact_get(const void *key, size_t key_size, void *value, size_t value_size,
                  uint64_t *told_ns)
{
    struct place place;
    uint32_t room;
    struct table *table = facts();
    if (table == NONE || find(table, key, key_size, &place, &room) < 0 ||
        place.value_size != value_size)
        return false;
    memcpy(value, place.value, value_size);
    *told_ns = place.told_ns;
    return true;
}

void run_fact_put(const void *key, size_t key_size, const void *value, size_t value_size)
{
    struct place place;
    uint32_t room;
    struct table *table = facts();
    if (table == NONE || key_size > RUN_FACT_KEY || value_size > RUN_FACT_VALUE)
        return;
    int64_t index = find(table, key, key_size, &place, &room);
    memset(&place, 0, sizeof(place));
    place.boot = boot();
    place.told_ns = sys_now_ns();
    place.key_size = (uint32_t)key_size;
    place.value_size = (uint32_t)value_size;
    memcpy(place.key, key, key_size);
    memcpy(place.value, value, value_size);
    place.sum = sum_of(&place);
    write_place(table, index >= 0 ? (uint32_t)index : room, &place);
}

void run_fact_forget(const void *key, size_t key_size)
{
    static const struct place free_place;
    struct place place;
    uint32_t room;
    struct table *table = facts();
    int64_t index = table == NONE ? -1 : find(table, key, key_size, &place, &room);
    if (index >= 0)
        write_place(table, (uint32_t)index, &free_place);
}
