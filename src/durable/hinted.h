/*
 * An fsync that is done before it is asked for. A database that makes many files safe says first
 * which: sync_file_range(2) for each, without waiting; then fsync(2), one file after the other. So
 * threads of ours do meanwhile what these fsyncs would do, several files at a time. An fsync that
 * finds its work done, and nothing written since, has nothing to send. It vouches for the same as
 * if it had done that work itself. Errors are found again by it, as those of early COMMITs are.
 */
#ifndef DURABLE_HINTED_H
#define DURABLE_HINTED_H

#include "file/inode.h"
#include "mount/mounts.h"

/* What a hint has become. Two fsyncs never find one hint done. */
enum durable_hint {
    DURABLE_HINT_NONE,    /* there is none, or an fsync came first */
    DURABLE_HINT_WAITING, /* in the list */
    DURABLE_HINT_BUSY,    /* a thread does it */
    DURABLE_HINT_DONE
};

/* A program hints that it will want the file safe. `little`: that takes one WRITE, and is done at
 * once. Else more of it may follow: it is done when another file is hinted at, or half a second
 * later. True: the sender is to call durable_hinted_start(). */
bool durable_hinted_add(struct file_inode *inode, bool little);
/* Starts threads, if there is work for them. Not from a handler of a signal. */
void durable_hinted_start(struct mount_sender *sender);

/* For an fsync, in the engine: was its work done since the last fsync, and was nothing written
 * since that is not safe? Waits a moment for a thread that does it now. */
bool durable_hinted_is_done(struct file_inode *inode);

/* Before this process leaves its registry: nothing is done any more. */
void durable_hinted_forget(struct mount_sender *sender);
/* Around fork; in the child, after the locks of the parent. */
void durable_hinted_fork_prepare(void);
void durable_hinted_fork_done(void);
void durable_hinted_fork_child(void);

#endif
