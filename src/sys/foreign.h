/*
 * Code of libraries that are not ours: OpenSSL, Kerberos.
 *
 * They are loaded when a mount asks for them, as the library needs libc only. They call malloc(),
 * have locks of their own, and know neither of fork() nor of handlers. So a thread passes a gate,
 * one for each library, before it calls them, and fork() waits until nobody is inside. A thread in
 * a handler has another thread do the work.
 */
#ifndef SYS_FOREIGN_H
#define SYS_FOREIGN_H

#include <stdbool.h>

enum sys_foreign { SYS_FOREIGN_TLS, SYS_FOREIGN_KERBEROS, SYS_FOREIGNS };

/* The symbols of the library stay apart from the program's: dlopen(RTLD_NOW | RTLD_LOCAL). NULL: it
 * cannot be had; *why then says so, in a static text for this thread. Call it without a lock, and
 * not inside a gate: constructors run. Not in a handler. */
void *sys_foreign_open(const char *soname, const char **why);

/*
 * Does the program, or a library that was loaded before, define this function in the place of
 * `own`, which dlsym() found for a library of sys_foreign_open()? Then that library itself calls
 * the other one, which may have other structures. A function with a version takes the place of
 * those with the same version only: it is no such one.
 */
bool sys_foreign_is_replaced(const char *name, const void *own);

/*
 * Passes the gate. It waits while a fork is under way, at most a second. In a critical section
 * (sys/critical.h), and without a lock that fd_fork_prepare() takes. Not in a handler
 * (sys_critical_in_handler()); may be nested.
 * False: this process was forked while another thread was inside. Locks of the library may be held
 * for ever, so it cannot be used. Or the gate is shut.
 */
bool sys_foreign_enter(enum sys_foreign which);
void sys_foreign_leave(enum sys_foreign which);

/* Is the library of use in this process? See sys_foreign_enter(). */
bool sys_foreign_usable(enum sys_foreign which);

/*
 * Around the real fork(), before any handler of pthread_atfork(): an allocator's handler takes the
 * locks that a thread inside may wait for. Waits until nobody is inside, for a second at most.
 */
void sys_foreign_fork_begin(void);
void sys_foreign_fork_end(void);

/*
 * The library is about to take away what threads inside use: for a moment, or for ever as the
 * process ends by exit(3) (finalizers of Kerberos destroy its locks). Waits until no other thread
 * is inside, for a second at most. Then only the caller goes in for so long: finalizers of other
 * libraries may use files. Others wait at the gate, for two seconds at most, and are then refused.
 */
enum { SYS_FOREIGN_FOR_EVER = 1 << 30 };
void sys_foreign_shut(enum sys_foreign which, int milliseconds);
/* Is the caller the only thread that may go in? */
bool sys_foreign_is_kept(enum sys_foreign which);

/* Handlers for pthread_atfork(), also without those above. They do not wait. */
void sys_foreign_fork_prepare(void);
void sys_foreign_fork_parent(void);
void sys_foreign_fork_child(void);

/* Starts the thread for sys_foreign_aside(), unless there is one. Not in a handler. */
void sys_foreign_aside_start(void);
/* Is there one? A child of fork() has none at first. */
bool sys_foreign_aside_runs(void);

/*
 * For a thread in a handler: has work(argument) done by a thread that is not in one.
 * 0: it is done.
 * -EAGAIN: there is no such thread, or the work did not begin in time. It will not be done.
 * -EINPROGRESS: it began, and is not done: mostly it waits for a lock of malloc() that this thread
 * interrupted. It goes on with `argument`, which must live on.
 */
int sys_foreign_aside(void (*work)(void *argument), void *argument, int timeout_ms);

#endif
