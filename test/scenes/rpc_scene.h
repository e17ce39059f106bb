/*
 * A scene for the receiver: calls in flight, the stream of replies to them, and an owner that
 * delivers it into the vectors the receiver asks for. For test_rpc_receiver.c.
 */
#ifndef TEST_RPC_SCENE_H
#define TEST_RPC_SCENE_H

#include <stdbool.h>

#include "rpc/receiver.h"
#include "expecting.h"

enum { CALLS_MAX = 16, UNTOUCHED = 0xcd };

/* Whom the owner expects: nobody; one that is alone; those in flight, in the order of their calls;
 * any, in any order. */
enum only { ONLY_NEVER, ONLY_ALONE, ONLY_ORDER, ONLY_ANY, ONLY_KINDS };

enum payloads { PAYLOADS_NO, PAYLOADS_TRUE, PAYLOADS_ALWAYS, PAYLOADS_KINDS };

/* What is known of payloads: as they are; the callers hope for all that they asked for; anything.
 */
enum certain { CERTAIN_TRUE, CERTAIN_ALL, CERTAIN_ANY, CERTAIN_KINDS };

struct scene {
    struct expecting *calls[CALLS_MAX];
    unsigned count;
    struct bytes stream;
    struct rpc_receiver receiver;
    unsigned answers, receives;
    enum only only;
    enum payloads payloads;
    enum certain certain;
    bool compare; /* with the truth; not for garbage */
    uint64_t seed;
};

void answered(void *context, struct rpc_call *call);

/* One receive: at most `limit` bytes of what is at `data`. Returns how many, or -errno. */
ssize_t receive(struct scene *scene, const uint8_t *data, size_t limit);

/* Delivers bytes [from, to) of the stream in pieces of at most `piece`. 0 or -errno. */
int deliver(struct scene *scene, size_t from, size_t to, size_t piece);
void rewind_scene(struct scene *scene, bool fresh);
void check_all_answered(struct scene *scene);
struct scene *scene_new(uint64_t seed);
void scene_free(struct scene *scene);
struct expecting *scene_call(struct scene *scene, bool read, size_t destination, int vectors);

/* A READ of `length` bytes that is answered with `got`. */
void scene_read(struct scene *scene, bool attributes, size_t length, size_t got, int vectors);
void scene_plain(struct scene *scene, size_t length);
void scene_unknown(struct scene *scene, size_t length);

#endif
