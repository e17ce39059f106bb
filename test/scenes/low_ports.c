/* See low_ports.h. */
#include "low_ports.h"

struct sockaddr_in local_of(int fd)
{
    struct sockaddr_in local;
    socklen_t size = sizeof(local);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &size), 0);
    return local;
}

bool privileged(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool can = false;
    for (in_port_t port = 1023; !can && port > 1000; port--) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        can = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    }
    close(fd);
    return can;
}
