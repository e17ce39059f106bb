/* See engine.h. */
#include "engine.h"

/* ---- files, as a program under the face would use them; errors are -errno ---- */

void engine_is_cared_for(const struct file_open *open)
{
    bool wake;
    for (int i = 0; !ledger_agent_is_there(); i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
    for (int i = 0; !file_agent_cares(open->inode->mount, open->auth, &wake); i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        file_agent_seek();
        usleep(1000);
    }
}

int engine_open(const char *name, int flags)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    int fd = open(path, flags | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    sys_critical_enter();
    file_opened(fd, flags);
    struct file_open *open = file_get(fd);
    if (open && scene.agent && file_behind_allows(open->access, flags))
        engine_is_cared_for(open);
    if (open)
        file_put(open);
    sys_critical_leave();
    return fd;
}

int engine_adopt(const char *name, int flags)
{
    int fd = engine_open(name, flags);
    CHECK(file_is_managed(fd));
    return fd;
}

struct file_open *engine_begin(int fd)
{
    sys_critical_enter();
    return file_get(fd);
}

void engine_end(struct file_open *open)
{
    if (open)
        file_put(open);
    sys_critical_leave();
}

static ssize_t engine_transfer(int fd, bool write, const struct iovec *vectors, int count,
                               off_t offset, int flags)
{
    ssize_t result = FILE_KERNEL;
    struct file_open *open = engine_begin(fd);
    if (open)
        result = write ? file_pwritev(open, fd, vectors, count, offset, flags)
                       : file_preadv(open, fd, vectors, count, offset, flags);
    engine_end(open);
    if (result != FILE_KERNEL)
        return result;
    result =
        write ? pwritev2(fd, vectors, count, offset, flags) : preadv(fd, vectors, count, offset);
    return result < 0 ? -errno : result;
}

ssize_t engine_readv(int fd, const struct iovec *vectors, int count, off_t offset, int flags)
{
    return engine_transfer(fd, false, vectors, count, offset, flags);
}

ssize_t engine_writev(int fd, const struct iovec *vectors, int count, off_t offset, int flags)
{
    return engine_transfer(fd, true, vectors, count, offset, flags);
}

ssize_t engine_read(int fd, void *data, size_t length, off_t offset)
{
    struct iovec vector = {data, length};
    return engine_readv(fd, &vector, 1, offset, 0);
}

ssize_t engine_write(int fd, const void *data, size_t length, off_t offset)
{
    struct iovec vector = {(void *)data, length};
    return engine_writev(fd, &vector, 1, offset, 0);
}

int engine_kernel_fsync(int fd)
{
    if (fsync(fd) != 0)
        return -errno;
    sys_critical_enter();
    int result = file_fsynced_by_kernel(fd);
    sys_critical_leave();
    return result;
}

int engine_fsync(int fd)
{
    struct file_open *open = engine_begin(fd);
    int result = open ? file_fsync(open, fd) : FILE_KERNEL;
    engine_end(open);
    return result != FILE_KERNEL ? result : engine_kernel_fsync(fd);
}

int engine_close(int fd)
{
    sys_critical_enter();
    int result = file_closing(fd);
    sys_critical_leave();
    close(fd);
    return result;
}

off_t engine_seek(int fd, off_t offset, int whence)
{
    struct file_open *open = engine_begin(fd);
    off_t result = open ? file_lseek(open, fd, offset, whence) : (off_t)FILE_KERNEL;
    engine_end(open);
    if (result != FILE_KERNEL)
        return result;
    result = lseek(fd, offset, whence);
    return result < 0 ? -errno : result;
}

off_t engine_size(int fd)
{
    return engine_seek(fd, 0, SEEK_END);
}

int engine_truncate(int fd, off_t size)
{
    struct file_open *open = engine_begin(fd);
    int result = open ? file_ftruncate(open, fd, size) : FILE_KERNEL;
    engine_end(open);
    return result != FILE_KERNEL ? result : ftruncate(fd, size) == 0 ? 0 : -errno;
}

int engine_demote(int fd)
{
    sys_critical_enter();
    int result = file_demote(fd, "test");
    sys_critical_leave();
    return result;
}

int engine_dup(int fd)
{
    int to = dup(fd);
    CHECK(to >= 0);
    sys_critical_enter();
    file_duplicated(fd, to);
    sys_critical_leave();
    return to;
}

const char *engine_reason(const char *name)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    const char *reason = "";
    for (unsigned i = 0; i < DIRECTNFS_FILES; i++) {
        const struct directnfs_file_stats *file = &stats_own->files[i];
        if (file->slot != DIRECTNFS_SLOT_FREE && strcmp(file->name, path) == 0)
            reason = file->state == DIRECTNFS_FILE_KERNEL ? file->reason : "";
    }
    return reason;
}

/* ---- data ---- */

void engine_put(int fd, size_t length, off_t offset, unsigned version)
{
    uint8_t *data = malloc(length);
    data_fill(data, length, (uint64_t)offset, version);
    CHECK_EQUAL(engine_write(fd, data, length, offset), length);
    free(data);
}

void engine_expect(int fd, size_t length, off_t offset, unsigned version)
{
    uint8_t *data = malloc(length);
    memset(data, 0xee, length);
    CHECK_EQUAL(engine_read(fd, data, length, offset), length);
    CHECK(data_is(data, length, (uint64_t)offset, version));
    free(data);
}

void put_blocks(int fd, unsigned from, unsigned count, unsigned version)
{
    for (unsigned i = from; i < from + count; i++)
        engine_put(fd, PAGE_BYTES, (off_t)i * PAGE_BYTES, version);
}

void expect_blocks(int fd, unsigned from, unsigned count, unsigned version)
{
    for (unsigned i = from; i < from + count; i++)
        engine_expect(fd, PAGE_BYTES, (off_t)i * PAGE_BYTES, version);
}

void disk_expect(const char *name, size_t length, off_t offset, unsigned version)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    uint8_t *data = malloc(length);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQUAL(pread(fd, data, length, offset), length);
    CHECK(data_is(data, length, (uint64_t)offset, version));
    close(fd);
    free(data);
}

off_t disk_size(const char *name)
{
    char path[SCENE_PATH];
    struct stat status;
    scene_file_path(path, name);
    CHECK_EQUAL(stat(path, &status), 0);
    return status.st_size;
}

void disk_make(const char *name, size_t length, unsigned version)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    uint8_t *data = malloc(length + 1);
    data_fill(data, length, 0, version);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQUAL(pwrite(fd, data, length, 0), length);
    close(fd);
    free(data);
}
