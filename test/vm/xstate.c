/*
 * Loaded into linux.uml by test/vm/run on processors with AMX.
 *
 * The kernel sets the extended registers of a traced process only from a buffer of their full size.
 * User-mode-linux 6.1 gives it a fixed one, which ends before the tiles of AMX: it gets EFAULT, and
 * panics. Here the missing end is added. The tiles are empty then: no program in a guest uses them.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGEST_STATE = 64 * 1024, HEADER = 512 };
/* In the header's first word a bit says of each component that it is not empty: tile configuration
 * and tiles are the bits 17 and 18. */
static const uint64_t tiles = UINT64_C(3) << 17;

static long set_extended(long pid, const struct iovec *given)
{
    static uint8_t state[LARGEST_STATE];
    uint64_t components;
    struct iovec full = {state, sizeof(state)};
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &full) < 0)
        return -1;
    if (given->iov_len >= full.iov_len || given->iov_len < HEADER + sizeof(components))
        return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, given);
    memcpy(state, given->iov_base, given->iov_len);
    memcpy(&components, state + HEADER, sizeof(components));
    components &= ~tiles;
    memcpy(state + HEADER, &components, sizeof(components));
    return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &full);
}

/* As that of the C library, which it stands in front of. */
long ptrace(enum __ptrace_request request, ...)
{
    long word, result;
    va_list arguments;
    va_start(arguments, request);
    long pid = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
    va_end(arguments);
    if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
        return set_extended(pid, data);
    if (request < PTRACE_PEEKTEXT || request > PTRACE_PEEKUSER)
        return syscall(SYS_ptrace, request, pid, address, data);
    result = syscall(SYS_ptrace, request, pid, address, &word);
    if (result < 0)
        return result;
    errno = 0;
    return word;
}
