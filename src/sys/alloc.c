#include "sys/alloc.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "sys/sys.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED /* the sanitizers watch malloc() */

#include <stdlib.h>

void *sys_alloc(size_t size)
{
    return malloc(size);
}
void *sys_alloc_zeroed(size_t size)
{
    return calloc(1, size);
}
void *sys_realloc(void *memory, size_t size)
{
    return realloc(memory, size);
}
void sys_free(void *memory)
{
    free(memory);
}
void sys_alloc_fork_prepare(void)
{
}
void sys_alloc_fork_done(void)
{
}

#else

/* Pieces of 2^n bytes, and of half as much more, with their header. Freed pieces are kept by their
 * size for the next request. Larger pieces come from the kernel and go back to it. */
enum {
    SMALLEST_ORDER = 6,
    SMALLEST = 1 << SMALLEST_ORDER,
    KINDS = 2 * 9,
    ARENA_BYTES = 64 * 1024,
    PAGE = 4096
};

struct piece {
    size_t size; /* bytes, with this header */
    union {
        struct piece *next; /* while it is free */
        max_align_t data;
    };
};

enum { HEADER = offsetof(struct piece, data) };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct piece *free_pieces[KINDS];
static uint8_t *arena;
static size_t arena_left;

static size_t size_of(unsigned kind)
{
    size_t size = (size_t)SMALLEST << (kind / 2);
    return kind % 2 ? size + size / 2 : size;
}

/* The smallest that has room. KINDS: it is too large. */
static unsigned kind_of(size_t size)
{
    if (size <= SMALLEST)
        return 0;
    unsigned order = 63 - (unsigned)__builtin_clzll(size - 1); /* 2^order < size <= 2^(order + 1) */
    bool half_more = size <= (size_t)3 << (order - 1);
    unsigned kind = 2 * (order - SMALLEST_ORDER) + (half_more ? 1 : 2);
    return kind < KINDS ? kind : KINDS;
}

static void *map(size_t size)
{
    void *memory = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return sys_mmap_failed(memory) ? NULL : memory;
}

/* Under the lock. The rest of the old arena is lost: it is too small to matter. */
static struct piece *carve(size_t size)
{
    if (arena_left < size) {
        void *more = map(ARENA_BYTES);
        if (!more)
            return NULL;
        arena = more;
        arena_left = ARENA_BYTES;
    }
    struct piece *piece = (struct piece *)arena;
    arena += size;
    arena_left -= size;
    return piece;
}

static struct piece *take(size_t size)
{
    unsigned kind = kind_of(size);
    if (kind == KINDS) {
        size = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
        struct piece *piece = map(size);
        if (piece)
            piece->size = size;
        return piece;
    }
    pthread_mutex_lock(&lock);
    struct piece *piece = free_pieces[kind];
    if (piece)
        free_pieces[kind] = piece->next;
    else if ((piece = carve(size_of(kind))))
        piece->size = size_of(kind);
    pthread_mutex_unlock(&lock);
    return piece;
}

static struct piece *piece_of(void *memory)
{
    return (struct piece *)((uint8_t *)memory - HEADER);
}

void *sys_alloc(size_t size)
{
    struct piece *piece = size > SIZE_MAX - PAGE - HEADER ? NULL : take(size + HEADER);
    return piece ? (uint8_t *)piece + HEADER : NULL;
}

void *sys_alloc_zeroed(size_t size)
{
    void *memory = sys_alloc(size);
    if (memory && kind_of(size + HEADER) < KINDS) /* else the kernel zeroed it */
        memset(memory, 0, size);
    return memory;
}

void sys_free(void *memory)
{
    if (!memory)
        return;
    struct piece *piece = piece_of(memory);
    unsigned kind = kind_of(piece->size);
    if (kind == KINDS) {
        sys_munmap(piece, piece->size);
        return;
    }
    pthread_mutex_lock(&lock);
    piece->next = free_pieces[kind];
    free_pieces[kind] = piece;
    pthread_mutex_unlock(&lock);
}

void *sys_realloc(void *memory, size_t size)
{
    size_t room = memory ? piece_of(memory)->size - HEADER : 0;
    if (memory && size <= room)
        return memory;
    void *larger = sys_alloc(size);
    if (larger && memory) {
        memcpy(larger, memory, room);
        sys_free(memory);
    }
    return larger;
}

void sys_alloc_fork_prepare(void)
{
    pthread_mutex_lock(&lock);
}

void sys_alloc_fork_done(void)
{
    pthread_mutex_unlock(&lock);
}

#endif
