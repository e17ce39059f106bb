/* The registry's file, the run directory, and the processes that share them: src/ledger/registry.c,
 * run.c, process.c. */
#include "run/identity.h"
#include "ledger_test.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

/* In a child: forgets the inherited registry and opens one in the directory given. */
static int child_opens(void *argument)
{
    ledger_map.shared = NULL;
    setenv("DIRECTNFS_RUN", argument, 1);
    log_open("/dev/null");
    return -ledger_registry_open(UNCOMMITTED_MAX, 0);
}

static void in_fresh_directory(char *path, mode_t mode)
{
    strcpy(path, "/dev/shm/directnfs-test.XXXXXX");
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, mode), 0);
}

static void leave_directory(const char *path)
{
    remove_contents(path);
    assert_int_equal(rmdir(path), 0);
}

UNIT_TEST(an_open_directory_is_refused)
{
    char path[64];
    in_fresh_directory(path, 0750);
    assert_int_equal(run_child(child_opens, path), EPERM);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(run_child(child_opens, path), 0);
    leave_directory(path);
}

UNIT_TEST(a_symbolic_link_is_refused)
{
    char path[64], name[80];
    in_fresh_directory(path, 0700);
    snprintf(name, sizeof(name), "%s/link/", path);
    name[strlen(name) - 1] = '\0';
    assert_int_equal(symlink("/dev/shm", name), 0);
    assert_int_equal(run_child(child_opens, name), ENOTDIR);
    strcat(name, "/");
    assert_int_equal(run_child(child_opens, name), ENOTDIR);
    leave_directory(path);
}

UNIT_TEST(the_directory_is_made_for_its_user_alone)
{
    char path[64], name[80], file[160];
    struct stat status;
    in_fresh_directory(path, 0700);
    snprintf(name, sizeof(name), "%s/run", path);
    assert_int_equal(run_child(child_opens, name), 0);
    assert_int_equal(stat(name, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    snprintf(file, sizeof(file), "%s/registry", name);
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    leave_directory(name);
    leave_directory(path);
}

static int count_files(const char *path)
{
    int count = 0;
    struct dirent *entry;
    DIR *directory = opendir(path);
    while (directory && (entry = readdir(directory)))
        count += strncmp(entry->d_name, "registry", 8) == 0; /* used, or set aside */
    closedir(directory);
    return count;
}

static void overwrite(const char *directory, size_t offset, const void *data, size_t length)
{
    char name[128];
    snprintf(name, sizeof(name), "%s/registry", directory);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, length, (off_t)offset), length);
    close(fd);
}

UNIT_TEST(what_is_no_registry_is_set_aside)
{
    char path[64], name[128];
    in_fresh_directory(path, 0700);
    overwrite(path, 0, "garbage", 7);
    assert_int_equal(run_child(child_opens, path), 0);
    assert_int_equal(count_files(path), 2);
    snprintf(name, sizeof(name), "%s/registry", path);
    assert_int_equal(truncate(name, 50), 0);
    assert_int_equal(run_child(child_opens, path), 0);
    assert_int_equal(count_files(path), 3);
    leave_directory(path);
}

UNIT_TEST(an_unusable_registry_in_use_is_an_error)
{
    char path[64], name[128];
    in_fresh_directory(path, 0700);
    overwrite(path, 0, "garbage", 7);
    snprintf(name, sizeof(name), "%s/registry", path);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_SH), 0); /* as a process of another version holds it */
    assert_int_equal(run_child(child_opens, path), EBUSY);
    assert_int_equal(count_files(path), 1);
    close(fd);
    leave_directory(path);
}

static int child_shares(void *argument)
{
    struct ledger_file file;
    if (child_opens(argument) != 0)
        return 1;
    attach(&file, 500);
    write_kept(&file, ledger_process_slot() * 100000, 10, 1, first_verifier);
    return 0;
}

static int child_counts(void *argument)
{
    struct ledger_file file;
    if (child_opens(argument) != 0)
        return 1;
    attach(&file, 500);
    check_invariants();
    /* Slots may be used again after their process died, then a record replaced another. */
    return ledger_file_uncommitted(&file) >= 10 && ledger_file_uncommitted(&file) <= 200 ? 0 : 2;
}

UNIT_TEST(processes_that_start_at_once_share_one_registry)
{
    char path[64];
    pid_t children[20];
    in_fresh_directory(path, 0700);
    for (int i = 0; i < 20; i++)
        children[i] = start_child(child_shares, path);
    for (int i = 0; i < 20; i++)
        assert_int_equal(end_child(children[i]), 0);
    assert_int_equal(count_files(path), 1);
    assert_int_equal(run_child(child_counts, path), 0);
    leave_directory(path);
}

static int child_takes_a_slot(void *argument)
{
    (void)argument;
    return ledger_process_slot() ? 0 : 1;
}

UNIT_TEST(slots_of_dead_processes_are_used_again)
{
    for (unsigned i = 0; i < rounds_of(100); i++)
        assert_int_equal(run_child(child_takes_a_slot, NULL), 0);
    assert_in_range(ledger_map.shared->process_count, 2, 60);
}

UNIT_TEST(identities_tell_the_living_from_the_dead)
{
    struct run_identity self, other;
    assert_int_equal(run_identity_self(&self), 0);
    assert_int_equal(self.pid, getpid());
    assert_true(run_identity_alive(&self));
    other = self;
    other.starttime++;
    assert_false(run_identity_alive(&other));
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    char path[64], text[512] = {0};
    snprintf(path, sizeof(path), "/proc/%d/stat", child);
    FILE *stat_file = fopen(path, "r");
    assert_non_null(stat_file);
    assert_non_null(fgets(text, sizeof(text), stat_file));
    fclose(stat_file);
    char *field = strrchr(text, ')') + 2;
    for (int i = 3; i < 22; i++)
        field = strchr(field, ' ') + 1;
    other = (struct run_identity){
        .pid = (uint32_t)child, .image = 0, .starttime = strtoull(field, NULL, 10)};
    assert_false(run_identity_alive(&other)); /* a zombie */
    assert_int_equal(end_child(child), 0);
    assert_false(run_identity_alive(&other));
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
