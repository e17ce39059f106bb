/* Reading, writing, sizes and descriptors as POSIX has them. */
#include <limits.h>
#include <pthread.h>
#include <sys/uio.h>

#include "file_scene.h"
#include "rounds.h"
#include "fd/stat.h"
#include "fd/truncate.h"
#include "file/attributes.h"
#include "file/table.h"
#include "io/io.h"

enum { SIZE = 100000, MEBIBYTE = 1 << 20 };

/* ---- reading ---- */

ENGINE_TEST(a_read_ends_at_the_end_of_the_file)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    char *data = malloc(2 * SIZE);
    CHECK_EQUAL(engine_read(fd, data, 2 * SIZE, 0), SIZE);
    CHECK(data_is(data, SIZE, 0, 1));
    CHECK_EQUAL(engine_read(fd, data, 10, SIZE - 3), 3);
    CHECK_EQUAL(engine_read(fd, data, 10, SIZE), 0);
    CHECK_EQUAL(engine_read(fd, data, 10, SIZE + 1000), 0);
    CHECK_EQUAL(engine_read(fd, data, 10, INT64_MAX - 10), 0);
}

enum { POISON = 0xee };

static bool is_poison(const char *data, size_t length)
{
    size_t i = 0;
    while (i < length && (uint8_t)data[i] == POISON)
        i++;
    return i == length;
}

/* Bytes 0 to `size` of a file that ends there, into memory for more. */
static void read_short(int fd, size_t size)
{
    enum { ASKED = 4095 };
    char data[ASKED];
    struct iovec vectors[2] = {{data, ASKED / 3}, {data + ASKED / 3, ASKED - ASKED / 3}};
    for (int count = 1; count <= 2; count++) {
        memset(data, POISON, ASKED);
        CHECK_EQUAL(count == 1 ? engine_read(fd, data, ASKED, 0)
                               : engine_readv(fd, vectors, 2, 0, 0),
                    size);
        CHECK(data_is(data, size, 0, 1));
        CHECK(is_poison(data + size, ASKED - size));
    }
}

ENGINE_TEST(memory_behind_what_was_read_stays_as_it_was)
{
    for (size_t size = 1000; size < 1004; size++) {
        disk_make("f", size, 1);
        int fd = engine_adopt("f", O_RDONLY);
        read_short(fd, size);
        CHECK_EQUAL(engine_close(fd), 0);
    }
}

/* As long as the size is not known the next answers may come to lie there. */
ENGINE_TEST(a_read_that_finds_another_size_makes_it_known)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    char path[SCENE_PATH], data[SIZE];
    scene_file_path(path, "f");
    CHECK_EQUAL(truncate(path, 1001), 0);
    mount_tunables.actimeo = 0; /* what is known is old */
    unsigned asked = server_calls(NFS_PROC_GETATTR);
    CHECK_EQUAL(engine_read(fd, data, 4095, 0), 1001);
    CHECK_EQUAL(server_calls(NFS_PROC_GETATTR), asked + 1);
    read_short(fd, 1001);
    CHECK_EQUAL(server_calls(NFS_PROC_GETATTR), asked + 1);
}

ENGINE_TEST(a_read_with_impossible_arguments)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY), writer = engine_adopt("f", O_WRONLY);
    char data[10];
    struct iovec vectors[2] = {{data, 5}, {data, SIZE_MAX}};
    CHECK_EQUAL(engine_read(fd, data, 0, 0), 0);
    CHECK_EQUAL(engine_readv(fd, vectors, 0, 0, 0), 0);
    CHECK_EQUAL(engine_read(fd, data, 10, -1), -EINVAL);
    CHECK_EQUAL(engine_read(fd, data, 10, INT64_MAX - 9), -EINVAL);
    CHECK_EQUAL(engine_read(writer, data, 10, 0), -EBADF);
    CHECK_EQUAL(engine_readv(fd, vectors, 2, 0, 0), -EINVAL);
    CHECK_EQUAL(engine_readv(fd, vectors, -1, 0, 0), -EINVAL);
    CHECK_EQUAL(engine_readv(fd, vectors, IOV_MAX + 1, 0, 0), -EINVAL);
    CHECK_EQUAL(engine_readv(fd, vectors, 1, 0, RWF_NOWAIT), -EOPNOTSUPP);
}

/* The same read with many vectors of odd lengths, whatever the server grants and returns. */
static void reads_into_vectors(int count)
{
    int fd = engine_adopt("f", O_RDONLY);
    struct iovec vectors[IOV_MAX];
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        vectors[i].iov_len = (size_t)(i * 37 % 1500);
        vectors[i].iov_base = malloc(vectors[i].iov_len + 1);
        total += vectors[i].iov_len;
    }
    off_t offset = 4321;
    CHECK_EQUAL(engine_readv(fd, vectors, count, offset, 0), total);
    for (int i = 0; i < count; i++) {
        CHECK(data_is(vectors[i].iov_base, vectors[i].iov_len, (uint64_t)offset, 1));
        offset += (off_t)vectors[i].iov_len;
        free(vectors[i].iov_base);
    }
    CHECK_EQUAL(engine_close(fd), 0);
}

ENGINE_TEST(reads_into_many_vectors)
{
    disk_make("f", 2 * MEBIBYTE, 1);
    reads_into_vectors(1);
    reads_into_vectors(160);
    reads_into_vectors(161);
    reads_into_vectors(1024);
}

ENGINE_TEST(reads_into_many_vectors_in_small_parts)
{
    disk_make("f", 2 * MEBIBYTE, 1);
    atomic_store(&scene.control->rtmax, 4096);
    reads_into_vectors(1024);
    CHECK_EQUAL(atomic_load(&scene.control->longest_read), 4096);
}

ENGINE_TEST(short_replies_to_a_read_are_continued)
{
    disk_make("f", 2 * MEBIBYTE, 1);
    atomic_store(&scene.control->rtmax, 65536);
    atomic_store(&scene.control->short_read, 5001);
    reads_into_vectors(1024);
    reads_into_vectors(3);
}

ENGINE_TEST(a_read_that_fails_in_the_middle_returns_what_came_before)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->rtmax, 8192);
    int fd = engine_adopt("f", O_RDONLY);
    char *data = malloc(SIZE);
    server_hold(NFS_PROC_READ);
    pid_t pid = fork(); /* without the engine: lets the first four parts pass, and fails the next */
    if (pid == 0) {
        server_wait_held(4);
        server_release();
        _exit(0);
    }
    server_fail(NFS_PROC_READ, 0, 0);
    CHECK_EQUAL(engine_read(fd, data, 32768, 0), 32768);
    scene_wait(pid);
    server_fail(NFS_PROC_READ, 1, NFS3ERR_IO);
    CHECK_EQUAL(engine_read(fd, data, SIZE, 0), -EIO);
    CHECK_EQUAL(engine_read(fd, data, SIZE, 0), SIZE);
    CHECK(data_is(data, SIZE, 0, 1));
}

/* ---- writing ---- */

ENGINE_TEST(a_write_with_impossible_arguments)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR), reader = engine_adopt("f", O_RDONLY);
    char data[10] = {0};
    struct iovec vectors[2] = {{data, 5}, {data, SIZE_MAX}};
    CHECK_EQUAL(engine_write(fd, data, 0, 0), 0);
    CHECK_EQUAL(engine_write(fd, data, 10, -1), -EINVAL);
    CHECK_EQUAL(engine_write(reader, data, 10, 0), -EBADF);
    CHECK_EQUAL(engine_writev(fd, vectors, 2, 0, 0), -EINVAL);
    CHECK_EQUAL(engine_writev(fd, vectors, -1, 0, 0), -EINVAL);
    CHECK_EQUAL(engine_writev(fd, vectors, IOV_MAX + 1, 0, 0), -EINVAL);
    CHECK(engine_write(fd, data, 10, INT64_MAX - 9) < 0);
    CHECK_EQUAL(engine_truncate(reader, 0), -EINVAL);
    CHECK_EQUAL(engine_truncate(fd, -1), -EINVAL);
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), 0);
    CHECK_EQUAL(engine_size(fd), SIZE);
}

/* As the kernel's client does with what FSINFO says. */
ENGINE_TEST(a_write_ends_where_the_largest_file_does)
{
    char data[10] = "0123456789";
    disk_make("f", SIZE - 5, 1);
    atomic_store(&scene.control->maxfilesize, SIZE);
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_write(fd, data, 10, SIZE - 5), 5);
    CHECK_EQUAL(engine_size(fd), SIZE);
    CHECK_EQUAL(engine_write(fd, data, 10, SIZE), -EFBIG);
    CHECK_EQUAL(engine_write(fd, data, 10, INT64_MAX - 10), -EFBIG);
    CHECK_EQUAL(engine_write(fd, data, 10, INT64_MAX - 9), -EINVAL);
    CHECK_EQUAL(engine_size(fd), SIZE);
}

static void writes_from_vectors(int count, unsigned version)
{
    int fd = engine_adopt("f", O_RDWR);
    struct iovec vectors[IOV_MAX];
    off_t offset = 4321;
    for (int i = 0; i < count; i++) {
        vectors[i].iov_len = (size_t)(i * 41 % 3000);
        vectors[i].iov_base = malloc(vectors[i].iov_len + 1);
        data_fill(vectors[i].iov_base, vectors[i].iov_len, (uint64_t)offset, version);
        offset += (off_t)vectors[i].iov_len;
    }
    CHECK_EQUAL(engine_writev(fd, vectors, count, 4321, 0), offset - 4321);
    engine_expect(fd, (size_t)offset - 4321, 4321, version);
    CHECK_EQUAL(engine_close(fd), 0);
    disk_expect("f", (size_t)offset - 4321, 4321, version);
}

ENGINE_TEST(writes_from_many_vectors)
{
    disk_make("f", 0, 0);
    writes_from_vectors(2, 1);
    writes_from_vectors(160, 2);
    writes_from_vectors(161, 3);
    writes_from_vectors(1024, 4);
    mount_tunables.stability = CONF_STABILITY_STABLE; /* from the caller's memory */
    writes_from_vectors(1024, 5);
}

ENGINE_TEST(writes_from_many_vectors_in_small_short_parts)
{
    disk_make("f", 0, 0);
    atomic_store(&scene.control->wtmax, 16384);
    atomic_store(&scene.control->short_write, 5001);
    writes_from_vectors(1024, 1);
    mount_tunables.stability = CONF_STABILITY_STABLE;
    writes_from_vectors(1024, 2);
    CHECK_EQUAL(atomic_load(&scene.control->longest_write), 16384);
}

ENGINE_TEST(a_hundred_mebibytes_in_one_call)
{
    const size_t large = rounds_of(100) * MEBIBYTE;
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, large, 5, 1);
    CHECK_EQUAL(engine_size(fd), large + 5);
    engine_expect(fd, large, 5, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", large, 5, 1);
}

ENGINE_TEST(a_write_that_fails_in_the_middle_returns_what_came_before)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    uint8_t *data = malloc(3 * MEBIBYTE);
    data_fill(data, 3 * MEBIBYTE, 0, 1);
    server_hold(NFS_PROC_WRITE);
    pid_t pid = fork();
    if (pid == 0) { /* the first piece passes */
        server_wait_held(1);
        server_do(FILE_SERVER_RELEASE);
        server_wait_held(1);
        server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
        server_release();
        _exit(0);
    }
    CHECK_EQUAL(engine_write(fd, data, 3 * MEBIBYTE, 0), MEBIBYTE);
    scene_wait(pid);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", MEBIBYTE, 0, 1);
    CHECK_EQUAL(engine_size(fd), MEBIBYTE);
}

ENGINE_TEST(jukebox_is_waited_out)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    server_fail(NFS_PROC_READ, 2, NFS3ERR_JUKEBOX);
    server_fail(NFS_PROC_WRITE, 2, NFS3ERR_JUKEBOX);
    server_fail(NFS_PROC_COMMIT, 2, NFS3ERR_JUKEBOX);
    server_fail(NFS_PROC_SETATTR, 2, NFS3ERR_JUKEBOX);
    engine_expect(fd, SIZE, 0, 1);
    engine_put(fd, SIZE, 0, 2);
    CHECK_EQUAL(engine_truncate(fd, SIZE / 2), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE / 2, 0, 2);
}

ENGINE_TEST(what_was_executed_but_not_answered_is_sent_again)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    const enum nfs_procedure procedures[] = {NFS_PROC_WRITE, NFS_PROC_READ, NFS_PROC_SETATTR,
                                         NFS_PROC_COMMIT};
    for (unsigned i = 0; i < 4; i++)
        atomic_store(&scene.control->drop_after[procedures[i]], 1);
    engine_put(fd, SIZE, 0, 2);
    engine_expect(fd, SIZE, 0, 2);
    CHECK_EQUAL(engine_truncate(fd, 5000), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(atomic_load(&scene.control->drop_after[procedures[i]]), 0);
    CHECK_EQUAL(disk_size("f"), 5000);
}

ENGINE_TEST(replies_without_attributes)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->no_attributes, true);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, SIZE, 2);
    CHECK_EQUAL(engine_size(fd), 2 * SIZE);
    engine_expect(fd, SIZE, SIZE, 2);
    CHECK_EQUAL(engine_truncate(fd, 10), 0);
    CHECK_EQUAL(engine_size(fd), 10);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

ENGINE_TEST(errors_of_the_server_are_those_of_the_calls)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    const struct {
        uint32_t status;
        int error;
    } known[] = {{NFS3ERR_IO, EIO},     {NFS3ERR_ACCES, EACCES}, {NFS3ERR_ROFS, EROFS},
                 {NFS3ERR_FBIG, EFBIG}, {NFS3ERR_DQUOT, EDQUOT}, {NFS3ERR_NOSPC, ENOSPC},
                 {12345, EIO}};
    char data[100] = {0};
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        server_fail(NFS_PROC_WRITE, 1, known[i].status);
        CHECK_EQUAL(engine_write(fd, data, sizeof(data), 0), -known[i].error);
        server_fail(NFS_PROC_READ, 1, known[i].status);
        CHECK_EQUAL(engine_read(fd, data, sizeof(data), 0), -known[i].error);
        server_fail(NFS_PROC_SETATTR, 1, known[i].status);
        CHECK_EQUAL(engine_truncate(fd, 0), -known[i].error);
    }
    CHECK_EQUAL(engine_size(fd), SIZE);
    engine_expect(fd, SIZE, 0, 1);
}

/* ---- size ---- */

static void other_process_appends(void)
{
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < 50; i++) {
        step_wait(0);
        off_t end = engine_size(fd);
        CHECK_EQUAL(end, SIZE + 2 * i * 100 + 100);
        engine_put(fd, 100, end, 1);
        atomic_store(&scene.shared->steps[0], 0);
        step_done(1);
    }
}

static void appends_in_turn(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_wait(2);
    unsigned before = server_calls(NFS_PROC_GETATTR);
    for (unsigned i = 0; i < 50; i++) {
        off_t end = engine_size(fd);
        CHECK_EQUAL(end, SIZE + 2 * i * 100);
        engine_put(fd, 100, end, 1);
        step_done(0);
        step_wait(1);
        atomic_store(&scene.shared->steps[1], 0);
    }
    CHECK(server_calls(NFS_PROC_GETATTR) - before <= 3);
    engine_expect(fd, SIZE + 10000, 0, 1);
}

static void opens_and_says_so(void)
{
    int fd = engine_adopt("f", O_RDWR);
    (void)engine_size(fd);
    step_done(2);
    other_process_appends();
}

SCENE_TEST(two_processes_see_each_others_sizes_without_asking)
{
    disk_make("f", SIZE, 1);
    pid_t other = scene_start(opens_and_says_so);
    scene_run(appends_in_turn);
    scene_wait(other);
}

static void asks_each_time(void)
{
    int fd = engine_adopt("f", O_RDWR);
    unsigned before = server_calls(NFS_PROC_GETATTR);
    for (int i = 0; i < 10; i++)
        CHECK_EQUAL(engine_size(fd), SIZE);
    CHECK_EQUAL(server_calls(NFS_PROC_GETATTR) - before, 10);
    disk_make("f", 2 * SIZE, 1); /* as another host would */
    CHECK_EQUAL(engine_size(fd), 2 * SIZE);
}

SCENE_TEST(actimeo_0_asks_each_time)
{
    disk_make("f", SIZE, 1);
    scene_configure("actimeo = 0.0;");
    scene_run(asks_each_time);
}

static void asks_after_a_while(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_size(fd), SIZE);
    disk_make("f", 2 * SIZE, 1);
    usleep(250000);
    CHECK_EQUAL(engine_size(fd), 2 * SIZE);
}

SCENE_TEST(changes_elsewhere_are_seen_after_actimeo)
{
    disk_make("f", SIZE, 1);
    scene_configure("actimeo = 0.2;");
    scene_run(asks_after_a_while);
}

ENGINE_TEST(changes_elsewhere_are_seen_by_a_new_open)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_size(fd), SIZE);
    disk_make("f", 2 * SIZE, 1);
    CHECK_EQUAL(engine_close(fd), 0);
    fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_size(fd), 2 * SIZE);
    disk_make("f", 3 * SIZE, 1);
    int second = engine_adopt("f", O_RDONLY);
    CHECK_EQUAL(engine_size(second), 3 * SIZE);
}

ENGINE_TEST(seeking)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_seek(fd, 0, SEEK_END), SIZE);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), SIZE);
    CHECK_EQUAL(engine_seek(fd, -10, SEEK_END), SIZE - 10);
    CHECK_EQUAL(engine_seek(fd, -SIZE - 1, SEEK_END), -EINVAL);
    CHECK_EQUAL(engine_seek(fd, INT64_MAX, SEEK_END), -EINVAL);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), SIZE - 10);
    CHECK_EQUAL(engine_seek(fd, 50, SEEK_DATA), 50);
    CHECK_EQUAL(engine_seek(fd, 50, SEEK_HOLE), SIZE);
    CHECK_EQUAL(engine_seek(fd, SIZE, SEEK_DATA), -ENXIO);
    CHECK_EQUAL(engine_seek(fd, SIZE, SEEK_HOLE), -ENXIO);
    CHECK_EQUAL(engine_seek(fd, -1, SEEK_DATA), -ENXIO);
    CHECK_EQUAL(engine_seek(fd, 7, SEEK_SET), 7);
}

ENGINE_TEST(status_of_a_file_that_was_just_written)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, SIZE, 1);
    struct stat ours, kernel;
    CHECK_EQUAL(fstat(fd, &kernel), 0);
    ours = kernel;
    ours.st_size = 0;
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    CHECK_EQUAL(fd_stat(open, fd, &ours), 0);
    file_put(open);
    sys_critical_leave();
    CHECK_EQUAL(ours.st_size, 2 * SIZE);
    CHECK_EQUAL(ours.st_mtim.tv_sec, kernel.st_mtim.tv_sec);
    CHECK_EQUAL(ours.st_mtim.tv_nsec, kernel.st_mtim.tv_nsec);
}

ENGINE_TEST(truncation)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 1000, SIZE, 1);
    CHECK_EQUAL(engine_truncate(fd, 500), 0);
    CHECK_EQUAL(engine_size(fd), 500);
    CHECK_EQUAL(engine_truncate(fd, 3000), 0);
    CHECK_EQUAL(engine_size(fd), 3000);
    char data[3000];
    CHECK_EQUAL(engine_read(fd, data, 3000, 0), 3000);
    CHECK(data_is(data, 500, 0, 1));
    for (int i = 500; i < 3000; i++)
        CHECK_EQUAL(data[i], 0);
    engine_put(fd, 100, 10000, 2);
    CHECK_EQUAL(engine_size(fd), 10100);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(disk_size("f"), 10100);
}

ENGINE_TEST(allocation_writes_what_is_beyond_the_end)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR), reader = engine_adopt("f", O_RDONLY);
    sys_critical_enter();
    struct file_open *open = file_get(fd), *reading = file_get(reader);
    CHECK_EQUAL(fd_allocate(open, fd, 0, 100, 3 * SIZE, true), 0);
    CHECK_EQUAL(fd_allocate(open, fd, 0, 100, 200, true), 0);
    CHECK_EQUAL(fd_allocate(open, fd, 0, 0, 10 * SIZE, false), -EOPNOTSUPP);
    CHECK_EQUAL(fd_allocate(open, fd, FALLOC_FL_KEEP_SIZE, 0, 10 * SIZE, true), -EOPNOTSUPP);
    CHECK_EQUAL(fd_allocate(open, fd, 0, -1, 10, true), -EINVAL);
    CHECK_EQUAL(fd_allocate(open, fd, 0, 0, 0, true), -EINVAL);
    CHECK_EQUAL(fd_allocate(open, fd, 0, INT64_MAX, 10, true), -EFBIG);
    CHECK_EQUAL(fd_allocate(reading, reader, 0, 0, 10, true), -EBADF);
    file_put(reading);
    file_put(open);
    sys_critical_leave();
    CHECK_EQUAL(engine_size(fd), 3 * SIZE + 100);
    engine_expect(fd, SIZE, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(disk_size("f"), 3 * SIZE + 100);
}

/* An answer to an earlier question told a later change. */
ENGINE_TEST(who_gets_an_older_answer_than_is_known_asks_again)
{
    disk_make("f", SIZE, 1);
    struct file_open *open = file_get(engine_adopt("f", O_RDONLY));
    struct ledger_file *file = &open->inode->entry;
    struct ledger_attributes attributes;
    CHECK_EQUAL(file_inode_ask(open->inode, open->auth, &attributes), 0);
    attributes.size = 3 * SIZE;
    attributes.ctime.tv_sec += 1000;
    ledger_file_learned(file, ledger_file_asking(file), &attributes, sys_now_ns());
    unsigned asked = server_calls(NFS_PROC_GETATTR);
    CHECK_EQUAL(file_inode_ask(open->inode, open->auth, &attributes), 0);
    CHECK_EQUAL(server_calls(NFS_PROC_GETATTR), asked + 2);
    CHECK_EQUAL(attributes.size, SIZE);
    CHECK_EQUAL(file_inode_ask(open->inode, open->auth, &attributes), 0);
    CHECK_EQUAL(server_calls(NFS_PROC_GETATTR), asked + 3);
    file_put(open);
}

/* Another process may have made the file longer after the size was looked at. */
ENGINE_TEST(allocation_writes_nothing_over_what_others_wrote_meanwhile)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = engine_begin(fd);
    CHECK_EQUAL(io_extend(open, SIZE - 10, 10), 0);
    CHECK_EQUAL(io_extend(open, SIZE, 10), 10);
    engine_end(open);
    engine_expect(fd, SIZE, 0, 1);
    CHECK_EQUAL(engine_size(fd), SIZE + 10);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
