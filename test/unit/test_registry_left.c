/* Registries that this version cannot use, or of which it is not known whether it can: nothing that
 * they hold is lost. src/ledger/registry.c, store/left.c; src/stats/uncommitted.c. */
#include "ledger/store/left.h"
#include "dirty_scene.h"
#include "no_descriptors.h"
#include "run/directory.h"
#include "run/identity.h"
#include "stats/read.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { BYTES = 300 };

static char registry[128];

static int fresh(void **state)
{
    if (make_run_directory(state))
        return -1;
    log_open("/dev/null");
    snprintf(registry, sizeof(registry), "%s/registry", test_directory);
    return 0;
}

/* ---- what processes do ---- */

/* It has `unsent` bytes that are dirty, and ends as if it were killed. */
static int child_leaves(void *unsent)
{
    struct ledger_file file;
    must(ledger_registry_open(UNCOMMITTED_MAX, 0) == 0);
    attach(&file, 1);
    if (*(size_t *)unsent)
        write_dirty(&file, 0, *(size_t *)unsent, 1);
    return 0;
}

static int child_opens(void *unused)
{
    (void)unused;
    return -ledger_registry_open(UNCOMMITTED_MAX, 0);
}

/* Has it what the other left? */
static int child_finds(void *unused)
{
    struct ledger_file file;
    (void)unused;
    must(ledger_registry_open(UNCOMMITTED_MAX, 0) == 0);
    attach(&file, 1);
    return ledger_file_uncommitted(&file) == BYTES ? 0 : 1;
}

static void leave(size_t unsent)
{
    remove_contents(test_directory);
    assert_int_equal(run_child(child_leaves, &unsent), 0);
}

static void overwrite(size_t offset, const void *data, size_t length)
{
    int fd = open(registry, O_RDWR);
    assert_int_equal(pwrite(fd, data, length, (off_t)offset), length);
    close(fd);
}

static void set_layout(uint32_t layout)
{
    overwrite(offsetof(struct ledger_head, layout), &layout, sizeof(layout));
}

static uint32_t layout_of(void)
{
    struct ledger_head head = {0};
    int fd = open(registry, O_RDONLY);
    assert_int_equal(pread(fd, &head, sizeof(head), 0), sizeof(head));
    close(fd);
    return head.layout;
}

static bool is_aside(const char *name)
{
    return strncmp(name, "registry.unusable.", 18) == 0;
}

static int count_aside(void)
{
    int count = 0;
    DIR *directory = opendir(test_directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        count += is_aside(entry->d_name);
    closedir(directory);
    return count;
}

/* ---- what is said of them ---- */

struct seen {
    unsigned count;
    struct stats_left last;
};

static int see(void *argument, const struct stats_left *left)
{
    struct seen *seen = argument;
    seen->count++;
    seen->last = *left;
    return 0;
}

static struct seen look(void)
{
    struct seen seen = {0};
    int run = run_open();
    assert_int_equal(stats_left_visit(run, NULL, see, &seen), 0);
    run_close(run);
    return seen;
}

static void discard(void)
{
    struct seen seen = look();
    int run = run_open();
    assert_int_equal(seen.count, 1);
    assert_int_equal(stats_left_remove(run, &seen.last), 0);
    run_close(run);
}

static int usable(void)
{
    int run = run_open(), result = stats_registry_usable(run);
    run_close(run);
    return result;
}

/* ---- unknown ---- */

static int child_opens_with_few(void *descriptors)
{
    no_descriptors_begin();
    for (int i = *(int *)descriptors; i > 0; i--)
        close(no_descriptors.fds[--no_descriptors.count]);
    ledger_registry_open(UNCOMMITTED_MAX, 0);
    return 0;
}

UNIT_TEST(a_process_without_descriptors_throws_nothing_away)
{
    for (int few = 0; few < 10; few++) {
        leave(BYTES);
        assert_int_equal(run_child(child_opens_with_few, &few), 0);
        assert_int_equal(count_aside(), 0);
        assert_int_equal(run_child(child_finds, NULL), 0);
    }
}

UNIT_TEST(a_process_without_descriptors_makes_no_registry_that_others_throw_away)
{
    for (int few = 0; few < 10; few++) {
        remove_contents(test_directory);
        assert_int_equal(run_child(child_opens_with_few, &few), 0);
        assert_int_equal(run_child(child_opens, NULL), 0);
        assert_int_equal(count_aside(), 0);
    }
}

static int child_knows_without_descriptors(void *unused)
{
    (void)unused;
    uint64_t id = run_boot_id();
    no_descriptors_begin();
    return id != 0 && run_boot_id() == id && run_namespaces() != 0 ? 0 : 1;
}

UNIT_TEST(what_is_known_of_the_boot_stays_known)
{
    assert_int_equal(run_child(child_knows_without_descriptors, NULL), 0);
}

/* ---- another layout ---- */

UNIT_TEST(what_another_layout_has_not_sent_stays_in_its_place)
{
    leave(BYTES);
    set_layout(LEDGER_REGISTRY_LAYOUT + 1);
    assert_int_equal(run_child(child_opens, NULL), EUCLEAN);
    assert_int_equal(run_child(child_opens, NULL), EUCLEAN);
    assert_int_equal(count_aside(), 0);
    assert_int_equal(usable(), -EUCLEAN);
    struct seen seen = look();
    assert_int_equal(seen.count, 1);
    assert_non_null(strstr(seen.last.text, "300 bytes that no server has"));
    assert_true(seen.last.in_place && !seen.last.used && !seen.last.empty);
    /* And its own version finds it there. */
    set_layout(LEDGER_REGISTRY_LAYOUT);
    assert_int_equal(run_child(child_finds, NULL), 0);
}

UNIT_TEST(a_registry_of_another_layout_that_holds_nothing_makes_room)
{
    leave(0);
    set_layout(LEDGER_REGISTRY_LAYOUT + 1);
    assert_int_equal(usable(), 0);
    assert_int_equal(look().count, 0);
    assert_int_equal(run_child(child_opens, NULL), 0);
    assert_int_equal(count_aside(), 0);
    assert_int_equal(layout_of(), LEDGER_REGISTRY_LAYOUT);
}

UNIT_TEST(a_layout_that_does_not_tell_what_it_holds_stays)
{
    leave(0);
    set_layout(LEDGER_HEAD_SINCE - 1);
    assert_int_equal(run_child(child_opens, NULL), EUCLEAN);
    assert_non_null(strstr(look().last.text, "may hold data"));
    leave(0);
    set_layout(LEDGER_REGISTRY_LAYOUT + 1);
    overwrite(offsetof(struct ledger_head, sum_count), &(uint32_t){UINT32_MAX}, sizeof(uint32_t));
    assert_int_equal(run_child(child_opens, NULL), EUCLEAN);
    assert_int_equal(layout_of(), LEDGER_REGISTRY_LAYOUT + 1);
}

/* Its sums may be those of before its last write. */
static int child_dies_with_a_lock(void *unused)
{
    (void)unused;
    must(ledger_registry_open(UNCOMMITTED_MAX, 0) == 0);
    ledger_stripe_lock(17);
    return 0;
}

UNIT_TEST(a_registry_in_which_a_process_died_with_a_lock_may_hold_something)
{
    remove_contents(test_directory);
    assert_int_equal(run_child(child_dies_with_a_lock, NULL), 0);
    set_layout(LEDGER_REGISTRY_LAYOUT + 1);
    assert_int_equal(run_child(child_opens, NULL), EUCLEAN);
    assert_non_null(strstr(look().last.text, "may hold data"));
    /* Its own version puts it in order. */
    set_layout(LEDGER_REGISTRY_LAYOUT);
    assert_int_equal(run_child(child_dies_with_a_lock, NULL), 0);
    assert_int_equal(run_child(child_opens, NULL), 0);
}

UNIT_TEST(a_registry_of_another_layout_is_given_up_when_that_is_asked_for)
{
    leave(BYTES);
    set_layout(LEDGER_REGISTRY_LAYOUT + 1);
    struct seen seen = look();
    int run = run_open(), fd = open(registry, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_SH), 0);
    assert_true(look().last.used);
    assert_int_equal(stats_left_remove(run, &seen.last), -EBUSY);
    close(fd);
    run_close(run);
    discard();
    assert_int_equal(run_child(child_opens, NULL), 0);
}

UNIT_TEST(a_registry_that_can_be_used_is_not_given_up)
{
    leave(BYTES);
    set_layout(LEDGER_REGISTRY_LAYOUT + 1);
    struct seen seen = look();
    set_layout(LEDGER_REGISTRY_LAYOUT);
    int run = run_open();
    assert_int_equal(stats_left_remove(run, &seen.last), -EBUSY);
    run_close(run);
    assert_int_equal(run_child(child_finds, NULL), 0);
}

/* ---- another boot, another namespace, damage ---- */

UNIT_TEST(of_before_the_last_boot_nothing_can_be_sent)
{
    static const uint64_t boot = 4711;
    for (int unsent = 0; unsent < 2; unsent++) {
        leave(unsent ? BYTES : 0);
        overwrite(offsetof(struct ledger_head, boot_id), &boot, sizeof(boot));
        assert_int_equal(run_child(child_opens, NULL), 0);
        assert_int_equal(count_aside(), unsent);
    }
    struct seen seen = look();
    assert_non_null(strstr(seen.last.text, "before the last boot, and holds 300 bytes"));
    assert_false(seen.last.in_place);
    discard();
    assert_int_equal(look().count, 0);
}

UNIT_TEST(what_the_dead_of_another_namespace_left_is_taken_over)
{
    static const uint64_t other = 4711;
    leave(BYTES);
    overwrite(offsetof(struct ledger_head, namespaces), &other, sizeof(other));
    int fd = open(registry, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_SH), 0); /* as one that lives there holds it */
    assert_int_equal(run_child(child_opens, NULL), EBUSY);
    assert_int_equal(usable(), -EBUSY);
    close(fd);
    assert_int_equal(usable(), 0);
    assert_int_equal(run_child(child_finds, NULL), 0);
    assert_int_equal(count_aside(), 0);
}

UNIT_TEST(a_damaged_registry_is_set_aside_with_what_it_holds)
{
    leave(BYTES);
    assert_int_equal(truncate(registry, 3 << 20), 0);
    assert_int_equal(run_child(child_opens, NULL), 0);
    assert_int_equal(count_aside(), 1);
    assert_non_null(strstr(look().last.text, "damaged, and holds 300 bytes"));
}

int main(void)
{
    return unit_run(fresh, remove_run_directory);
}
