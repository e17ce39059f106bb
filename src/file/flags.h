/* Whether a descriptor appends, and its offset. */
#ifndef FILE_FLAGS_H
#define FILE_FLAGS_H

#include "file/inode.h"

/* A new open file, opened with these flags. */
void file_flags_open(struct file_open *open, int flags);
/* The same in the child of fork(). */
void file_flags_child(struct file_open *open);
/* The kernel's offset becomes what it should be, before something looks at it or moves it. */
void file_offset_repay(struct file_open *open, int fd);
/* The offset is to be `end`. By who has the turn (ledger_append_begin()): the next one moves it
 * next, and the file may have been cut since the last. */
void file_offset_owe(struct file_open *open, int fd, int64_t end);
/*
 * Between these no other thread moves the offset of this open file description, and no other
 * process that has it and uses the library. May wait for a READ.
 */
enum file_offset_lock { FILE_OFFSET_FREE, FILE_OFFSET_PRIVATE, FILE_OFFSET_SHARED };
enum file_offset_lock file_offset_lock(struct file_open *open);
void file_offset_unlock(struct file_open *open, enum file_offset_lock lock);

/* Between these no other thread of this process changes the flags of a descriptor, whoever wants
 * it, and no process that shares this open file description: briefly. NULL: none shares it. What
 * the first returns is for the second. */
bool file_flags_lock(struct file_open *open);
void file_flags_unlock(struct file_open *open, bool shared);
void file_flags_lock_child(void);

/* Does a write of the descriptor with these flags (RWF_*) go to the end of the file? */
bool file_appends(struct file_open *open, int fd, int flags);
/* Before the kernel looks at the offset, e.g. for a lock; any descriptor. */
void file_offset_show(int fd);
/* The open file of this descriptor, or those of all, may be used by others than those who call this
 * room: by another process, or through a descriptor that is not managed. */
void file_shared(int fd);
void file_shared_all(void);

#endif
