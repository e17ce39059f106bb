/*
 * vfork(2): the child uses the memory of this process. The calling thread waits until the child is
 * another program or has ended. The child has descriptors of its own, so it must not change our
 * table. So all its calls are the kernel's, as if it were inside the library. What it may need is
 * done before, as for posix_spawn(). A fork() instead would cost ten times as much.
 *
 * Both return from the call, on the same stack. So a register keeps the return address, and nothing
 * that the parent needs afterwards is on the stack. On processors without this function (all but
 * x86-64), vfork() is fork().
 */
#include "preload/preload.h"

#if defined(__x86_64__)

static __thread unsigned long own_mask;  /* of signals */
static __thread const char *own_handler; /* the child may end in its own handler */

/* Returns where to make the vfork(): NULL: here; else in that real function. */
__attribute__((used, visibility("hidden"))) void *preload_vfork_begin(void)
{
    const unsigned long all = ~0UL;
    if (!preload_active())
        return (void *)PRELOAD_REAL(vfork);
    preload_share();
    sys_sigprocmask(SIG_BLOCK, &all, &own_mask);
    sys_critical_enter();
    own_handler = sys_critical.handler;
    sys_critical.vforked = true;
    return NULL;
}

/* Runs in the child, then in the parent. Returns what vfork() returns. */
__attribute__((used, visibility("hidden"))) long preload_vfork_end(long result)
{
    unsigned long mask = own_mask;
    if (result != 0) {
        sys_critical.vforked = false;
        sys_critical.handler = own_handler;
        sys_critical_leave();
    }
    sys_sigprocmask(SIG_SETMASK, &mask, NULL);
    return result < 0 ? preload_fail((int)-result) : result;
}

_Static_assert(SYS_vfork == 58, "the number below");
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        ".cfi_startproc\n"
        "    subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    call preload_vfork_begin\n"
        "    addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jz 1f\n"
        "    jmp *%rax\n"
        "1:  popq %rdi\n" /* the return address: the child may overwrite it */
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_register %rip, %rdi\n"
        "    movl $58, %eax\n"
        "    syscall\n"
        "    pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rip, 0\n"
        "    movq %rax, %rdi\n"
        "    subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    call preload_vfork_end\n"
        "    addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jz 2f\n"
        "    ret\n"
        "2:  popq %rdi\n" /* the child: the processor's record of calls is the parent's, too */
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_register %rip, %rdi\n"
        "    jmp *%rdi\n"
        ".cfi_endproc\n"
        ".size vfork, .-vfork\n");

#else

PRELOAD_EXPORT pid_t vfork(void)
{
    return PRELOAD_REAL(fork)();
}

#endif
