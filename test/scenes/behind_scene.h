/* What the tests of write-behind share: see append_scene.h. */
#ifndef TEST_BEHIND_SCENE_H
#define TEST_BEHIND_SCENE_H

#include "append_scene.h"

#define BEHIND_TEST(name)                                \
    static void name##_engine(void);                     \
    SCENE_TEST(name)                                     \
    {                                                    \
        scene_configure("write_behind_max = 16777216;"); \
        disk_make("f", 0, 0);                            \
        scene_run(name##_engine);                        \
    }                                                    \
    static void name##_engine(void)

unsigned writes(void);

#endif
