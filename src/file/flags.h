/* Whether a descriptor appends, and its offset. */
#ifndef FILE_FLAGS_H
#define FILE_FLAGS_H

#include "file/inode.h"

/* For a new open file, opened with these flags. */
void file_flags_open(struct file_open *open, int flags);
/* For each open file, in the child of fork(). */
void file_flags_child(struct file_open *open);
/* Gives the kernel the offset that is owed, before something looks at it or moves it. */
void file_offset_repay(struct file_open *open, int fd);
/* The offset is to be `end`: owed from now on. The caller has the turn (ledger_append_begin()): the
 * next append moves the offset next, and the file may have been cut since the last. */
void file_offset_owe(struct file_open *open, int fd, int64_t end);
/*
 * Between these no other thread moves the offset of this open file description, and no other
 * process that shares it and uses the library. May wait for a READ.
 */
enum file_offset_lock { FILE_OFFSET_FREE, FILE_OFFSET_PRIVATE, FILE_OFFSET_SHARED };
enum file_offset_lock file_offset_lock(struct file_open *open);
void file_offset_unlock(struct file_open *open, enum file_offset_lock lock);

/* Between these no other thread of this process changes the flags of any descriptor, and no process
 * that shares this open file description does; briefly. NULL: none shares it. The second takes what
 * the first returns. */
bool file_flags_lock(struct file_open *open);
void file_flags_unlock(struct file_open *open, bool shared);
/* In the child of fork(): makes that lock free. */
void file_flags_lock_child(void);

/* Does a write to the descriptor with these flags (RWF_*) go to the end of the file? */
bool file_appends(struct file_open *open, int fd, int flags);
/* Before the kernel looks at the offset, for a lock for example. For any descriptor. */
void file_offset_show(int fd);
/* From now on others may use the open file of this descriptor, or of every descriptor: another
 * process, or a descriptor that is not managed. */
void file_shared(int fd);
void file_shared_all(void);

#endif
