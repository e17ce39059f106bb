// How a benchmark client gets a session of NFSv4.1, and what its requests begin with.
#ifndef BENCH_SETUP41_H
#define BENCH_SETUP41_H

#include "setup.h"
#include "wire41.h"

void setup41_compound(struct wire_writer *w, uint32_t operations);
void setup41_sequence(struct wire_writer *w, const unsigned char session[V41_SESSION_BYTES],
                      uint32_t slot, uint32_t highest, bool keep);

// Counts the sequence of a slot on, for the call that begins at `call`.
void setup41_stamp(unsigned char *call, uint32_t *sequence);

// A session of so many slots, for calls of so many bytes.
void setup41_session(int fd, uint32_t slots, uint32_t bytes,
                     unsigned char session[V41_SESSION_BYTES]);

#endif
