/* Calls of rpc_server.h, whose answers show any mix-up, and clients for them. */
#ifndef TEST_QUERIES_H
#define TEST_QUERIES_H

#include <unistd.h>

#include "expecting.h"
#include "net/pool.h"
#include "rpc_server.h"
#include "unit.h"

/* One call with its token; filled by query_begin(), compared by query_check(). */
struct query {
    struct rpc_call call;
    enum procedure procedure;
    uint32_t token;
    size_t length, room;
    uint8_t *memory;
    struct iovec vectors[2];
};

/* The credential of queries that begin from now on; NULL: AUTH_SYS. */
extern const struct rpc_auth *query_auth;

void query_begin(struct query *query, enum procedure procedure, uint32_t token, size_t length);

/* True if the answer is the one to this call. Does not use cmocka: for threads. */
bool query_good(const struct query *query);
void query_free(struct query *query);
struct net_address loopback(in_port_t port);
struct net_server *client_new(in_port_t port, unsigned connections, unsigned retransmit_timeout_s);

/* Submits one call and waits for it, for at most so long (0: for ever). Its error. */
int query_wait(struct net_server *client, struct query *query, int timeout_ms);

/* A thread that waits for a call. */
void *wait_for_one(void *context);

/* For a call that nobody waits for: 1 when it is over, or its error. */
extern _Atomic int call_ended;

void note_call_end(struct rpc_call *call);
bool call_has_ended(void *unused);
void check_echo(struct net_server *client, uint32_t token);

/* Around each test: a call that is never answered hangs, and ends the program, which is a failure.
 */
enum { WATCHDOG_S = 1200 };

int watchdog_start(void **state);
int watchdog_stop(void **state);

#define CALL_TEST(name) UNIT_TEST_WITH(name, watchdog_start, watchdog_stop)

#endif
