/* Ports below 1024, of which NFS servers may insist that connections come from them. */
#ifndef TEST_LOW_PORTS_H
#define TEST_LOW_PORTS_H

#include <stdbool.h>

#include "queries.h"

struct sockaddr_in local_of(int fd);

/* May this process bind ports below 1024? */
bool privileged(void);

#endif
