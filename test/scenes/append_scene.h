/* What the tests of O_APPEND share: see async_scene.h. */
#ifndef TEST_APPEND_SCENE_H
#define TEST_APPEND_SCENE_H

#include <fcntl.h>

#include "async_scene.h"
#include "file/inode.h"

ssize_t engine_stream(int fd, const void *data, size_t length, bool write);
ssize_t engine_append(int fd, const void *data, size_t length);

/* As the face does it. */
void engine_set_flags(int fd, int flags);
off_t engine_offset(int fd);

/* Appends `length` bytes that tell that they are to begin at `offset`. */
void append_there(int fd, size_t length, off_t offset, unsigned version);

#endif
