/*
 * What a kernel's client and server have said to each other: Linux 6.1, mount -o vers=4.1,
 * AUTH_SYS, taken with tcpdump. Arguments and results of COMPOUND in hexadecimal, words of four
 * bytes.
 *
 * In the calls a letter stands for what a server gives: C client id, E sequence for CREATE_SESSION,
 * S session, Q the next sequence of slot 0, R and F handles of the root and of a file with their
 * length,
 * O the state of an OPEN behind its sequence. `longer` is by how many bytes the scripted server's
 * reply is longer than that of the kernel: handles, and attributes that it does not have.
 */
#ifndef TEST_V41_KERNEL_H
#define TEST_V41_KERNEL_H

#include <stddef.h>

struct v41_kernel_call {
    const char *name;
    int longer;
    const char *call, *reply;
};

extern const struct v41_kernel_call v41_kernel_calls[];
extern const size_t v41_kernel_call_count;

#endif
