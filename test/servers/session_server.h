/*
 * A server of NFSv4.1 with one file, in a thread of the test: sessions, slots, and replies that are
 * kept. It has two ports, as a server with two paths.
 */
#ifndef TEST_SESSION_SERVER_H
#define TEST_SESSION_SERVER_H

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session_operations.h"

void session_server_start(void);
void session_server_stop(void);

#endif
