/* See replies.h. */
#include "replies.h"

#define PAYLOAD_MOST (4u << 20) // of a batch
struct batches batches;

bool replies_full(const struct replies *r)
{
    const struct batch *b = r->last;
    return b && (b->output_used + REPLY_MOST > OUTPUT_BYTES || b->vectors + 3 > VECTORS ||
                 b->payload > PAYLOAD_MOST);
}

struct batch *replies_batch(struct replies *r, uint64_t due)
{
    if (r->last && r->last->due == due && !r->last->copy && !replies_full(r))
        return r->last;
    struct batch *b = batches.unused;
    if (b)
        batches.unused = b->next;
    else if (!(b = malloc(sizeof *b)))
        return NULL;
    b->next = NULL;
    b->due = due;
    b->copy = NULL;
    b->output_used = b->payload = 0;
    b->vectors = b->sent = 0;
    *(r->last ? &r->last->next : &r->first) = b;
    r->last = b;
    batches.waiting++;
    return b;
}

void batch_append(struct batch *b, const void *data, size_t length)
{
    struct iovec *last = b->vectors > b->sent ? &b->vector[b->vectors - 1] : NULL;
    if (last && (const char *)last->iov_base + last->iov_len == (const char *)data)
        last->iov_len += length;
    else
        b->vector[b->vectors++] = (struct iovec){(void *)(uintptr_t)data, length};
}

static void replies_drop_first(struct replies *r)
{
    struct batch *b = r->first;
    r->first = b->next;
    if (!r->first)
        r->last = NULL;
    free(b->copy);
    b->next = batches.unused;
    batches.unused = b;
    batches.waiting--;
}

// 1 all sent, 0 the socket is full, -1 the connection is lost.
static int batch_send(struct batch *b, int fd)
{
    while (b->sent < b->vectors) {
        struct msghdr message = {.msg_iov = b->vector + b->sent,
                                 .msg_iovlen = (size_t)(b->vectors - b->sent)};
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0
                                   : -1; // EFAULT too: the file was cut under a promised payload
        size_t left = (size_t)n;
        while (b->sent < b->vectors && left >= b->vector[b->sent].iov_len)
            left -= b->vector[b->sent++].iov_len;
        if (left) {
            b->vector[b->sent].iov_base = (char *)b->vector[b->sent].iov_base + left;
            b->vector[b->sent].iov_len -= left;
        }
    }
    return 1;
}

int replies_send(struct replies *r, int fd, uint64_t now)
{
    int sent = 1;
    while (r->first && r->first->due <= now && (sent = batch_send(r->first, fd)) > 0)
        replies_drop_first(r);
    return sent;
}

void replies_keep(struct replies *r)
{
    for (struct batch *b = r->first; b; b = b->next) {
        size_t length = 0, at = 0;
        bool good = b->payload && !b->copy;
        for (int i = b->sent; i < b->vectors; i++)
            length += b->vector[i].iov_len;
        unsigned char *copy = good ? malloc(length) : NULL;
        for (int i = b->sent; copy && good && i < b->vectors; at += b->vector[i++].iov_len)
            good = mapping_store(copy + at, b->vector[i].iov_base, b->vector[i].iov_len);
        if (!copy || !good) {
            free(copy);
            continue;
        }
        b->copy = copy;
        b->sent = 0;
        b->vectors = 1;
        b->vector[0] = (struct iovec){copy, length};
    }
}

void replies_drop_all(struct replies *r)
{
    while (r->first)
        replies_drop_first(r);
}
