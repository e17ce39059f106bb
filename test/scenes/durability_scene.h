/* What the tests of durability share: a file with data that is not committed. */
#ifndef DURABILITY_SCENE_H
#define DURABILITY_SCENE_H

#include "file_scene.h"

enum { SIZE = 100000, MEBIBYTE = 1 << 20 };

/* Adopts "f" and writes version 1 to it, uncommitted. */
int written(void);

/* The same with a new file. */
int written_anew(void);
void writes_and_waits(void);

/* A process that has written a new file and has it open until the last step. */
pid_t start_writer(void);

/* Version 1 is on the server's disk, not only in its memory. */
void expect_durable(void);

/* How many bytes of the file were set aside, at one time. They are of version 1. */
uint64_t set_aside(const char *of);

#endif
