/* What the tests of reading ahead share. */
#ifndef TEST_AHEAD_SCENE_H
#define TEST_AHEAD_SCENE_H

#include "file_scene.h"

enum {
    BLOCK = PAGE_BYTES,
    BLOCKS = 256,
    SIZE = BLOCK * BLOCKS,
    MINDED = 2 /* reads that find the minder at work, and are ordinary ones */
};

#define AHEAD "read_ahead_max = 2097152;"
#define AHEAD_TEST(name)             \
    static void name##_engine(void); \
    SCENE_TEST(name)                 \
    {                                \
        scene_configure(AHEAD);      \
        scene_run(name##_engine);    \
    }                                \
    static void name##_engine(void)

/* Bytes live for a second: what a slow machine reads after that it asks for again. */
bool in_time(uint64_t begun_ns);

/* The file, of which the first two blocks were read, so that more is on its way. */
int begun(unsigned version);

#endif
