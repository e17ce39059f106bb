// The files behind memserver: those of one real directory, opened once, mapped shared.
//
// A file is known by device and inode.  Its descriptor stays open while it is known, so that
// neither number can be used again for another file; a file whose last link is gone is forgotten
// and its handles are stale.  Attributes are those of the kernel: taken by fstat whenever a caller
// asks for them, and otherwise at most one clock tick old (the tick of the kernel's own time
// stamps, 1 to 10 ms).
//
// One thread; nothing here is locked.
#ifndef BENCH_MEMFILES_H
#define BENCH_MEMFILES_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FILE_BUCKETS 4096
#define TICK_NONE    0
struct file {
    int fd;
    bool writable;
    struct stat st;     // as of `fresh`
    uint64_t fresh;     // tick of the last fstat
    uint64_t stores;    // that were made: the times may stay the same within a tick
    uint64_t touched;   // tick of the last time stamp set for a write through the mapping
    unsigned char *map; // NULL before the first READ or WRITE
    size_t map_size;    // may pass the end of the file, so that it can grow into it
    struct file *next;  // same bucket
};

// A mapping that replies not yet sent may still point into.
struct retired_mapping {
    void *map;
    size_t size;
    struct retired_mapping *next;
};

struct files {
    struct file *bucket[FILE_BUCKETS];
    struct retired_mapping *retired;
    struct file *root;
    uint64_t tick;    // CLOCK_REALTIME_COARSE in nanoseconds, read once per batch of requests
    bool syncing;     // the directory is on a real file system: stable means fdatasync
    sigjmp_buf fault; // where a fault inside a mapping goes
    volatile sig_atomic_t fault_expected;
};
extern struct files files;

void files_tick(void);
struct file *file_find(dev_t dev, ino_t ino);

// To be called when no reply is waiting to be sent.
void mappings_release(void);

// Takes the attributes from the kernel.  0, or -ESTALE when the file has no name any more; it is
// forgotten then and must not be used.
int file_refresh(struct file *f);

// The same, unless it was done within this tick.
int file_refresh_if_old(struct file *f);

// Makes the file behind fd known, or finds that it is known already.  Takes fd over.
int file_adopt(int fd, bool writable, struct file **found);

// Opens whatever is at name without following a link and without waking a device.
int file_open_any(int dir_fd, const char *name, bool *writable);

// The file called name in a directory whose attributes are fresh; ".." of the root is the root.
int file_lookup(struct file *dir, const char *name, struct file **found);

// Makes sure that the mapping reaches `end`.
int file_map(struct file *f, uint64_t end);
void files_catch_faults(void);
bool mapping_store(unsigned char *to, const unsigned char *from, size_t length);

// Writes at offset; within the file by memory copy.  The time stamps move as the kernel would move
// them.  Bytes written, or -errno; after -ESTALE the file must not be used.
ssize_t file_write(struct file *f, const unsigned char *data, size_t length, uint64_t offset);
int file_sync(const struct file *f);

// Forgets the files that lost their last name, so that their space comes back.
void files_sweep(void);
void files_forget_all(void);

#endif
