/* A client of the server of secure_scene.h, for the tests of RPCSEC_GSS on a channel. */
#ifndef TEST_SECURE_CHANNEL_H
#define TEST_SECURE_CHANNEL_H

#include "secure_scene.h"
#include "unit.h"

/* Before and after each test: secure.server and secure.client. */
int secure_open(void **state);
int secure_close(void **state);
#define SECURE_TEST(name) UNIT_TEST_WITH(name, secure_open, secure_close)

/* Calls of all kinds and lengths, so many at a time. */
void secure_exchange(unsigned count, unsigned rounds);
/* The server has seen nothing that it must not see. */
void secure_check(void);

#endif
