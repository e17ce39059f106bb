/* See odd41.h. */
#include "odd41.h"

struct odd *odd;

uint32_t odd_status(uint32_t op)
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

void odd_answer(uint32_t op, unsigned char *results)
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
