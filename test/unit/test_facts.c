/* What processes tell one another of a server: src/run/facts.c. */
#include "run/facts.h"

#include <sys/resource.h>

#include "host_test.h"
#include "rounds.h"

enum { SIZE = 100, PROCESSES = 4, ROUNDS = 5000, MANY = 3000 };

static bool knows(const char *key, uint8_t byte)
{
    uint8_t value[SIZE], expected[SIZE];
    uint64_t told_ns = 0;
    memset(expected, byte, SIZE);
    return run_fact_get(key, strlen(key), value, SIZE, &told_ns) && told_ns > 0 &&
           told_ns <= sys_now_ns() && memcmp(value, expected, SIZE) == 0;
}

static bool knows_nothing(const char *key)
{
    uint8_t value[SIZE];
    uint64_t told_ns;
    return !run_fact_get(key, strlen(key), value, SIZE, &told_ns);
}

static void tell(const char *key, uint8_t byte)
{
    uint8_t value[SIZE];
    memset(value, byte, SIZE);
    run_fact_put(key, strlen(key), value, SIZE);
}

static int child_knows(void *unused)
{
    (void)unused;
    return knows("a", 1) && knows_nothing("b") ? 0 : 1;
}

UNIT_TEST(a_fact_is_known_to_all_processes_until_it_is_forgotten)
{
    assert_true(knows_nothing("a"));
    tell("a", 1);
    assert_int_equal(run_child(child_knows, NULL), 0);
    tell("a", 2);
    assert_true(knows("a", 2));
    run_fact_forget("a", 1);
    run_fact_forget("b", 1);
    assert_true(knows_nothing("a"));
}

UNIT_TEST(a_fact_of_another_size_or_a_key_that_is_too_long_is_none)
{
    static uint8_t long_key[RUN_FACT_KEY + 1];
    uint8_t value[SIZE + 1] = {0};
    uint64_t told_ns;
    tell("s", 1);
    assert_false(run_fact_get("s", 1, value, SIZE + 1, &told_ns));
    run_fact_put(long_key, sizeof(long_key), value, SIZE);
    assert_false(run_fact_get(long_key, sizeof(long_key), value, SIZE, &told_ns));
    run_fact_put(long_key, RUN_FACT_KEY, value, SIZE);
    assert_true(run_fact_get(long_key, RUN_FACT_KEY, value, SIZE, &told_ns));
}

/* Writers of one key, each with values of its own. */
static int tells_often(void *byte)
{
    for (int i = 0; i < (int)rounds_of(ROUNDS); i++)
        tell("t", (uint8_t)(long)byte);
    return 0;
}

UNIT_TEST(nobody_sees_a_mixture_of_two_facts)
{
    pid_t children[PROCESSES];
    uint8_t value[SIZE];
    uint64_t told_ns;
    unsigned seen = 0;
    tell("t", 1);
    for (long i = 0; i < PROCESSES; i++)
        children[i] = start_child(tells_often, (void *)(i + 1));
    for (int i = 0; i < (int)rounds_of(ROUNDS); i++) {
        if (!run_fact_get("t", 1, value, SIZE, &told_ns))
            continue;
        seen++;
        for (int j = 1; j < SIZE; j++)
            assert_int_equal(value[j], value[0]);
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(end_child(children[i]), 0);
    assert_true(seen > 0);
    tell("t", 9);
    assert_true(knows("t", 9));
}

UNIT_TEST(of_many_facts_the_older_give_way)
{
    char key[16];
    unsigned known = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "many %d", i);
        tell(key, (uint8_t)i);
        assert_true(knows(key, (uint8_t)i));
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "many %d", i);
        known += knows(key, (uint8_t)i);
        assert_true(knows(key, (uint8_t)i) || knows_nothing(key));
    }
    assert_in_range(known, MANY * 8 / 10, MANY);
}

static void damage(off_t from, off_t to, int step)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/facts", test_directory);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (off_t at = from; at < to; at += step) {
        uint8_t byte = 0;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        if (byte != 0x10) /* what was 0 may be a page that has no memory */
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

UNIT_TEST(what_is_damaged_is_no_fact)
{
    tell("d", 1);
    assert_true(knows("d", 1));
    damage(4096 + 600, 4096 * 2049, 1024); /* a byte of each value */
    assert_true(knows_nothing("d"));
    tell("d", 2);
    assert_true(knows("d", 2));
}

/* A process that begins with such a file. */
static int begins_anew(void *unused)
{
    (void)unused;
    run_facts_move();
    tell("n", 1);
    return knows_nothing("n") ? 0 : 1;
}

static int cannot_make_it(void *unused)
{
    struct rlimit limit = {4096, 4096};
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    return begins_anew(unused);
}

UNIT_TEST(where_the_file_cannot_be_had_there_are_no_facts)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/facts", test_directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run_child(cannot_make_it, NULL), 0);
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "text", 4), 4);
    close(fd);
    assert_int_equal(run_child(begins_anew, NULL), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(run_child(begins_anew, NULL), 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(run_child(begins_anew, NULL), 1); /* now it can */
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
