/* A process that has as many descriptors as it may have. */
#ifndef TEST_NO_DESCRIPTORS_H
#define TEST_NO_DESCRIPTORS_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NO_DESCRIPTORS_LIMIT = 64 }; /* poll(2) takes no more than that, either */

static struct {
    struct rlimit before;
    int fds[NO_DESCRIPTORS_LIMIT];
    unsigned count;
} no_descriptors;

static inline void no_descriptors_begin(void)
{
    int fd;
    getrlimit(RLIMIT_NOFILE, &no_descriptors.before);
    struct rlimit few = {NO_DESCRIPTORS_LIMIT, no_descriptors.before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    no_descriptors.count = 0;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        no_descriptors.fds[no_descriptors.count++] = fd;
    if (errno != EMFILE)
        abort();
}

static inline void no_descriptors_end(void)
{
    while (no_descriptors.count > 0)
        close(no_descriptors.fds[--no_descriptors.count]);
    setrlimit(RLIMIT_NOFILE, &no_descriptors.before);
}

#endif
