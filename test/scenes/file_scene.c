/* See file_scene.h. */
#include "file_scene.h"

static int scene_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void scene_say_log(void)
{
    char path[SCENE_PATH], line[1024];
    snprintf(path, sizeof(path), "%s/log", scene.top);
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof(line), log))
        fprintf(stderr, "    log: %s", line);
    if (log)
        fclose(log);
}

unsigned scene_logged(const char *text)
{
    unsigned count = 0;
    char line[1024];
    FILE *log = fopen(getenv("DIRECTNFS_LOG"), "r");
    CHECK(log != NULL);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, text) != NULL;
    fclose(log);
    return count;
}

void scene_test(void (*body)(void))
{
    int ends[2];
    memset(&scene, 0, sizeof(scene));
    strcpy(scene.top, "/dev/shm/directnfs-test.XXXXXX");
    assert_non_null(mkdtemp(scene.top));
    snprintf(scene.directory, sizeof(scene.directory), "%s/export", scene.top);
    assert_int_equal(mkdir(scene.directory, 0755), 0);
    scene.shared = mmap(NULL, sizeof(*scene.shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene.shared != MAP_FAILED);
    scene.control = &scene.shared->control;
    scene.control->rtmax = scene.control->wtmax = 1 << 20;
    scene.control->maxfilesize = INT64_MAX;
    scene.control->access = UINT32_MAX;
    scene.control->verifier = 0x1122334455667788;
    int listener = file_server_listener(&scene.control->port);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    scene.server = fork();
    assert_true(scene.server >= 0);
    if (scene.server == 0) {
        close(ends[0]);
        file_server_run(scene.control, listener, ends[1]);
    }
    close(ends[1]);
    close(listener);
    scene.commands = ends[0];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
        for (unsigned i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
            signal(crashes[i], SIG_DFL); /* else cmocka goes on with its tests in this process */
        alarm(2 * SCENE_LIMIT_S);
        scene_environment();
        body();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    kill(scene.server, SIGKILL);
    waitpid(scene.server, NULL, 0);
    if (status != 0)
        scene_say_log();
    close(ends[0]);
    munmap(scene.shared, sizeof(*scene.shared));
    nftw(scene.top, scene_remove, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(status, 0);
}
