/*
 * What was read ahead for open files and waits to be given out: its life, and the thread that looks
 * after it. Inside src/file only; ahead.h says what it is for.
 */
#ifndef FILE_FETCHED_H
#define FILE_FETCHED_H

#include "file/part.h"

enum {
    FILE_PARTS = 128, /* of one open file */
    FILE_STREAMS = 8
};

/* Reads of an open file of which each follows the one before. `size` 0: there is none. */
struct file_stream {
    uint64_t next;    /* where the next one begins */
    uint64_t end;     /* of what was asked for */
    size_t size;      /* that is to be ahead of who reads */
    uint64_t used_ns; /* when it was last read */
    bool waited;      /* who reads had to wait since more was asked for */
    unsigned failed;  /* times in a row that what was fetched had been changed */
    unsigned pause;   /* reads until it is tried again */
};

/* What was fetched for an open file, in no order. `lock` is that of open->ahead. */
struct file_fetched {
    struct file_lane *lane;
    struct file_open *open;    /* NULL: it was closed, and requests are on their way; `all_lock` */
    struct file_fetched *next; /* in `all`; `all_lock` */
    unsigned count;            /* this, and what follows: `lock` */
    struct file_part *parts[FILE_PARTS];
    struct file_stream streams[FILE_STREAMS];
    struct file_stream scattered; /* reads that follow no other: whether it is worth more */
};

/* The part that has this byte; NULL: none. */
struct file_part *file_part_at(const struct file_fetched *fetched, uint64_t offset);

/* NULL: no memory, or no thread to look after it. */
struct file_fetched *file_fetched_new(struct file_open *open);
/* A part that is done is in the list no more; it is freed when nobody uses it. */
void file_fetched_drop(struct file_fetched *fetched, struct file_part *part);
/* One user less. */
void file_fetched_leave(struct file_part *part);
/* Drops what has arrived and has grown old. */
void file_fetched_drop_old(struct file_fetched *fetched);
/* Drops what has arrived and no stream comes to. False: there was nothing. */
bool file_fetched_drop_useless(struct file_fetched *fetched);
/* What was asked for earlier may not be given out at `now_ns`. */
uint64_t file_fetched_fresh_since(struct file_inode *inode, uint64_t now_ns);
/* Tells file_ahead_wants() how much there is. */
void file_fetched_show(struct file_open *open);
/* Something was asked for. */
void file_fetched_wake(void);

/* The open file is new, with these flags of open(2), and nobody has it yet. */
void file_ahead_open(struct file_open *open, int flags);
/* Its flags are these from now on. */
void file_ahead_allow(struct file_open *open, int flags);
/* Before a file is entered that is opened with these flags: starts the thread that will be needed
 * (here, as a read may come in a handler of a signal that interrupted malloc()). */
void file_ahead_prepare(int flags);
/* Before this process leaves its registry, with one thread of the application: ends what is on its
 * way, and forgets all. */
void file_ahead_forget(void);
/* Nobody has the open file any more. */
void file_ahead_close(struct file_open *open);
/* In the child of fork(): what was on its way never arrives. */
void file_ahead_fork_child(void);

#endif
