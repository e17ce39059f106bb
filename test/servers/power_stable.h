/*
 * What stable storage would hold of the files that powerserver.c serves: the bytes of each page
 * that UNSTABLE writes changed, and the size of each file that has such pages. The files themselves
 * are newer. A size that is set is stable at once (RFC 1813, section 3.3.2), and what it cuts off
 * does not come back.
 *
 * What the kernel wrote to the directory meanwhile, not by a call, is never lost: on a real mount
 * the kernel's client would write it again.
 */
#ifndef FAULT_STABLE_H
#define FAULT_STABLE_H

#include "loop.h"
#include "request.h"

/* ---- sizes ---- */

/* Before anything is asked of a file whose attributes are fresh. */
void stable_notice(const struct file *f);

/* After every call that may have changed the file. */
void stable_seen(const struct file *f);

/* ---- what the calls do ---- */

/* Before an UNSTABLE write. */
void stable_keep(const struct file *f, uint64_t offset, uint64_t end);

/* After a write. */
void stable_write(const struct file *f, uint64_t offset, uint64_t end, const unsigned char *data,
                  bool stable);

/* After a SETATTR of the size. */
void stable_size(const struct file *f, uint64_t size);

/* After a COMMIT. */
void stable_commit(const struct file *f);

/* The files are on stable storage as they are. */
void stable_forget(void);

/* ---- loss of power ---- */

extern uint64_t survive_percent, *survive_random, lost_pages;

/* The disk could not write what a COMMIT was for, and the pages are gone; the size stays. */
void stable_lose_pages(const struct file *f, uint64_t *random_state);

/* Every file becomes what stable storage holds; each changed page survives with `percent`. */
void stable_lose(uint64_t percent, uint64_t *random_state);

#endif
