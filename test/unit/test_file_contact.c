/* The first contact with a server: MOUNT is asked as all else is. */
#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "file_scene.h"
#include "reach/server.h"

enum { LOW_PORTS = 512, TAKEN_FROM = 665, LOW_PORTS_END = 1024 };

/* Another address than the server's: the ports below 1024 of it are this test's alone. */
#define LOCAL "127.0.0.93"

static const char one_path[] = "server: s\nnfsport: %u mntport: %u\n"
                               "local: " LOCAL " path: 127.0.0.1\n"
                               "export: %s/export mount: %s/export\n";
static const char not_routed[] = "server: s\nnfsport: %u mntport: %u\n"
                                 "path: 127.0.0.1 dontroute\n"
                                 "export: %s/export mount: %s/export\n";

static void configure(const char *nfstab, const char *conf)
{
    disk_make("f", 100, 1);
    scene.nfstab = nfstab;
    snprintf(scene.conf, sizeof(scene.conf), "%s", conf);
    scene_environment();
}

/* ---- groups ---- */

static void adopts_with_groups(void)
{
    const gid_t groups[] = {7, 8, 9};
    CHECK_EQUAL(setgroups(3, groups), 0);
    engine_adopt("f", O_RDONLY);
}

SCENE_TEST(mount_is_sent_with_the_supplementary_groups)
{
    if (geteuid() != 0)
        return; /* only root has others than those it began with */
    configure(one_path, "");
    scene_run(adopts_with_groups);
    CHECK_EQUAL(scene.control->mount_calls, 1);
    CHECK_EQUAL(scene.control->mount_groups, 3);
}

static void adopts_with_many_groups(void)
{
    enum { MANY = 1500 };
    gid_t groups[MANY];
    for (unsigned i = 0; i < MANY; i++)
        groups[i] = 70000 + i;
    CHECK_EQUAL(setgroups(MANY, groups), 0);
    engine_adopt("f", O_RDONLY);
}

SCENE_TEST(of_many_groups_the_first_are_sent)
{
    if (geteuid() != 0)
        return;
    configure(one_path, "");
    scene_run(adopts_with_many_groups);
    CHECK_EQUAL(scene.control->mount_groups, REACH_GROUPS_MAX);
}

/* ---- source ports ---- */

/* Takes a port of LOCAL for as long as the process lives. False: not permitted. */
static bool take_port(in_port_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && inet_pton(AF_INET, LOCAL, &address.sin_addr) == 1);
    int result = bind(fd, (struct sockaddr *)&address, sizeof(address));
    CHECK(result == 0 || errno == EACCES);
    return result == 0;
}

static void adopts(void)
{
    engine_adopt("f", O_RDONLY);
}

SCENE_TEST(mount_takes_the_ports_that_nfs_takes)
{
    for (in_port_t port = TAKEN_FROM; port < LOW_PORTS_END; port++) {
        if (!take_port(port))
            return;
    }
    configure(one_path, "privileged_port = \"yes\";");
    scene_run(adopts);
    CHECK(scene.control->mount_port >= LOW_PORTS && scene.control->mount_port < TAKEN_FROM);
}

static void has_no_right_to_a_low_port(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1u << CAP_NET_BIND_SERVICE);
    CHECK(syscall(SYS_capset, &header, data) == 0);
    CHECK(!file_is_managed(engine_open("f", O_RDONLY)));
}

SCENE_TEST(mount_is_not_sent_from_any_port_where_low_ones_are_demanded)
{
    configure(one_path, "privileged_port = \"yes\";");
    scene_run(has_no_right_to_a_low_port);
    CHECK_EQUAL(scene.control->mount_calls, 0);
}

/* ---- dontroute ---- */

/* The socket of this process that is connected to the server; -1: none. */
static int socket_to_server(void)
{
    int found = -1;
    DIR *descriptors = opendir("/proc/self/fd");
    CHECK(descriptors != NULL);
    for (struct dirent *entry; found < 0 && (entry = readdir(descriptors));) {
        struct sockaddr_in peer = {0};
        socklen_t length = sizeof(peer);
        int fd = atoi(entry->d_name);
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == scene.control->port)
            found = fd;
    }
    closedir(descriptors);
    return found;
}

/* Looks at the connection of MOUNT, which waits for that. */
static void *look(void *dontroute)
{
    socklen_t length = sizeof(int);
    while (!atomic_load(&scene.control->mount_calls))
        usleep(1000);
    CHECK_EQUAL(getsockopt(socket_to_server(), SOL_SOCKET, SO_DONTROUTE, dontroute, &length), 0);
    atomic_store(&scene.control->mount_waits, false);
    return NULL;
}

static void adopts_while_looked_at(void)
{
    int dontroute = -1;
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, look, &dontroute), 0);
    engine_adopt("f", O_RDONLY);
    pthread_join(thread, NULL);
    CHECK_EQUAL(dontroute, 1);
}

SCENE_TEST(mount_is_not_routed_where_nothing_is)
{
    configure(not_routed, "");
    atomic_store(&scene.control->mount_waits, true);
    scene_run(adopts_while_looked_at);
}

/* ---- why it fails ---- */

static const char *expected, *logged;

/* It is a reason of its own in the statistics, and a line on the log that has it. */
static void is_left_because(void)
{
    char path[SCENE_PATH], line[1200];
    bool said = false;
    CHECK(!file_is_managed(engine_open("f", O_RDONLY)));
    CHECK(!file_is_managed(engine_open("f", O_RDWR))); /* nor is it asked again */
    if (strcmp(engine_reason("f"), expected) != 0)
        fprintf(stderr, "reason is \"%s\", not \"%s\"\n", engine_reason("f"), expected);
    CHECK(strcmp(engine_reason("f"), expected) == 0);
    snprintf(path, sizeof(path), "%s/log", scene.top);
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof(line), log)) {
        CHECK(strstr(line, "asking the server again") == NULL);
        said = said || strstr(line, logged);
    }
    CHECK(said);
}

static void fails(const char *reason, const char *line)
{
    expected = reason;
    logged = line;
    scene_run(is_left_because);
}

SCENE_TEST(a_mount_that_is_refused_is_said_to_be)
{
    configure(one_path, "privileged_port = \"no\";");
    atomic_store(&scene.control->mount_status, NFS3ERR_ACCES);
    fails("MOUNT refused, from a port above 1023",
          "server s: MOUNT refused, from a port above 1023: Permission denied; the kernel");
}

SCENE_TEST(a_mount_that_is_refused_from_a_low_port_is_refused_for_another_reason)
{
    if (geteuid() != 0)
        return;
    configure(one_path, "privileged_port = \"yes\";");
    atomic_store(&scene.control->mount_status, NFS3ERR_ACCES);
    fails("MOUNT refused", "server s: MOUNT refused: Permission denied; the kernel");
}

SCENE_TEST(a_directory_that_is_not_exported_is_said_to_be)
{
    configure(one_path, "");
    atomic_store(&scene.control->mount_status, NFS3ERR_NOENT);
    fails("no such export on the server", "correct the nfstab, or export the directory");
}

static void is_left_without_the_right(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1u << CAP_NET_BIND_SERVICE);
    CHECK(syscall(SYS_capset, &header, data) == 0);
    is_left_because();
}

SCENE_TEST(a_low_port_that_is_forbidden_is_no_fault_of_the_server)
{
    configure(one_path, "privileged_port = \"yes\";");
    expected = "not permitted to use a port below 1024";
    logged = "give CAP_NET_BIND_SERVICE, or set privileged_port";
    scene_run(is_left_without_the_right);
}

SCENE_TEST(a_name_that_does_not_resolve_is_said_to_be_one)
{
    configure("server: s\nnfsport: %u mntport: %u\npath: no-such-name.invalid\n"
              "export: %s/export mount: %s/export\n",
              "");
    fails("server's name not resolved", "server s: server's name not resolved; the kernel");
}

SCENE_TEST(a_local_that_this_host_does_not_have_is_said_to_be_one)
{
    configure("server: s\nnfsport: %u mntport: %u\nlocal: 192.0.2.77 path: 127.0.0.1\n"
              "export: %s/export mount: %s/export\n",
              "");
    fails("no path from an address of this host", "is no address of this host");
}

SCENE_TEST(a_run_directory_of_others_is_said_to_be_one)
{
    char path[SCENE_PATH];
    configure(one_path, "");
    snprintf(path, sizeof(path), "%s/run", scene.top);
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    CHECK_EQUAL(chmod(path, 0755), 0);
    fails("run directory not usable: of another owner, or open to others",
          "open to others; the kernel serves files opened now; trying again in 30 s");
    CHECK_EQUAL(chmod(path, 0700), 0);
}

static void is_left_for_the_limit(void)
{
    const struct rlimit limit = {1 << 20, RLIM_INFINITY};
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    is_left_because();
}

SCENE_TEST(a_limit_of_file_sizes_is_said_to_be_one)
{
    configure(one_path, "");
    expected = "run directory not usable: limit of file sizes (RLIMIT_FSIZE)";
    logged = "raise the limit of file sizes (LimitFSIZE= in the systemd unit, ulimit -f)";
    scene_run(is_left_for_the_limit);
}

/* ---- what is found ---- */

static void leaves_to_the_kernel(void)
{
    char path[SCENE_PATH], line[1024];
    bool said = false;
    CHECK(!file_is_managed(engine_open("f", O_RDONLY)));
    snprintf(path, sizeof(path), "%s/log", scene.top);
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof(line), log))
        said = said || strstr(line, "(another change time); the kernel serves its files");
    CHECK(said);
}

/* As `directnfs check` says, which gives other advice for it than for another directory. */
SCENE_TEST(a_root_with_another_change_time_is_said_to_have_one)
{
    configure(one_path, "");
    atomic_store(&scene.control->root_ctime_error, 5);
    scene_run(leaves_to_the_kernel);
}

/* Servers judge by the identity for file access (setfsuid), as of the kernel's own calls. */
SCENE_TEST(calls_are_made_as_the_thread_has_files)
{
    struct conf_server conf = {.uid = CONF_ID_PROCESS, .gid = CONF_ID_PROCESS};
    struct reach_identity identity;
    const gid_t groups[] = {7, 8};
    if (geteuid() != 0)
        return;
    CHECK_EQUAL(setgroups(2, groups), 0);
    setfsuid(4711);
    setfsgid(4712);
    reach_identity_now(&conf, &identity);
    CHECK_EQUAL(identity.uid, 4711);
    CHECK_EQUAL(identity.gid, 4712);
    CHECK_EQUAL(identity.group_count, 2);
    CHECK_EQUAL(identity.groups[1], 8);
    conf.uid = 1;
    reach_identity_now(&conf, &identity);
    CHECK_EQUAL(identity.uid, 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
