/* See map.h. */
#include "map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool.h"

void *map_file(const char *path, size_t size, bool make)
{
    int fd = open(path, make ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || (make && ftruncate(fd, (off_t)size) < 0))
        die("%s: %s", path, strerror(errno));
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        die("%s: %s", path, strerror(errno));
    close(fd);
    return map;
}
