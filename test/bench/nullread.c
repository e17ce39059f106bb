// nullread: what a call on a descriptor costs that is nobody's business.  One-byte reads of
// /dev/zero, run with and without preload; the difference is what the wrapper adds.
#include <fcntl.h>
#include <unistd.h>

#include "measure.h"

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? number_option("count", argv[1], 1, UINT64_MAX) : 10000000;
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (argc > 2 || fd < 0) {
        fprintf(stderr, "usage: nullread [COUNT]\n");
        return 2;
    }
    char byte;
    for (int i = 0; i < 10000; i++)
        if (read(fd, &byte, 1) != 1)
            die("/dev/zero: %s", strerror(errno));
    uint64_t start = clock_ns();
    for (uint64_t i = 0; i < count; i++)
        if (read(fd, &byte, 1) != 1)
            die("/dev/zero: %s", strerror(errno));
    double ns = (double)(clock_ns() - start) / (double)count;
    printf("{\"program\": \"nullread\", \"calls\": %llu, \"ns_per_call\": %.2f}\n",
           (unsigned long long)count, ns);
    return 0;
}
