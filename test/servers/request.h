// A request from its first byte to the end of its reply, on the procedures of memprocs.h and
// memv41.h.
#ifndef BENCH_REQUEST_H
#define BENCH_REQUEST_H

#include <linux/magic.h>
#include <sys/vfs.h>

#include "memv41.h"
#include "tool.h"

#define REPLY_MOST 512u // bytes of the longest reply without its payload
// Answers one request: the reply goes to w, but for its record mark, for which room is left, and
// its payload.  False when the request is garbage.
bool request_execute(const unsigned char *record, size_t length, struct wire_writer *w,
                     struct payload *payload);

// Makes a directory the one that is served; ends the program if that cannot be.
void directory_open(const char *directory);

#endif
