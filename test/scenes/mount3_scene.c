/* See mount3_scene.h. */
#include "mount3_scene.h"

struct mount3_target target_of(const struct responder *responder)
{
    static const uint32_t groups[] = {7, 8, 9};
    static struct rpc_auth somebody;
    rpc_auth_sys(&somebody, "host", 1000, 1001, groups, 3);
    return (struct mount3_target){.address = &responder->address,
                                  .port = responder->port,
                                  .ports = NET_PORT_ANY,
                                  .timeout_ms = PATIENCE_MS,
                                  .auth = &somebody};
}

int mount_once(struct responder *responder, struct nfs_fh *root)
{
    struct mount3_target target;
    int rc;

    responder_start(responder);
    target = target_of(responder);
    rc = mount3_mount(&target, "/export", root, NULL, NULL);
    responder_stop(responder);
    return rc;
}

int mount_answered(enum manner manner, const char *reply)
{
    struct responder responder = {.manner = manner, .replies = {reply}};
    struct nfs_fh root;

    return mount_once(&responder, &root);
}

uint32_t word(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, 4);
    return ntohl(v);
}

int null_within(struct responder *responder, int timeout_ms)
{
    struct mount3_target target;
    int rc;

    responder_start(responder);
    target = target_of(responder);
    target.timeout_ms = timeout_ms;
    rc = mount3_null(&target);
    responder_stop(responder);
    return rc;
}
