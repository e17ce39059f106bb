/* How often the server is asked when a file is opened, read and closed, and what is never taken
 * for true without asking. */
#include <sys/fsuid.h>

#include "file_scene.h"
#include "mount/credentials.h"
#include "mount/facts.h"
#include "mount/mounts.h"

enum { SIZE = 10000, SMALL = 512, NAMES = 4, REPLACED = 150 };

struct calls {
    unsigned lookup, access, getattr, fsinfo, read, mount;
};

static struct calls calls_now(void)
{
    return (struct calls){
        server_calls(NFS_PROC_LOOKUP),  server_calls(NFS_PROC_ACCESS),
        server_calls(NFS_PROC_GETATTR), server_calls(NFS_PROC_FSINFO),
        server_calls(NFS_PROC_READ),    atomic_load(&scene.control->mount_calls)};
}

/* These calls were made since, and no others. */
#define MADE(before, ...)                                           \
    do {                                                            \
        const struct calls made = {__VA_ARGS__}, now = calls_now(); \
        CHECK_EQUAL(now.lookup - (before).lookup, made.lookup);     \
        CHECK_EQUAL(now.access - (before).access, made.access);     \
        CHECK_EQUAL(now.getattr - (before).getattr, made.getattr);  \
        CHECK_EQUAL(now.fsinfo - (before).fsinfo, made.fsinfo);     \
        CHECK_EQUAL(now.read - (before).read, made.read);           \
        CHECK_EQUAL(now.mount - (before).mount, made.mount);        \
        CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);             \
    } while (0)

/* Asks for the size, reads all and closes. */
static void use(const char *name, int flags, off_t size, unsigned version)
{
    int fd = engine_adopt(name, flags);
    CHECK_EQUAL(engine_size(fd), size);
    CHECK_EQUAL(engine_seek(fd, 0, SEEK_END), size);
    engine_expect(fd, (size_t)size, 0, version);
    CHECK_EQUAL(engine_close(fd), 0);
}

static void uses_f(void)
{
    use("f", O_RDONLY, SIZE, 1);
}

/* ---- how many calls ---- */

ENGINE_TEST(a_file_that_nobody_knows_costs_two_calls)
{
    disk_make("f", SIZE, 1);
    disk_make("g", SIZE, 2);
    uses_f();
    struct calls before = calls_now();
    use("g", O_RDWR, SIZE, 2);
    MADE(before, .lookup = 1, .access = 1, .read = 1);
}

ENGINE_TEST(a_file_that_was_open_before_costs_none)
{
    disk_make("f", SIZE, 1);
    uses_f();
    struct calls before = calls_now();
    uses_f();
    use("f", O_RDWR, SIZE, 1);
    MADE(before, .read = 2);
}

static void uses_it_after_another(void)
{
    struct calls before = calls_now();
    unsigned connections = atomic_load(&scene.control->connections);
    uses_f();
    /* Of the contact one GETATTR is left, which proves the root. The READ takes its connection. */
    MADE(before, .getattr = 1, .read = 1);
    CHECK_EQUAL(atomic_load(&scene.control->connections) - connections, 1);
}

SCENE_TEST(a_further_process_asks_for_the_root_only)
{
    disk_make("f", SIZE, 1);
    scene_run(uses_f);
    CHECK_EQUAL(server_calls(NFS_PROC_FSINFO), 1);
    CHECK_EQUAL(atomic_load(&scene.control->mount_calls), 1);
    scene_run(uses_it_after_another);
    scene_run(uses_it_after_another);
}

static void uses_deep(void)
{
    use("a/b/c/f", O_RDONLY, SIZE, 1);
}

static void uses_another_deep(void)
{
    struct calls before = calls_now();
    use("a/b/c/g", O_RDONLY, SIZE, 2);
    MADE(before, .lookup = 1, .access = 1, .getattr = 1, .read = 1);
}

static void make_directory(const char *name)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    CHECK_EQUAL(mkdir(path, 0755), 0);
}

SCENE_TEST(a_further_process_looks_up_no_directory)
{
    make_directory("a");
    make_directory("a/b");
    make_directory("a/b/c");
    disk_make("a/b/c/f", SIZE, 1);
    disk_make("a/b/c/g", SIZE, 2);
    scene_run(uses_deep);
    scene_run(uses_another_deep);
}

static void writes_f(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 2);
    engine_put(fd, 100, SIZE, 2);
    step_done(0);
    step_wait(1);
    _exit(0);
}

static void uses_what_was_written(void)
{
    struct calls before = calls_now();
    int fd = engine_adopt("f", O_RDONLY);
    CHECK_EQUAL(engine_size(fd), SIZE + 100);
    CHECK_EQUAL(engine_close(fd), 0);
    MADE(before, .getattr = 1);
}

SCENE_TEST(what_another_process_writes_need_not_be_asked_for)
{
    disk_make("f", SIZE, 1);
    pid_t writer = scene_start(writes_f);
    step_wait(0);
    scene_run(uses_what_was_written);
    step_done(1);
    scene_wait(writer);
}

/* ---- what is asked for ---- */

/* As another host does it. */
ENGINE_TEST(a_file_that_somebody_else_changed_costs_one)
{
    disk_make("f", SIZE, 1);
    uses_f();
    usleep(20000); /* another change time */
    disk_make("f", SIZE + 1, 2);
    struct calls before = calls_now();
    use("f", O_RDONLY, SIZE + 1, 2);
    MADE(before, .access = 1, .read = 1);
}

static void place(const char *from, const char *to)
{
    char old[SCENE_PATH], new[SCENE_PATH];
    scene_file_path(old, from);
    scene_file_path(new, to);
    CHECK_EQUAL(rename(old, new), 0);
}

ENGINE_TEST(a_file_that_took_the_place_of_another_is_proven)
{
    disk_make("f", SIZE, 1);
    uses_f();
    disk_make("new", SIZE, 2);
    place("new", "f");
    struct calls before = calls_now();
    use("f", O_RDONLY, SIZE, 2);
    MADE(before, .lookup = 1, .access = 1, .read = 1);
}

ENGINE_TEST(a_file_that_has_another_name_is_proven)
{
    disk_make("f", SIZE, 1);
    uses_f();
    place("f", "g");
    disk_make("f", SIZE, 2);
    struct calls before = calls_now();
    use("g", O_RDONLY, SIZE, 1);
    use("f", O_RDONLY, SIZE, 2);
    MADE(before, .lookup = 2, .access = 2, .read = 2);
}

/* The claim that a descriptor is "f", and what the kernel says of it. */
static struct mount_claim claim_f(char path[SCENE_PATH], struct statx *seen)
{
    scene_file_path(path, "f");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && mount_kernel_look(fd, seen) == 0);
    return (struct mount_claim){mounts_at(0), mount_auth_now(mounts_at(0)), fd, path};
}

/* A number that belonged to another file before: the file systems of this host do not give one
 * away again so soon. */
ENGINE_TEST(a_number_is_not_what_a_file_is_known_by)
{
    char path[SCENE_PATH];
    struct statx seen;
    struct mount_fact fact;
    disk_make("f", SIZE, 1);
    uses_f();
    struct mount_claim claim = claim_f(path, &seen);
    CHECK(mount_fact_of_file(&claim, &seen, &fact));
    CHECK(fact.same_inode);
    seen.stx_btime.tv_nsec++;
    CHECK(!mount_fact_of_file(&claim, &seen, &fact));
    seen.stx_btime.tv_nsec--;
    seen.stx_ino++;
    CHECK(!mount_fact_of_file(&claim, &seen, &fact));
    seen.stx_ino--;
    disk_make("g", SIZE, 1); /* the same numbers, but the kernel's handle is another */
    scene_file_path(path, "g");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    scene_file_path(path, "f");
    struct mount_claim other = {claim.mount, claim.auth, fd, path};
    CHECK(!mount_fact_of_file(&other, &seen, &fact));
    /* Who is not told when files were born knows nothing of inodes. */
    seen.stx_mask &= ~(unsigned)STATX_BTIME;
    CHECK(!mount_fact_of_file(&claim, &seen, &fact));
}

static void another_server(void)
{
    atomic_fetch_add(&scene.control->handles, 1);
}

static void uses_new_handles(void)
{
    struct calls before = calls_now();
    uses_f();
    struct calls now = calls_now();
    CHECK_EQUAL(now.mount - before.mount, 1);
    CHECK_EQUAL(now.lookup - before.lookup, 1);
}

static void writes_under_old_handles(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 1);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    engine_expect(fd, SIZE, 0, 1);
}

SCENE_TEST(handles_that_a_server_gives_no_more_are_not_taken)
{
    disk_make("f", SIZE, 1);
    scene_run(uses_f);
    another_server();
    scene_run(uses_new_handles);
    scene_run(uses_it_after_another);
}

SCENE_TEST(one_file_has_one_entry_while_its_handle_changes)
{
    disk_make("f", SIZE, 0);
    pid_t writer = scene_start(writes_under_old_handles);
    step_wait(0);
    another_server();
    scene_run(uses_f);
    step_done(1);
    scene_wait(writer);
    disk_expect("f", SIZE, 0, 1);
}

static void looks_it_up(void)
{
    struct calls before = calls_now();
    uses_f();
    MADE(before, .lookup = 1, .access = 1, .getattr = 1, .read = 1);
}

/* Its handle may be one of before: the file would have two entries. */
SCENE_TEST(a_file_that_the_registry_does_not_know_is_looked_up)
{
    char path[SCENE_PATH];
    disk_make("f", SIZE, 1);
    scene_run(uses_f);
    snprintf(path, sizeof(path), "%s/run/registry", scene.top);
    CHECK_EQUAL(unlink(path), 0);
    scene_run(looks_it_up);
}

/* Reads what is open by the engine and by the kernel: one file. */
static void compares(const char *name)
{
    uint8_t engine[SMALL], kernel[SMALL];
    int fd = engine_open(name, O_RDONLY);
    ssize_t length = engine_read(fd, engine, SMALL, 0);
    CHECK_EQUAL(length, pread(fd, kernel, SMALL, 0));
    CHECK(length > 0 && memcmp(engine, kernel, (size_t)length) == 0);
    CHECK_EQUAL(engine_close(fd), 0);
}

static void compares_names(void)
{
    char name[8];
    for (unsigned i = 0; !atomic_load(&scene.shared->steps[0]); i++) {
        snprintf(name, sizeof(name), "f%u", i * 7 % NAMES);
        compares(name);
    }
}

/* Names change their files, which have one size and often one change time, while others open them:
 * by a new file, and by an exchange. */
SCENE_TEST(no_file_is_taken_for_another_while_names_change)
{
    char name[8], other[8];
    pid_t readers[2];
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "f%u", i);
        disk_make(name, SMALL, i);
    }
    for (unsigned i = 0; i < 2; i++)
        readers[i] = scene_start(compares_names);
    for (unsigned i = 0; i < REPLACED; i++) {
        snprintf(name, sizeof(name), "f%u", i % NAMES);
        snprintf(other, sizeof(other), "f%u", (i + 1) % NAMES);
        disk_make("new", SMALL, NAMES + i);
        place("new", name);
        usleep(2000);
        char path[SCENE_PATH], path_of_other[SCENE_PATH];
        scene_file_path(path, name);
        scene_file_path(path_of_other, other);
        CHECK_EQUAL(renameat2(AT_FDCWD, path, AT_FDCWD, path_of_other, RENAME_EXCHANGE), 0);
        usleep(2000);
    }
    step_done(0);
    for (unsigned i = 0; i < 2; i++)
        scene_wait(readers[i]);
}

/* ---- access ---- */

static void opens_with(unsigned times)
{
    struct calls before = calls_now();
    uses_f();
    MADE(before, .access = times, .read = 1);
}

static void change_mode(mode_t mode)
{
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    CHECK_EQUAL(chmod(path, mode), 0);
}

ENGINE_TEST(access_is_asked_for_again_when_the_mode_changed)
{
    disk_make("f", SIZE, 1);
    uses_f();
    usleep(20000);
    change_mode(0600);
    opens_with(1); /* another change time as well */
    opens_with(0); /* and that was told */
}

ENGINE_TEST(access_that_was_granted_holds_for_seconds_only)
{
    disk_make("f", SIZE, 1);
    uses_f();
    opens_with(0); /* at once */
    char path[SCENE_PATH];
    struct statx seen;
    struct mount_fact fact;
    struct mount_claim claim = claim_f(path, &seen);
    CHECK(mount_fact_of_file(&claim, &seen, &fact));
    CHECK(mount_fact_access(&fact, &seen) & NFS_ACCESS_READ);
    fact.access_ns -= UINT64_C(3000000000);
    CHECK_EQUAL(mount_fact_access(&fact, &seen), 0);
    mount_fact_file_is(&claim, &seen, &fact);
    opens_with(1); /* after three seconds */
    opens_with(0); /* which was told */
    CHECK(mount_fact_of_file(&claim, &seen, &fact));
    seen.stx_mode ^= 1;
    CHECK_EQUAL(mount_fact_access(&fact, &seen), 0);
    seen.stx_mode ^= 1;
    seen.stx_uid++;
    CHECK_EQUAL(mount_fact_access(&fact, &seen), 0);
    seen.stx_uid--;
    seen.stx_gid++;
    CHECK_EQUAL(mount_fact_access(&fact, &seen), 0);
}

static void may_read_only(void)
{
    uses_f();
    struct calls before = calls_now();
    int fd = engine_open("f", O_RDWR);
    CHECK(!file_is_managed(fd));
    CHECK(strcmp(engine_reason("f"), "server refuses access") == 0);
    CHECK(calls_now().access > before.access);
}

SCENE_TEST(what_was_not_granted_is_asked_for)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->access, NFS_ACCESS_READ);
    scene_run(uses_f);
    scene_run(may_read_only);
}

static void uses_it_as_another(void)
{
    setfsgid(4712);
    struct calls before = calls_now();
    uses_f();
    MADE(before, .lookup = 1, .access = 1, .getattr = 1, .read = 1);
}

SCENE_TEST(another_credential_is_told_nothing)
{
    if (geteuid() != 0)
        return;
    disk_make("f", SIZE, 1);
    scene_run(uses_f);
    scene_run(uses_it_as_another);
}

static void asks_each_time(void)
{
    struct calls before = calls_now();
    uses_f();
    uses_f();
    MADE(before, .access = 2, .getattr = 5, .read = 2); /* one for each look at the size */
}

SCENE_TEST(where_nothing_may_be_out_of_date_a_file_costs_one)
{
    disk_make("f", SIZE, 1);
    scene_run(uses_f);
    scene_configure("actimeo = 0.0;");
    scene_run(asks_each_time);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
