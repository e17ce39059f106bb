/* See ahead_scene.h. */
#include "ahead_scene.h"

bool in_time(uint64_t begun_ns)
{
    return sys_now_ns() - begun_ns < UINT64_C(500000000);
}

int begun(unsigned version)
{
    int fd = engine_adopt("f", O_RDWR);
    expect_blocks(fd, 0, 4, version);
    CHECK(stats_get(&stats_own->counters.read_ahead_bytes) > 0);
    return fd;
}
