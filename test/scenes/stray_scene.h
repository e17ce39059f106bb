/* A file of which a dead process left something, and the writes of this host that prove it. */
#ifndef STRAY_SCENE_H
#define STRAY_SCENE_H

#include "agent_scene.h"
#include "ledger/commits.h"
#include "ledger/store/hold.h"
#include "ledger/strays.h"

extern struct ledger_file file;
extern uint8_t bytes[LEDGER_STRAY_MAX];

/* So that it is known what the file is at the server. */
void learn_times(int64_t mtime);
enum ledger_stray_proof prove(int64_t ctime);

/* All that was left is proven if the file has this ctime, and nothing if it has another one. */
void expect_proof_of_all(int64_t ctime);

/* *watched: it asks first. It leaves 8 KiB. */
int dies_with_dirty_data(void *watched);
void leave(bool watched);
void open_file(uint64_t inode);
void forget_file(void);

/* A write of this host at `offset`. */
void begin_write(uint64_t offset, struct ledger_write *write);

/* The server tells the ctimes of before and after it. */
void end_write_as(struct ledger_write *write, enum ledger_outcome outcome, int64_t before,
                  int64_t after);
void end_write(struct ledger_write *write, int64_t before, int64_t after);
void write_at(uint64_t offset, int64_t before, int64_t after);

/* The first one that is marked, from an offset on. */
void expect_stray(uint64_t mark, uint64_t from, uint64_t offset, uint32_t length);
int dies_with_acked_data(void *in_flight);

#endif
