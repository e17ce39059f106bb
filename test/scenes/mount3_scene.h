/* Calls of MOUNT and of the port mapper to mount3_responder.h. */
#ifndef TEST_MOUNT3_SCENE_H
#define TEST_MOUNT3_SCENE_H

#include "mount3_responder.h"
#include "nfs/mount3.h"
#include "unit.h"

/* Generous: only a test of the timeout itself waits for it. */
#define PATIENCE_MS 20000

struct mount3_target target_of(const struct responder *responder);
int mount_once(struct responder *responder, struct nfs_fh *root);
int mount_answered(enum manner manner, const char *reply);
uint32_t word(const uint8_t *at);
int null_within(struct responder *responder, int timeout_ms);

#endif
