/* The thread that tells the kernel's NFS client what it cannot know: a member of a mount (pages.c).
 */
#ifndef FILE_TELLER_H
#define FILE_TELLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file_open;

enum { FILE_TELL_MAX = 64 };

/* What the client is to hear of a file. */
struct file_told {
    struct file_open *open; /* held */
    int fd;                 /* of it; -1: it was closed meanwhile */
    bool times;             /* it shall know these too */
};

/*
 * The client may have to ask its server, which can be away while ours is not, and nothing but
 * SIGKILL ends such a call. So a thread does it: `told` from `first` to `end`, a ring. Those before
 * `begun` are in its hands; those before `due` are not waited with. All under a lock of pages.c but
 * what is atomic.
 */
struct file_teller {
    bool started;
    _Atomic bool silent; /* who waited for it did so in vain, and it has told nothing since */
    unsigned hurry;      /* so many wait */
    uint32_t first, begun, due, end;
    uint64_t due_ns;              /* when the rest is due, if nobody waits */
    uint64_t wait_ns;             /* nobody waits before that, but at the end */
    _Atomic uint32_t kicks, done; /* futexes: of the thread; `first`, for who waits */
    struct file_told told[FILE_TELL_MAX];
};

#endif
