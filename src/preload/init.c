/*
 * Start and end of the library in a process, and the table of real functions.
 *
 * Calls arrive before any constructor ran, some of them while malloc initialises itself. So each
 * real function is found on its first use: dlsym() allocates nothing when it finds the symbol.
 * Nothing else happens before our constructor. It adopts the descriptors that were opened before
 * it, and those that came over exec.
 */
#include <string.h>
#include <sys/auxv.h>

#include "durable/sync.h"
#include "fd/closed.h"
#include "fd/adopt.h"
#include "fd/descriptors.h"
#include "fd/life.h"
#include "fd/world.h"
#include "file/table.h"
#include "mount/lease.h"
#include "mount/places.h"
#include "run/directory.h"
#include "preload/aio/context.h"
#include "preload/posix_aio/posix_aio.h"
#include "preload/preload.h"
#include "preload/uring/uring.h"
#include "sys/foreign.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/thread.h"

_Atomic(void *) preload_real[PRELOAD_SYMBOLS];
atomic_bool preload_started;

#define NAME(name, ...) #name,
static const char *const names[] = {PRELOAD_ALL(NAME, PRELOAD_NOTHING)};

/*
 * For the worst cases: the symbol is missing; or dlsym() fails on another symbol, allocates for its
 * message, and so needs this one. Then the system call of that name is made directly.
 */
static long raw_result(long result)
{
    if ((unsigned long)result > -4096UL) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static long raw_open(const char *path, long flags, long mode)
{
    return raw_result(sys_open(path, (int)flags, (mode_t)mode));
}

static long raw_missing(void)
{
    return raw_result(-ENOSYS);
}

static long raw_missing_uring(void)
{
    return -ENOSYS;
}

void *const preload_missing_uring = (void *)raw_missing_uring;

#define RAW(name, ...) __VA_OPT__(RAW_CALL(name, __VA_ARGS__))
#define RAW_CALL(name, number, type)                                       \
    static long raw_##name(long a, long b, long c, long d, long e, long f) \
    {                                                                      \
        return raw_result(sys_call6(number, a, b, c, d, e, f));            \
    }
#define RAW_ENTRY(name, ...) __VA_OPT__([PRELOAD_##name] = (void *)raw_##name, )
PRELOAD_ALL(RAW, PRELOAD_NOTHING)
static void *const raw_functions[PRELOAD_SYMBOLS] = {[PRELOAD_open] = (void *)raw_open,
                                                     PRELOAD_ALL(RAW_ENTRY, PRELOAD_NOTHING)};

static void *raw_function(enum preload_symbol symbol)
{
    return raw_functions[symbol] ? raw_functions[symbol] : (void *)raw_missing;
}

static bool is_uring(const char *name)
{
    return strstr(name, "io_uring_") != NULL;
}

/* Plug-ins come after all constructors. Before that, dlopen() would search for each name in
 * vain. */
static atomic_bool plugins_may_come;

void *preload_plugin_function(const char *name)
{
    void *(*real_dlopen)(const char *, int) = NULL;
    if (is_uring(name) && atomic_load_explicit(&plugins_may_come, memory_order_relaxed))
        real_dlopen = (void *(*)(const char *, int))preload_lookup()(RTLD_NEXT, "dlopen");
    void *library = real_dlopen ? real_dlopen("liburing.so.2", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (library == NULL)
        return NULL;
    void *function = preload_lookup()(library, name);
    dlclose(library);
    return function;
}

void *preload_own_function(enum preload_symbol symbol, const void *caller)
{
    Dl_info its, ours, found;
    void *library = NULL, *function = NULL;
    int saved = errno;
    if (dladdr(caller, &its) != 0 && dladdr(names, &ours) != 0)
        library = PRELOAD_REAL(dlopen)(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
        function = preload_lookup()(library, names[symbol]);
        dlclose(library);
    }
    if (function != NULL && dladdr(function, &found) != 0 && found.dli_fbase == ours.dli_fbase)
        function = NULL;
    if (function == NULL)
        dlerror(); /* the program must not see our message */
    errno = saved;
    return function;
}

void *preload_resolve(enum preload_symbol symbol)
{
    static __thread int resolving;
    if (resolving)
        return raw_function(symbol);
    /* For libraries that came with the program no search is needed. A search that fails would
     * allocate and leave a message; a sanitizer may not have started yet. */
    bool is_early = !atomic_load_explicit(&plugins_may_come, memory_order_relaxed);
    bool is_missing = is_early && !preload_is_defined(symbol);
    resolving = 1;
    int saved = errno;
    const char *name = names[symbol];
    void *function = is_missing ? NULL : preload_of_libc(symbol);
    if (function == NULL && !is_missing)
        function = preload_lookup()(RTLD_NEXT, name);
    if (function == NULL && !is_missing && (function = preload_plugin_function(name)) == NULL)
        dlerror(); /* the program must not see our message */
    errno = saved;
    resolving = 0;
    if (function == NULL && is_uring(name))
        return preload_missing_uring; /* not remembered: liburing may come later, with a plug-in */
    if (function == NULL)
        function = raw_function(symbol);
    atomic_store_explicit(&preload_real[symbol], function, memory_order_relaxed);
    return function;
}

/* ---- stays ---- */

PRELOAD_SLOW void preload_stay_call(void (*function)(void))
{
    struct preload_stay stay = preload_stay_begin();
    function();
    preload_stay_end(stay);
}

PRELOAD_SLOW void preload_stay_call_for(void (*function)(int fd), int fd)
{
    struct preload_stay stay = preload_stay_begin();
    function(fd);
    preload_stay_end(stay);
}

/* ---- descriptors ---- */

PRELOAD_SLOW void preload_forget(int fd)
{
    struct preload_stay stay = preload_stay_begin();
    fd_closing(fd);
    preload_stay_end(stay);
}

static int adopt(int fd, int flags, int (*into)(int fd, int flags))
{
    int result = 0;
    if (preload_managed(fd)) /* it was closed where no wrapper saw it */
        preload_forget(fd);
    bool directory = (flags & O_DIRECTORY) && (flags & O_TMPFILE) != O_TMPFILE;
    if (directory || (flags & O_PATH))
        return 0;
    struct preload_stay stay = preload_stay_begin();
    result = into(fd, flags);
    if (file_is_managed(fd)) {
        preload_signal_guard();
        preload_raw_look();
    }
    if (result != 0)
        sys_close(fd);
    preload_stay_end(stay);
    return result;
}

static const char standard[] = "standard descriptor";

static int opened(int fd, int flags)
{
    return fd <= STDERR_FILENO ? fd_opened_for_stream(fd, flags, standard) : fd_opened(fd, flags);
}

PRELOAD_SLOW int preload_adopt(int fd, int flags)
{
    int result = adopt(fd, flags, opened);
    return result == 0 ? fd : result;
}

static int received(int fd, int flags)
{
    fd_received(fd, flags, fd <= STDERR_FILENO ? standard : NULL);
    return 0;
}

PRELOAD_SLOW void preload_receive(int fd, int flags)
{
    adopt(fd, flags, received);
}

static const char *stream_reason(int fd)
{
    return fd <= STDERR_FILENO ? standard : "stdio";
}

static int demote(int fd, const char *reason, int (*how)(int fd, const char *reason))
{
    if (!preload_managed(fd))
        return 0;
    struct preload_stay stay = preload_stay_begin();
    int result = how(fd, reason);
    preload_stay_end(stay);
    return result < 0 ? preload_fail(-result) : 0;
}

bool preload_duplicating(int from, int to)
{
    int saved = errno;
    if (to < 0 || !preload_managed(from) || !preload_is_stream(to))
        return true;
    int flags = sys_fcntl(from, F_GETFL, 0);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return true;
    if (demote(from, stream_reason(to), fd_demote_stream) < 0 && preload_managed(from))
        return false;
    errno = saved;
    return true;
}

int preload_duplicated(int from, int to)
{
    if (to < 0 || from == to)
        return to;
    if (!preload_managed(from)) {
        if (preload_managed(to))
            preload_forget(to);
        return to;
    }
    struct preload_stay stay = preload_stay_begin();
    if (to >= FILE_TABLE_SIZE && fd_is_closed(from)) {
        sys_close(to);
        preload_stay_end(stay);
        return preload_fail(EMFILE);
    }
    file_duplicated(from, to);
    int result = preload_is_stream(to) ? fd_demote_stream(to, stream_reason(to)) : 0;
    bool stays = result < 0 && file_is_managed(to);
    if (stays) {
        fd_closing(to);
        sys_close(to);
    }
    preload_stay_end(stay);
    return stays ? preload_fail(-result) : to;
}

PRELOAD_SLOW int preload_demote(int fd, const char *reason)
{
    return demote(fd, reason, fd_demote);
}

PRELOAD_SLOW int preload_demote_stream(int fd)
{
    return demote(fd, "stdio", fd_demote_stream);
}

/* ---- fork, exec, exit ---- */

void preload_fork_prepare(void)
{
    sys_critical_enter();
    preload_raw_prepare();
    uring_fork_prepare();
    fd_fork_prepare();
    sys_foreign_fork_prepare();
}

void preload_fork_parent(void)
{
    sys_foreign_fork_parent();
    fd_fork_parent();
    uring_fork_parent();
    sys_critical_leave();
}

void preload_fork_child(void)
{
    /* If a child of vfork() forks, its child comes here, too. Our table does not know its
     * descriptors, so all its calls stay the kernel's (vfork.c). */
    sys_critical_fork_child();
    preload_signal_child();
    preload_raw_child();
    sys_thread_fork_child();
    sys_foreign_fork_child();
    fd_fork_child();
    aio_fork_child();
    posix_aio_fork_child();
    uring_fork_child();
    sys_critical_leave();
}

void preload_commit(void)
{
    if (!preload_active())
        return;
    struct preload_stay stay = preload_stay_begin();
    durable_commit_all();
    durable_write_out_all(); /* in a child of fork(): what its parent wrote */
    mounts_end_sessions();
    preload_stay_end(stay);
}

void preload_finish(void)
{
    if (preload_active())
        preload_stay_call(fd_finish);
}

/* The finalizers of libraries that were loaded later come after this. */
__attribute__((destructor)) static void finish_and_shut(void)
{
    preload_finish();
    if (preload_active())
        sys_foreign_shut(SYS_FOREIGN_KERBEROS, SYS_FOREIGN_FOR_EVER);
}

static void set_log_level(const char *name)
{
    enum log_level level;
    if (name == NULL || *name == '\0')
        return;
    if (log_level_parse(name, &level) == 0)
        log_set_level(level);
    else
        log_warning("DIRECTNFS_LOG_LEVEL: no level is called \"%s\"; error, warning, notice, info "
                    "and debug are",
                    name);
}

static void open_log(const char *target)
{
    int result = log_open(target && *target ? target : NULL);
    if (result < 0)
        log_warning("DIRECTNFS_LOG: %s: %s; messages go to standard error", target,
                    result == -EINVAL ? "expected stderr, syslog, or a file with its directory"
                                      : strerror(-result));
}

/* The table of descriptors has room for many more than there are. A page of it that is touched may
 * become a huge page, which the kernel would clear first: that takes longer than all else at a
 * start. So this is the first of all constructors. */
__attribute__((constructor(101))) static void forbid_huge_pages(void)
{
    extern char __bss_start[], _end[]; /* the linker's */
    uintptr_t page = getauxval(AT_PAGESZ), begin = (uintptr_t)__bss_start, end = (uintptr_t)_end;
    begin = (begin + page - 1) / page * page;
    end = (end + page - 1) / page * page;
    sys_call3(SYS_madvise, begin, end - begin, MADV_NOHUGEPAGE);
}

__attribute__((constructor)) static void start(void)
{
    /* All at once: no signal handler and no child of fork() shall meet the dynamic linker. */
    for (int symbol = 0; symbol < PRELOAD_SYMBOLS; symbol++)
        preload_find(symbol);
    atomic_store_explicit(&plugins_may_come, true, memory_order_relaxed);

    /* A program with more rights than the user that started it is not served. The library would
     * open files and sockets with those rights, and an attacker could use that. */
    if (getauxval(AT_SECURE))
        return;
    const char *disable = secure_getenv("DIRECTNFS_DISABLE");
    if (disable != NULL && strcmp(disable, "1") == 0)
        return;

    struct preload_stay stay = preload_stay_begin();
    open_log(secure_getenv("DIRECTNFS_LOG"));
    set_log_level(secure_getenv("DIRECTNFS_LOG_LEVEL"));
    fd_start();
    if (fd_enabled()) {
        sys_proc_keep();
        run_start();
        enum log_level level;
        const char *wanted = secure_getenv("DIRECTNFS_LOG_LEVEL");
        if (wanted != NULL && log_level_parse(wanted, &level) == 0)
            log_set_level(level); /* the environment overrides directnfs.conf */
        preload_signal_start();
        pthread_atfork(preload_fork_prepare, preload_fork_parent, preload_fork_child);
        preload_raw_start();
        atomic_store(&preload_started, true);
        fd_adopt_inherited();
        if (file_table_limit() > 0)
            preload_signal_guard();
        preload_stdio_start();
        mounts_say(preload_version);
    }
    preload_stay_end(stay);
}
