/*
 * An NFSv3 and MOUNT server for the tests of src/file: a process that serves real directories, so
 * that file numbers and change times are the kernel's, and does to its client what a test asks for.
 * Its files are in file_store.h, its procedures in file_procedures.h.
 */
#ifndef TEST_FILE_SERVER_H
#define TEST_FILE_SERVER_H

#include <arpa/inet.h>
#include <poll.h>
#include <time.h>

#include "file_procedures.h"
#include "stream.h"

/* What it listens at: see stream_bind_kept(). */
int file_server_listener(in_port_t *port);

/* The server process: until the other end of `commands` is closed. */
void file_server_run(struct file_control *control, int listener, int commands);

#endif
