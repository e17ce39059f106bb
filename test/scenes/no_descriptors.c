/* See no_descriptors.h. */
#include "no_descriptors.h"

struct no_descriptors no_descriptors;

void no_descriptors_begin(void)
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

void no_descriptors_end(void)
{
    while (no_descriptors.count > 0)
        close(no_descriptors.fds[--no_descriptors.count]);
    setrlimit(RLIMIT_NOFILE, &no_descriptors.before);
}
