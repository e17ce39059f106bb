/* The thread that sends what was written behind to the files of one server, and its list: behind.c.
 */
#ifndef MOUNT_SENDER_H
#define MOUNT_SENDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file_inode;

/* All zero where there is none. */
struct mount_sender {
    /* By `behind_next`, under list_lock: those that are to be looked after, those of them that the
     * thread has taken, and the one that it looks after. */
    struct file_inode *listed, *in_hand, *current;
    _Atomic bool tried, started;
    _Atomic bool sleeps;    /* until it is kicked; else it looks by itself after a while */
    _Atomic bool hurry;     /* there is enough for a whole WRITE */
    _Atomic uint32_t kicks; /* futex */
};

#endif
