/*
 * A table of subjects and when each was last said, mapped by all processes. It has no lock and no
 * owner. Whatever is in it, the worst result is a line too many or, for an interval, too few.
 */
#include "run/log_limit.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "run/directory.h"
#include "sys/fd.h"
#include "sys/hash.h"
#include "sys/large.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { SUBJECTS = 512, LOOKS = 16 };

#define SECOND_NS UINT64_C(1000000000)

struct subject {
    _Atomic uint64_t key;     /* of the text and of the log; 0: free */
    _Atomic uint64_t said_ns; /* CLOCK_MONOTONIC, which all processes share */
};

static SYS_LARGE struct subject own[SUBJECTS]; /* if the file cannot be used */
static struct subject *_Atomic mapped;

/* Was it never said, or long ago, or before the host booted? Another process may have said it since
 * `now` was read: up to a second ahead is not old. */
static bool is_old(uint64_t said_ns, uint64_t now, uint64_t interval_ns)
{
    if (said_ns > now)
        return said_ns - now > SECOND_NS;
    return said_ns == 0 || now - said_ns >= interval_ns;
}

static struct subject *map_file(void)
{
    const size_t size = sizeof(own);
    struct stat status;
    int run = run_make();
    int fd = run < 0 ? run : run_open_file(run, "said", O_RDWR | O_CREAT);
    run_close(run);
    if (fd < 0)
        return own;
    void *memory = NULL;
    if (sys_fstat(fd, &status) == 0) {
        /* Reserve all of it now: a page that is missing while /dev/shm is full would kill us. */
        int error = status.st_size >= (off_t)size ? 0 : sys_fd_lengthen(fd, (off_t)size);
        if (error == 0)
            error = sys_fd_reserve(fd, 0, size);
        if (error == 0)
            memory = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    sys_close(fd);
    return !memory || sys_mmap_failed(memory) ? own : memory;
}

static struct subject *table(void)
{
    struct subject *found = atomic_load(&mapped);
    if (found)
        return found;
    struct subject *made = map_file();
    if (atomic_compare_exchange_strong(&mapped, &found, made))
        return made;
    if (made != own) /* another thread was faster */
        sys_call2(SYS_munmap, made, sizeof(own));
    return found;
}

static uint64_t key_of(const char *subject)
{
    uint64_t hash = sys_hash(SYS_HASH_NONE ^ log_place(), subject, strlen(subject));
    return hash ? hash : 1;
}

/* Where the subject is, or may be put: a free place, or one with a subject of long ago. */
static struct subject *find(struct subject *subjects, uint64_t key, uint64_t now,
                            uint64_t interval_ns)
{
    struct subject *room = NULL;
    for (unsigned i = 0; i < LOOKS; i++) {
        struct subject *at = &subjects[(key + i) % SUBJECTS];
        uint64_t other = atomic_load(&at->key);
        if (other == key)
            return at;
        if (!room && (other == 0 || is_old(atomic_load(&at->said_ns), now, interval_ns)))
            room = at;
    }
    return room;
}

bool run_was_said(const char *subject, unsigned interval_s)
{
    struct subject seen[LOOKS];
    uint64_t key = key_of(subject), now = sys_now_ns();
    size_t size = sizeof(seen), at = key % SUBJECTS * sizeof(seen[0]);
    if (at + size > sizeof(own))
        size = sizeof(own) - at;
    int fd = run_open_named("said", O_RDONLY);
    ssize_t got = fd < 0 ? 0 : sys_pread(fd, seen, size, (off_t)at);
    if (fd >= 0)
        sys_close(fd);
    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof(seen[0]); i++) {
        if (atomic_load(&seen[i].key) == key)
            return !is_old(atomic_load(&seen[i].said_ns), now, interval_s * SECOND_NS);
    }
    return false;
}

bool run_may_say(const char *subject, unsigned interval_s)
{
    uint64_t key = key_of(subject), now = sys_now_ns(), interval_ns = interval_s * SECOND_NS;
    struct subject *at = find(table(), key, now, interval_ns);
    if (!at)
        return true;
    uint64_t said = atomic_load(&at->said_ns);
    if (!is_old(said, now, interval_ns))
        return false;
    atomic_store(&at->key, key);
    return atomic_compare_exchange_strong(&at->said_ns, &said, now);
}

void run_said_forget(const char *subject)
{
    uint64_t key = key_of(subject);
    struct subject *at = find(table(), key, sys_now_ns(), UINT64_MAX);
    if (at && atomic_load(&at->key) == key)
        atomic_store(&at->said_ns, 0);
}

void run_said_move(void)
{
    atomic_store(&mapped, NULL); /* it stays mapped: a thread may be reading it */
}
