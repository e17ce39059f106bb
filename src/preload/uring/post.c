/*
 * Posts CQEs into a ring of the application by IORING_OP_MSG_RING. Its `off` becomes user_data of
 * the CQE there, and its `len` becomes res. On our side success is silent (IOSQE_CQE_SKIP_SUCCESS,
 * Linux 5.17); only failures come back.
 */
#include <string.h>

#include "preload/uring/uring.h"
#include "sys/log.h"

enum { TRIES = 5000 }; /* one each millisecond */

bool uring_post_possible(int ring_fd)
{
    enum { OPERATIONS = IORING_OP_MSG_RING + 1 };
    _Alignas(struct io_uring_probe) char
        memory[sizeof(struct io_uring_probe) + OPERATIONS * sizeof(struct io_uring_probe_op)] = {0};
    struct io_uring_probe *probe = (struct io_uring_probe *)memory;
    return sys_call4(SYS_io_uring_register, ring_fd, IORING_REGISTER_PROBE, probe, OPERATIONS) >=
               0 &&
           probe->last_op >= IORING_OP_MSG_RING &&
           (probe->ops[IORING_OP_MSG_RING].flags & IO_URING_OP_SUPPORTED);
}

static int map_ring(struct uring_post *post, const struct io_uring_params *parameters)
{
    size_t sq_size = parameters->sq_off.array + parameters->sq_entries * sizeof(unsigned);
    size_t cq_size = parameters->cq_off.cqes + parameters->cq_entries * sizeof(struct io_uring_cqe);
    post->memory_size = sq_size > cq_size ? sq_size : cq_size;
    post->sqes_size = parameters->sq_entries * sizeof(struct io_uring_sqe);
    post->memory = sys_mmap(NULL, post->memory_size, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, post->fd, IORING_OFF_SQ_RING);
    if (sys_mmap_failed(post->memory))
        return (int)(long)post->memory;
    post->sqes = sys_mmap(NULL, post->sqes_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                          post->fd, IORING_OFF_SQES);
    if (sys_mmap_failed(post->sqes)) {
        sys_munmap(post->memory, post->memory_size);
        return (int)(long)post->sqes;
    }
    /* A child of fork() makes its own ring. */
    sys_call3(SYS_madvise, post->memory, post->memory_size, MADV_DONTFORK);
    sys_call3(SYS_madvise, post->sqes, post->sqes_size, MADV_DONTFORK);

    char *memory = post->memory;
    unsigned *array = (unsigned *)(memory + parameters->sq_off.array);
    for (unsigned i = 0; i < parameters->sq_entries; i++)
        array[i] = i;
    post->sq_tail = (unsigned *)(memory + parameters->sq_off.tail);
    post->cq_head = (unsigned *)(memory + parameters->cq_off.head);
    post->cq_tail = (unsigned *)(memory + parameters->cq_off.tail);
    post->cq_mask = *(unsigned *)(memory + parameters->cq_off.ring_mask);
    post->cqes = (struct io_uring_cqe *)(memory + parameters->cq_off.cqes);
    return 0;
}

int uring_post_open(struct uring_post *post, int ring_fd)
{
    struct io_uring_params parameters = {0};
    memset(post, 0, sizeof(*post));
    int target = sys_fcntl(ring_fd, F_DUPFD_CLOEXEC, 0);
    if (target < 0)
        return target;
    int fd = (int)sys_call2(SYS_io_uring_setup, URING_POSTS, &parameters);
    if (fd < 0) {
        sys_close(target);
        return fd;
    }
    post->fd = sys_fd_protect(fd);
    post->target = sys_fd_protect(target);
    int result =
        parameters.features & IORING_FEAT_SINGLE_MMAP ? map_ring(post, &parameters) : -ENOSYS;
    if (result < 0) {
        sys_fd_close(post->fd);
        sys_fd_close(post->target);
        return result;
    }
    post->opened = true;
    return 0;
}

void uring_post_close(struct uring_post *post)
{
    if (!post->opened)
        return;
    sys_munmap(post->sqes, post->sqes_size);
    sys_munmap(post->memory, post->memory_size);
    sys_fd_close(post->fd);
    sys_fd_close(post->target);
    memset(post, 0, sizeof(*post));
}

static void queue(struct uring_post *post, uint64_t user_data, int32_t result)
{
    struct io_uring_sqe *sqe = &post->sqes[post->tail & (URING_POSTS - 1)];
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = IORING_OP_MSG_RING;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    sqe->fd = post->target;
    sqe->off = user_data;
    sqe->len = (uint32_t)result;
    sqe->user_data = post->tail;
    post->tail++;
    post->queued++;
}

static void give_to_kernel(struct uring_post *post)
{
    __atomic_store_n(post->sq_tail, post->tail, __ATOMIC_RELEASE);
    for (unsigned tries = 0; post->queued > 0; tries++) {
        long given = sys_call6(SYS_io_uring_enter, post->fd, post->queued, 0, 0, 0, 0);
        if (given > 0) {
            post->queued -= (unsigned)given;
            continue;
        }
        bool passing = given == 0 || given == -EINTR || given == -EAGAIN || given == -EBUSY ||
                       given == -ENOMEM;
        if (!passing || tries == TRIES) {
            log_error("io_uring: %u completions cannot be posted: %s", post->queued,
                      strerrordesc_np((int)-given));
            post->queued = 0;
            return;
        }
        sys_nanosleep_ms(1);
    }
}

/* Reads the failures. Returns how many were queued again. */
static unsigned look_at_failures(struct uring_post *post)
{
    unsigned again = 0;
    unsigned head = *post->cq_head;
    while (head != __atomic_load_n(post->cq_tail, __ATOMIC_ACQUIRE)) {
        struct io_uring_cqe cqe = post->cqes[head++ & post->cq_mask];
        __atomic_store_n(post->cq_head, head, __ATOMIC_RELEASE);
        const struct io_uring_sqe *sqe = &post->sqes[cqe.user_data & (URING_POSTS - 1)];
        bool known = post->tail - (unsigned)cqe.user_data <= URING_POSTS;
        if (known && (cqe.res == -EOVERFLOW || cqe.res == -ENOMEM || cqe.res == -EAGAIN ||
                      cqe.res == -EINTR)) {
            queue(post, sqe->off, (int32_t)sqe->len);
            again++;
        } else {
            log_error("io_uring: a completion could not be posted: %s", strerrordesc_np(-cqe.res));
        }
    }
    return again;
}

void uring_post_send(struct uring_post *post)
{
    if (post->queued == 0)
        return;
    atomic_fetch_add_explicit(&post->posted, post->queued, memory_order_relaxed);
    give_to_kernel(post);
    for (unsigned tries = 0; look_at_failures(post) > 0 && tries < TRIES; tries++) {
        sys_nanosleep_ms(1);
        give_to_kernel(post);
    }
}

void uring_post_add(struct uring_post *post, uint64_t user_data, int32_t result)
{
    if (post->queued == URING_POSTS)
        uring_post_send(post);
    queue(post, user_data, result);
}
