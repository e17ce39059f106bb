/* What file, durable, io and async ask of rooms above them. fd/upper.c sets the functions, once. */
#ifndef FILE_UPPER_H
#define FILE_UPPER_H

#include "file/inode.h"

struct file_upper {
    /*
     * Asynchronous requests. For a thread that waits until requests of `inode`, or (NULL) of any
     * file, have ended: does for a moment what nobody else may be doing for them. False, at once:
     * none is in flight. See async_help().
     */
    bool (*help)(const struct file_inode *inode);
    /* Before waiting for what may hang on a request in flight: attendants look after all of them.
     */
    void (*attend_all)(void);
    /* Waits until no request is in flight. */
    void (*finish)(void);

    /*
     * The two worlds. The inode was found to be in the kernel's. `known`: this process has begun
     * its demotion; else the registry says so. Goes over as well, or waits until another thread
     * has.
     * False: it is there.
     * True: it cannot go: see fd_world_demote(), which is `demote`.
     * `follow`: see fd_world_follow().
     */
    bool (*cross)(struct file_inode *inode, bool known);
    int (*demote)(struct file_inode *inode, const struct rpc_auth *auth, const char *reason);
    int (*follow)(struct file_inode *inode);

    /* Nobody has the open file any more: what was read ahead for it is dropped. */
    void (*closed)(struct file_open *open);
    /* A read with the page cache's promises, for a request that one READ does not serve. As
     * ahead_preadv(). */
    ssize_t (*preadv)(struct file_open *open, int fd, const struct iovec *vectors, int count,
                      off_t offset, int flags);
};
extern const struct file_upper file_upper;

#endif
