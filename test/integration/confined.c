/*
 * Runs a program as engines of containers do by default: it gets no new privileges, and a filter of
 * system calls refuses io_uring. With -n as the first word name_to_handle_at(2) and close_range(2),
 * too, as old engines do.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(number)                                 \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(int argc, char **argv)
{
    int is_old = argc > 1 && strcmp(argv[1], "-n") == 0;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_io_uring_setup),
        REFUSE(SYS_io_uring_enter),
        REFUSE(SYS_io_uring_register),
        REFUSE(is_old ? SYS_name_to_handle_at : SYS_io_uring_setup),
        REFUSE(is_old ? SYS_close_range : SYS_io_uring_setup),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    if (argc < 2 + is_old)
        return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("confined");
        return 1;
    }
    execvp(argv[1 + is_old], argv + 1 + is_old);
    perror(argv[1 + is_old]);
    return 127;
}
