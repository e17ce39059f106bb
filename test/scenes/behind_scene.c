/* See behind_scene.h. */
#include "behind_scene.h"

unsigned writes(void)
{
    return server_calls(NFS_PROC_WRITE);
}
