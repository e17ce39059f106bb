/*
 * A scene for the tests of src/file: an exported directory on /dev/shm, the scripted server of
 * file_server.h, and fresh processes that use the engine without any preloading.
 *
 * A test's body runs in a process of its own, without the engine; what uses the engine runs in
 * processes that scene_run() starts. They end at the first CHECK that fails, and cannot hang.
 */
#ifndef TEST_FILE_SCENE_H
#define TEST_FILE_SCENE_H

#include "engine.h"
#include "unit.h"

/* How many lines of the log have this text. */
unsigned scene_logged(const char *text);

/* Runs a test: `body` in a process of its own, with a server and an empty exported directory. */
void scene_test(void (*body)(void));

/* A test whose body is without the engine, and starts processes. */
#define SCENE_TEST(name)           \
    static void name##_body(void); \
    UNIT_TEST(name)                \
    {                              \
        scene_test(name##_body);   \
    }                              \
    static void name##_body(void)

/* A test whose body is one process that uses the engine. */
#define ENGINE_TEST(name)            \
    static void name##_engine(void); \
    SCENE_TEST(name)                 \
    {                                \
        scene_run(name##_engine);    \
    }                                \
    static void name##_engine(void)

#endif
