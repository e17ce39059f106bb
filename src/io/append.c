/*
 * Writes to the end of the file: O_APPEND and RWF_APPEND. The registry knows where the end is, and
 * keeps others from writing there: see ledger_append_begin().
 */
#include "io/append.h"
#include "file/flags.h"
#include "file/attributes.h"
#include "file/inode.h"
#include "io/io.h"
#include "file/upper.h"
#include "ledger/append.h"

/* Takes the turn to append. The write that is in the way may be in flight from this thread. */
static int take_turn(struct file_open *open, struct ledger_append *turn)
{
    struct file_inode *inode = open->inode;
    struct ledger_attributes attributes;
    bool wait = false;
    for (;;) {
        int result = ledger_append_begin(&inode->entry, turn, wait);
        if (result == -ENODATA)
            result = file_inode_ask(inode, open->auth, &attributes);
        else if (result == -EAGAIN)
            wait = !file_upper.help(NULL);
        else
            return result == -ENOSPC ? FILE_NO_ROOM : result;
        if (result != 0 && result != -EAGAIN)
            return result;
    }
}

/* Writes at the end; the caller has the turn. */
static ssize_t write_there(struct file_open *open, const struct ledger_append *turn,
                           struct durable_piece *data, enum nfs_stable stable)
{
    if (turn->offset > INT64_MAX - data->length)
        return -EFBIG;
    if (file_size_is_limited()) {
        int64_t room = file_size_room(turn->offset);
        if (room < 0)
            return room;
        if ((uint64_t)room < data->length)
            data->length = (size_t)room;
    }
    return io_write_at(open, data, turn->offset, stable);
}

ssize_t io_append(struct file_open *open, int fd, const struct iovec *vectors, int count, int flags,
                  bool move)
{
    struct file_inode *inode = open->inode;
    enum nfs_stable stable;
    ssize_t length = io_write_check(open, vectors, count, 0, flags, &stable);
    if (length <= 0)
        return length;
    if (!file_inode_enter(inode)) {
        file_offset_repay(open, fd);
        return FILE_KERNEL;
    }
    struct durable_piece data = {vectors, count, (size_t)length, .appends = true};
    struct ledger_append turn = {.length = (uint64_t)length, .fresh_ns = file_fresh_since(inode)};
    ssize_t result = take_turn(open, &turn);
    if (result == 0)
        result = write_there(open, &turn, &data, stable);
    if (result > 0 && move)
        file_offset_owe(open, fd, (int64_t)turn.offset + result);
    ledger_append_end(&inode->entry, &turn, result < (ssize_t)data.length);
    if (result > 0)
        io_written(open, fd, stable);
    result = file_finish_call(open, result);
    /* The server may have carried it out; then the kernel would append it once more. */
    return result == FILE_KERNEL && data.unsettled ? -EIO : result;
}
