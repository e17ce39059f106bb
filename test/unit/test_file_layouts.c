/* A server whose files have layouts (pNFS) is left to the kernel: their data may be elsewhere. */
#include "file_scene.h"
#include "v41_server.h"

/* A metadata server in a process of its own, as threads and fork() do not go together everywhere.
 */
static pid_t start_metadata_server(in_port_t *port)
{
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK_EQUAL(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
        struct v41_server *server = v41_server_start(NULL, INADDR_LOOPBACK, 0);
        CHECK(server != NULL);
        atomic_store(&server->control->layouts, 1);
        CHECK(write(ends[1], &server->port, sizeof(server->port)) == sizeof(server->port));
        for (;;)
            pause();
    }
    CHECK(read(ends[0], port, sizeof(*port)) == sizeof(*port));
    close(ends[0]);
    close(ends[1]);
    return pid;
}

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
    in_port_t port;
    pid_t server = start_metadata_server(&port);
    scene.control->port = port;
    disk_make("f", 100, 1);
    scene.nfstab = sessions;
    scene_environment();
    scene_run(stays_with_the_kernel);
    scene_kill(server);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
