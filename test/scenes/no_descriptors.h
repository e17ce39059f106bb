/* A process that has as many descriptors as it may have. */
#ifndef TEST_NO_DESCRIPTORS_H
#define TEST_NO_DESCRIPTORS_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NO_DESCRIPTORS_LIMIT = 64 }; /* poll(2) takes no more than that, either */

struct no_descriptors {
    struct rlimit before;
    int fds[NO_DESCRIPTORS_LIMIT];
    unsigned count;
};
extern struct no_descriptors no_descriptors;

void no_descriptors_begin(void);
void no_descriptors_end(void);

#endif
