/* A client of session_server.h, and one file there. */
#ifndef TEST_SESSION_SCENE_H
#define TEST_SESSION_SCENE_H

#include <errno.h>
#include <string.h>

#include "nfs/nfs4_call.h"
#include "nfs/nfs4_open.h"
#include "nfs/nfs4_session.h"
#include "config/tunables.h"
#include "net/pool.h"
#include "reach/server.h"
#include "session_server.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "unit.h"

enum { TIMEOUT_MS = 60000, BLOCK = 8192 };

extern struct nfs_client session_client;
extern const struct nfs_fh root, session_file;

int session_enter(void **unused);
int session_leave(void **unused);

#define SESSION_TEST(name) UNIT_TEST_WITH(name, session_enter, session_leave)

void fail_next(uint32_t op, uint32_t status, uint32_t count);
unsigned asked(uint32_t op);
int transfer(bool write, uint64_t offset, uint8_t *data, size_t length,
             struct nfs_transfer *transfer);
void write_block(uint8_t byte, struct nfs_transfer *done);
void read_block(uint8_t byte);

#endif
