/*
 * Attributes of files of the server of v41_server.h: RFC 8881, chapter 5.
 */
#ifndef TEST_V41_ATTRIBUTES_H
#define TEST_V41_ATTRIBUTES_H

#include "v41_sessions.h"

/* fattr4 of what is asked for and there is. */
void v41_put_attributes(struct v41_call *call, const struct v41_node *node,
                        const struct v41_bitmap *asked);
uint32_t v41_getattr(struct v41_call *call);

/* What a fattr4 says is to be set. */
struct v41_changes {
    struct v41_bitmap set;
    uint64_t size;
    uint32_t mode;
    struct timespec atime, mtime;
};

void v41_get_changes(struct v41_in *in, struct v41_changes *changes);
void v41_change(struct v41_node *node, const struct v41_changes *changes);

/* Of `change` only. */
uint32_t v41_verify(struct v41_call *call);

#endif
