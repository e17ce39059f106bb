/* The thread that sends what was written behind to the files of one server, and its lists:
 * durable/behind.c. And those that make safe what an fsync was announced for: durable/hinted.c. */
#ifndef MOUNT_SENDER_H
#define MOUNT_SENDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file_inode;

/* All zero while there is no thread. */
struct mount_sender {
    /* Lists by `behind_next`, under list_lock: the inodes that wait, those of them that the thread
     * has taken, and the one that it sends now. */
    struct file_inode *listed, *in_hand, *current;
    _Atomic bool tried, started;
    _Atomic bool sleeps;    /* until it is kicked; else it looks again after a while */
    _Atomic bool hurry;     /* there is enough for a whole WRITE */
    _Atomic uint32_t kicks; /* futex */
    struct mount_hinted {
        struct file_inode *first, *last; /* by `hint_next` */
        const struct file_inode *latest; /* more of it may follow; never followed as a pointer */
        unsigned waiting, threads, busy; /* inodes in the list; threads, and those that commit */
        _Atomic uint32_t calls;          /* futex */
    } hinted; /* durable/hinted.c; under its lock, but for what is atomic */
};

#endif
