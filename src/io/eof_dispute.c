/*
 * Answers to READ that say two things of where the file ends: the data go on beyond the size that
 * comes with them, or are said to end before it.
 *
 * Mostly both were true, one after the other, as somebody changed the size meanwhile; or the server
 * has the attributes from a cache. The READ is repeated until one of the two is confirmed. If none
 * ever is: missing data are an error, and data that are too many are left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "file/attributes.h"
#include "io/io.h"
#include "run/log_limit.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { TRIES = 8, SAY_EVERY_S = 60 };

/* The size that the kernel knows. It is the truth where this host exports the directory itself. */
static bool kernel_size(const struct file_inode *inode, uint64_t *size)
{
    struct statx seen;
    int fd = file_inode_descriptor(inode);
    if (fd < 0 ||
        sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE | STATX_INO, &seen) !=
            0 ||
        seen.stx_ino != inode->inode ||
        makedev(seen.stx_dev_major, seen.stx_dev_minor) != inode->device)
        return false;
    *size = seen.stx_size;
    return true;
}

static void say(const struct file_inode *inode, uint64_t end, uint64_t size)
{
    char subject[512];
    const char *server = inode->mount->server->conf->name;
    snprintf(subject, sizeof(subject), "ends %.400s", server);
    if (run_may_say(subject, SAY_EVERY_S))
        log_error("server %s: the answer to READ makes no sense: %s has %" PRIu64
                  " bytes, and its data end at byte %" PRIu64,
                  server, inode->path, size, end);
}

/* Does a size that was asked for later confirm one of the two ends? */
static bool is_confirmed(uint64_t end, uint64_t told, uint64_t size)
{
    return end < told ? size <= end : size >= end;
}

bool io_eof_dispute_decide(struct file_open *open, uint64_t offset,
                           const struct nfs_transfer *transfer, struct io_eof_dispute *ends,
                           ssize_t *result)
{
    struct ledger_attributes asked;
    uint64_t end = offset + transfer->length, told = transfer->attr.attr.size, known = 0;
    *result = (ssize_t)transfer->length;
    if (end == told || (end < told && !transfer->eof))
        return true; /* the last part has an end, and reaches farther */
    /* The file has grown to the size that was told before, and goes on. */
    if (end < told && ends->tries > 0 && end >= ends->told)
        return true;
    if (kernel_size(open->inode, &known) && is_confirmed(end, told, known))
        return true;
    int error = file_inode_ask(open->inode, open->auth, &asked);
    if (error != 0) {
        *result = error;
        return true;
    }
    if (is_confirmed(end, told, asked.size))
        return true;
    ends->told = told;
    if (ends->tries < TRIES) {
        sys_nanosleep_ms(1u << ends->tries++);
        return false;
    }
    say(open->inode, end, told);
    if (known < asked.size)
        known = asked.size;
    if (end < told)
        *result = -EIO;
    else
        *result = known > offset ? (ssize_t)(known - offset) : 0;
    return true;
}
