/*
 * io_uring behind the exported functions of liburing.
 *
 * The application's ring stays the kernel's own. Its inline functions fill SQEs in memory that the
 * kernel shares; nothing leaves before io_uring_submit() and its relatives, which are wrapped: they
 * take the SQEs of managed descriptors out of the queue (what was not yet flushed may be rearranged
 * freely) and give them to src/file. The results come back into the application's own completion
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
#ifndef PRELOAD_URING_H
#define PRELOAD_URING_H

#include <linux/io_uring.h>
#include <linux/time_types.h>

#include "preload/request.h"

/*
 * liburing's struct io_uring as far as its inline functions have fixed it: the same from 2.0 on.
 * ring_mask and ring_entries as values came with 2.2; the pointers are always valid.
 */
struct preload_uring_sq {
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

struct preload_uring_cq {
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
    struct preload_uring_sq sq;
    struct preload_uring_cq cq;
    unsigned flags; /* IORING_SETUP_* */
    int ring_fd;
};

/* Setup flags that change how the queues work, and are newer than <linux/io_uring.h> may be. */
#define PRELOAD_URING_REGISTERED_FD_ONLY (1U << 15)
#define PRELOAD_URING_CQE_MIXED          (1U << 18)

/* ---- posting (uring_post.c) ---- */

enum { PRELOAD_URING_POSTS = 64 }; /* a power of two */

/*
 * The ring of ours from which CQEs are posted into one ring of the application. Owned by that
 * ring's record, whose lock guards it; made at the first managed request, once in each process.
 */
struct preload_uring_post {
    bool opened;
    int fd;     /* our ring */
    int target; /* a descriptor of ours for the application's ring, which may close its own */
    void *memory, *sqes;
    size_t memory_size, sqes_size;
    unsigned *sq_tail, *cq_head, *cq_tail;
    struct io_uring_cqe *cqes;
    unsigned cq_mask;
    unsigned queued;         /* in the submission queue, not yet given to the kernel */
    unsigned tail;           /* ours of *sq_tail */
    _Atomic unsigned posted; /* in all: counts as the tail of a completion queue does */
    uint64_t user_data[PRELOAD_URING_POSTS];
    int32_t results[PRELOAD_URING_POSTS];
};

/* 0 or -errno. */
int preload_uring_post_open(struct preload_uring_post *post, int ring_fd);
void preload_uring_post_close(struct preload_uring_post *post);
/* Queues a CQE; sends all when the queue is full. */
void preload_uring_post_add(struct preload_uring_post *post, uint64_t user_data, int32_t result);
/* In one system call. Never fails: what the kernel refuses for want of memory is tried again. */
void preload_uring_post_send(struct preload_uring_post *post);
/* Has the kernel IORING_OP_MSG_RING? Asks it through any ring. */
bool preload_uring_post_possible(int ring_fd);

/* ---- rings (uring_ring.c) ---- */

/* A registered file: slot of the ring's table. */
struct preload_uring_slot {
    struct file_open *open; /* NULL: not managed; else with a reference */
    int fd;                 /* its number when it was registered */
};

/* A read or write in flight. */
struct preload_uring_request {
    struct preload_request request; /* first */
    struct preload_uring *record;
    uint64_t dispatch; /* the call of preload_uring_dispatch() that submitted it */
    struct io_uring_sqe sqe;
};

/*
 * What is known of a ring of the application. Found by the address of its memory, so that the
 * application may move its struct io_uring. Never freed, used again. `lock` guards post, pool, and
 * the slots; it is held briefly, but for the system call that posts.
 */
struct preload_uring {
    struct preload_uring *next; /* constant once linked */
    _Atomic(unsigned *) key;    /* sq.khead; NULL: not in use */
    struct io_uring made;       /* as it was when first seen: for rings known by number only */
    pthread_mutex_t lock;
    struct preload_uring_post post;
    struct preload_pool pool;
    struct preload_uring_slot *slots;
    unsigned slot_count;
    _Atomic bool has_slots;
    _Atomic bool disabled;    /* IORING_SETUP_R_DISABLED, and not enabled yet */
    _Atomic bool eventfd;     /* completions are announced */
    _Atomic bool opened;      /* lane and post are ready */
    _Atomic unsigned passed;  /* SQEs that the kernel took */
    _Atomic unsigned base;    /* tail of the completion queue when first seen by this process */
    _Atomic bool inherited;   /* by fork, and nothing was submitted by this process yet */
    _Atomic unsigned waiters; /* threads that wait in the kernel */
    _Atomic unsigned visits;  /* times that a thread drove the lane */
    _Atomic unsigned drivers; /* threads that drive it now */
    unsigned visits_seen;     /* by the watcher, with requests in flight */
    bool in_flight_seen;      /* by the watcher */
    struct file_lane *_Atomic lane; /* while opened */
};

/* The ring of this thread's io_uring call, while it drives: completions of it are then posted
 * together, by this thread. */
extern __thread struct preload_uring *preload_uring_driving;

/* NULL: not known. No lock. */
struct preload_uring *preload_uring_find(const struct io_uring *ring);
struct preload_uring *preload_uring_find_fd(int ring_fd);
/* Finds or makes; NULL: no memory. */
struct preload_uring *preload_uring_get(const struct io_uring *ring);
/* Waits for the requests in flight, then forgets the ring. */
void preload_uring_end(const struct io_uring *ring);
/* Makes lane and post ready. False: they cannot be, the reason was said on the log. */
bool preload_uring_open(struct preload_uring *record, int ring_fd);

static inline unsigned preload_uring_in_flight(struct preload_uring *record)
{
    return record && atomic_load(&record->opened) ? file_lane_in_flight(record->lane) : 0;
}

static inline unsigned preload_uring_ready(const struct io_uring *ring)
{
    return __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE) - *ring->cq.khead;
}

/* Before a submission: what processes before this one submitted to the ring is not counted. */
void preload_uring_count_anew(struct preload_uring *record, const struct io_uring *ring);
/* True if the kernel has nothing of this ring in flight, as far as can be counted. */
bool preload_uring_kernel_idle(struct preload_uring *record, const struct io_uring *ring);

/* Around fork(): the child keeps the rings, not what is in flight. */
void preload_uring_fork_prepare(void);
void preload_uring_fork_parent(void);
void preload_uring_fork_child(void);

/* What came of waiting. */
enum preload_uring_wait {
    PRELOAD_URING_READY,  /* as many CQEs as were asked for */
    PRELOAD_URING_KERNEL, /* wait in the kernel: whatever is in flight will be posted there */
    PRELOAD_URING_LATE,
    PRELOAD_URING_SIGNAL
};

/* Drives the ring's lane until `count` CQEs are ready, when nobody else can complete anything.
 * Outside of a critical section. */
enum preload_uring_wait preload_uring_wait(struct preload_uring *record,
                                           const struct io_uring *ring, unsigned count,
                                           uint64_t deadline_ns);
/* Does what has arrived: before a look into the completion queue. */
void preload_uring_poll(struct preload_uring *record, const struct io_uring *ring);
/* Attendants complete what is in flight now, and what is submitted later. */
void preload_uring_attend(struct preload_uring *record);
/* Around a call that may block in the kernel until completions come. */
void preload_uring_block_begin(struct preload_uring *record);
void preload_uring_block_end(struct preload_uring *record);

/* ---- submission (uring_submit.c) ---- */

/* Takes the requests of managed descriptors out of the queue and starts them. Returns how many
 * SQEs are done with; the others are the kernel's. Outside of a critical section. */
unsigned preload_uring_dispatch(struct preload_uring *record, struct io_uring *ring);
/* For SQEs that were flushed without a call of ours: their files are handed to the kernel. */
void preload_uring_hand_over(struct preload_uring *record);

/* ---- registered files (uring_files.c) ---- */

/* After the kernel registered a table of `count` files (NULL: all empty). */
void preload_uring_files_made(struct preload_uring *record, const int *files, unsigned count);
void preload_uring_files_updated(struct preload_uring *record, unsigned offset, const int *files,
                                 unsigned count);
void preload_uring_files_gone(struct preload_uring *record);
/* The file of a slot, with a reference; NULL: not managed. */
struct file_open *preload_uring_files_get(struct preload_uring *record, unsigned slot, int *fd);
bool preload_uring_files_managed(struct preload_uring *record, unsigned slot);
/* In the child of fork(). */
void preload_uring_files_child(struct preload_uring *record);

/* ---- who looks after requests that nobody waits for (uring_watch.c) ---- */

/* After a submission to a lane that is not attended. */
void preload_uring_watch(void);
/* Calls visit() for every ring in use. */
void preload_uring_each(void (*visit)(struct preload_uring *record, void *context), void *context);
void preload_uring_watch_child(void);

/* ---- raw system calls (uring_register.c): results or -errno ---- */

long preload_uring_setup(unsigned entries, void *parameters);
long preload_uring_enter(int fd, unsigned submit, unsigned complete, unsigned flags,
                         const void *argument, size_t size);
long preload_uring_register(int fd, unsigned operation, const void *argument, unsigned count);

/* Is this an address in liburing, whose functions call one another? */
bool preload_uring_by_liburing(const void *return_address);
/* Says on the log which liburing is in use; once. */
void preload_uring_say_version(void);

#endif
