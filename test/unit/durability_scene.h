/* What the tests of durability share: a file with data that is not committed. */
#ifndef DURABILITY_SCENE_H
#define DURABILITY_SCENE_H

#include "file_scene.h"

enum { SIZE = 100000, MEBIBYTE = 1 << 20 };

/* Adopts "f" and writes version 1 to it, uncommitted. */
static inline int written(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 1);
    return fd;
}

#endif
