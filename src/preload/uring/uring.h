/*
 * io_uring behind the exported functions of liburing.
 *
 * The application's ring stays the kernel's own. Its inline functions fill SQEs in memory that the
 * kernel shares; nothing leaves before io_uring_submit() and its relatives, which are wrapped: they
 * take the SQEs of managed descriptors out of the queue (what was not yet flushed may be rearranged
 * freely) and give them to the engine. The results come back into the application's own completion
 * queue by IORING_OP_MSG_RING (Linux 5.18) from a small ring of ours: 0.28 us for one CQE, 0.12 us
 * each in a batch, measured on Linux 6.18. So user_data, order of arrival, overflow, eventfd, epoll
 * on the ring, waiting for both worlds at once, and rings shared with other processes are what the
 * kernel makes them, and everything that is not file I/O of ours is untouched. The other way, rings
 * in plain memory that only look like the kernel's, saves that system call and loses all this.
 *
 * Seen are: liburing 2.0 and newer as a shared library. Not seen, and therefore refused by ENOSYS
 * when asked for through syscall(), are rings made by io_uring_setup() itself; a program that makes
 * the system call inline, or has liburing linked in statically, is the kernel's.
 */
#ifndef URING_H
#define URING_H

#include <linux/io_uring.h>
#include <linux/time_types.h>

#include "preload/request.h"

/*
 * liburing's struct io_uring as far as its inline functions have fixed it: the same from 2.0 on.
 * ring_mask and ring_entries as values came with 2.2; the pointers are always valid.
 */
struct uring_sq {
    unsigned *khead;
    unsigned *ktail;
    unsigned *kring_mask;
    unsigned *kring_entries;
    unsigned *kflags;
    unsigned *kdropped;
    unsigned *array;
    struct io_uring_sqe *sqes;
    unsigned sqe_head; /* flushed up to here: below it the kernel may look */
    unsigned sqe_tail; /* filled up to here */
    size_t ring_size;
    void *ring_memory;
    unsigned reserved[4];
};

struct uring_cq {
    unsigned *khead;
    unsigned *ktail;
    unsigned *kring_mask;
    unsigned *kring_entries;
    unsigned *kflags;
    unsigned *koverflow;
    struct io_uring_cqe *cqes;
    size_t ring_size;
    void *ring_memory;
    unsigned reserved[4];
};

struct io_uring {
    struct uring_sq sq;
    struct uring_cq cq;
    unsigned flags; /* IORING_SETUP_* */
    int ring_fd;
};

/* Setup flags that change how the queues work, and are newer than <linux/io_uring.h> may be. */
#define URING_REGISTERED_FD_ONLY (1U << 15)
#define URING_CQE_MIXED          (1U << 18)

/* ---- posting (post.c) ---- */

enum { URING_POSTS = 64 }; /* a power of two */

/*
 * The ring of ours from which CQEs are posted into one ring of the application. Owned by that
 * ring's record, whose lock guards it; made at the first managed request, once in each process.
 */
struct uring_post {
    bool opened;
    int fd;     /* our ring */
    int target; /* a descriptor of ours for the application's ring, which may close its own */
    void *memory;
    struct io_uring_sqe *sqes;
    size_t memory_size, sqes_size;
    unsigned *sq_tail, *cq_head, *cq_tail;
    struct io_uring_cqe *cqes;
    unsigned cq_mask;
    unsigned queued;         /* in the submission queue, not yet given to the kernel */
    unsigned tail;           /* ours of *sq_tail */
    _Atomic unsigned posted; /* in all: counts as the tail of a completion queue does */
};

/* 0 or -errno. */
int uring_post_open(struct uring_post *post, int ring_fd);
void uring_post_close(struct uring_post *post);
/* Queues a CQE; sends all when the queue is full. */
void uring_post_add(struct uring_post *post, uint64_t user_data, int32_t result);
/* In one system call. Never fails: what the kernel refuses for want of memory is tried again. */
void uring_post_send(struct uring_post *post);
/* Has the kernel IORING_OP_MSG_RING? Asks it through any ring. */
bool uring_post_possible(int ring_fd);

/* ---- rings (ring.c) ---- */

/* A registered file: slot of the ring's table. */
struct uring_slot {
    struct file_open *open; /* NULL: not managed; else with a reference */
    int fd;                 /* its number when it was registered */
    bool lost;              /* of the parent, which had closed it: not served, nor the kernel's */
};

/* A read or write in flight. */
struct uring_request {
    struct preload_request request; /* first */
    struct uring *record;
    uint64_t dispatch; /* the call of uring_dispatch() that submitted it */
    struct io_uring_sqe sqe;
};

/*
 * What is known of a ring of the application. Found by the address of its memory, so that the
 * application may move its struct io_uring. Never freed, used again. `lock` guards post, pool, and
 * the slots; it is held briefly, but for the system call that posts.
 */
struct uring {
    struct uring *next;      /* constant once linked */
    _Atomic(unsigned *) key; /* sq.khead; NULL: not in use */
    struct io_uring made;    /* as it was when first seen: for rings known by number only */
    pthread_mutex_t lock;
    struct uring_post post;
    struct preload_pool pool;
    struct uring_slot *slots;
    unsigned slot_count;
    _Atomic bool has_slots;
    _Atomic bool disabled;      /* IORING_SETUP_R_DISABLED, and not enabled yet */
    _Atomic bool eventfd;       /* completions are announced */
    _Atomic bool barrier;       /* the kernel was given a request with IOSQE_IO_DRAIN */
    _Atomic bool undrainable;   /* and one with IOSQE_CQE_SKIP_SUCCESS: it refuses the former */
    _Atomic unsigned passed_by; /* completions of the kernel's by which the barrier is passed */
    _Atomic bool opened;        /* lane and post are ready */
    _Atomic unsigned passed;    /* SQEs that the kernel took */
    _Atomic unsigned base;      /* tail of the completion queue when first seen by this process */
    _Atomic bool inherited;     /* by fork, and nothing was submitted by this process yet */
    _Atomic unsigned waiters;   /* threads that wait in the kernel */
    _Atomic unsigned visits;    /* times that a thread drove the lane */
    _Atomic unsigned drivers;   /* threads that drive it now */
    unsigned visits_seen;       /* by the watcher, with requests in flight */
    bool in_flight_seen;        /* by the watcher */
    struct async_lane *_Atomic lane; /* while opened */
};

/* The ring of this thread's io_uring call, while it drives: completions of it are then posted
 * together, by this thread. */
extern __thread struct uring *uring_driving;

/* NULL: not known. No lock. */
struct uring *uring_find(const struct io_uring *ring);
struct uring *uring_find_fd(int ring_fd);
/* Finds or makes; NULL: no memory. */
struct uring *uring_get(const struct io_uring *ring);
/* Waits for the requests in flight, then forgets the ring. */
void uring_end(const struct io_uring *ring);
/* Makes lane and post ready. False: they cannot be, the reason was said on the log. */
bool uring_open(struct uring *record, int ring_fd);

static inline unsigned uring_in_flight(struct uring *record)
{
    return record && atomic_load(&record->opened) ? async_lane_in_flight(record->lane) : 0;
}

static inline unsigned uring_ready(const struct io_uring *ring)
{
    return __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE) - *ring->cq.khead;
}

/* Before a submission: what processes before this one submitted to the ring is not counted. */
void uring_count_anew(struct uring *record, const struct io_uring *ring);
/* True if the kernel has nothing of this ring in flight, as far as can be counted. */
bool uring_kernel_idle(struct uring *record, const struct io_uring *ring);
/* By how many completions of the kernel's a request with IOSQE_IO_DRAIN is over that it gets after
 * `before` others of a submission; and are there as many? */
unsigned uring_barrier_after(struct uring *record, const struct io_uring *ring, unsigned before);
bool uring_barrier_passed(struct uring *record, const struct io_uring *ring);

/* Around fork(): the child keeps the rings, not what is in flight. */
void uring_fork_prepare(void);
void uring_fork_parent(void);
void uring_fork_child(void);

/* What came of waiting. */
enum uring_wait {
    URING_READY,  /* as many CQEs as were asked for, or the time is over */
    URING_KERNEL, /* wait in the kernel: whatever is in flight will be posted there */
    URING_SIGNAL  /* a handler ran */
};

/* Drives the ring's lane until `count` CQEs are ready, when nobody else can complete anything.
 * Outside of a critical section. */
enum uring_wait uring_wait(struct uring *record, const struct io_uring *ring, unsigned count,
                           uint64_t deadline_ns);
/* Does what has arrived: before a look into the completion queue. */
void uring_poll(struct uring *record, const struct io_uring *ring);
/* Around a call that may block in the kernel until completions come. Attendants complete what is in
 * flight now, and what is submitted later. */
void uring_block_begin(struct uring *record);
void uring_block_end(struct uring *record);

/* ---- submission (submit.c) ---- */

/* Takes the requests of managed descriptors out of the queue and starts them. Returns how many
 * SQEs are done with; the others are the kernel's. Outside of a critical section. */
unsigned uring_dispatch(struct uring *record, struct io_uring *ring);
/* For SQEs that were flushed without a call of ours: their files are handed to the kernel. */
void uring_hand_over(struct uring *record);

/* ---- what SQEs mean, and carrying one out at once (now.c) ---- */

enum uring_kind {
    URING_PASS,     /* names no file that could be ours, or does nothing to its data */
    URING_TRANSFER, /* reads and writes */
    URING_AT_ONCE,  /* fsync and what else the engine does before it returns */
    URING_COPY,     /* splice, tee */
    URING_NAME,     /* openat, statx: a path that may be below a mount */
    URING_TABLE,    /* changes the table of registered files */
    URING_OTHER     /* of a managed file: the kernel's */
};

enum uring_kind uring_kind(const struct io_uring_sqe *sqe);
bool uring_is_write(unsigned opcode);

/* Copies what an SQE says of its memory, which the application may use again after
 * io_uring_submit(). 0 or -errno. */
int uring_memory(struct preload_request *request, const struct io_uring_sqe *sqe);

/* Is the source of a splice or tee managed? */
bool uring_source_managed(struct uring *record, const struct io_uring_sqe *sqe);

/*
 * The kernel is about to open a file by its name, or to look at it. One below a mount that it is to
 * open is moved to it before, as nobody adopts what it opens there. False: that cannot be, or it
 * would tell an old size.
 */
bool uring_name_to_kernel(const struct io_uring_sqe *sqe);

/* The kernel is about to change slots of the table. False: it must not, as a file that it would
 * have then stays the engine's. */
bool uring_table_changes(struct uring *record, const struct io_uring_sqe *sqe);

/*
 * Carries an SQE out. `open`: its file, NULL for paths. Returns what its CQE shall hold, or
 * FILE_KERNEL. *complete is set to false if a transfer was short.
 */
ssize_t uring_now(const struct io_uring_sqe *sqe, struct file_open *open, int fd, bool *complete);

/* ---- registered files (files.c) ---- */

/* After the kernel registered a table of `count` files (NULL: all empty), and so on; of a ring that
 * is NULL they do nothing. */
void uring_files_made(struct uring *record, const int *files, unsigned count);
void uring_files_updated(struct uring *record, unsigned offset, const int *files, unsigned count);
void uring_files_gone(struct uring *record);
/* The file of a slot, with a reference; NULL: not managed. */
struct file_open *uring_files_get(struct uring *record, unsigned slot, int *fd);
bool uring_files_managed(struct uring *record, unsigned slot);
/* In the child of fork(). */
void uring_files_child(struct uring *record);

/* ---- who looks after requests that nobody waits for (watch.c) ---- */

/* After a submission to a ring whose lane is not attended. */
void uring_watch(struct uring *record);
/* Calls visit() for every ring in use. */
void uring_each(void (*visit)(struct uring *record, void *context), void *context);
void uring_watch_child(void);

/* ---- raw system calls (register.c): results or -errno ---- */

long uring_setup(unsigned entries, void *parameters);
long uring_enter(int fd, unsigned submit, unsigned complete, unsigned flags, const void *argument,
                 size_t size);
long uring_register(int fd, unsigned operation, const void *argument, unsigned count);

/* Is this an address in liburing, whose functions call one another? */
bool uring_by_liburing(const void *return_address);

/*
 * The real function, for a wrapper only. Where no liburing is loaded that comes after us the caller
 * is in a library that was loaded by dlopen() and brings liburing itself. Then it is that library's
 * own, and nothing of it is served: see preload/raw.c. Or, where files of such programs are served,
 * one that refuses: -ENOSYS.
 */
#define URING_REAL(name)                           \
    ((__typeof__(&name))uring_real(PRELOAD_##name, \
                                   __builtin_extract_return_addr(__builtin_return_address(0))))
void *uring_real(enum preload_symbol symbol, const void *caller);
/* Is there a liburing whose rings are served? */
bool uring_is_there(void);
/* May the program have a ring that is not served? False, after a line on the log: it may not. */
bool uring_may_pass(void);
/* Says on the log which liburing is in use; once. */
void uring_say_version(void);

#endif
