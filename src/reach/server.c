#include "reach/server.h"

#include <errno.h>
#include <string.h>

#include "net/pool.h"
#include "net/tls/tls.h"
#include "nfs/nfs.h"
#include "sys/alloc.h"
#include "sys/sys.h"

enum { GROUPS_USUAL = 64, TRIES = 5 };

/* The first supplementary groups, in the order in which the kernel's client sends them. */
static void learn_groups(struct reach_identity *identity)
{
    uint32_t usual[GROUPS_USUAL], *groups = usual;
    long room = GROUPS_USUAL, count = sys_call2(SYS_getgroups, room, groups);
    for (int i = 0; i < TRIES && count == -EINVAL; i++) { /* there are more */
        if (groups != usual)
            sys_free(groups);
        room = sys_call2(SYS_getgroups, 0, NULL);
        groups = room > 0 ? sys_alloc((size_t)room * sizeof(*groups)) : NULL;
        count = groups ? sys_call2(SYS_getgroups, room, groups) : 0;
    }
    identity->groups_had = count > 0 ? (unsigned)count : 0;
    identity->group_count =
        identity->groups_had > REACH_GROUPS_MAX ? REACH_GROUPS_MAX : identity->groups_had;
    memcpy(identity->groups, groups ? groups : usual,
           identity->group_count * sizeof(identity->groups[0]));
    if (groups != usual)
        sys_free(groups);
}

void reach_identity_now(const struct conf_server *conf, struct reach_identity *identity)
{
    /* An identifier that does not exist changes nothing, and the call returns the old one. */
    uint32_t uid = (uint32_t)sys_call1(SYS_setfsuid, -1);
    uint32_t gid = (uint32_t)sys_call1(SYS_setfsgid, -1);
    identity->uid = conf->uid != CONF_ID_PROCESS ? conf->uid : uid;
    identity->gid = conf->gid != (gid_t)CONF_ID_PROCESS ? conf->gid : gid;
    learn_groups(identity);
}

enum net_port reach_port_policy(const struct conf_tunables *tunables)
{
    return tunables->privileged_port == CONF_PRIVILEGED_PORT_YES  ? NET_PORT_PRIVILEGED
           : tunables->privileged_port == CONF_PRIVILEGED_PORT_NO ? NET_PORT_ANY
                                                                  : NET_PORT_AUTO;
}

unsigned reach_port_of(const struct net_server *server)
{
    return server->channels[0]->local_port;
}

enum reach_service reach_nfs_from(const struct net_server *server)
{
    enum { LOW_BELOW = 1024 };
    return reach_port_of(server) >= LOW_BELOW ? REACH_NFS_HIGH_PORT : REACH_NFS;
}

struct net_tls *reach_tls_new(const struct conf_server *conf, enum conf_tls tls,
                              const struct nfs_version *version,
                              const struct conf_tunables *tunables)
{
    const struct net_tls_settings settings = {.direct = conf->tls_direct,
                                              .require = tls == CONF_TLS_REQUIRE,
                                              .ca = conf->tls_ca,
                                              .crl = conf->tls_crl,
                                              .cert = conf->tls_cert,
                                              .key = conf->tls_key,
                                              .name = conf->tls_name,
                                              .server = conf->name,
                                              .nfs_version = version->number,
                                              .kernel = tunables->tls_records !=
                                                        CONF_TLS_RECORDS_OPENSSL};
    return net_tls_new(&settings);
}

/* Whoever controls the resolver could otherwise choose the certificate. */
const char *reach_tls_written(const struct conf_server *conf, const struct conf_path *path)
{
    return conf->found ? NULL : path->peer;
}

int reach_over(const struct net_address *address, enum net_port ports, unsigned connections,
               const struct conf_tunables *tunables, struct net_tls *tls,
               struct net_server **server)
{
    struct net_server_options options = {.name = address->peer_text,
                                         .connections_max = connections,
                                         .port_policy = ports,
                                         .reconnect_max_s = 1,
                                         .retransmit_timeout_s =
                                             (unsigned)tunables->retransmit_timeout,
                                         .tls = tls,
                                         .hidden = true};
    *server = NULL;
    return net_server_create(&options, address, 1, server);
}
