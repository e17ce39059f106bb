/* A loss of data that was written behind is told once to each open file. */
#include "behind_scene.h"
#include "ledger/dirty.h"

static void write_what_is_refused(int fd)
{
    engine_put(fd, PAGE_BYTES, 0, 1); /* after a loss this one goes out at once */
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_DQUOT);
    engine_put(fd, PAGE_BYTES, 0, 2);
}

static bool is_dirty(int fd)
{
    return ledger_file_dirty(&atomic_load(&file_table[fd])->inode->entry) > 0;
}

/* Nobody asks for it: it is sent after a while. */
static void wait_for_loss(int fd)
{
    for (int i = 0; atomic_load(&scene.control->fail_count[NFS_PROC_WRITE]) > 0 || is_dirty(fd);
         i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

static void told_once(int fd)
{
    CHECK_EQUAL(engine_fsync(fd), -EDQUOT);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

BEHIND_TEST(each_open_file_hears_of_it_once)
{
    int writer = engine_adopt("f", O_RDWR), second = engine_adopt("f", O_RDWR),
        reader = engine_adopt("f", O_RDONLY);
    write_what_is_refused(writer);
    told_once(second);
    told_once(writer);
    told_once(reader);
    int later = engine_adopt("f", O_RDWR); /* somebody was told */
    CHECK_EQUAL(engine_fsync(later), 0);
    write_what_is_refused(later);
    told_once(later);
    told_once(writer);
}

BEHIND_TEST(duplicates_are_one_open_file)
{
    int fd = engine_adopt("f", O_RDWR), copy = engine_dup(fd);
    write_what_is_refused(fd);
    told_once(copy);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(engine_close(copy), 0);
    write_what_is_refused(fd);
    told_once(fd);
}

BEHIND_TEST(what_was_told_is_not_told_again_when_the_kernel_has_the_file)
{
    int fd = engine_adopt("f", O_RDWR);
    write_what_is_refused(fd);
    told_once(fd);
    CHECK_EQUAL(engine_demote(fd), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* As all writes of the file that were lost before it was opened, of which nobody was told. */
BEHIND_TEST(who_opens_it_before_anybody_was_told_hears_of_it)
{
    int fd = engine_adopt("f", O_RDWR);
    write_what_is_refused(fd);
    wait_for_loss(fd);
    told_once(engine_adopt("f", O_RDWR));
    told_once(fd);
}

BEHIND_TEST(a_close_tells_what_its_open_file_wrote)
{
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("f", O_RDWR);
    write_what_is_refused(fd);
    CHECK_EQUAL(engine_close(fd), -EDQUOT);
    told_once(other);
    CHECK_EQUAL(engine_close(other), 0);
}

/* As with the kernel's client: who closes a copy of what others go on with may not look at what it
 * returns, and an fsync is what they rely on. */
BEHIND_TEST(a_close_of_one_copy_leaves_the_loss_to_an_fsync)
{
    int fd = engine_adopt("f", O_RDWR), copy = engine_dup(fd);
    write_what_is_refused(fd);
    CHECK_EQUAL(engine_close(copy), -EDQUOT);
    told_once(fd);
    write_what_is_refused(fd);
    wait_for_loss(fd);
    pid_t child = engine_fork();
    if (child == 0) {
        CHECK_EQUAL(engine_close(fd), -EDQUOT);
        _exit(0);
    }
    scene_wait(child);
    told_once(fd);
}

BEHIND_TEST(who_opens_it_after_a_close_told_hears_of_it)
{
    int fd = engine_adopt("f", O_RDWR);
    write_what_is_refused(fd);
    CHECK_EQUAL(engine_close(fd), -EDQUOT);
    told_once(engine_adopt("f", O_RDWR));
    CHECK_EQUAL(engine_fsync(engine_adopt("f", O_RDWR)), 0);
}

static void loses_it_at_its_end(void)
{
    write_what_is_refused(engine_adopt("f", O_RDWR));
}

static void hears_of_it(void)
{
    told_once(engine_adopt("f", O_RDWR));
}

/* A database has one process for the fsync of all files. */
SCENE_TEST(who_opens_it_after_its_writer_ended_hears_of_it)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    scene_run(loses_it_at_its_end);
    scene_run(hears_of_it);
}

/* With that data the host forgets how long the file is; it was empty once, which is no answer. */
static void reads_after_a_loss(void)
{
    int writer = engine_adopt("f", O_RDWR), reader = engine_adopt("f", O_RDONLY);
    char byte;
    CHECK_EQUAL(engine_read(reader, &byte, 1, 0), 0);
    engine_put(writer, PAGE_BYTES, 0, 1);
    CHECK_EQUAL(engine_fsync(writer), 0);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_DQUOT);
    engine_put(writer, PAGE_BYTES, PAGE_BYTES, 2);
    CHECK_EQUAL(engine_fsync(writer), -EDQUOT);
    CHECK_EQUAL(engine_read(reader, &byte, 1, 0), 1);
}

SCENE_TEST(a_loss_hides_nothing_of_what_the_server_has)
{
    scene_configure("write_behind_max = 16777216; read_ahead_max = 4194304;");
    disk_make("f", 0, 0);
    scene_run(reads_after_a_loss);
}

/* After a change that failed the host does not know it either; where its own data ends is no end.
 */
BEHIND_TEST(a_read_is_not_cut_short_where_dirty_data_ends)
{
    disk_make("f", 4 * PAGE_BYTES, 1);
    int fd = engine_adopt("f", O_RDWR);
    char bytes[PAGE_BYTES];
    engine_put(fd, PAGE_BYTES / 2, 0, 2);
    server_fail(NFS_PROC_SETATTR, 1, NFS3ERR_ROFS);
    CHECK_EQUAL(engine_truncate(fd, 2 * PAGE_BYTES), -EROFS);
    CHECK_EQUAL(engine_read(fd, bytes, PAGE_BYTES, 0), PAGE_BYTES);
    CHECK(data_is(bytes, PAGE_BYTES / 2, 0, 2));
    CHECK(data_is(bytes + PAGE_BYTES / 2, PAGE_BYTES / 2, PAGE_BYTES / 2, 1));
}

/* A child has the open files of its parent, and not copies of them. */
BEHIND_TEST(a_child_and_its_parent_hear_of_it_once)
{
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("f", O_RDWR);
    for (int child_first = 0; child_first < 2; child_first++) {
        write_what_is_refused(fd);
        told_once(other);
        if (!child_first)
            told_once(fd);
        pid_t child = engine_fork();
        if (child == 0) {
            if (child_first)
                told_once(fd);
            CHECK_EQUAL(engine_fsync(fd), 0);
            CHECK_EQUAL(engine_fsync(other), 0);
            _exit(0);
        }
        scene_wait(child);
        CHECK_EQUAL(engine_fsync(fd), 0);
    }
    /* What happens after the fork. */
    pid_t child = engine_fork();
    if (child == 0) {
        step_wait(0);
        told_once(fd);
        step_done(1);
        step_wait(2);
        CHECK_EQUAL(engine_fsync(other), 0);
        _exit(0);
    }
    write_what_is_refused(fd);
    told_once(other);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    step_done(2);
    scene_wait(child);
}

/* Pages that are shared with children. */
static unsigned maps_of_zero(void)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "/dev/zero") != NULL;
    fclose(maps);
    return count;
}

BEHIND_TEST(many_open_files_are_shared_with_children_and_closed)
{
    unsigned maps = maps_of_zero();
    for (int round = 0; round < 3; round++) {
        int fds[300];
        for (int i = 0; i < 300; i++)
            fds[i] = engine_adopt("f", O_RDWR);
        write_what_is_refused(fds[0]);
        pid_t child = engine_fork();
        if (child == 0) {
            for (int i = 0; i < 300; i += 2)
                told_once(fds[i]);
            for (int i = 0; i < 299; i++)
                CHECK_EQUAL(engine_close(fds[i]), 0); /* not the last, and nothing of its own */
            _exit(0);
        }
        scene_wait(child);
        for (int i = 0; i < 300; i++)
            CHECK_EQUAL(engine_fsync(fds[i]), i % 2 ? -EDQUOT : 0);
        for (int i = 0; i < 300; i++)
            CHECK_EQUAL(engine_close(fds[i]), 0);
        CHECK(maps_of_zero() <= maps + 2); /* they are given back */
    }
}

static void hears_in_another_process(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    told_once(fd);
}

static void loses_it(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_wait(0);
    write_what_is_refused(fd);
    told_once(fd);
    step_done(1);
}

SCENE_TEST(each_process_hears_of_it)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    pid_t other = scene_start(hears_in_another_process);
    scene_run(loses_it);
    scene_wait(other);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
