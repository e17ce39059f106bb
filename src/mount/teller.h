/* The thread that tells the kernel's NFS client what it cannot know: a member of a mount (pages.c);
 * and what it asks for that (tell.c). Inside the engine only.
 */
#ifndef MOUNT_TELLER_H
#define MOUNT_TELLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file_inode;
struct file_open;

enum { MOUNT_TELL_MAX = 64 };

/* What the client is to hear of a file. */
struct mount_told {
    struct file_open *open; /* held; NULL: all that is told later is told now */
    int fd;                 /* of it; -1: it was closed meanwhile */
    bool times;             /* it shall know these too */
    bool full;              /* attributes as well, now */
};

/*
 * The client may have to ask its server, which can be away while ours is not, and nothing but
 * SIGKILL ends such a call. So a thread does it: first what somebody waits for, a ring from `first`
 * to `end`; then attributes that can be told later; then the files to which data came that nobody
 * has waited for, each once in a round. All under `file_tell_lock` but what is atomic.
 */
struct mount_teller {
    bool started;
    _Atomic bool silent; /* who waited for it did so in vain, and it has told nothing since */
    bool said;           /* and the log says so */
    uint32_t first, end, given_up; /* nobody waits any more for those before `given_up` */
    bool telling_later;
    unsigned later_count;
    uint64_t later_ns;                  /* when the next of those is due */
    uint64_t full_ns;                   /* until then attributes are told later */
    _Atomic uint64_t written_ns;        /* until then a synchronous write waits for nothing */
    _Atomic uint32_t kicks, done;       /* futexes: of the thread; `first`, for who waits */
    struct file_inode *arrived, *round; /* for the next round, and for the rest of this one */
    bool in_round;
    uint64_t round_ns; /* when the next is due; 0: it is not */
    uint64_t rest_ns;  /* not before this */
    uint64_t took_ns;  /* this one, so far */
    struct mount_told told[MOUNT_TELL_MAX], later[MOUNT_TELL_MAX];
};

/* Guards the tellers of all mounts; held briefly. */
extern pthread_mutex_t file_tell_lock;

/* Drops the pages that nobody has locked or mapped. Harmless to any file. */
void file_tell_drop(int fd);
/* Drops them all; waits for who reads them. By the thread. The first is a part of it. */
void file_tell_begin_direct(int fd);
void file_tell_pages(const struct mount_teller *teller, const struct mount_told *told);
/* The rest by a descriptor, or by name if that is -1. Does the kernel know the size, and with
 * `times` these, as the host does? And it learns them, which asks its server. */
bool file_tell_is_known(struct file_inode *inode, int fd, bool times);
void file_tell_attributes(struct file_inode *inode, int fd);

#endif
