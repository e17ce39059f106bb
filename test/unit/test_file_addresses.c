/* What the names of paths lead to, while a path is down: with a resolver of our own. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/nfstab.h"
#include "file/addresses.h"
#include "file/facts.h"
#include "host_test.h"
#include "net/pool.h"
#include "sys/proc.h"

static _Atomic unsigned asked, answered;
static _Atomic bool slow, silent;
static const char *addresses[] = {"192.0.2.1", "192.0.2.2"};
enum { ADDRESSES = 2 };

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict result)
{
    (void)service;
    struct in_addr numeric;
    if (hints->ai_flags & AI_NUMERICHOST && inet_pton(AF_INET, name, &numeric) != 1)
        return EAI_NONAME;
    atomic_fetch_add(&asked, 1);
    while (atomic_load(&slow))
        usleep(1000);
    if (atomic_load(&silent))
        return EAI_AGAIN;
    *result = NULL;
    for (int i = ADDRESSES - 1; i >= 0; i--) {
        struct addrinfo *one = calloc(1, sizeof(*one));
        struct sockaddr_in *address = calloc(1, sizeof(*address));
        assert_true(one && address);
        address->sin_family = AF_INET;
        inet_pton(AF_INET, addresses[i], &address->sin_addr);
        one->ai_addr = (struct sockaddr *)address;
        one->ai_addrlen = sizeof(*address);
        one->ai_next = *result;
        *result = one;
    }
    atomic_fetch_add(&answered, 1);
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list->ai_addr);
        free(list);
        list = next;
    }
}

static struct conf_server server = {.name = "s"};

/* Of a server that this process has at the first address, by a path of that name. */
static void find(const struct conf_path *path, struct file_addresses *found)
{
    struct net_address address = {.peer.ss_family = AF_INET};
    struct net_server_options options = {.name = "s", .connections_max = 1, .hidden = true};
    struct file_server place = {.conf = &server};
    snprintf(address.peer_text, sizeof(address.peer_text), "%.63s", path->peer);
    inet_pton(AF_INET, addresses[1], &((struct sockaddr_in *)&address.peer)->sin_addr);
    assert_int_equal(net_server_create(&options, &address, 1, &place.net), 0);
    server.paths = (struct conf_path *)path;
    server.path_count = 1;
    file_addresses_find(&place, false, found);
    net_server_destroy(place.net);
}

UNIT_TEST(where_the_server_is_comes_first)
{
    static const struct conf_path path = {.peer = "is.there"};
    struct file_addresses found;
    struct in_addr first;
    find(&path, &found);
    assert_int_equal(inet_pton(AF_INET, addresses[1], &first), 1);
    assert_int_equal(found.faults[0], 0);
    assert_int_equal(found.found[0].count, ADDRESSES);
    assert_memory_equal(&((struct sockaddr_in *)&found.paths[0].peer)->sin_addr, &first,
                        sizeof(first));
}

/* ---- where others found it ---- */

static const struct conf_path remembered = {.peer = "where.others.are"};

/* The fact that it was found there. */
static void found_at(const char *text)
{
    struct sockaddr_storage peer = {.ss_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&peer)->sin_addr), 1);
    file_address_is(&server, &remembered, &peer);
}

/* This one is to be tried first. Returns how many are. */
static size_t expect_first(bool data, const char *expected)
{
    struct file_server place = {.conf = &server};
    struct file_addresses found;
    char text[INET6_ADDRSTRLEN];
    server.paths = (struct conf_path *)&remembered;
    server.path_count = 1;
    file_addresses_find(&place, data, &found);
    assert_int_equal(found.faults[0], 0);
    inet_ntop(AF_INET, &((struct sockaddr_in *)&found.paths[0].peer)->sin_addr, text, sizeof(text));
    assert_string_equal(text, expected);
    return found.found[0].count;
}

UNIT_TEST(all_go_where_the_server_answered_one)
{
    found_at("192.0.2.2");
    (void)expect_first(false, "192.0.2.2");
}

/* It may be a copy by now, which was left up. */
UNIT_TEST(an_address_that_the_resolver_does_not_give_any_more_is_left)
{
    found_at("192.0.2.9");
    assert_int_equal(expect_first(false, "192.0.2.1"), ADDRESSES);
}

UNIT_TEST(it_is_not_while_there_is_data_for_it)
{
    found_at("192.0.2.9");
    assert_int_equal(expect_first(true, "192.0.2.9"), 1);
}

UNIT_TEST(it_is_not_while_the_resolver_does_not_answer)
{
    found_at("192.0.2.9");
    atomic_store(&silent, true);
    assert_int_equal(expect_first(false, "192.0.2.9"), 1);
    atomic_store(&silent, false);
}

static int is_remembered_elsewhere(void *unused)
{
    struct sockaddr_storage peer;
    (void)unused;
    must(unshare(CLONE_NEWNET) == 0);
    sys_proc_keep();
    return file_fact_of_address(&server, &remembered, &peer);
}

/* The name may lead to another address there. */
UNIT_TEST(who_begins_in_another_network_namespace_has_his_own)
{
    if (geteuid() != 0)
        return; /* only root may go there */
    found_at("192.0.2.9");
    assert_int_equal(run_child(is_remembered_elsewhere, NULL), 0);
}

/* ---- other ones ---- */

/* The next address of the path than the one in `text`, which it becomes. */
static bool next(const struct conf_path *path, char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_storage peer = {.ss_family = AF_INET};
    inet_pton(AF_INET, text, &((struct sockaddr_in *)&peer)->sin_addr);
    if (!file_address_next(&server, path, &peer))
        return false;
    inet_ntop(AF_INET, &((struct sockaddr_in *)&peer)->sin_addr, text, INET6_ADDRSTRLEN);
    return true;
}

UNIT_TEST(the_addresses_of_a_name_are_told_in_turn)
{
    static const struct conf_path path = {.peer = "in.turn"};
    char text[INET6_ADDRSTRLEN] = "192.0.2.9";
    atomic_store(&asked, 0);
    while (!next(&path, text)) /* the resolver is asked by another thread */
        usleep(1000);
    assert_string_equal(text, "192.0.2.1");
    assert_true(next(&path, text));
    assert_string_equal(text, "192.0.2.2");
    assert_true(next(&path, text));
    assert_string_equal(text, "192.0.2.1");
    assert_int_equal(atomic_load(&asked), 1); /* not so soon again */
}

UNIT_TEST(an_address_is_no_name)
{
    static const struct conf_path path = {.peer = "192.0.2.1"};
    char text[INET6_ADDRSTRLEN] = "192.0.2.9";
    assert_false(next(&path, text));
}

/* It is slow. Whoever forks has other things to do; and what the C library has locked for the
 * resolver stays so in the child. */
UNIT_TEST(a_fork_does_not_wait_for_long_and_the_child_never_asks)
{
    static const struct conf_path path = {.peer = "at.fork"}, other = {.peer = "in.child"};
    char text[INET6_ADDRSTRLEN] = "192.0.2.9";
    unsigned asked_before = atomic_load(&asked);
    int status;
    atomic_store(&slow, true);
    assert_false(next(&path, text));
    while (atomic_load(&asked) == asked_before)
        usleep(1000);
    file_addresses_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        file_addresses_fork_child();
        struct file_server place = {.conf = &server};
        struct file_addresses found;
        server.paths = (struct conf_path *)&other;
        server.path_count = 1;
        file_addresses_find(&place, false, &found);
        _exit(next(&path, text) || next(&other, text) || found.faults[0] != -EHOSTUNREACH ||
              atomic_load(&asked) != asked_before + 1);
    }
    file_addresses_fork_parent();
    atomic_store(&slow, false);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    while (!next(&path, text))
        usleep(1000);
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
