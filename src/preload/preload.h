/*
 * What the files of the face share: the table of real functions, and two ways into the room below.
 * One takes a managed descriptor, the other a descriptor that was just opened.
 *
 * Every wrapper has one shape. It asks whether the descriptor is managed (one load). If so, the
 * engine does the call, and the wrapper sets errno. If not, or if the engine answers FILE_KERNEL,
 * the wrapper calls the real function. A call that this thread makes inside the library is the
 * library's own (libtirpc, getaddrinfo): it goes straight to the real function.
 */
#ifndef PRELOAD_PRELOAD_H
#define PRELOAD_PRELOAD_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "file/file.h"
#include "file/table.h"
#include "preload/symbols.h"
#include "sys/critical.h"
#include "sys/fd.h"

#define PRELOAD_EXPORT      __attribute__((visibility("default")))
#define PRELOAD_LIKELY(x)   __builtin_expect(!!(x), 1)
#define PRELOAD_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PRELOAD_SLOW        __attribute__((noinline, cold))

/* For wrappers of functions that look at their return address. Such a wrapper must leave by a jump
 * at every level of optimisation. */
#if defined(__clang__)
#define LEAVE_BY_JUMP
#define JUMP __attribute__((musttail)) return
#else
#define LEAVE_BY_JUMP __attribute__((optimize("O2"), no_sanitize("thread", "address", "undefined")))
#define JUMP          return
#endif

#if defined(_FILE_OFFSET_BITS) || defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0
#error "src/preload defines the plain and the 64-bit names side by side: headers must not redirect"
#endif

typedef void (*preload_handler)(int);

/* Not every libc declares these. */
int openat2(int dirfd, const char *path, const struct open_how *how, size_t size);
int pidfd_getfd(int pidfd, int target, unsigned flags);

#ifndef SYS_open /* newer processors lack these: numbers that no call has */
enum {
    SYS_creat = -1000,
    SYS_dup2,
    SYS_stat,
    SYS_lstat,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat
};
#endif

#define PRELOAD_NOTHING(...)
#define PRELOAD_NUMBER(name, ...) PRELOAD_##name,
enum preload_symbol { PRELOAD_ALL(PRELOAD_NUMBER, PRELOAD_NOTHING) PRELOAD_SYMBOLS };

/* Real functions; NULL until first needed. Each is written once with one value, so no lock. */
extern _Atomic(void *) preload_real[PRELOAD_SYMBOLS];

/* Finds the next definition after ours. Never NULL: a function that is missing is replaced by one
 * that makes the raw system call, or fails with ENOSYS. */
void *preload_resolve(enum preload_symbol symbol);

/* What preload_find() gives for a missing function of liburing: it returns -ENOSYS, as liburing
 * does. */
extern void *const preload_missing_uring;
/* The function of that name that the library of `caller` would find without us. NULL: none. */
void *preload_own_function(enum preload_symbol symbol, const void *caller);

/* others.c: true if a library that came with the program defines the symbol after us. */
bool preload_is_defined(enum preload_symbol symbol);
/* The function of libc that dlsym() would find after us, at a tenth of its price. NULL: ask
 * dlsym(), as another library may define the name, too. */
void *preload_of_libc(enum preload_symbol symbol);
/* True if `caller` is in such a library, and it is not libc: our wrapper calls that library's
 * function as the real one. Costs one load if there is no such library. */
bool preload_is_behind(const void *caller, enum preload_symbol symbol);

/* The dlsym() of libc. */
typedef void *preload_lookup_function(void *handle, const char *name);
preload_lookup_function *preload_lookup(void);

/* Finds a function of liburing that came by dlopen(), with a plug-in: RTLD_NEXT does not find it.
 * NULL for all other functions. */
void *preload_plugin_function(const char *name);

static inline void *preload_find(enum preload_symbol symbol)
{
    void *function = atomic_load_explicit(&preload_real[symbol], memory_order_relaxed);
    return PRELOAD_LIKELY(function != NULL) ? function : preload_resolve(symbol);
}

/* The real function of that name: PRELOAD_REAL(read)(fd, buffer, size). */
#define PRELOAD_REAL(name) ((__typeof__(&name))preload_find(PRELOAD_##name))

/* The constructor sets it if a mount is configured. Until then everything passes through. */
extern atomic_bool preload_started;

static inline bool preload_active(void)
{
    return atomic_load_explicit(&preload_started, memory_order_relaxed) && !sys_critical_inside();
}

static inline bool preload_managed(int fd)
{
    return PRELOAD_UNLIKELY(file_is_managed(fd)) && !sys_critical_inside();
}

/* raw.c: true if the program may have code that makes system calls itself and was not examined
 * yet. */
extern _Atomic bool preload_raw_unsettled;
/* Examines that code. If it makes such calls, the kernel gets all files. */
void preload_raw_settle(void);
static inline void preload_raw_look(void)
{
    if (PRELOAD_UNLIKELY(atomic_load_explicit(&preload_raw_unsettled, memory_order_relaxed)))
        preload_raw_settle();
}
/* start: from the constructor. loading: before each dlopen(), perhaps before the constructor.
 * prepare: before fork(). child: in its child. */
void preload_raw_start(void);
void preload_raw_loading(void);
void preload_raw_prepare(void);
void preload_raw_child(void);

/* Enters the library for a managed descriptor. NULL: it is not managed any more; nothing was
 * entered. */
static inline struct file_open *preload_enter(int fd)
{
    preload_raw_look();
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    if (open == NULL)
        sys_critical_leave();
    return open;
}

static inline void preload_leave(struct file_open *open)
{
    file_put(open);
    sys_critical_leave();
}

/*
 * A stay in the library that is no I/O. It keeps errno. The thread is not cancelled inside, though
 * libtirpc and getaddrinfo() call libc's cancellation points.
 */
struct preload_stay {
    int saved_errno;
    int cancel_state;
};

static inline struct preload_stay preload_stay_begin(void)
{
    struct preload_stay stay = {.saved_errno = errno};
    sys_critical_enter();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &stay.cancel_state);
    return stay;
}

static inline void preload_stay_end(struct preload_stay stay)
{
    pthread_setcancelstate(stay.cancel_state, &stay.cancel_state);
    sys_critical_leave();
    errno = stay.saved_errno;
}

/* Calls a function of the engine in a stay. */
void preload_stay_call(void (*function)(void));
void preload_stay_call_for(void (*function)(int fd), int fd);

/* Turns a result of the engine into one of libc. FILE_KERNEL stays: the caller looks at it. Without
 * the attribute, functions with PRELOAD_SLOW would call it. */
__attribute__((always_inline)) static inline ssize_t preload_result(ssize_t result)
{
    if (PRELOAD_UNLIKELY(result < 0) && result != FILE_KERNEL) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* Returns from the wrapper unless the real call is to be made. */
#define PRELOAD_RETURN_IF_SERVED(call) \
    do {                               \
        ssize_t served = (call);       \
        if (served != FILE_KERNEL)     \
            return served;             \
    } while (0)

static inline int preload_fail(int error)
{
    errno = error;
    return -1;
}

/*
 * After a successful open: lets the engine adopt the descriptor. errno is kept. The kernel keeps
 * descriptors 0 to 2: stdio is on them already, and libc writes to them where no wrapper sees it.
 * Returns the descriptor, or:
 * -EIO: the descriptor was closed; see fd_opened().
 */
int preload_adopt(int fd, int flags);
/* As preload_adopt(), for a descriptor that was opened before, or not by a name. */
void preload_receive(int fd, int flags);

static inline int preload_opened(int fd, int flags)
{
    if (fd < 0 || !preload_active())
        return fd;
    int adopted = preload_adopt(fd, flags);
    return adopted >= 0 ? adopted : preload_fail(-adopted);
}

/* Before the kernel opens this name with these flags; see fd_truncating(). errno is kept. */
void preload_truncating(int dirfd, const char *path);
static inline void preload_opening(int dirfd, const char *path, int flags)
{
    if (PRELOAD_UNLIKELY(flags & O_TRUNC) && preload_active())
        preload_truncating(dirfd, path);
}

/* Before the kernel replaces `to` by `from`. False, with errno: a stream of libc is on `to`, and
 * the file could not be demoted for it. */
bool preload_duplicating(int from, int to);
/* After the kernel duplicated `from`. Returns `to` and keeps errno. -1, with errno: a stream of
 * libc is on `to`, and the file could not be demoted for it; `to` is closed. */
int preload_duplicated(int from, int to);

/* Gives the descriptor to the kernel for good. Does nothing if it is not managed.
 * 0: done.
 * -1: its data could not be committed; errno says why. */
int preload_demote(int fd, const char *reason);
/* As preload_demote(), because a stream of stdio is on it. */
int preload_demote_stream(int fd);

/* Takes the descriptor from its file. An error reaches nobody. */
void preload_forget(int fd);
/* Closes a managed descriptor. 0 or -errno. */
int preload_close(int fd);

/* Returns flags for statx(2). They are those given, unless the kernel's client gets no answers:
 * then they tell it not to wait for one. */
int preload_statx_flags(int dirfd, const char *path, int flags);
/* After a successful statx(2): corrects the answer for files of ours. 0 or -errno. */
int preload_statx_overlay(int dirfd, const char *path, int flags, struct statx *extended);

/* Our part of an fsync that the kernel carries out: other processes of this host may have written
 * to the file through the engine. 0, or -1 and errno. */
int preload_sync_others(int fd);

/* True for descriptors 0 to 2 and for those known to have a stream. Their files are the
 * kernel's. */
bool preload_is_stream(int fd);
/* Demotes the descriptors that had streams when the library started. */
void preload_stdio_start(void);

/* Handlers around fork(). They call those of the engine in a critical section, because locks are
 * held. */
void preload_fork_prepare(void);
void preload_fork_parent(void);
void preload_fork_child(void);

/* Another process is about to get descriptors of this one. */
void preload_share(void);

/* What exec (commit) and exit (finish) owe the server. */
void preload_commit(void);
void preload_finish(void);

/* Copies from memory of the application (get), and to it (put). That memory may not be there. If
 * `to` of preload_get() is NULL, it just looks.
 * 0: done.
 * -EFAULT: a bad pointer, as the kernel says. */
int preload_get(void *to, const void *from, size_t size);
int preload_put(void *to, const void *from, size_t size);

/* signal.c: from now on the trampoline calls the application's handlers, also those installed
 * before. */
void preload_signal_start(void);
/* guard: before memory of the application is touched under a guard; installs a handler for its
 * faults. child: in the child of fork(). */
void preload_signal_guard(void);
void preload_signal_child(void);

/* A clone() that is a fork(), by a raw system call: no stack of its own. Result or -errno. */
long preload_raw_fork(long number, long a, long b, long c, long d, long e);
/* setuid() and its like, by a raw system call. Result or -errno. */
long preload_raw_user(long number, long a, long b, long c);

/* The version of the library. */
extern const char *const preload_version;

#endif
