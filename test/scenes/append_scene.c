/* See append_scene.h. */
#include "append_scene.h"

ssize_t engine_stream(int fd, const void *data, size_t length, bool write)
{
    struct iovec vector = {(void *)data, length};
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    CHECK(open != NULL);
    ssize_t result =
        write ? file_writev(open, fd, &vector, 1, 0) : file_readv(open, fd, &vector, 1, 0);
    file_put(open);
    sys_critical_leave();
    CHECK(result != FILE_KERNEL);
    return result;
}

ssize_t engine_append(int fd, const void *data, size_t length)
{
    return engine_stream(fd, data, length, true);
}

void engine_set_flags(int fd, int flags)
{
    sys_critical_enter();
    struct file_flags_change change;
    file_flags_begin(&change, fd, flags);
    CHECK_EQUAL(fcntl(fd, F_SETFL, flags), 0);
    file_flags_end(&change);
    sys_critical_leave();
}

off_t engine_offset(int fd)
{
    return engine_seek(fd, 0, SEEK_CUR);
}

void append_there(int fd, size_t length, off_t offset, unsigned version)
{
    uint8_t *data = malloc(length);
    data_fill(data, length, (uint64_t)offset, version);
    CHECK_EQUAL(engine_append(fd, data, length), length);
    free(data);
}
