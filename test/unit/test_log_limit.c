/* What all processes together say now and then: src/run/log_limit.c. */
#include "run/log_limit.h"
#include "host_test.h"

enum { PROCESSES = 8, ASKS = 200, MINUTE = 60 };

/* How many times of all that is asked it may be said. */
static int asks_often(void *subject)
{
    int times = 0;
    for (int i = 0; i < ASKS; i++)
        times += run_may_say(subject, MINUTE);
    return times;
}

static int all_ask(const char *subject)
{
    pid_t children[PROCESSES];
    int times = 0;
    for (int i = 0; i < PROCESSES; i++)
        children[i] = start_child(asks_often, (void *)subject);
    for (int i = 0; i < PROCESSES; i++)
        times += end_child(children[i]);
    return times;
}

UNIT_TEST(a_subject_is_said_once_by_all)
{
    assert_int_equal(all_ask("server a"), 1);
    assert_int_equal(all_ask("server a"), 0);
    assert_int_equal(all_ask("server b"), 1);
}

static int logs_elsewhere(void *subject)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/log", test_directory);
    must(log_open(path) == 0);
    return asks_often(subject);
}

UNIT_TEST(another_log_hears_it_too)
{
    assert_int_equal(all_ask("server c"), 1);
    assert_int_equal(run_child(logs_elsewhere, "server c"), 1);
    assert_int_equal(run_child(logs_elsewhere, "server c"), 0);
}

static int asks_again_at_once(void *subject)
{
    return run_may_say(subject, MINUTE) + run_may_say(subject, MINUTE) + run_may_say(subject, 0);
}

static int forgets(void *subject)
{
    run_said_forget(subject);
    run_said_forget("nobody said it");
    return 0;
}

UNIT_TEST(what_is_forgotten_is_news_again)
{
    assert_int_equal(all_ask("server f"), 1);
    run_child(forgets, "server f");
    assert_int_equal(all_ask("server f"), 1);
}

UNIT_TEST(after_the_interval_it_is_said_again)
{
    assert_int_equal(run_child(asks_again_at_once, "server d"), 2);
}

static int looks(void *subject)
{
    must(!run_was_said(subject, MINUTE) && run_may_say(subject, MINUTE));
    return run_was_said(subject, MINUTE) && !run_was_said(subject, 0);
}

static int looks_from_elsewhere(void *subject)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/log", test_directory);
    must(log_open(path) == 0);
    return run_was_said(subject, MINUTE);
}

UNIT_TEST(a_look_tells_what_was_said)
{
    assert_int_equal(run_child(looks, "server g"), 1);
    assert_int_equal(run_child(looks_from_elsewhere, "server g"), 0);
}

static int asks_of_many(void *unused)
{
    char subject[32];
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        snprintf(subject, sizeof(subject), "subject %d", i);
        must(run_may_say(subject, MINUTE));
    }
    return 0;
}

UNIT_TEST(nothing_is_hidden_for_want_of_room)
{
    assert_int_equal(run_child(asks_of_many, NULL), 0);
}

/* Not the first: a process maps the file once. */
UNIT_TEST(a_file_that_cannot_be_used)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/said", test_directory);
    unlink(path);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(all_ask("server e"), PROCESSES);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "short", 5), 5);
    close(fd);
    assert_int_equal(all_ask("server e"), 1);
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
