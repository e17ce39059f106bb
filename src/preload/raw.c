/*
 * Some programs make system calls on files themselves, as Go does, and Rust's rustix. Such a write
 * goes to the kernel; a write through the C library goes to the server. Of two writes to one place
 * the older could come last. So the kernel gets all files of such a program.
 *
 * Nobody sees such a call. But its instruction is in the code of the program, or of a library. The
 * library examines this code when it serves the first file, and again after each dlopen(). The
 * result is a fact in the run directory, by the build-id of the code.
 */
#include <link.h>
#include <string.h>

#include "fd/life.h"
#include "fd/user.h"
#include "preload/preload.h"
#include "run/facts.h"
#include "run/log_limit.h"
#include "sys/code.h"
#include "sys/large.h"
#include "sys/log.h"
#include "sys/thread.h"

enum {
    OBJECTS = 256,          /* objects that come with the program */
    SEEN = 1024,            /* places for those that come later */
    LEAST_NOTED = 64 << 10, /* bytes of code: to examine less is as fast as to find a fact */
    ID_MAX = 64,
    LOADING_MS = 1000, /* at most, from dlopen() until its library is in the list */
    SAY_EVERY_S = 60
};

_Atomic bool preload_raw_unsettled;

/* Objects that came with the program stay for ever. So they can be read without the dynamic
 * linker's lock, which another thread may have held when this process was forked. */
struct object {
    uintptr_t base;
    const ElfW(Phdr) * parts;
    unsigned count;
    const char *name; /* with its directory; "": the program */
};
static SYS_LARGE struct object initial[OBJECTS];
static unsigned initial_count;

/* One thread at a time is at work; it owns what follows. */
static atomic_flag settling = ATOMIC_FLAG_INIT;
static bool initial_done, left;       /* left: the kernel has all files */
static SYS_LARGE uint64_t seen[SEEN]; /* later objects that were examined; 0: free */
static unsigned seen_count;
static unsigned long long adds, removals; /* of the list of objects, when it was examined */
static unsigned loads_seen;               /* calls of dlopen() at that time, */
static uint64_t loads_ns;                 /* and when their number last changed */

static _Atomic unsigned loads;

/* In a child of fork(), a thread that is not there may hold the dynamic linker's lock. Then
 * `barred` is set, and later objects are not examined. */
static bool was_alone, barred;

/* ---- an object ---- */

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool is_loaded(const struct object *object, const ElfW(Phdr) * part)
{
    for (unsigned i = 0; i < object->count; i++) {
        const ElfW(Phdr) *whole = &object->parts[i];
        if (whole->p_type == PT_LOAD && part->p_vaddr >= whole->p_vaddr &&
            part->p_vaddr - whole->p_vaddr <= whole->p_filesz &&
            part->p_filesz <= whole->p_filesz - (part->p_vaddr - whole->p_vaddr))
            return true;
    }
    return false;
}

static size_t round_up(size_t size, size_t align)
{
    return (size + align - 1) / align * align;
}

/* Finds the build-id among the notes of this part. NULL: it is not there. */
static const uint8_t *find_id(const uint8_t *at, size_t room, size_t align, size_t *size)
{
    ElfW(Nhdr) note;
    while (room >= sizeof(note)) {
        memcpy(&note, at, sizeof(note));
        size_t text = sizeof(note) + round_up(note.n_namesz, align);
        size_t whole = text + round_up(note.n_descsz, align);
        if (whole > room)
            return NULL;
        *size = note.n_descsz;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
            memcmp(at + sizeof(note), "GNU", sizeof("GNU")) == 0)
            return at + text;
        at += whole;
        room -= whole;
    }
    return NULL;
}

static const uint8_t *build_id(const struct object *object, size_t *size)
{
    const uint8_t *found = NULL;
    for (unsigned i = 0; i < object->count && !found; i++) {
        const ElfW(Phdr) *part = &object->parts[i];
        if (part->p_type == PT_NOTE && is_loaded(object, part))
            found = find_id((const uint8_t *)(object->base + part->p_vaddr), part->p_filesz,
                            part->p_align == 8 ? 8 : 4, size);
    }
    return found;
}

static bool is_code(const ElfW(Phdr) * part)
{
    return part->p_type == PT_LOAD && (part->p_flags & (PF_R | PF_X)) == (PF_R | PF_X);
}

static size_t code_size(const struct object *object)
{
    size_t size = 0;
    for (unsigned i = 0; i < object->count; i++)
        size += is_code(&object->parts[i]) ? object->parts[i].p_filesz : 0;
    return size;
}

struct search {
    const struct object *object;
    struct sys_code_calls *calls;
};

static void look_through(const void *argument)
{
    const struct search *search = argument;
    const struct object *object = search->object;
    for (unsigned i = 0; i < object->count; i++)
        if (is_code(&object->parts[i]))
            sys_code_look((const uint8_t *)(object->base + object->parts[i].p_vaddr), 0,
                          object->parts[i].p_filesz, search->calls);
}

/* The program may have made its code unreadable. Such code is not judged. */
static uint64_t find_calls(const struct object *object)
{
    struct sys_code_calls calls = {0};
    const struct search search = {object, &calls};
    if (sys_critical_can_guard())
        (void)sys_critical_guarded(look_through, &search);
    else
        look_through(&search);
    return sys_code_passing(&calls);
}

/* The calls of the object that pass the library by: a bit for each. */
static uint64_t passing(const struct object *object)
{
    struct {
        char what[16], version[48];
        uint64_t code;
        uint8_t id[ID_MAX];
    } key = {"code of program", {0}, 0, {0}};
    uint64_t calls = 0, told_ns;
    size_t size = 0;
    const uint8_t *id = build_id(object, &size);
    key.code = code_size(object);
    if (!id || size == 0 || size > ID_MAX || key.code < LEAST_NOTED)
        return find_calls(object);
    strncpy(key.version, preload_version, sizeof(key.version) - 1);
    memcpy(key.id, id, size);
    if (!run_fact_get(&key, sizeof(key), &calls, sizeof(calls), &told_ns)) {
        calls = find_calls(object);
        run_fact_put(&key, sizeof(key), &calls, sizeof(calls));
    }
    return calls;
}

/* 0 for a library that is known: its calls mean nothing. */
static uint64_t judge(const struct object *object)
{
    return sys_code_is_known(base_of(object->name)) ? 0 : passing(object);
}

static void leave(const char *name, uint64_t calls)
{
    char text[160] = "", subject[64];
    name = *name ? name : program_invocation_name;
    for (unsigned i = 0; sys_code_name(i); i++)
        if (calls >> i & 1 && strlen(text) + strlen(sys_code_name(i)) + 3 < sizeof(text))
            strcat(strcat(text, *text ? ", " : ""), sys_code_name(i));
    snprintf(subject, sizeof(subject), "system calls of %.40s", base_of(name));
    if (run_may_say(subject, SAY_EVERY_S))
        log_warning("%s makes system calls on files itself (%s), which pass the library by: the "
                    "kernel serves all files of this program. If it does not write its data by "
                    "them, set raw_calls = \"serve\" in directnfs.conf",
                    name, text);
    fd_leave_to_kernel("system calls of its own");
}

/* False: an object has a call by which data passes, so the kernel has got all files. */
static bool settle_initial(void)
{
    uint64_t calls;
    for (unsigned i = 0; i < initial_count && !initial_done; i++) {
        if ((calls = judge(&initial[i])) != 0) {
            leave(initial[i].name, calls);
            return false;
        }
    }
    initial_done = true;
    return true;
}

/* ---- objects that come later ---- */

struct walk {
    char name[256]; /* of the first object that makes calls which pass by, */
    uint64_t calls; /* and those calls; or 0 */
    bool begun;
};

static void forget_seen(void)
{
    memset(seen, 0, sizeof(seen));
    seen_count = 0;
}

/* True: it was seen before. */
static bool note_seen(const struct dl_phdr_info *info)
{
    uint64_t sum =
        (uintptr_t)info->dlpi_addr * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)info->dlpi_phdr;
    sum += sum == 0;
    if (seen_count == SEEN / 2) /* then all are examined again */
        forget_seen();
    unsigned place = (unsigned)(sum >> 32) % SEEN;
    for (; seen[place]; place = (place + 1) % SEEN)
        if (seen[place] == sum)
            return true;
    seen[place] = sum;
    seen_count++;
    return false;
}

static bool is_initial(const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < initial_count; i++)
        if (initial[i].parts == info->dlpi_phdr)
            return true;
    return false;
}

/* The dynamic linker calls it under a lock of its own, so the object stays meanwhile. */
static int look(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct walk *walk = argument;
    (void)size;
    if (!walk->begun && info->dlpi_adds == adds && info->dlpi_subs == removals)
        return 1;
    if (!walk->begun && info->dlpi_subs != removals)
        forget_seen(); /* another object may be in its place */
    walk->begun = true;
    adds = info->dlpi_adds;
    removals = info->dlpi_subs;
    if (is_initial(info) || note_seen(info))
        return 0;
    const struct object object = {info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum,
                                  info->dlpi_name ? info->dlpi_name : ""};
    walk->calls = judge(&object);
    if (walk->calls)
        snprintf(walk->name, sizeof(walk->name), "%s", object.name);
    return walk->calls != 0;
}

static __typeof__(&dl_iterate_phdr) iterate_of_libc(void)
{
    return preload_lookup()(RTLD_NEXT, "dl_iterate_phdr");
}

/* As settle_initial(). A library may not be in the list yet. So the list is read again and again,
 * until LOADING_MS after the last dlopen(). */
static bool settle_later(void)
{
    static __typeof__(&dl_iterate_phdr) iterate;
    struct walk walk = {.calls = 0};
    unsigned now = atomic_load(&loads);
    bool is_news = now != loads_seen;
    loads_seen = now;
    if (is_news)
        loads_ns = sys_now_ns();
    bool is_over = !is_news && sys_now_ns() - loads_ns > LOADING_MS * UINT64_C(1000000);
    if (!iterate)
        iterate = iterate_of_libc();
    iterate(look, &walk);
    if (walk.calls) {
        leave(walk.name, walk.calls);
        return false;
    }
    if (is_over) {
        atomic_store(&preload_raw_unsettled, false);
        if (atomic_load(&loads) != now)
            atomic_store(&preload_raw_unsettled, true);
    }
    return true;
}

/* Does nothing in a handler, which may have interrupted the dynamic linker. */
PRELOAD_SLOW void preload_raw_settle(void)
{
    if (sys_critical_in_handler() || atomic_flag_test_and_set(&settling))
        return;
    struct preload_stay stay = preload_stay_begin();
    bool has_later = !barred && (atomic_load(&loads) > 0 || initial_count == OBJECTS);
    if (left || !settle_initial() || (has_later && !settle_later()))
        left = true;
    if (left || !has_later)
        atomic_store(&preload_raw_unsettled, false);
    atomic_flag_clear(&settling);
    preload_stay_end(stay);
}

/* ---- life ---- */

void preload_raw_loading(void)
{
    atomic_fetch_add(&loads, 1);
    if (atomic_load_explicit(&preload_started, memory_order_relaxed) && !fd_allows_raw_calls())
        atomic_store(&preload_raw_unsettled, true);
}

static int note(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (initial_count == OBJECTS)
        return 1;
    initial[initial_count++] = (struct object){info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum,
                                               info->dlpi_name ? info->dlpi_name : ""};
    return 0;
}

void preload_raw_start(void)
{
    if (fd_allows_raw_calls())
        return;
    iterate_of_libc()(note, NULL);
    atomic_store(&loads, 0);
    atomic_store(&preload_raw_unsettled, true);
}

void preload_raw_prepare(void)
{
    bool has_later = atomic_load(&loads) > 0 || initial_count == OBJECTS;
    was_alone = !atomic_load(&preload_raw_unsettled) || !has_later || sys_thread_alone();
}

void preload_raw_child(void)
{
    atomic_flag_clear(&settling);
    barred = barred || !was_alone;
}
