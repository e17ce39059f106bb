/* Whether further paths lead to the same server: what is asked, and what follows. */
#include "mount/facts.h"
#include "file_scene.h"
#include "mount/mounts.h"
#include "mount/paths.h"
#include "net/health.h"
#include "net/pool.h"

enum { PATHS = 4, SIZE = 10000 };

static struct net_server *server;
static struct mount *mount;

/* Opens a file: the first contact, over the first path. */
static void contact(void)
{
    engine_adopt("f", O_RDONLY);
    mount = mounts_at(0);
    server = mount->server->net;
    CHECK_EQUAL(server->path_count, PATHS);
}

static unsigned usable_paths(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < PATHS; i++)
        count += net_path_usable(&server->paths[i]);
    return count;
}

static unsigned refused_paths(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < PATHS; i++)
        count += atomic_load(&server->paths[i].state) == NET_PATH_REFUSED;
    return count;
}

/* Has all paths asked; how many GETATTRs that took. */
static unsigned ask(void)
{
    unsigned before = server_calls(NFS_PROC_GETATTR);
    net_server_want_more(server);
    for (int i = 0; usable_paths() + refused_paths() < PATHS; i++) {
        CHECK(i < 10000);
        usleep(1000);
    }
    return server_calls(NFS_PROC_GETATTR) - before;
}

static const char several[] = "server: s\nnfsport: %u mntport: %u\n"
                              "local: 127.0.0.1 path: 127.0.0.1  local: 127.0.0.2 path: 127.0.0.1\n"
                              "local: 127.0.0.3 path: 127.0.0.1  local: 127.0.0.4 path: 127.0.0.1\n"
                              "export: %s/export mount: %s/export\n";

static void several_paths(void (*body)(void))
{
    disk_make("f", SIZE, 1);
    scene.nfstab = several;
    scene_environment();
    scene_run(body);
}

#define PATHS_TEST(name)             \
    static void name##_body(void);   \
    static void name##_several(void) \
    {                                \
        several_paths(name##_body);  \
    }                                \
    UNIT_TEST(name)                  \
    {                                \
        scene_test(name##_several);  \
    }                                \
    static void name##_body(void)

/* The first one may be busy: nothing is asked over it that was seen just now. */
PATHS_TEST(each_path_is_asked_once)
{
    contact();
    CHECK_EQUAL(ask(), PATHS - 1);
    CHECK_EQUAL(usable_paths(), PATHS);
}

PATHS_TEST(one_look_does_for_all)
{
    contact();
    mount->looked_ns = 1; /* long ago */
    CHECK_EQUAL(ask(), 1 + PATHS - 1);
    CHECK_EQUAL(usable_paths(), PATHS);
}

PATHS_TEST(a_root_that_changes_is_looked_at_again)
{
    contact();
    disk_make("g", SIZE, 1);
    CHECK(ask() > PATHS - 1);
    CHECK_EQUAL(usable_paths(), PATHS);
}

PATHS_TEST(a_root_that_is_behind_is_another)
{
    contact();
    mount->root_attr.ctime.sec++;
    ask();
    CHECK_EQUAL(refused_paths(), PATHS - 1);
}

PATHS_TEST(another_file_number_is_another_root)
{
    contact();
    mount->root_attr.fileid++;
    ask();
    CHECK_EQUAL(refused_paths(), PATHS - 1);
}

/* Over the first path as well. */
PATHS_TEST(a_root_that_became_another_one_proves_nothing)
{
    contact();
    mount->root_attr.fileid++;
    mount->looked_ns = 1; /* long ago */
    ask();
    CHECK_EQUAL(refused_paths(), PATHS - 1);
}

/* ---- another address ---- */

static const char by_name[] = "server: s\nnfsport: %u mntport: %u\npath: localhost\n"
                              "export: %s/export mount: %s/export\n";

static void contact_one(void)
{
    engine_adopt("f", O_RDONLY);
    mount = mounts_at(0);
    server = mount->server->net;
}

/* Where nobody listens. */
static void be_at_another_address(void)
{
    struct sockaddr_in peer = {.sin_family = AF_INET,
                               .sin_port = htons(mount->server->nfsport),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    pthread_mutex_lock(&server->lock);
    memset(&server->paths[0].address.peer, 0, sizeof(server->paths[0].address.peer));
    memcpy(&server->paths[0].address.peer, &peer, sizeof(peer));
    pthread_mutex_unlock(&server->lock);
}

static void proves_it_where_it_is_used(void)
{
    struct mount_root_fact fact;
    struct mount_root_found root;
    contact_one();
    CHECK(mount_fact_of_root(mount, &fact));
    CHECK_EQUAL(mount_over_paths(mount, &fact, &root), 0);
    CHECK(root.proven);
    be_at_another_address();
    CHECK_EQUAL(mount_over_paths(mount, &fact, &root), 0);
    CHECK(!root.proven);
}

SCENE_TEST(a_root_that_is_proven_at_another_address_is_not_proven)
{
    disk_make("f", SIZE, 1);
    scene_run(proves_it_where_it_is_used);
}

/* It would be sent there. */
static void stays_with_its_data(void)
{
    struct mount_root_found root;
    int fd = engine_adopt("f", O_RDWR);
    mount = mounts_at(0);
    server = mount->server->net;
    be_at_another_address();
    CHECK_EQUAL(mount_over_paths(mount, NULL, &root), 0);
    engine_put(fd, SIZE, 0, 2);
    CHECK(mount_over_paths(mount, NULL, &root) != 0);
    CHECK_EQUAL(engine_fsync(fd), 0); /* over the connection that there is */
    CHECK_EQUAL(mount_over_paths(mount, NULL, &root), 0);
}

SCENE_TEST(no_other_address_is_tried_while_data_is_not_committed)
{
    disk_make("f", SIZE, 1);
    scene.nfstab = by_name;
    scene_environment();
    scene_run(stays_with_its_data);
}

/* A copy of the server would have the same root. */
static void stays_at_its_address(void)
{
    struct net_address before, after;
    contact_one();
    struct net_path *path = &server->paths[0];
    be_at_another_address();
    net_path_failed(path, "so it seems");
    for (unsigned i = 0; i < server->channel_count; i++)
        atomic_store(&server->channels[i]->heard_ns, 0);
    pthread_mutex_lock(&server->lock);
    path->down_since_ns = 1;
    pthread_mutex_unlock(&server->lock);
    net_path_address(path, &before);
    CHECK(server->options.elsewhere == NULL);
    for (int i = 0; i < 10; i++) /* the resolver would be asked by another thread */
        CHECK(server->options.probe(path, true, 20) != 0);
    net_path_address(path, &after);
    CHECK(memcmp(&before.peer, &after.peer, sizeof(before.peer)) == 0);
}

SCENE_TEST(a_server_that_cannot_prove_who_it_is_stays_at_its_address)
{
    disk_make("f", SIZE, 1);
    scene.nfstab = by_name;
    scene_environment();
    scene_run(stays_at_its_address);
}

static bool is_remembered(void)
{
    struct sockaddr_storage peer;
    const struct conf_server *conf = mounts_at(0)->server->conf;
    return mount_fact_of_address(conf, &conf->paths[0], &peer);
}

static void remembers_it(void)
{
    contact_one();
    CHECK(is_remembered());
}

static void finds_another_root(void)
{
    CHECK(!file_is_managed(engine_open("f", O_RDONLY)));
    CHECK(!is_remembered());
}

/* Others would look there first. */
SCENE_TEST(an_address_with_another_root_is_not_remembered)
{
    disk_make("f", SIZE, 1);
    scene.nfstab = by_name;
    scene_environment();
    scene_run(remembers_it);
    atomic_store(&scene.control->root_ctime_error, 5);
    scene_run(finds_another_root);
}

/* ---- a server that does not answer ---- */

static void opens_with_the_kernel(void)
{
    CHECK(!file_is_managed(engine_open("f", O_RDONLY)));
}

/* By all processes together, however many paths it has. */
static void said_once(void)
{
    enum { PROCESSES = 20 };
    pid_t processes[PROCESSES];
    char path[SCENE_PATH], line[1024];
    unsigned paths = 0, mounts = 0;
    disk_make("f", SIZE, 1);
    scene.nfstab = several;
    scene_environment();
    server_do(FILE_SERVER_STOP);
    for (unsigned i = 0; i < PROCESSES; i++)
        processes[i] = scene_start(opens_with_the_kernel);
    for (unsigned i = 0; i < PROCESSES; i++)
        scene_wait(processes[i]);
    snprintf(path, sizeof(path), "%s/log", scene.top);
    FILE *log = fopen(path, "r");
    CHECK(log != NULL);
    while (fgets(line, sizeof(line), log)) {
        paths += strstr(line, "over path") != NULL;
        mounts += strstr(line, "the kernel serves files opened now") != NULL;
    }
    fclose(log);
    CHECK_EQUAL(paths, PATHS);
    CHECK_EQUAL(mounts, 1);
}

UNIT_TEST(a_dead_server_is_said_once)
{
    scene_test(said_once);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
