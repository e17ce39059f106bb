/* What the names of paths lead to, while a path is down: with a resolver of our own. */
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/nfstab.h"
#include "file/addresses.h"
#include "unit.h"

static _Atomic unsigned asked, answered;
static _Atomic bool slow;
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

static _Atomic bool forking;

static void *forks(void *before)
{
    atomic_store(&forking, true);
    file_addresses_fork_prepare();
    *(unsigned *)before = atomic_load(&answered);
    file_addresses_fork_parent();
    return NULL;
}

UNIT_TEST(a_fork_waits_for_the_resolver)
{
    static const struct conf_path path = {.peer = "at.fork"};
    char text[INET6_ADDRSTRLEN] = "192.0.2.9";
    unsigned asked_before = atomic_load(&asked), answered_before = atomic_load(&answered), then;
    pthread_t thread;
    atomic_store(&slow, true);
    assert_false(next(&path, text));
    while (atomic_load(&asked) == asked_before)
        usleep(1000);
    assert_int_equal(pthread_create(&thread, NULL, forks, &then), 0);
    while (!atomic_load(&forking))
        usleep(1000);
    usleep(20000); /* it would not wait at all */
    atomic_store(&slow, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(then, answered_before + 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
