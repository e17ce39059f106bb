/* The threads that tell the kernel's NFS client what it cannot know (file/pages.c), and what they
 * ask of the kernel for that (file/tell.c). Each mount has its own. Inside the engine only. */
#ifndef MOUNT_TELLER_H
#define MOUNT_TELLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file_inode;
struct file_open;

enum { MOUNT_TELL_MAX = 64 };

/* What the client is to be told of a file. */
struct mount_told {
    struct file_open *open; /* held; NULL: tell now all that is in `later` */
    int fd;                 /* a descriptor of it; -1: it was closed meanwhile */
    bool times;             /* tell the times too */
    bool full;              /* tell attributes now, not later */
};

/*
 * The client may have to ask its server, which can be away while ours is not, and nothing but
 * SIGKILL ends such a call. So threads do it. One tells what somebody waits for, a ring from
 * `first` to `end`. The other tells attributes that can be told later; then the files to which data
 * came that nobody has waited for, each once in a round. All is under `file_tell_lock`, but for
 * what is atomic.
 */
struct mount_teller {
    bool started;
    _Atomic bool two;        /* the second thread is there; else the first does its work too */
    _Atomic bool silent;     /* somebody waited for it in vain, and it has told nothing since */
    bool said;               /* and the log says so */
    _Atomic unsigned asking; /* threads that make it ask its server, and nobody waits for that */
    uint32_t first, end, given_up; /* nobody waits any more for entries before `given_up` */
    unsigned telling_later;        /* how many of `later` are taken, and not told yet */
    unsigned later_count;
    uint64_t later_ns;                  /* when those of `later` are due */
    uint64_t full_ns;                   /* until then attributes are told later */
    _Atomic uint64_t written_ns;        /* until then a synchronous write waits for nothing */
    _Atomic uint32_t kicks, late_kicks; /* futexes: of the two threads; */
    _Atomic uint32_t done, told_later;  /* a copy of `first`; how many of `later` were told */
    struct file_inode *arrived, *round; /* lists: the next round; the rest of this one */
    bool in_round;
    uint64_t round_ns; /* when the next round is due; 0: none is */
    uint64_t rest_ns;  /* no round begins before this */
    uint64_t took_ns;  /* how long this round took so far */
    struct mount_told told[MOUNT_TELL_MAX], later[MOUNT_TELL_MAX];
};

/* Guards the tellers of all mounts; held briefly. */
extern pthread_mutex_t file_tell_lock;

/* Drops the kernel's pages that nobody has locked or mapped. Harmless to any file. */
void file_tell_drop(int fd);
/* Drops all pages, and waits for those that read them; called by the thread.
 * file_tell_begin_direct() is a part of it. */
void file_tell_begin_direct(int fd);
void file_tell_pages(const struct mount_teller *teller, const struct mount_told *told);
/* By a descriptor, or by name if that is -1. Does the kernel know the size and, with `times`, the
 * times that the host knows? The second makes it learn them, for which it asks its server. */
bool file_tell_is_known(struct file_inode *inode, int fd, bool times);
void file_tell_attributes(struct file_inode *inode, int fd);

#endif
