/* The registry's file, its entries, sizes and attributes: src/host/registry.c, entry.c, run.c. */
#include "host_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { UNCOMMITTED_MAX = 4 << 20 };

static const uint8_t verifier[8] = {1};

static int open_registry(void **state)
{
    if (make_run_directory(state))
        return -1;
    return host_registry_open(UNCOMMITTED_MAX, 0);
}

static void write_bytes(struct host_file *file, uint64_t offset, size_t length,
                        enum host_outcome outcome)
{
    static uint8_t data[65536];
    struct iovec vector = {data, length};
    struct host_write write;
    must(host_write_begin(file, offset, &vector, 1, length, true, &write) == 0);
    host_write_end(file, &write, outcome, verifier);
}

static uint64_t size_of(struct host_file *file)
{
    struct host_attributes attributes;
    uint64_t verified;
    return host_file_attributes(file, &attributes, &verified) ? attributes.size : UINT64_MAX;
}

static void learn(struct host_file *file, uint64_t epoch, uint64_t size, long ctime)
{
    struct host_attributes attributes = {
        .size = size, .used = size * 2, .ctime = {ctime, 5}, .mtime = {ctime, 7}};
    host_file_learned(file, epoch, &attributes, (uint64_t)ctime);
}

static void learn_now(struct host_file *file, uint64_t size, long ctime)
{
    learn(file, host_file_asking(file), size, ctime);
}

/* ---- attributes ---- */

static void what_was_learned_is_known_to_all(void **state)
{
    (void)state;
    struct host_file file, other;
    struct host_attributes attributes;
    uint64_t verified;
    attach(&file, 1);
    assert_false(host_file_attributes(&file, &attributes, &verified));
    assert_false(host_file_peek(77, 1, &attributes));
    learn_now(&file, 1234, 100);
    attach(&other, 1);
    assert_true(host_file_attributes(&other, &attributes, &verified));
    assert_int_equal(attributes.size, 1234);
    assert_int_equal(attributes.used, 2468);
    assert_int_equal(attributes.ctime.tv_sec, 100);
    assert_int_equal(attributes.ctime.tv_nsec, 5);
    assert_int_equal(attributes.mtime.tv_nsec, 7);
    assert_int_equal(verified, 100);
    assert_true(host_file_peek(77, 1, &attributes));
    assert_int_equal(attributes.size, 1234);
    assert_false(host_file_peek(78, 1, &attributes));
}

static void the_size_grows_with_a_write_that_succeeds(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 2);
    learn_now(&file, 100, 1);
    write_bytes(&file, 50, 10, HOST_WRITE_STABLE);
    assert_int_equal(size_of(&file), 100);
    write_bytes(&file, 100, 10, HOST_WRITE_STABLE);
    assert_int_equal(size_of(&file), 110);
    write_bytes(&file, 200, 10, HOST_WRITE_FAILED);
    assert_int_equal(size_of(&file), 110);
}

static void a_reply_from_before_a_write_does_not_shrink(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 3);
    learn_now(&file, 100, 1);
    uint64_t epoch = host_file_asking(&file);
    write_bytes(&file, 100, 50, HOST_WRITE_STABLE);
    learn(&file, epoch, 100, 2);
    assert_int_equal(size_of(&file), 150);
    epoch = host_file_asking(&file);
    write_bytes(&file, 0, 1, HOST_WRITE_STABLE);
    learn(&file, epoch, 400, 3);
    assert_int_equal(size_of(&file), 400);
    learn_now(&file, 80, 4); /* nothing of ours meanwhile: someone elsewhere truncated it */
    assert_int_equal(size_of(&file), 80);
}

static void a_reply_from_before_a_truncation_changes_no_size(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 4);
    learn_now(&file, 1000, 1);
    uint64_t epoch = host_file_asking(&file);
    host_file_truncate_begin(&file, 10);
    host_file_truncate_end(&file, 10, true);
    assert_int_equal(size_of(&file), 10);
    learn(&file, epoch, 1000, 2);
    assert_int_equal(size_of(&file), 10);
}

static void after_a_truncation_that_failed_the_size_is_asked_for(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 81);
    learn_now(&file, 10, 1);
    host_file_truncate_begin(&file, 5);
    host_file_truncate_end(&file, 5, false);
    assert_int_equal(size_of(&file), UINT64_MAX);
    learn_now(&file, 5, 2);
    assert_int_equal(size_of(&file), 5);
}

static void a_reply_that_was_overtaken_changes_no_size(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 82);
    learn_now(&file, 100, 1);
    learn_now(&file, 200, 3); /* someone elsewhere writes to it */
    learn_now(&file, 100, 2);
    assert_int_equal(size_of(&file), 200);
    uint64_t epoch = host_file_asking(&file);
    write_bytes(&file, 0, 1, HOST_WRITE_STABLE);
    learn_now(&file, 50, 4); /* and cuts it */
    learn(&file, epoch, 200, 3);
    assert_int_equal(size_of(&file), 50);
}

static void the_size_never_falls_below_uncommitted_data(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    attach(&file, 5);
    learn_now(&file, 0, 1);
    write_bytes(&file, 1000, 24, HOST_WRITE_UNSTABLE);
    learn_now(&file, 0, 2); /* the server was restarted and lost it */
    assert_int_equal(size_of(&file), 1024);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, verifier), 0);
    learn_now(&file, 7, 3);
    assert_int_equal(size_of(&file), 7);
}

static void times_follow_the_later_ctime(void **state)
{
    (void)state;
    struct host_file file;
    struct host_attributes attributes;
    uint64_t verified;
    attach(&file, 6);
    learn_now(&file, 1, 50);
    learn_now(&file, 2, 40); /* a reply that was overtaken */
    assert_true(host_file_attributes(&file, &attributes, &verified));
    assert_int_equal(attributes.ctime.tv_sec, 50);
    assert_int_equal(verified, 50);
}

static void a_truncation_drops_data_beyond(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 7);
    write_bytes(&file, 0, 30000, HOST_WRITE_UNSTABLE);
    host_file_truncate_begin(&file, 10000);
    host_file_truncate_end(&file, 10000, true);
    assert_int_equal(host_file_uncommitted(&file), 10000);
    uint64_t epoch = host_file_read_epoch(&file), replays = host_file_replays(&file);
    struct host_file again;
    assert_false(host_file_truncated_by_kernel(77, 7, 0, &again));
    assert_int_equal(again.index, file.index);
    assert_int_equal(host_file_uncommitted(&file), 0);
    /* Who reads now finds no trace of what a server that restarted has lost. */
    assert_int_not_equal(host_file_read_epoch(&file), epoch);
    assert_int_equal(host_file_replays(&file), replays);
    assert_false(host_file_truncated_by_kernel(77, 4711, 0, &again));
    assert_int_equal(again.generation, 0);
    check_invariants();
}

static _Atomic int wrote;
static void *write_beyond(void *argument)
{
    write_bytes(argument, 500, 10, HOST_WRITE_STABLE);
    atomic_store(&wrote, 1);
    return NULL;
}

static void writes_beyond_wait_for_a_truncation(void **state)
{
    (void)state;
    struct host_file file;
    pthread_t thread;
    attach(&file, 8);
    host_file_truncate_begin(&file, 100);
    assert_int_equal(pthread_create(&thread, NULL, write_beyond, &file), 0);
    write_bytes(&file, 0, 100, HOST_WRITE_STABLE); /* below it does not wait */
    usleep(150000);
    assert_int_equal(wrote, 0);
    host_file_truncate_end(&file, 100, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrote, 1);
}

static int child_dies_truncating(void *argument)
{
    host_file_truncate_begin(argument, 0);
    return 0;
}

static void a_dead_process_truncates_no_more(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 9);
    learn_now(&file, 100, 1);
    assert_int_equal(run_child(child_dies_truncating, &file), 0);
    write_bytes(&file, 0, 10, HOST_WRITE_STABLE); /* does not wait for ever */
    assert_int_equal(size_of(&file), UINT64_MAX); /* and the size must be asked for */
}

static void a_kernel_writer_is_remembered(void **state)
{
    (void)state;
    struct host_file file, other;
    attach(&file, 10);
    assert_false(host_file_has_kernel_writer(&file));
    host_file_set_kernel_writer(&file);
    attach(&other, 10);
    assert_true(host_file_has_kernel_writer(&other));
}

/* ---- entries ---- */

static void an_inode_used_again_is_another_file(void **state)
{
    (void)state;
    struct host_file old, new;
    struct host_file_key key;
    static uint8_t data[100];
    struct iovec vector = {data, 100};
    struct host_write in_flight, write;
    attach(&old, 11);
    learn_now(&old, 5000, 1);
    write_bytes(&old, 0, 5000, HOST_WRITE_UNSTABLE);
    assert_int_equal(host_write_begin(&old, 9000, &vector, 1, 100, true, &in_flight), 0);
    key_for(&key, 11);
    key.handle[15] = 1;
    host_file_attach(&new, &key, &(struct timespec){0}, &(uint64_t){0});
    assert_int_equal(host_file_uncommitted(&new), 0);
    assert_int_equal(size_of(&new), UINT64_MAX);
    write_bytes(&new, 0, 10, HOST_WRITE_UNSTABLE);
    /* Who still has the old file open harms nothing. */
    host_write_end(&old, &in_flight, HOST_WRITE_UNSTABLE, verifier);
    assert_int_equal(host_write_begin(&old, 0, &vector, 1, 100, true, &write), -ESTALE);
    assert_int_equal(host_file_uncommitted(&new), 10);
    assert_int_equal(host_file_uncommitted(&old), 0);
    check_invariants();
    host_file_forget(&new, false);
}

/* ---- another handle for the same file ---- */

static const struct timespec at_one = {1, 5}, at_two = {2, 5}; /* as learn_now() */

/* The key that the file has since its server gave all files new handles. */
static struct host_file_key renamed_key(uint64_t inode)
{
    struct host_file_key key;
    key_for(&key, inode);
    key.handle[15] = 1;
    key.root = 1;
    return key;
}

static void a_new_handle_of_the_same_file_keeps_its_data(void **state)
{
    (void)state;
    struct host_file file, knows_it, later, forgot;
    struct host_file_key key = renamed_key(12);
    uint64_t lost;
    attach(&file, 12);
    attach(&knows_it, 12);
    attach(&forgot, 12);
    forgot.generation = 0;
    write_bytes(&file, 0, 100, HOST_WRITE_UNSTABLE);
    assert_true(host_file_rename(&file, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    write_bytes(&knows_it, 100, 100, HOST_WRITE_UNSTABLE);
    assert_true(host_file_attach(&later, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&later), 200);
    assert_int_equal(host_file_uncommitted(&forgot), 0); /* it must rename first */
    assert_true(host_file_rename(&forgot, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&forgot), 200);
    host_file_forget(&file, false);
    check_invariants();
}

static void another_root_and_the_same_change_time_prove_the_same_file(void **state)
{
    (void)state;
    struct host_file old, new;
    struct host_file_key key = renamed_key(13);
    uint64_t lost;
    attach(&old, 13);
    learn_now(&old, 100, 1);
    write_bytes(&old, 0, 100, HOST_WRITE_UNSTABLE);
    assert_true(host_file_attach(&new, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&new), 100);
    assert_true(host_file_rename(&old, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    host_file_forget(&new, false);
    check_invariants();
}

static void another_root_and_change_time_lose_the_data_aloud(void **state)
{
    (void)state;
    struct host_file old, new;
    struct host_file_key key = renamed_key(14);
    uint64_t lost;
    attach(&old, 14);
    learn_now(&old, 100, 1);
    write_bytes(&old, 0, 100, HOST_WRITE_UNSTABLE);
    host_file_set_kernel_writer(&old);
    assert_true(host_file_attach(&new, &key, &at_two, &lost));
    assert_int_equal(lost, 100);
    assert_int_equal(host_file_uncommitted(&new), 0);
    assert_true(host_file_has_kernel_writer(&new)); /* it may be the same file */
    assert_true(host_file_rename(&old, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(host_file_lost(&old), i == 0);
        assert_int_equal(host_file_lost(&new), i == 0);
    }
    check_invariants();
}

static void a_loss_that_nobody_was_told_survives_another_handle(void **state)
{
    (void)state;
    struct host_file drops, later;
    struct host_file_key key = renamed_key(17);
    uint64_t lost;
    attach(&drops, 17);
    write_bytes(&drops, 0, 100, HOST_WRITE_UNSTABLE);
    assert_int_equal(host_file_forget(&drops, true), 100);
    assert_true(host_file_attach(&later, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_true(host_file_lost(&later));
    assert_true(host_file_attach(&later, &key, &at_two, &lost));
    assert_false(host_file_lost(&later));
}

/* The process that was replacing the handle died. */
static void half_a_handle_is_of_no_file(void **state)
{
    (void)state;
    struct host_file file, again;
    struct host_write write;
    static uint8_t data[10];
    struct iovec vector = {data, 10};
    struct host_file_key key = renamed_key(15);
    uint64_t lost;
    attach(&file, 15);
    learn_now(&file, 100, 1);
    write_bytes(&file, 0, 100, HOST_WRITE_UNSTABLE);
    atomic_fetch_or(&host_map.entries[file.index].flags, HOST_ENTRY_RENAMING);
    again = file;
    again.generation = 0;
    assert_int_equal(host_write_begin(&again, 0, &vector, 10, 10, true, &write), -ESTALE);
    assert_true(host_file_rename(&file, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&file), 100);
    assert_true(host_file_attach(&again, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&again), 100);
    host_file_forget(&file, false);
    check_invariants();
}

static void data_that_is_dropped_and_missed_is_told_to_all_once(void **state)
{
    (void)state;
    struct host_file drops, hears, comes_later, comes_last;
    attach(&drops, 16);
    attach(&hears, 16);
    write_bytes(&hears, 0, 100, HOST_WRITE_UNSTABLE);
    assert_int_equal(host_file_forget(&drops, true), 100);
    attach(&comes_later, 16);
    assert_false(host_file_lost(&drops)); /* it knows */
    assert_true(host_file_lost(&hears));
    assert_false(host_file_lost(&hears));
    assert_true(host_file_lost(&comes_later)); /* nobody was told when it came */
    assert_false(host_file_lost(&comes_later));
    attach(&comes_last, 16);
    assert_false(host_file_lost(&comes_last));
    check_invariants();
}

static void entries_without_data_are_recycled(void **state)
{
    (void)state;
    struct host_file first, with_data, file;
    attach(&first, 1000);
    learn_now(&first, 42, 1);
    attach(&with_data, 1001);
    write_bytes(&with_data, 0, 10, HOST_WRITE_UNSTABLE);
    uint64_t generation = first.generation;
    for (uint64_t i = 0; i < 2 * HOST_FILES; i++)
        attach(&file, 10000 + i);
    assert_int_equal(host_file_uncommitted(&with_data), 10);
    assert_int_equal(size_of(&first), UINT64_MAX);
    host_file_asking(&first); /* makes it again */
    assert_int_not_equal(first.generation, generation);
    learn_now(&first, 43, 2);
    assert_int_equal(size_of(&first), 43);
    host_file_forget(&with_data, false);
    check_invariants();
}

static void a_full_set_overflows_to_the_next(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    static struct host_file files[COUNT];
    uint64_t inodes[COUNT];
    uint32_t count = 0, set = UINT32_MAX, elsewhere = 0;
    /* While they have no data, files that belong into one set recycle each other's places there. */
    for (uint64_t inode = 5000000; count < COUNT; inode++) {
        attach(&files[0], inode);
        if (set == UINT32_MAX)
            set = files[0].index / HOST_SET_SIZE;
        if (files[0].index / HOST_SET_SIZE == set)
            inodes[count++] = inode;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        attach(&files[i], inodes[i]);
        write_bytes(&files[i], 0, 1, HOST_WRITE_UNSTABLE);
        elsewhere += files[i].index / HOST_SET_SIZE != set;
        assert_int_equal(host_stripe_of(files[i].index), set % HOST_STRIPES);
    }
    assert_int_equal(elsewhere, COUNT - HOST_SET_SIZE);
    for (uint32_t i = 0; i < COUNT; i++) {
        files[i].generation = 0; /* find it again by its key */
        assert_int_equal(host_file_uncommitted(&files[i]), 1);
        host_file_forget(&files[i], false);
    }
    check_invariants();
}

static struct host_file race_file;
static _Atomic int stop;
static void *read_attributes(void *argument)
{
    struct host_attributes attributes;
    uint64_t verified;
    (void)argument;
    while (!atomic_load(&stop)) {
        if (!host_file_attributes(&race_file, &attributes, &verified) ||
            attributes.used != attributes.size * 2 ||
            attributes.ctime.tv_sec != (time_t)attributes.size)
            return "torn";
    }
    return NULL;
}

static void readers_without_a_lock_see_whole_attributes(void **state)
{
    (void)state;
    pthread_t threads[2];
    void *result;
    attach(&race_file, 12);
    learn_now(&race_file, 1, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_attributes, NULL), 0);
    for (long i = 2; i < 50000; i++)
        learn_now(&race_file, (uint64_t)i, i);
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
}

/* ---- the file, and the run directory ---- */

/* In a child: forgets the inherited registry and opens one in the directory given. */
static int child_opens(void *argument)
{
    host_map.shared = NULL;
    setenv("DIRECTNFS_RUN", argument, 1);
    log_open("/dev/null");
    return -host_registry_open(UNCOMMITTED_MAX, 0);
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

static void an_open_directory_is_refused(void **state)
{
    (void)state;
    char path[64];
    in_fresh_directory(path, 0750);
    assert_int_equal(run_child(child_opens, path), EPERM);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(run_child(child_opens, path), 0);
    leave_directory(path);
}

static void a_symbolic_link_is_refused(void **state)
{
    (void)state;
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

static void the_directory_is_made_for_its_user_alone(void **state)
{
    (void)state;
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
        count += entry->d_name[0] != '.';
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

static void an_unusable_registry_is_set_aside(void **state)
{
    (void)state;
    char path[64], name[128];
    uint32_t version = 99;
    in_fresh_directory(path, 0700);
    overwrite(path, 0, "garbage", 7);
    assert_int_equal(run_child(child_opens, path), 0);
    assert_int_equal(count_files(path), 2);
    overwrite(path, offsetof(struct host_shared, layout), &version, sizeof(version));
    assert_int_equal(run_child(child_opens, path), 0);
    assert_int_equal(count_files(path), 3);
    snprintf(name, sizeof(name), "%s/registry", path);
    assert_int_equal(truncate(name, 5000), 0);
    assert_int_equal(run_child(child_opens, path), 0);
    assert_int_equal(count_files(path), 4);
    leave_directory(path);
}

static void an_unusable_registry_in_use_is_an_error(void **state)
{
    (void)state;
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
    struct host_file file;
    if (child_opens(argument) != 0)
        return 1;
    attach(&file, 500);
    write_bytes(&file, host_process_slot() * 100000, 10, HOST_WRITE_UNSTABLE);
    return 0;
}

static int child_counts(void *argument)
{
    struct host_file file;
    if (child_opens(argument) != 0)
        return 1;
    attach(&file, 500);
    check_invariants();
    /* Slots may be used again after their process died, then a record replaced another. */
    return host_file_uncommitted(&file) >= 10 && host_file_uncommitted(&file) <= 200 ? 0 : 2;
}

static void processes_that_start_at_once_share_one_registry(void **state)
{
    (void)state;
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
    return host_process_slot() ? 0 : 1;
}

static void slots_of_dead_processes_are_used_again(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(run_child(child_takes_a_slot, NULL), 0);
    assert_in_range(host_map.shared->process_count, 2, 60);
}

static void identities_tell_the_living_from_the_dead(void **state)
{
    (void)state;
    struct host_identity self, other;
    assert_int_equal(host_identity_self(&self), 0);
    assert_int_equal(self.pid, getpid());
    assert_true(host_identity_alive(&self));
    other = self;
    other.starttime++;
    assert_false(host_identity_alive(&other));
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
    other = (struct host_identity){(uint32_t)child, strtoull(field, NULL, 10)};
    assert_false(host_identity_alive(&other)); /* a zombie */
    assert_int_equal(end_child(child), 0);
    assert_false(host_identity_alive(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_learned_is_known_to_all),
        cmocka_unit_test(the_size_grows_with_a_write_that_succeeds),
        cmocka_unit_test(a_reply_from_before_a_write_does_not_shrink),
        cmocka_unit_test(a_reply_from_before_a_truncation_changes_no_size),
        cmocka_unit_test(after_a_truncation_that_failed_the_size_is_asked_for),
        cmocka_unit_test(a_reply_that_was_overtaken_changes_no_size),
        cmocka_unit_test(the_size_never_falls_below_uncommitted_data),
        cmocka_unit_test(times_follow_the_later_ctime),
        cmocka_unit_test(a_truncation_drops_data_beyond),
        cmocka_unit_test(writes_beyond_wait_for_a_truncation),
        cmocka_unit_test(a_dead_process_truncates_no_more),
        cmocka_unit_test(a_kernel_writer_is_remembered),
        cmocka_unit_test(an_inode_used_again_is_another_file),
        cmocka_unit_test(a_new_handle_of_the_same_file_keeps_its_data),
        cmocka_unit_test(another_root_and_the_same_change_time_prove_the_same_file),
        cmocka_unit_test(another_root_and_change_time_lose_the_data_aloud),
        cmocka_unit_test(half_a_handle_is_of_no_file),
        cmocka_unit_test(data_that_is_dropped_and_missed_is_told_to_all_once),
        cmocka_unit_test(a_loss_that_nobody_was_told_survives_another_handle),
        cmocka_unit_test(entries_without_data_are_recycled),
        cmocka_unit_test(a_full_set_overflows_to_the_next),
        cmocka_unit_test(readers_without_a_lock_see_whole_attributes),
        cmocka_unit_test(an_open_directory_is_refused),
        cmocka_unit_test(a_symbolic_link_is_refused),
        cmocka_unit_test(the_directory_is_made_for_its_user_alone),
        cmocka_unit_test(an_unusable_registry_is_set_aside),
        cmocka_unit_test(an_unusable_registry_in_use_is_an_error),
        cmocka_unit_test(processes_that_start_at_once_share_one_registry),
        cmocka_unit_test(slots_of_dead_processes_are_used_again),
        cmocka_unit_test(identities_tell_the_living_from_the_dead),
    };
    return cmocka_run_group_tests(tests, open_registry, remove_run_directory);
}
