/* A server whose files have layouts (pNFS) is left to the kernel: their data may be elsewhere. */
#include "file_scene.h"
#include "v41_server.h"

static struct v41_server *metadata;

static void stays_with_the_kernel(void)
{
    int fd = engine_open("f", O_RDONLY);
    CHECK(!file_is_managed(fd));
    CHECK(strcmp(engine_reason("f"), reach_reason(REACH_LAYOUTS)) == 0);
}

static const char sessions[] = "server: s\nnfsport: %u mntport: %u\nnfs_version: nfsv4.1\n"
                               "path: 127.0.0.1\nexport: / mount: %s/export\n";

SCENE_TEST(a_file_system_with_layouts_is_left_to_the_kernel)
{
    metadata = v41_server_start(NULL, INADDR_LOOPBACK, 0);
    CHECK(metadata != NULL);
    atomic_store(&metadata->control->layouts, 1);
    scene.control->port = metadata->port;
    disk_make("f", 100, 1);
    scene.nfstab = sessions;
    scene_environment();
    scene_run(stays_with_the_kernel);
    CHECK(atomic_load(&metadata->control->calls[V41_EXCHANGE_ID]) > 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
