// How a benchmark client gets to its file: one call at a time, on a blocking socket.  Every failure
// ends the program with a message.
#ifndef BENCH_SETUP_H
#define BENCH_SETUP_H

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"
#include "wire.h"

#define SETUP_BYTES (1 << 17)
int connect_to(const char *host, uint16_t port);

extern unsigned char setup_buffer[SETUP_BYTES];

struct wire_writer setup_begin(uint32_t program, uint32_t procedure);

// Sends what w holds and waits for the reply; returns its result, the status still in it.
struct wire_reader setup_call(int fd, struct wire_writer *w, const char *what);
void setup_mount(const char *host, uint16_t port, const char *export, struct nfs_handle *root);

// Finds the file below *handle, the root; makes it if need be, and sees that it is as long as it
// must be.  *handle becomes its own.
void setup_file(int fd, const char *file, uint64_t file_size, struct nfs_handle *handle);

#endif
