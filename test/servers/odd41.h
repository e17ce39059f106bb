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
static struct odd {
    struct {
        uint32_t status; // of the next so many of this operation; they are not carried out
        uint64_t left;
        uint64_t calls; // seen
    } of[V41_RECLAIM_COMPLETE + 1];
    uint64_t silent; // requests with these operations, a bit each, are not answered
    uint32_t minor;  // the version that is spoken; 0: as it should be
    enum odd_answer answer;
    bool mute; // the last request is not answered
} * odd;

// The status that a test wants; NFS_OK: it is to be carried out.
static uint32_t odd_status(uint32_t op)
{
    if (!odd)
        return NFS_OK;
    odd->of[op].calls++;
    odd->mute = odd->mute || odd->silent & UINT64_C(1) << op;
    if (odd->of[op].left == 0)
        return NFS_OK;
    odd->of[op].left--;
    return odd->of[op].status;
}

static void odd_change(unsigned char *at, uint32_t by)
{
    wire_store32(at, wire_load32(at) + by);
}

// `results` of an operation that went well, behind its status.
static void odd_answer(uint32_t op, unsigned char *results)
{
    enum {
        SEQUENCE = V41_SESSION_BYTES,
        SLOT = SEQUENCE + 4,
        HIGHEST = SLOT + 4,
        TARGET = HIGHEST + 4
    };
    enum { REQUESTS = V41_SESSION_BYTES + 8 + 20, FAR = 1000 };
    if (op == V41_SEQUENCE && odd->answer == ODD_SESSION)
        odd_change(results, FAR);
    if (op == V41_SEQUENCE && odd->answer == ODD_SEQUENCE)
        odd_change(results + SEQUENCE, 1);
    if (op == V41_SEQUENCE && odd->answer == ODD_SLOT)
        odd_change(results + SLOT, 1);
    if (op == V41_SEQUENCE && odd->answer == ODD_TARGET) {
        odd_change(results + HIGHEST, FAR);
        odd_change(results + TARGET, FAR);
    }
    if (op == V41_CREATE_SESSION && odd->answer == ODD_GRANT)
        odd_change(results + REQUESTS, FAR);
    if (op == V41_CREATE_SESSION && odd->answer == ODD_NO_GRANT)
        wire_store32(results + REQUESTS, 0);
}

#endif
