/*
 * What was read ahead for open files and waits to be given out: its life, and the thread that looks
 * after it. Inside the engine only; ahead.h says what it is for.
 */
#ifndef AHEAD_FETCHED_H
#define AHEAD_FETCHED_H

#include "ahead/part.h"

enum {
    AHEAD_PARTS = 128, /* parts of one open file, at most */
    AHEAD_STREAMS = 8
};

/* A stream: reads of an open file of which each follows the one before. `size` 0: there is none. */
struct ahead_stream {
    uint64_t next;    /* where the next read begins */
    uint64_t end;     /* where what was asked for ends */
    size_t size;      /* bytes that are to be ahead of the reads */
    uint64_t used_ns; /* when the last read came */
    bool waited;      /* a read had to wait since more was asked for */
    unsigned failed;  /* how often in a row what was fetched had been changed */
    unsigned pause;   /* reads until fetching is tried again */
};

/* What was fetched for an open file, in no order. `lock` is that of open->ahead. */
struct ahead_fetched {
    struct async_lane *lane;
    struct file_open *open;     /* NULL: closed, with requests on their way; under `all_lock` */
    struct ahead_fetched *next; /* in `all`; under `all_lock` */
    unsigned count;             /* this, and what follows, under `lock` */
    struct ahead_part *parts[AHEAD_PARTS];
    struct ahead_stream streams[AHEAD_STREAMS];
    struct ahead_stream scattered; /* reads in no stream: whether to fetch around them */
};

/* The part that has this byte; NULL: none. */
struct ahead_part *ahead_part_at(const struct ahead_fetched *fetched, uint64_t offset);

/* Makes what an open file needs to read ahead. NULL: no memory, or no thread to look after it. */
struct ahead_fetched *ahead_fetched_new(struct file_open *open);
/* Takes a part that is done out of the list. It is freed when nobody uses it. */
void ahead_fetched_drop(struct ahead_fetched *fetched, struct ahead_part *part);
/* A user of the part leaves it. */
void ahead_fetched_leave(struct ahead_part *part);
/* Drops parts that have arrived and have grown old. */
void ahead_fetched_drop_old(struct ahead_fetched *fetched);
/* Drops parts that have arrived and have grown old, or that no stream will come to; but none that
 * the program announced. False: there were none. */
bool ahead_fetched_drop_useless(struct ahead_fetched *fetched);
/* What was asked for before this time may not be given out at `now_ns`. */
uint64_t ahead_fetched_fresh_since(struct file_inode *inode, uint64_t now_ns);
/* Tells ahead_wants() how many parts there are. */
void ahead_fetched_show(struct file_open *open);
/* Wakes the thread that looks after parts, after something was asked for. */
void ahead_fetched_wake(void);

/* For a new open file, with these flags of open(2), that nobody has yet. */
void ahead_open(struct file_open *open, int flags);
/* The open file has these flags from now on: may it be read ahead? */
void ahead_allow(struct file_open *open, int flags);
/* Before this process leaves its registry, with one thread of the application: waits for what is on
 * its way, and forgets all. */
void ahead_forget(void);
/* Nobody has the open file any more: drops what was fetched for it. */
void ahead_close(struct file_open *open);
/* In the child of fork(): what was on its way never arrives. */
void ahead_fork_child(void);

#endif
