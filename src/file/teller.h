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
    struct file_open *open; /* held; NULL: all that is told later is told now */
    int fd;                 /* of it; -1: it was closed meanwhile */
    bool times;             /* it shall know these too */
    bool full;              /* attributes as well, now */
};

/*
 * The client may have to ask its server, which can be away while ours is not, and nothing but
 * SIGKILL ends such a call. So a thread does it: first what somebody waits for, a ring from `first`
 * to `end`; then attributes that can be told later. All under a lock of pages.c but what is atomic.
 */
struct file_teller {
    bool started;
    _Atomic bool silent; /* who waited for it did so in vain, and it has told nothing since */
    bool said;           /* and the log says so */
    uint32_t first, end, given_up; /* nobody waits any more for those before `given_up` */
    bool telling_later;
    unsigned later_count;
    uint64_t later_ns;            /* when the next of those is due */
    uint64_t full_ns;             /* until then attributes are told later */
    _Atomic uint32_t kicks, done; /* futexes: of the thread; `first`, for who waits */
    struct file_told told[FILE_TELL_MAX], later[FILE_TELL_MAX];
};

#endif
