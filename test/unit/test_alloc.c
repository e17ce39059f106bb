/* Memory apart from malloc(): src/sys/alloc.c. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rounds.h"
#include "sys/alloc.h"
#include "unit.h"

enum { PIECES = 500 };

struct piece {
    uint8_t *data;
    size_t size;
};

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Eight by eight, as valgrind runs it too. */
static bool all_are(const uint8_t *data, size_t size, uint8_t mark)
{
    const uint64_t marks = mark * UINT64_C(0x0101010101010101);
    uint64_t word, wrong = 0;
    size_t i = 0;
    for (; i + sizeof(word) <= size; i += sizeof(word)) {
        memcpy(&word, data + i, sizeof(word));
        wrong |= word ^ marks;
    }
    for (; i < size; i++)
        wrong |= data[i] ^ mark;
    return wrong == 0;
}

/* Each byte says whose it is. */
static void check_and_free(struct piece *piece, uint8_t mark)
{
    assert_true(all_are(piece->data, piece->size, mark));
    sys_free(piece->data);
    piece->data = NULL;
}

static void *churn(void *argument)
{
    uint64_t seed = (uintptr_t)argument + 1;
    static const size_t limits[] = {100, 2000, 20000, 100000};
    struct piece *pieces = calloc(PIECES, sizeof(*pieces));
    for (unsigned turn = 0, turns = rounds_of(200000); turn < turns; turn++) {
        unsigned i = (unsigned)(next(&seed) % PIECES);
        struct piece *piece = &pieces[i];
        if (piece->data && next(&seed) % 4) {
            check_and_free(piece, (uint8_t)i);
            continue;
        }
        size_t size = next(&seed) % limits[turn % 1000 ? turn % 2 : 2 + turn / 1000 % 2];
        uint8_t *data = sys_realloc(piece->data, size);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % 16, 0);
        size_t kept = size < piece->size ? size : piece->size;
        assert_true(!piece->data || all_are(data, kept, (uint8_t)i));
        memset(data, (int)(uint8_t)i, size);
        *piece = (struct piece){data, size};
    }
    for (unsigned i = 0; i < PIECES; i++) {
        if (pieces[i].data)
            check_and_free(&pieces[i], (uint8_t)i);
    }
    free(pieces);
    return argument;
}

UNIT_TEST(pieces_do_not_overlap)
{
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

UNIT_TEST(zeros_are_zeros)
{
    for (size_t size = 1; size < 200000; size = size * 2 + 1) {
        uint8_t *data = sys_alloc(size);
        memset(data, 0xff, size);
        sys_free(data);
        data = sys_alloc_zeroed(size);
        assert_true(all_are(data, size, 0));
        sys_free(data);
    }
}

UNIT_TEST(what_cannot_be_had_is_null)
{
    assert_null(sys_alloc(SIZE_MAX));
    assert_null(sys_alloc(SIZE_MAX / 2));
    sys_free(NULL);
}

static volatile int ended;
static void *allocate(void *unused)
{
    while (!ended)
        sys_free(sys_alloc(100));
    return unused;
}

UNIT_TEST(a_child_can_allocate)
{
    pthread_t thread;
    int status = 0;
    assert_int_equal(pthread_create(&thread, NULL, allocate, NULL), 0);
    for (unsigned i = 0; i < rounds_of(300) && status == 0; i++) {
        sys_alloc_fork_prepare();
        pid_t child = fork();
        sys_alloc_fork_done();
        if (child == 0) {
            alarm(600);
            sys_free(sys_alloc(100));
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    ended = 1;
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
}

/* Where it is not used, but malloc(), at whose memory sanitizers look. */
__attribute__((unused)) static void it_is_not_used(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    for (unsigned i = 0; i < unit.count; i++)
        unit.tests[i].test_func = it_is_not_used;
#endif
    return unit_run(NULL, NULL);
}
