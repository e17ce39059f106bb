/*
 * What was read ahead for open files and waits to be given out: its life, and the thread that looks
 * after it. Inside the engine only; ahead.h says what it is for.
 */
#ifndef AHEAD_FETCHED_H
#define AHEAD_FETCHED_H

#include "ahead/part.h"

enum {
    AHEAD_PARTS = 128, /* of one open file */
    AHEAD_STREAMS = 8
};

/* Reads of an open file of which each follows the one before. `size` 0: there is none. */
struct ahead_stream {
    uint64_t next;    /* where the next one begins */
    uint64_t end;     /* of what was asked for */
    size_t size;      /* that is to be ahead of who reads */
    uint64_t used_ns; /* when it was last read */
    bool waited;      /* who reads had to wait since more was asked for */
    unsigned failed;  /* times in a row that what was fetched had been changed */
    unsigned pause;   /* reads until it is tried again */
};

/* What was fetched for an open file, in no order. `lock` is that of open->ahead. */
struct ahead_fetched {
    struct async_lane *lane;
    struct file_open *open;     /* NULL: it was closed, and requests are on their way; `all_lock` */
    struct ahead_fetched *next; /* in `all`; `all_lock` */
    unsigned count;             /* this, and what follows: `lock` */
    struct ahead_part *parts[AHEAD_PARTS];
    struct ahead_stream streams[AHEAD_STREAMS];
    struct ahead_stream scattered; /* reads that follow no other: whether it is worth more */
};

/* The part that has this byte; NULL: none. */
struct ahead_part *ahead_part_at(const struct ahead_fetched *fetched, uint64_t offset);

/* NULL: no memory, or no thread to look after it. */
struct ahead_fetched *ahead_fetched_new(struct file_open *open);
/* A part that is done is in the list no more; it is freed when nobody uses it. */
void ahead_fetched_drop(struct ahead_fetched *fetched, struct ahead_part *part);
/* One user less. */
void ahead_fetched_leave(struct ahead_part *part);
/* Drops what has arrived and has grown old. */
void ahead_fetched_drop_old(struct ahead_fetched *fetched);
/* Drops what has arrived and no stream comes to. False: there was nothing. */
bool ahead_fetched_drop_useless(struct ahead_fetched *fetched);
/* What was asked for earlier may not be given out at `now_ns`. */
uint64_t ahead_fetched_fresh_since(struct file_inode *inode, uint64_t now_ns);
/* Tells ahead_wants() how much there is. */
void ahead_fetched_show(struct file_open *open);
/* Something was asked for. */
void ahead_fetched_wake(void);

/* The open file is new, with these flags of open(2), and nobody has it yet. */
void ahead_open(struct file_open *open, int flags);
/* Its flags are these from now on. */
void ahead_allow(struct file_open *open, int flags);
/* Before a file is entered that is opened with these flags: starts the thread that will be needed
 * (here, as a read may come in a handler of a signal that interrupted malloc()). */
void ahead_prepare(int flags);
/* Before this process leaves its registry, with one thread of the application: ends what is on its
 * way, and forgets all. */
void ahead_forget(void);
/* Nobody has the open file any more. */
void ahead_close(struct file_open *open);
/* In the child of fork(): what was on its way never arrives. */
void ahead_fork_child(void);

#endif
