// What no sound server of NFSv4.1 answers, for tests. In the benchmarks nothing is odd.
#ifndef BENCH_ODD41_H
#define BENCH_ODD41_H

#include "wire41.h"

// What cannot be, in the answers of a server that is to be.
enum odd_answer {
    ODD_NONE,
    ODD_SESSION, // SEQUENCE tells another session, sequence or slot,
    ODD_SEQUENCE,
    ODD_SLOT,
    ODD_TARGET, // or wants slots to be used that there are not
    ODD_GRANT,  // CREATE_SESSION grants more slots than were asked for, or none
    ODD_NO_GRANT,
    ODD_ANSWERS
};

// A server of tests does what they ask for. NULL: nothing odd.
struct odd {
    struct {
        uint32_t status; // of the next so many of this operation; they are not carried out
        uint64_t left;
        uint64_t calls; // seen
    } of[V41_RECLAIM_COMPLETE + 1];
    uint64_t silent; // requests with these operations, a bit each, are not answered
    uint32_t minor;  // the version that is spoken; 0: as it should be
    enum odd_answer answer;
    bool mute; // the last request is not answered
};
extern struct odd *odd;

// The status that a test wants; NFS_OK: it is to be carried out.
uint32_t odd_status(uint32_t op);

// `results` of an operation that went well, behind its status.
void odd_answer(uint32_t op, unsigned char *results);

#endif
