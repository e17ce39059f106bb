/* directnfs check: reports, and what routes and mount options mean. */
#include <stdlib.h>
#include <string.h>

#include "../../src/cmd/check/kernel.c"
#include "../../src/cmd/check/read.c"
#include "../../src/cmd/check/report.c"
#include "../../src/cmd/check/route.c"
#include "../../src/cmd/print.c"
#include "unit.h"

/* ---- what was printed ---- */

static char *text;
static size_t text_size;
static FILE *terminal;

static void begin(bool json)
{
    free(text);
    terminal = stdout;
    stdout = open_memstream(&text, &text_size);
    assert_non_null(stdout);
    check_begin(json, "nfstab", "na\"me");
}

/* The text is valid up to the next begin(). */
static int end(void)
{
    int status = check_end("the %s", "end");
    fclose(stdout);
    stdout = terminal;
    return status;
}

static bool printed(const char *part)
{
    return strstr(text, part) != NULL;
}

/* In place of other files of the command, which read.c calls. */
bool check_lies_in(const char *path, const char *directory)
{
    return strncmp(path, directory, strlen(directory)) == 0;
}

int check_time(int (*call)(void *), void *argument, uint64_t *median_us)
{
    *median_us = 0;
    return call(argument);
}

static int forget(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, NULL, forget)

/* ---- reports ---- */

static void say_all(void)
{
    static const char *const names[] = {"one", "two"};
    check_enter("server", "%s", "s\x1b[31m");
    check_enter("", "path %d", 1);
    check_say(CHECK_INFO, "NFS", "answers");
    check_number("rtt_us", 17);
    check_leave();
    check_say(CHECK_WARNING, "routes", "are odd");
    check_names("names", names, 2);
    check_remedy("do this");
    check_remedy("or that");
    check_leave();
}

TEST(report_for_people)
{
    begin(false);
    say_all();
    assert_int_equal(end(), CMD_FINE);
    assert_string_equal(text, "\nserver      s\\x1b[31m\n"
                              "  path 1\n"
                              "    NFS         answers\n"
                              "  routes      WARNING: are odd\n"
                              "              one, two\n"
                              "  remedy      do this\n"
                              "  remedy      or that\n"
                              "\nthe end\n");
}

TEST(report_for_programs)
{
    begin(true);
    say_all();
    check_say(CHECK_ERROR, "MOUNT", "refused");
    assert_int_equal(end(), CMD_NOT_FINE);
    char flat[4096], *to = flat;
    for (const char *from = text; *from; from++)
        if (*from != '\n' && *from != ' ')
            *to++ = *from;
    *to = '\0';
    assert_string_equal(
        flat,
        "{\"checked\":\"nfstab\",\"name\":\"na\\\"me\",\"findings\":["
        "{\"severity\":\"info\",\"where\":[\"servers\\\\x1b[31m\",\"path1\"],\"label\":\"NFS\","
        "\"text\":\"answers\",\"rtt_us\":17},"
        "{\"severity\":\"warning\",\"where\":[\"servers\\\\x1b[31m\"],\"label\":\"routes\","
        "\"text\":\"areodd\",\"names\":[\"one\",\"two\"],\"remedy\":\"dothis.orthat\"},"
        "{\"severity\":\"error\",\"where\":[],\"label\":\"MOUNT\",\"text\":\"refused\"}],"
        "\"errors\":1,\"warnings\":1,\"status\":\"notfine\",\"verdict\":\"theend\"}");
}

TEST(many_names_are_wrapped)
{
    const char *names[100];
    for (size_t i = 0; i < 100; i++)
        names[i] = "pwritev64v2";
    begin(false);
    check_names("names", names, 100);
    end();
    size_t longest = 0, lines = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
        longest = strlen(line) > longest ? strlen(line) : longest;
        lines++;
    }
    assert_in_range(longest, 80, 100);
    assert_in_range(lines, 13, 20);
}

/* ---- what a round trip means ---- */

static void wait_for_reads(bool json, int read_ahead_max, size_t length, uint64_t read_us)
{
    struct check check = {.tunables.read_ahead_max = read_ahead_max};
    const struct check_path path = {.check = &check, .mib_per_s = 400};
    begin(json);
    say_waiting(&path, length, read_us);
    end();
}

TEST(one_read_after_the_other_gets_a_read_in_each_round_trip)
{
    wait_for_reads(false, 0, 8192, 500);
    assert_true(printed("a read of 8192 bytes takes 500 us (median), which is 15.6 MiB/s for who "
                        "waits for each; nothing is read ahead (read_ahead_max)\n"));
    assert_true(printed("set read_ahead_max"));
    wait_for_reads(true, 0, 8192, 500);
    assert_true(printed("\"read_us\": 500"));
    assert_true(printed("\"waiting_bytes_per_second\": 16384000"));
    assert_false(printed("ahead_bytes"));
}

TEST(reading_ahead_gets_its_bytes_in_each_round_trip)
{
    wait_for_reads(true, 131072, 8192, 500);
    assert_true(printed("at most 250 MiB/s where it is read ahead"));
    assert_true(printed("\"ahead_bytes_per_second\": 262144000"));
    assert_false(printed("remedy"));
}

TEST(reading_ahead_gets_no_more_than_the_path_has)
{
    wait_for_reads(false, 4 << 20, 8192, 500);
    assert_true(printed("at most 400 MiB/s where it is read ahead"));
}

TEST(near_servers_need_no_reading_ahead)
{
    wait_for_reads(false, 0, 8192, 30);
    assert_true(printed("which is 260.4 MiB/s"));
    assert_false(printed("remedy"));
    wait_for_reads(false, 0, 8192, 0); /* less than a microsecond */
    assert_true(printed("takes 0 us"));
}

/* ---- routes ---- */

/* A route by `out` from an address of `owner`. */
static struct check_route route(const char *out, const char *owner, const char *source)
{
    struct check_route route = {.prefix = 24, .mtu = 1500};
    struct in_addr address;
    assert_int_equal(inet_pton(AF_INET, source, &address), 1);
    set_address(&route.source, AF_INET, &address);
    snprintf(route.out, sizeof(route.out), "%s", out);
    snprintf(route.owner, sizeof(route.owner), "%s", owner);
    return route;
}

/* Compares and returns the number of warnings. */
static unsigned compare(const struct check_route *list, size_t count)
{
    const struct check_route *routes[8];
    for (size_t i = 0; i < count; i++)
        routes[i] = &list[i];
    begin(false);
    check_routes_compare(routes, count);
    unsigned warnings = check_report.counts[CHECK_WARNING];
    end();
    return warnings;
}

TEST(good_routes)
{
    const struct check_route apart[] = {route("eth1", "eth1", "192.168.1.5"),
                                        route("eth2", "eth2", "192.168.2.5")};
    assert_int_equal(compare(apart, 2), 0);
    /* Everything is on this host: there is no network to be wrong. */
    struct check_route here[] = {route("lo", "lo", "127.0.0.1"), route("lo", "lo", "127.0.0.1")};
    here[0].ours = here[1].ours = true;
    assert_int_equal(compare(here, 2), 0);
    /* Not known is no mistake. */
    const struct check_route unknown[] = {{0}, {0}, route("eth1", "eth1", "192.168.1.5")};
    assert_int_equal(compare(unknown, 3), 0);
}

TEST(routes_by_one_interface)
{
    const struct check_route routes[] = {
        route("eth1", "eth1", "192.168.1.5"), route("eth2", "eth2", "192.168.2.5"),
        route("eth1", "eth1", "192.168.1.5"), route("eth1", "eth1", "192.168.1.5")};
    assert_int_equal(compare(routes, 4), 1);
    assert_true(printed("the paths 1, 3, 4 all leave by eth1"));
}

TEST(two_locals_in_one_subnet)
{
    struct check_route routes[] = {route("eth1", "eth1", "192.168.1.5"),
                                   route("eth1", "eth2", "192.168.1.6")};
    assert_int_equal(compare(routes, 2), 2);
    assert_true(printed("192.168.1.5 (eth1) and 192.168.1.6 (eth2) are in one subnet of 24 bits"));
    /* Routes by source: allowed, and told. */
    snprintf(routes[1].out, sizeof(routes[1].out), "eth2");
    assert_int_equal(compare(routes, 2), 0);
    assert_true(printed("routes by source keep them apart"));
    /* The smaller subnet counts: what is in /24 together is apart in /25. */
    routes[1] = route("eth2", "eth2", "192.168.1.200");
    routes[0].prefix = routes[1].prefix = 25;
    assert_int_equal(compare(routes, 2), 0);
    assert_false(printed("subnet"));
}

TEST(frames_of_different_size)
{
    struct check_route routes[] = {route("eth1", "eth1", "192.168.1.5"),
                                   route("eth2", "eth2", "192.168.2.5")};
    routes[0].mtu = 9000;
    assert_int_equal(compare(routes, 2), 1);
    assert_true(printed("path 1 has MTU 9000 and path 2 MTU 1500"));
}

/* Says one route; returns whether anything can be sent. */
static bool say(const struct check_route *route, const char *local, bool dontroute, int expected)
{
    struct net_address address = {.dontroute = dontroute, .peer_text = "10.1.1.1"};
    snprintf(address.local_text, sizeof(address.local_text), "%s", local);
    begin(false);
    bool result = check_route_say(&address, route);
    assert_int_equal(check_report.counts[CHECK_WARNING] ? CHECK_WARNING : CHECK_INFO,
                     expected == CHECK_WARNING ? CHECK_WARNING : CHECK_INFO);
    assert_int_equal(end(), expected == CHECK_ERROR ? CMD_NOT_FINE : CMD_FINE);
    return result;
}

TEST(one_route)
{
    struct check_route by = route("eth1", "eth1", "192.168.1.5");
    by.speed = 25000;
    assert_true(say(&by, "192.168.1.5", true, CHECK_INFO));
    assert_true(printed("from 192.168.1.5 by eth1, on the link, MTU 1500, 25000 Mb/s"));
    snprintf(by.gateway, sizeof(by.gateway), "192.168.1.1");
    assert_true(say(&by, "", false, CHECK_INFO));
    assert_true(printed("by eth1 and the gateway 192.168.1.1, MTU"));
    assert_false(say(&by, "", true, CHECK_ERROR));
    assert_true(printed("10.1.1.1 is behind the gateway 192.168.1.1"));
    by.gateway[0] = '\0';
    snprintf(by.owner, sizeof(by.owner), "eth2");
    assert_true(say(&by, "192.168.1.5", false, CHECK_WARNING));
    assert_true(printed("192.168.1.5 is an address of eth2, but packets from it leave by eth1"));
    assert_false(printed("rp_filter"));
    by.strict = true;
    assert_true(say(&by, "192.168.1.5", false, CHECK_WARNING));
    assert_true(printed("rp_filter drops what comes back"));

    struct check_route none = {.error = -ENETUNREACH};
    assert_false(say(&none, "", false, CHECK_ERROR));
    assert_true(printed("no route to 10.1.1.1: Network is unreachable"));
    struct check_route unknown = {0};
    assert_true(say(&unknown, "", false, CHECK_INFO));
}

/* The kernel is asked for a route that every host has. */
UNIT_TEST(route_to_this_host)
{
    struct net_address address = {.peer_text = "127.0.0.1"};
    struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
    struct check_route found;
    set_address(&address.peer, AF_INET, &loopback);
    check_route_find(&address, &found);
    if (found.out[0] == '\0')
        skip(); /* no netlink here */
    assert_true(found.ours);
    assert_string_equal(found.out, "lo");
    assert_true(found.mtu > 1000);
}

/* ---- mount options ---- */

static unsigned mounted(const char *type, const char *options)
{
    struct conf_mount mount = {
        .type = type, .source = "nas:/x", .options = "rw,relatime", .super_options = options};
    begin(false);
    check_kernel_mount(&mount);
    unsigned warnings = check_report.counts[CHECK_WARNING];
    end();
    return warnings;
}

TEST(mount_options)
{
    assert_int_equal(mounted("ext4", "rw,sync"), 0);
    assert_false(printed("mounted"));
    assert_int_equal(mounted("nfs", "rw,vers=3,rsize=1048576,wsize=1048576,hard,proto=tcp,"
                                    "timeo=600,local_lock=none,addr=10.1.1.1"),
                     0);
    assert_true(printed("mounted from nas:/x, NFS version 3"));
    assert_int_equal(mounted("nfs", "rw,vers=3,rsize=32768,wsize=1048576,hard,proto=tcp"), 1);
    assert_true(printed("mounted with rsize=32768"));
    assert_int_equal(mounted("nfs", "rw,vers=3,soft,proto=udp,noac,sync,local_lock=all"), 5);
    assert_true(printed("mounted with soft: "));
    assert_true(printed("mount hard"));
    assert_true(printed("mounted with proto=udp: "));
    assert_int_equal(mounted("nfs4", "rw,vers=4.2,hard,proto=tcp"), 0);
    assert_int_equal(mounted("nfs4", "rw,vers=4.2,hard,proto=tcp,softreval"), 1);
    assert_int_equal(mounted("nfs4", "rw,vers=4.0,hard,proto=tcp"), 1);
    assert_true(printed("mount with vers=4.1 or later, or with vers=3"));
    assert_int_equal(mounted("nfs", "rw,vers=2,hard"), 1);
}

/* The kernel's server tells steps of a second, whatever the file system. */
UNIT_TEST(times_tell_of_finer_steps)
{
    struct nfs_attr attr = {
        .atime = {1700000000, 0}, .mtime = {1700000000, 0}, .ctime = {1700000000, 0}};
    assert_false(check_times_are_finer(&attr, 1000000000));
    attr.mtime.nsec = 123456789;
    assert_true(check_times_are_finer(&attr, 1000000000));
    attr.mtime.nsec = 120000000;
    assert_false(check_times_are_finer(&attr, 20000000)); /* of steps that are told rightly */
}

int main(void)
{
    return unit_run(NULL, NULL);
}
