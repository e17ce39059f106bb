/*
 * io_uring behind the exported functions of liburing.
 *
 * The application's ring stays the kernel's own. liburing's inline functions fill SQEs in memory
 * that the kernel shares. Nothing leaves before io_uring_submit() and its relatives, and these are
 * wrapped. They take the SQEs of managed descriptors out of the queue and give them to the engine:
 * what was not flushed yet may be rearranged freely.
 *
 * The results come back into the application's own completion queue. A small ring of ours posts
 * them by IORING_OP_MSG_RING (Linux 5.18). That takes 0.28 us for one CQE and 0.12 us each in a
 * batch, measured on Linux 6.18. So the kernel still makes user_data, order of arrival, overflow,
 * eventfd, epoll on the ring, waiting for both worlds, and rings shared with other processes. All
 * that is not file I/O of ours is untouched. Rings in plain memory that only look like the kernel's
 * would save that system call, and lose all this.
 *
 * Served are rings made by liburing 2.0 or newer as a shared library. A ring that io_uring_setup()
 * makes is not seen; if it is asked for through syscall(), the answer is ENOSYS. A program that
 * makes the system call inline, or has liburing linked in statically, is the kernel's.
 */
#ifndef URING_H
#define URING_H

#include <linux/io_uring.h>
#include <linux/time_types.h>

#include "preload/request.h"

/*
 * The part of liburing's struct io_uring that its inline functions have fixed, since 2.0. Version
 * 2.2 added ring_mask and ring_entries as values; the pointers are always valid.
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
    unsigned sqe_head; /* flushed up to here: the kernel may look below it */
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

/* Setup flags that change how the queues work. <linux/io_uring.h> may be older than they are. */
#define URING_REGISTERED_FD_ONLY (1U << 15)
#define URING_CQE_MIXED          (1U << 18)

/* ---- posting (post.c) ---- */

enum { URING_POSTS = 64 }; /* a power of two */

/*
 * Our ring that posts CQEs into one ring of the application. It belongs to that ring's record, and
 * the record's lock guards it. Each process makes it once, at the first managed request.
 */
struct uring_post {
    bool opened;
    int fd;     /* our ring */
    int target; /* our descriptor for the application's ring; the application may close its own */
    void *memory;
    struct io_uring_sqe *sqes;
    size_t memory_size, sqes_size;
    unsigned *sq_tail, *cq_head, *cq_tail;
    struct io_uring_cqe *cqes;
    unsigned cq_mask;
    unsigned queued;         /* in the submission queue, not given to the kernel yet */
    unsigned tail;           /* our copy of *sq_tail */
    _Atomic unsigned posted; /* in all; it wraps around as a completion queue's tail does */
};

/* open: 0 or -errno. */
int uring_post_open(struct uring_post *post, int ring_fd);
void uring_post_close(struct uring_post *post);
/* Queues a CQE. If the queue is full, sends all first. */
void uring_post_add(struct uring_post *post, uint64_t user_data, int32_t result);
/* Sends all queued CQEs in one system call. Repeats what the kernel refuses for want of memory.
 * Never fails. */
void uring_post_send(struct uring_post *post);
/* True if the kernel has IORING_OP_MSG_RING; any ring serves to ask. */
bool uring_post_possible(int ring_fd);

/* ---- rings (ring.c) ---- */

/* A registered file: a slot of the ring's table. */
struct uring_slot {
    struct file_open *open; /* with a reference; NULL: not managed */
    int fd;                 /* its descriptor at the time of registration */
    bool lost; /* inherited, but the parent had closed it: neither we nor the kernel serve it */
};

/* A read or write in flight. */
struct uring_request {
    struct preload_request request; /* first */
    struct uring *record;
    uint64_t dispatch; /* the call of uring_dispatch() that submitted it */
    struct io_uring_sqe sqe;
};

/*
 * What is known of a ring of the application. It is found by the address of the ring's memory, as
 * the application may move its struct io_uring. It is never freed, but used again. `lock` guards
 * post, pool, and slots; it is held briefly, but for the system call that posts.
 */
struct uring {
    struct uring *next;      /* constant once linked */
    _Atomic(unsigned *) key; /* sq.khead; NULL: not in use */
    struct io_uring made; /* a copy from when it was first seen; for rings known only by number */
    pthread_mutex_t lock;
    struct uring_post post;
    struct preload_pool pool;
    struct uring_slot *slots;
    unsigned slot_count;
    _Atomic bool has_slots;
    _Atomic bool disabled;      /* made with IORING_SETUP_R_DISABLED, and not enabled yet */
    _Atomic bool eventfd;       /* an eventfd announces completions */
    _Atomic bool barrier;       /* the kernel got a request with IOSQE_IO_DRAIN */
    _Atomic bool undrainable;   /* and one with IOSQE_CQE_SKIP_SUCCESS: it refuses the former */
    _Atomic unsigned passed_by; /* when the kernel has completed this many, the barrier is passed */
    _Atomic bool opened;        /* lane and post are ready */
    _Atomic unsigned passed;    /* SQEs that the kernel took */
    _Atomic unsigned base;      /* tail of the completion queue when this process first saw it */
    _Atomic bool inherited;   /* inherited by fork(), and this process has submitted nothing yet */
    _Atomic unsigned waiters; /* threads that wait in the kernel */
    _Atomic unsigned visits;  /* times that a thread drove the lane */
    _Atomic unsigned drivers; /* threads that drive it now */
    unsigned visits_seen;     /* `visits` when the watcher saw requests in flight */
    bool in_flight_seen;      /* the watcher saw requests in flight */
    struct async_lane *_Atomic lane; /* while opened */
};

/* The ring that this thread drives now, or submits to. This thread posts its completions
 * together. */
extern __thread struct uring *uring_driving;

/* NULL: not known. They take no lock. */
struct uring *uring_find(const struct io_uring *ring);
struct uring *uring_find_fd(int ring_fd);
/* Finds the record or makes it. NULL: no memory. */
struct uring *uring_get(const struct io_uring *ring);
/* Waits for the requests in flight, then forgets the ring. */
void uring_end(const struct io_uring *ring);
/* Makes lane and post ready. False: that failed, and the log has the reason. */
bool uring_open(struct uring *record, int ring_fd);

static inline unsigned uring_in_flight(struct uring *record)
{
    return record && atomic_load(&record->opened) ? async_lane_in_flight(record->lane) : 0;
}

static inline unsigned uring_ready(const struct io_uring *ring)
{
    return __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE) - *ring->cq.khead;
}

/* Before a submission. Ignores what other processes submitted before this process used the ring. */
void uring_count_anew(struct uring *record, const struct io_uring *ring);
/* True if the kernel has nothing of this ring in flight, as far as can be counted. */
bool uring_kernel_idle(struct uring *record, const struct io_uring *ring);
/* uring_barrier_after() is for a request with IOSQE_IO_DRAIN that the kernel gets after `before`
 * others of a submission. It returns how many completions of the kernel end that request.
 * uring_barrier_passed() is true when there are as many. */
unsigned uring_barrier_after(struct uring *record, const struct io_uring *ring, unsigned before);
bool uring_barrier_passed(struct uring *record, const struct io_uring *ring);

/* Around fork(). The child keeps the rings, but not what is in flight. */
void uring_fork_prepare(void);
void uring_fork_parent(void);
void uring_fork_child(void);

/* The result of waiting. */
enum uring_wait {
    URING_READY,  /* as many CQEs are ready as were asked for, or the time is over */
    URING_KERNEL, /* wait in the kernel: whatever is in flight will be posted there */
    URING_SIGNAL  /* a handler ran */
};

/* If nobody else can complete anything, drives the ring's lane until `count` CQEs are ready. Call
 * it outside of critical sections. */
enum uring_wait uring_wait(struct uring *record, const struct io_uring *ring, unsigned count,
                           uint64_t deadline_ns);
/* Before a look into the completion queue: receives what has arrived. */
void uring_poll(struct uring *record, const struct io_uring *ring);
/* Around a call that may block in the kernel until completions come. Attendants complete what is in
 * flight now, and what is submitted later. */
void uring_block_begin(struct uring *record);
void uring_block_end(struct uring *record);

/* ---- submission (submit.c) ---- */

/* Takes the requests of managed descriptors out of the queue and starts them. Returns the number of
 * SQEs that it took; all others are the kernel's. Call it outside of critical sections. */
unsigned uring_dispatch(struct uring *record, struct io_uring *ring);
/* For SQEs that were flushed without a call of ours: demotes their files. */
void uring_hand_over(struct uring *record);

/* ---- what SQEs mean, and carrying one out at once (now.c) ---- */

enum uring_kind {
    URING_PASS,     /* names no file that could be ours, or does nothing to its data */
    URING_TRANSFER, /* reads and writes */
    URING_AT_ONCE,  /* fsync and others: the engine does them before it returns */
    URING_COPY,     /* splice, tee */
    URING_NAME,     /* openat, statx: a path that may be below a mount */
    URING_TABLE,    /* changes the table of registered files */
    URING_OTHER     /* on a managed file: only the kernel can do it */
};

enum uring_kind uring_kind(const struct io_uring_sqe *sqe);
bool uring_is_write(unsigned opcode);

/* Copies what an SQE says about its memory. The application may use the SQE again after
 * io_uring_submit(). 0 or -errno. */
int uring_memory(struct preload_request *request, const struct io_uring_sqe *sqe);

/* True if the source of a splice or tee is managed. */
bool uring_source_managed(struct uring *record, const struct io_uring_sqe *sqe);

/*
 * Before the kernel opens a file by its name, or looks at it. If it opens one below a mount, the
 * file is demoted first, as nobody adopts a file that the kernel opens there. False: that failed,
 * or the kernel would tell an old size.
 */
bool uring_name_to_kernel(const struct io_uring_sqe *sqe);

/* Before the kernel changes slots of the table. False: it must not, as a file in it would stay the
 * engine's. */
bool uring_table_changes(struct uring *record, const struct io_uring_sqe *sqe);

/*
 * Carries an SQE out. `open`: its file; NULL for paths. Returns the result for its CQE, or
 * FILE_KERNEL. Sets *complete to false if a transfer was short.
 */
ssize_t uring_now(const struct io_uring_sqe *sqe, struct file_open *open, int fd, bool *complete);

/* ---- registered files (files.c) ---- */

/* After the kernel registered, updated or removed a table of `count` files. `files` NULL: all slots
 * are empty. `record` NULL: these functions do nothing. */
void uring_files_made(struct uring *record, const int *files, unsigned count);
void uring_files_updated(struct uring *record, unsigned offset, const int *files, unsigned count);
void uring_files_gone(struct uring *record);
/* The file of a slot, with a reference. NULL: not managed. */
struct file_open *uring_files_get(struct uring *record, unsigned slot, int *fd);
bool uring_files_managed(struct uring *record, unsigned slot);
/* In the child of fork(). */
void uring_files_child(struct uring *record);

/* ---- care for requests that nobody waits for (watch.c) ---- */

/* After a submission to a ring without attendants. */
void uring_watch(struct uring *record);
/* Calls visit() for every ring in use. */
void uring_each(void (*visit)(struct uring *record, void *context), void *context);
void uring_watch_child(void);

/* ---- raw system calls (register.c): results or -errno ---- */

long uring_setup(unsigned entries, void *parameters);
long uring_enter(int fd, unsigned submit, unsigned complete, unsigned flags, const void *argument,
                 size_t size);
long uring_register(int fd, unsigned operation, const void *argument, unsigned count);

/* True for an address in liburing: its functions call one another. */
bool uring_by_liburing(const void *return_address);

/*
 * The real function; use it in wrappers only. Without a liburing that comes after us, the caller is
 * in a library that dlopen() loaded and that brings its own liburing. Then it is that library's
 * function, and none of its I/O is served: see preload/raw.c. If files of such programs are served,
 * it is a function that returns -ENOSYS.
 */
#define URING_REAL(name)                           \
    ((__typeof__(&name))uring_real(PRELOAD_##name, \
                                   __builtin_extract_return_addr(__builtin_return_address(0))))
void *uring_real(enum preload_symbol symbol, const void *caller);
/* True if there is a liburing that is served. */
bool uring_is_there(void);
/* True if the program may have a ring that is not served. False: it may not; the log has a line. */
bool uring_may_pass(void);
/* Logs once which liburing is in use. */
void uring_say_version(void);

#endif
