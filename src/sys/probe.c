#include "sys/probe.h"

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "sys/sys.h"

enum { PAGE = 4096, WORD = 8, FEW = 8, MANY = 64, GETRANDOM_NONBLOCK = 1 };

/* For a few bytes no other cheap call writes so little. A sandbox may forbid this one. */
static int probe_few(uint8_t *start, size_t length)
{
    return sys_call3(SYS_getrandom, start, length, GETRANDOM_NONBLOCK) == -EFAULT ? -EFAULT : 0;
}

static uint8_t *behind(uint8_t *at, unsigned pages)
{
    return at + ((size_t)pages * PAGE - (uintptr_t)at % PAGE);
}

/* Writes a byte of each page in one call. A sandbox may forbid this one, too. 0, -EFAULT, or
 * another error. */
static int probe_many(uint8_t *start, uint8_t *end)
{
    uint8_t bytes[MANY];
    struct iovec local[MANY], remote = {bytes, 0};
    unsigned count = 0;
    for (uint8_t *at = start; at < end && count < MANY; at = behind(at, 1))
        local[count++] = (struct iovec){at, 1};
    remote.iov_len = count;
    memset(bytes, 0, count);
    long copied =
        sys_call6(SYS_process_vm_readv, sys_getpid(), (long)local, count, (long)&remote, 1, 0);
    return copied >= 0 && copied < (long)count ? -EFAULT : copied < 0 ? (int)copied : 0;
}

int sys_probe_write(void *start, size_t length)
{
    uint8_t *at = start, *end = at + length;
    if (length < WORD)
        return length > 0 ? probe_few(start, length) : 0;
    while (length >= FEW * PAGE && at < end) {
        int result = probe_many(at, end);
        if (result == -EFAULT)
            return result;
        if (result != 0)
            break;
        at = behind(at, MANY);
    }
    while (at < end) {
        uint8_t *word = end - at < WORD ? end - WORD : at;
        /* This asks for the mask of signals, which is one word. */
        if (sys_call4(SYS_rt_sigprocmask, SIG_BLOCK, NULL, word, WORD) == -EFAULT)
            return -EFAULT;
        at = behind(at, 1);
    }
    return 0;
}
