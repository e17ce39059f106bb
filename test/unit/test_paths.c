/* What administrators say of paths: src/run/offline.c. Each test runs in a child: a process maps
 * the file once. */
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "run/offline.h"
#include "host_test.h"

static int open_paths_file(void)
{
    char name[128];
    snprintf(name, sizeof(name), "%s/paths", test_directory);
    return open(name, O_RDWR | O_CREAT, 0600);
}

static int says_for_all(void *unused)
{
    struct run_offline paths[RUN_OFFLINE_MAX];
    (void)unused;
    must(run_offline_read(paths) == 0 && run_offline_generation() == 0);
    run_offline_open();
    must(run_offline_generation() == 0 && !run_is_offline("nas", "10.0.0.1", ""));

    must(run_offline_set("nas", "10.0.0.1", NULL, true) == 0);
    uint32_t first = run_offline_generation();
    must(first != 0 && run_is_offline("nas", "10.0.0.1", "10.0.0.9"));
    must(run_is_offline("nas", "10.0.0.1", NULL));
    must(!run_is_offline("nas", "10.0.0.10", "") && !run_is_offline("na", "10.0.0.1", ""));

    /* Of another process, one that maps the file only now, and one that was there before. */
    pid_t child = fork();
    if (child == 0) {
        must(run_offline_generation() == first);
        must(run_offline_set("nas", "10.0.0.2", "10.0.1.9", true) == 0);
        _exit(0);
    }
    must(end_child(child) == 0 && run_offline_generation() != first);
    must(run_is_offline("nas", "10.0.0.2", "10.0.1.9"));
    must(!run_is_offline("nas", "10.0.0.2", "") && run_is_offline("nas", "10.0.0.1", ""));
    must(run_offline_read(paths) == 2 && strcmp(paths[1].local, "10.0.1.9") == 0 &&
         paths[1].since_ns >= paths[0].since_ns && paths[0].since_ns != 0);

    uint32_t second = run_offline_generation();
    must(run_offline_set("nas", "10.0.0.1", NULL, true) == 0);
    must(run_offline_generation() == second); /* nothing new */
    must(run_offline_set("nas", "10.0.0.1", NULL, false) == 0);
    must(run_offline_generation() != second && !run_is_offline("nas", "10.0.0.1", ""));
    must(run_offline_read(paths) == 1);
    return 0;
}

UNIT_TEST(what_is_said_holds_in_every_process)
{
    run_afresh(says_for_all, NULL);
}

static int distinguishes_local(void *unused)
{
    struct run_offline paths[RUN_OFFLINE_MAX];
    (void)unused;
    must(run_offline_set("nas", "p", "l1", true) == 0 &&
         run_offline_set("nas", "p", "l2", true) == 0);
    must(run_offline_read(paths) == 2);
    must(run_offline_set("nas", "p", "", true) == 0); /* takes the place of both */
    must(run_offline_read(paths) == 1 && paths[0].local[0] == '\0');
    must(run_offline_set("nas", "p", "l1", true) == 0 && run_offline_read(paths) == 1);
    must(run_offline_set("nas", "p", "l1", false) == -EBUSY && run_offline_read(paths) == 1);
    must(run_offline_set("nas", "p", "l1", true) == 0);
    must(run_offline_set("nas", "p", "", false) == 0 && run_offline_read(paths) == 0);
    must(run_offline_set("nas", "p", "l1", true) == 0 &&
         run_offline_set("nas", "p", "l2", true) == 0);
    must(run_offline_set("nas", "p", "l1", false) == 0 && run_offline_read(paths) == 1);
    must(strcmp(paths[0].local, "l2") == 0);
    must(run_offline_set("nas", "p", "", false) == 0 && run_offline_read(paths) == 0);
    return 0;
}

UNIT_TEST(a_local_address_names_one_of_several_paths)
{
    run_afresh(distinguishes_local, NULL);
}

static int has_limits(void *unused)
{
    char name[300];
    struct run_offline paths[RUN_OFFLINE_MAX];
    (void)unused;
    run_offline_open();
    for (int i = 0; i < RUN_OFFLINE_MAX; i++) {
        snprintf(name, sizeof(name), "peer%d", i);
        must(run_offline_set("nas", name, NULL, true) == 0);
    }
    uint32_t generation = run_offline_generation();
    must(run_offline_set("nas", "one more", NULL, true) == -ENOSPC);
    must(run_offline_generation() == generation && run_is_offline("nas", "peer63", NULL));
    must(run_offline_set("nas", "peer0", NULL, false) == 0);
    must(run_offline_set("nas", "one more", NULL, true) == 0);
    must(run_offline_read(paths) == RUN_OFFLINE_MAX);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    must(run_offline_set(name, "p", NULL, true) == -ENAMETOOLONG);
    must(run_offline_set("nas", name, NULL, true) == -ENAMETOOLONG);
    must(run_offline_set("nas", "p", name, true) == -ENAMETOOLONG);
    must(!run_is_offline(name, name, name));
    must(run_offline_set("", "p", NULL, true) == -EINVAL);
    return 0;
}

UNIT_TEST(too_many_and_too_long_are_refused)
{
    run_afresh(has_limits, NULL);
}

/* Whatever is in the file, what is said afterwards is seen by who had it mapped before. */
static int survives_damage(void *unused)
{
    struct run_offline paths[RUN_OFFLINE_MAX];
    struct stat status;
    (void)unused;
    run_offline_open();
    must(run_offline_set("nas", "p", NULL, true) == 0);
    int fd = open_paths_file();
    must(fd >= 0 && fstat(fd, &status) == 0 && (status.st_mode & 0777) == 0600);
    char *garbage = malloc((size_t)status.st_size);
    srandom(1);
    for (int round = 0; round < 300; round++) {
        size_t from = 0, length = (size_t)status.st_size;
        if (round % 3 == 1) {
            from = (size_t)random() % length;
            length = (size_t)random() % (length - from) + 1;
        } else if (round % 3 == 2) {
            length = 64;
        }
        for (size_t i = 0; i < length; i++)
            garbage[i] = (char)(round % 2 ? 0xff : random());
        uint32_t before = run_offline_generation();
        must(pwrite(fd, garbage, length, (off_t)from) == (ssize_t)length);
        run_is_offline("nas", "q", "l");
        int count = run_offline_read(paths);
        must(count == -EBADMSG || count == -EPROTO || (count >= 0 && count <= RUN_OFFLINE_MAX));
        int error = run_offline_set("nas", "q", NULL, true);
        if (error == -EPROTO) {
            must(ftruncate(fd, 0) == 0 && run_offline_set("nas", "q", NULL, true) == 0);
        } else {
            must(error == 0);
        }
        must(run_is_offline("nas", "q", "l") && fstat(fd, &status) == 0);
        must(run_offline_read(paths) >= 1);
        must(run_offline_set("nas", "q", NULL, false) == 0 && !run_is_offline("nas", "q", ""));
        must(run_offline_generation() != before);
    }
    must(ftruncate(fd, 100) == 0 && run_offline_read(paths) == -EBADMSG);
    must(run_offline_set("nas", "q", NULL, true) == 0 && run_is_offline("nas", "q", ""));
    free(garbage);
    return 0;
}

UNIT_TEST(damage_is_repaired_where_it_is)
{
    run_afresh(survives_damage, NULL);
}

static int starts_on_damage(void *unused)
{
    (void)unused;
    int fd = open_paths_file();
    must(fd >= 0 && write(fd, "short", 5) == 5);
    run_offline_open();
    must(run_offline_generation() != 0 && !run_is_offline("nas", "p", NULL));
    must(run_offline_set("nas", "p", NULL, true) == 0 && run_is_offline("nas", "p", NULL));
    return 0;
}

static int stands_still_without_a_file(void *unused)
{
    char name[128];
    (void)unused;
    snprintf(name, sizeof(name), "%s/paths", test_directory);
    must(symlink("/dev/null", name) == 0);
    run_offline_open();
    must(run_offline_generation() == 0 && !run_is_offline("nas", "p", NULL));
    must(run_offline_set("nas", "p", NULL, true) == -EBADMSG);
    return 0;
}

UNIT_TEST(a_process_starts_on_any_file)
{
    run_afresh(starts_on_damage, NULL);
    run_afresh(stands_still_without_a_file, NULL);
}

static int waits_for_nobody(void *unused)
{
    struct run_offline paths[RUN_OFFLINE_MAX];
    (void)unused;
    must(run_offline_set("nas", "p", NULL, true) == 0);
    int fd = open_paths_file();
    must(flock(fd, LOCK_EX) == 0);
    run_offline_open();
    must(run_is_offline("nas", "p", NULL) && run_offline_read(paths) == 1);
    must(run_offline_set("nas", "q", NULL, true) == -ETIMEDOUT);

    /* A writer that dies with the lock, in the middle of the table that is not in force. */
    char junk[4096];
    memset(junk, 'x', sizeof(junk));
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        struct stat status;
        fd = open_paths_file();
        must(flock(fd, LOCK_EX) == 0 && fstat(fd, &status) == 0);
        off_t half = 24 + (run_offline_generation() & 1 ? 0 : (status.st_size - 24) / 2);
        must(pwrite(fd, junk, sizeof(junk), half) == sizeof(junk));
        raise(SIGKILL);
    }
    must(end_child(child) == 128 + SIGKILL);
    must(run_is_offline("nas", "p", NULL) && run_offline_read(paths) == 1);
    must(run_offline_set("nas", "q", NULL, true) == 0 && run_is_offline("nas", "q", NULL));
    must(run_is_offline("nas", "p", NULL) && run_offline_read(paths) == 2);
    return 0;
}

UNIT_TEST(nobody_waits_for_a_writer_that_stopped_or_died)
{
    run_afresh(waits_for_nobody, NULL);
}

static int is_never_torn(void *unused)
{
    (void)unused;
    must(run_offline_set("nas", "first", NULL, true) == 0);
    must(run_offline_set("nas", "always", NULL, true) == 0);
    run_offline_open();
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 2000; i++) /* "always" changes its place */
            must(run_offline_set("nas", "first", NULL, i % 2) == 0);
        _exit(0);
    }
    int status;
    uint32_t last = run_offline_generation();
    unsigned changes = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        uint32_t now = run_offline_generation();
        changes += now != last;
        last = now;
        must(run_is_offline("nas", "always", "x"));
    }
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0 && changes > 0);
    return 0;
}

UNIT_TEST(a_reader_never_sees_half_a_change)
{
    run_afresh(is_never_torn, NULL);
}

/* Starts a child that does this again and again for as long as this process lives. */
static pid_t keep_on(void (*act)(void *file), void *file)
{
    pid_t parent = getpid(), child = fork();
    while (child == 0 && getppid() == parent)
        act(file);
    if (child == 0)
        _exit(0);
    return child;
}

struct owned {
    int fd;
    size_t size;
    char *mapped, *whole;
};

static void flip_counts(void *argument)
{
    const struct owned *file = argument;
    volatile uint32_t *first = (void *)(file->mapped + 24);
    volatile uint32_t *second = (void *)(file->mapped + 24 + (file->size - 24) / 2);
    for (unsigned i = 0; i < 10000; i++)
        *first = *second = i / 64 % 2 ? UINT32_MAX : 1;
}

static void cut_and_restore(void *argument)
{
    const struct owned *file = argument;
    must(ftruncate(file->fd, 0) == 0);
    must(pwrite(file->fd, file->whole, file->size, 0) == (ssize_t)file->size);
}

static int survives_its_owner(void *unused)
{
    struct run_offline paths[RUN_OFFLINE_MAX];
    struct owned file = {.fd = -1};
    struct stat status;
    (void)unused;
    must(run_offline_set("nas", "p", NULL, true) == 0);
    file.fd = open_paths_file();
    must(file.fd >= 0 && fstat(file.fd, &status) == 0);
    file.size = (size_t)status.st_size;
    file.whole = malloc(file.size);
    must(pread(file.fd, file.whole, file.size, 0) == (ssize_t)file.size);
    file.mapped = mmap(NULL, file.size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    pid_t child = keep_on(flip_counts, &file);
    for (int i = 0; i < 2000; i++) {
        int result = run_offline_set("nas", "q", NULL, i % 2);
        must(result == 0 || result == -EBADMSG);
    }
    must(kill(child, SIGKILL) == 0 && end_child(child) == 128 + SIGKILL);
    child = keep_on(cut_and_restore, &file);
    for (int i = 0; i < 2000; i++) {
        int result = run_offline_read(paths);
        must(result >= 0 || result == -EBADMSG);
    }
    must(kill(child, SIGKILL) == 0 && end_child(child) == 128 + SIGKILL);
    free(file.whole);
    return 0;
}

/* Root's command uses the file of a user, who changes it meanwhile. */
UNIT_TEST(a_file_that_changes_as_it_is_used_harms_nobody)
{
    run_afresh(survives_its_owner, NULL);
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
