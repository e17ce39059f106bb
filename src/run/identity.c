#include "run/identity.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "sys/fd.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

/* Reads a small file of /proc whole. Returns its length without the terminator, or -errno. */
static ssize_t read_small(const char *name, char *text, size_t size)
{
    int fd = sys_proc_open(name, O_RDONLY);
    if (fd < 0)
        return fd;
    ssize_t length;
    do
        length = sys_read(fd, text, size - 1);
    while (length == -EINTR);
    sys_close(fd);
    if (length >= 0)
        text[length] = '\0';
    return length;
}

/* What proc(5) says of a process in stat: fields 1, 3, 20, 22 and 28. */
struct process_stat {
    uint32_t pid; /* as this /proc counts */
    char state;
    long threads;
    uint64_t starttime;
    uint64_t image; /* where its stack begins: the kernel picks another place at each exec */
};

static int read_stat(const char *name, struct process_stat *stat)
{
    char text[1024];
    ssize_t length = read_small(name, text, sizeof(text));
    if (length < 0)
        return (int)length;
    /* The program's name, in parentheses, may hold anything. */
    char *field = strrchr(text, ')');
    if (!field || field[1] != ' ')
        return -EBADMSG;
    field += 2;
    stat->pid = (uint32_t)strtoul(text, NULL, 10);
    stat->state = *field;
    for (int number = 3; number < 28; number++) {
        if (number == 20)
            stat->threads = strtol(field, NULL, 10);
        else if (number == 22)
            stat->starttime = strtoull(field, NULL, 10);
        field = strchr(field, ' ');
        if (!field)
            return -EBADMSG;
        field++;
    }
    stat->image = strtoull(field, NULL, 10); /* 0 for a reader that may not know it */
    return 0;
}

int run_identity_self(struct run_identity *identity)
{
    struct process_stat stat;
    int error = read_stat("self/stat", &stat);
    /*
     * /proc may belong to another pid namespace: bwrap --unshare-pid and unshare -p leave the old
     * one there unless they are told to mount a new one. In it, every other process would look
     * dead.
     */
    if (error == 0 && stat.pid != (uint32_t)sys_getpid())
        error = -ESRCH;
    if (error == 0)
        *identity = (struct run_identity){(uint32_t)sys_getpid(), stat.starttime, stat.image};
    return error;
}

int run_identity_of(uint32_t pid, struct run_identity *identity)
{
    struct process_stat stat;
    char path[40];
    snprintf(path, sizeof(path), "%u/stat", pid);
    int error = read_stat(path, &stat);
    if (error == 0)
        *identity = (struct run_identity){pid, stat.starttime, 0};
    return error;
}

static int read_stat_of(const struct run_identity *identity, struct process_stat *stat)
{
    char path[40];
    snprintf(path, sizeof(path), "%u/stat", identity->pid);
    return read_stat(path, stat);
}

bool run_identity_alive(const struct run_identity *identity)
{
    struct process_stat stat;
    if (sys_kill((pid_t)identity->pid, 0) == -ESRCH)
        return false;
    if (read_stat_of(identity, &stat) < 0) /* it is hidden, or its parent has just waited for it */
        return sys_kill((pid_t)identity->pid, 0) != -ESRCH;
    if (stat.starttime != identity->starttime ||
        (stat.image && identity->image && stat.image != identity->image))
        return false;
    /* The first thread may end before the others. Only without them is the process a zombie. */
    return !((stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1);
}

bool run_identity_stopped(const struct run_identity *identity)
{
    struct process_stat stat;
    return read_stat_of(identity, &stat) == 0 && stat.starttime == identity->starttime &&
           (stat.state == 'T' || stat.state == 't');
}

bool run_thread_stopped(uint32_t thread)
{
    struct process_stat stat;
    const struct run_identity identity = {.pid = thread};
    return read_stat_of(&identity, &stat) == 0 && stat.state == 'T';
}

uint64_t run_program(void)
{
    uint64_t random[2] = {0, 0};
    const void *bytes = (const void *)getauxval(AT_RANDOM); /* 16 bytes, from the kernel */
    if (bytes)
        memcpy(random, bytes, sizeof(random));
    /* libc guards the stack with one half, and pointers with the other: give neither away. */
    return random[0] ^ random[1];
}

uint64_t run_boot_id(void)
{
    static _Atomic uint64_t known;
    char text[64];
    uint64_t id = atomic_load_explicit(&known, memory_order_relaxed);
    if (id)
        return id;
    ssize_t length = read_small("sys/kernel/random/boot_id", text, sizeof(text));
    uint64_t hash = 14695981039346656037u;
    for (ssize_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    if (length <= 0)
        return 0;
    atomic_store_explicit(&known, hash, memory_order_relaxed);
    return hash;
}

/* 0 or -errno. */
static int namespace_of(const char *name, uint64_t *number)
{
    struct stat status;
    int error = sys_proc_stat(name, &status);
    *number = error ? 0 : status.st_ino;
    return error;
}

uint64_t run_time_namespace(void)
{
    uint64_t number;
    namespace_of("self/ns/time", &number); /* before Linux 5.6 there is only one */
    return number;
}

uint64_t run_pid_namespace(void)
{
    uint64_t number;
    namespace_of("self/ns/pid", &number);
    return number;
}

uint64_t run_namespaces(void)
{
    uint64_t processes, times;
    int error = namespace_of("self/ns/time", &times);
    if (namespace_of("self/ns/pid", &processes) != 0 || (error && error != -ENOENT))
        return 0;
    return processes ^ times << 32;
}
