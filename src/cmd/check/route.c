#include "cmd/check/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/check/report.h"

#define LINK(member) offsetof(struct check_route, member)

/* ---- addresses ---- */

/* The address in a struct sockaddr of either family. */
static void *address_bytes(const void *address, size_t *size)
{
    if (((const struct sockaddr *)address)->sa_family == AF_INET6) {
        *size = sizeof(struct in6_addr);
        return &((struct sockaddr_in6 *)address)->sin6_addr;
    }
    *size = sizeof(struct in_addr);
    return &((struct sockaddr_in *)address)->sin_addr;
}

static void set_address(struct sockaddr_storage *address, int family, const void *bytes)
{
    size_t size;
    *address = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
    void *place = address_bytes(address, &size);
    memcpy(place, bytes, size);
}

static const char *address_text(const struct sockaddr_storage *address, char text[INET6_ADDRSTRLEN])
{
    size_t size;
    const void *bytes = address_bytes(address, &size);
    return inet_ntop(address->ss_family, bytes, text, INET6_ADDRSTRLEN) ? text : "?";
}

/* True if the first `bits` are the same. */
static bool same_subnet(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
                        unsigned bits)
{
    size_t size;
    const unsigned char *first = address_bytes(a, &size), *second = address_bytes(b, &size);
    bool same = a->ss_family == b->ss_family && bits <= 8 * size;
    for (unsigned i = 0; same && i < bits; i++)
        same = ((first[i / 8] ^ second[i / 8]) & (0x80 >> i % 8)) == 0;
    return same;
}

/* ---- what the kernel tells ---- */

struct question {
    struct nlmsghdr header;
    struct rtmsg message;
    char attributes[128];
};

static void add_attribute(struct question *question, unsigned short type, const void *bytes,
                          size_t size)
{
    struct rtattr *attribute =
        (struct rtattr *)((char *)question + NLMSG_ALIGN(question->header.nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(RTA_DATA(attribute), bytes, size);
    question->header.nlmsg_len =
        NLMSG_ALIGN(question->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
}

static void add_address(struct question *question, unsigned short type,
                        const struct sockaddr_storage *address)
{
    size_t size;
    const void *bytes = address_bytes(address, &size);
    add_attribute(question, type, bytes, size);
}

static void read_answer(const struct nlmsghdr *header, struct check_route *route)
{
    const struct rtmsg *message = NLMSG_DATA(header);
    int family = message->rtm_family;
    size_t size = family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
    int left = (int)RTM_PAYLOAD(header);
    route->ours = message->rtm_type == RTN_LOCAL;
    for (const struct rtattr *at = RTM_RTA(message); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type == RTA_OIF && RTA_PAYLOAD(at) == sizeof(unsigned)) {
            unsigned index;
            memcpy(&index, RTA_DATA(at), sizeof(index));
            if (if_indextoname(index, route->out) == NULL)
                route->out[0] = '\0';
        } else if (at->rta_type == RTA_GATEWAY && RTA_PAYLOAD(at) == size) {
            inet_ntop(family, RTA_DATA(at), route->gateway, sizeof(route->gateway));
        } else if (at->rta_type == RTA_PREFSRC && RTA_PAYLOAD(at) == size &&
                   route->source.ss_family == AF_UNSPEC) {
            set_address(&route->source, family, RTA_DATA(at));
        }
    }
}

/* Asks for the route to the peer, as `ip route get` does. */
static void ask_route(const struct net_address *address, struct check_route *route)
{
    bool six = address->peer.ss_family == AF_INET6;
    bool local = address->local.ss_family != AF_UNSPEC;
    unsigned char bits = six ? 128 : 32;
    struct question question = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                   .nlmsg_type = RTM_GETROUTE,
                   .nlmsg_flags = NLM_F_REQUEST},
        .message = {.rtm_family = (unsigned char)address->peer.ss_family,
                    .rtm_dst_len = bits,
                    .rtm_src_len = local ? bits : 0},
    };
    add_address(&question, RTA_DST, &address->peer);
    if (local)
        add_address(&question, RTA_SRC, &address->local);
    uint32_t scope = six ? ((const struct sockaddr_in6 *)&address->peer)->sin6_scope_id : 0;
    if (scope != 0) /* of a link-local address: its interface */
        add_attribute(&question, RTA_OIF, &scope, sizeof(scope));
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return;
    _Alignas(struct nlmsghdr) char answer[8192];
    struct timeval limit = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ssize_t size = send(fd, &question, question.header.nlmsg_len, 0);
    if (size > 0)
        size = recv(fd, answer, sizeof(answer), 0);
    const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
    if (size > 0 && NLMSG_OK(header, (unsigned)size)) {
        if (header->nlmsg_type == NLMSG_ERROR)
            route->error = ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
        else if (header->nlmsg_type == RTM_NEWROUTE)
            read_answer(header, route);
    }
    close(fd);
}

static int rp_filter(const char *interface)
{
    char path[64 + IF_NAMESIZE];
    int number;
    snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/rp_filter", interface);
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%d", &number) != 1)
        number = 0;
    if (file)
        fclose(file);
    return number;
}

/* Finds speed and MTU of the interface. /sys may belong to another network namespace. */
static void find_link(struct check_route *route)
{
    struct ifreq request = {0};
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(request.ifr_name, route->out, sizeof(request.ifr_name));
    if (ioctl(fd, SIOCGIFMTU, &request) == 0)
        route->mtu = (unsigned)request.ifr_mtu;
    request.ifr_data = (char *)&command;
    if (ioctl(fd, SIOCETHTOOL, &request) == 0 &&
        ethtool_cmd_speed(&command) != (uint32_t)SPEED_UNKNOWN)
        route->speed = ethtool_cmd_speed(&command);
    if (fd >= 0)
        close(fd);
}

static void find_owner(struct check_route *route)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return;
    size_t size;
    const void *wanted = address_bytes(&route->source, &size);
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != route->source.ss_family ||
            memcmp(address_bytes(at->ifa_addr, &size), wanted, size) != 0)
            continue;
        snprintf(route->owner, sizeof(route->owner), "%s", at->ifa_name);
        route->prefix = 0;
        const unsigned char *mask = at->ifa_netmask ? address_bytes(at->ifa_netmask, &size) : NULL;
        for (size_t i = 0; mask && i < size; i++)
            route->prefix += (unsigned)__builtin_popcount(mask[i]);
    }
    freeifaddrs(list);
}

void check_route_find(const struct net_address *address, struct check_route *route)
{
    *route = (struct check_route){0};
    if (address->local.ss_family != AF_UNSPEC)
        route->source = address->local;
    ask_route(address, route);
    if (route->source.ss_family != AF_UNSPEC)
        find_owner(route);
    if (route->owner[0] && route->source.ss_family == AF_INET) {
        int all = rp_filter("all"), own = rp_filter(route->owner);
        route->strict = (own > all ? own : all) == 1; /* the greater one applies */
    }
    if (route->out[0])
        find_link(route);
}

/* ---- what it means ---- */

bool check_route_say(const struct net_address *address, const struct check_route *route)
{
    char source[INET6_ADDRSTRLEN] = "";
    const char *local = address->local_text;
    if (route->source.ss_family != AF_UNSPEC)
        address_text(&route->source, source);
    if (route->error) {
        check_say(CHECK_ERROR, "route", "there is no route to %s: %s", address->peer_text,
                  strerror(-route->error));
        check_remedy("set one up (ip route add), or correct `path` in the nfstab");
        return false;
    }
    if (route->out[0] == '\0')
        return true; /* the kernel does not tell */
    char speed[48] = "";
    if (route->speed)
        snprintf(speed, sizeof(speed), ", %u Mb/s", route->speed);
    check_say(CHECK_INFO, "route", "from %s by %s%s%s, MTU %u%s", source, route->out,
              route->ours         ? ": the server is this host"
              : route->gateway[0] ? " and the gateway "
                                  : ", on the link",
              route->ours ? "" : route->gateway, route->mtu, speed);
    check_word("interface", route->out);
    check_word("gateway", route->gateway);
    check_word("source", source);
    check_number("mtu", route->mtu);
    check_number("speed_mbit", route->speed);
    if (route->ours)
        return true;
    if (address->dontroute && route->gateway[0]) {
        check_say(CHECK_ERROR, "dontroute",
                  "%s is behind the gateway %s, and `dontroute` forbids to use it",
                  address->peer_text, route->gateway);
        check_remedy("take `dontroute` out of the stanza, or use an address of the server that is "
                     "on the link");
        return false;
    }
    if (local[0] && route->owner[0] && strcmp(route->out, route->owner) != 0) {
        check_say(CHECK_WARNING, "route",
                  "%s is an address of %s, but packets from it leave by %s%s", local, route->owner,
                  route->out,
                  route->strict ? ", and rp_filter drops what comes back by the other" : "");
        check_remedy("route by source: ip route add to the server by %s in a table of its own, and "
                     "ip rule add from %s for it%s",
                     route->owner, local,
                     route->strict ? "; or net.ipv4.conf.*.rp_filter = 2" : "");
    }
    return true;
}

static bool is_usable(const struct check_route *route)
{
    return route->out[0] && !route->ours;
}

/* True for the first path with this `link` (the offset of `out` or `owner`): it reports for the
 * others. */
static bool is_first(const struct check_route *const *routes, size_t at, size_t link)
{
    for (size_t i = 0; i < at; i++)
        if (is_usable(routes[i]) &&
            strcmp((const char *)routes[i] + link, (const char *)routes[at] + link) == 0)
            return false;
    return true;
}

static void compare_links(const struct check_route *const *routes, size_t count, size_t at)
{
    char paths[256] = "";
    unsigned sharing = 0;
    for (size_t i = at; i < count; i++) {
        if (!is_usable(routes[i]) || strcmp(routes[i]->out, routes[at]->out) != 0)
            continue;
        size_t used = strlen(paths);
        snprintf(paths + used, sizeof(paths) - used, "%s%zu", sharing++ ? ", " : "", i + 1);
    }
    if (sharing < 2)
        return;
    check_say(CHECK_WARNING, "routes",
              "the paths %s all leave by %s: they share its bandwidth, and fail with it", paths,
              routes[at]->out);
    check_remedy("give each path an interface of its own: `local`, and a subnet for each, or "
                 "routes by source");
}

static void compare_two(const struct check_route *const *routes, size_t i, size_t k)
{
    const struct check_route *a = routes[i], *b = routes[k];
    char first[INET6_ADDRSTRLEN], second[INET6_ADDRSTRLEN];
    if (a->mtu != b->mtu && a->mtu && b->mtu && is_first(routes, i, LINK(out)) &&
        is_first(routes, k, LINK(out))) {
        check_say(
            CHECK_WARNING, "routes",
            "path %zu has MTU %u and path %zu MTU %u: the smaller one is slower, or a mistake",
            i + 1, a->mtu, k + 1, b->mtu);
        check_remedy("set the same MTU on all interfaces and switches of both");
    }
    unsigned bits = a->prefix < b->prefix ? a->prefix : b->prefix;
    if (!a->owner[0] || !b->owner[0] || !is_first(routes, i, LINK(owner)) ||
        !is_first(routes, k, LINK(owner)) || !same_subnet(&a->source, &b->source, bits))
        return;
    bool apart = strcmp(a->out, a->owner) == 0 && strcmp(b->out, b->owner) == 0;
    check_say(apart ? CHECK_INFO : CHECK_WARNING, "subnet",
              "%s (%s) and %s (%s) are in one subnet of %u bits%s", address_text(&a->source, first),
              a->owner, address_text(&b->source, second), b->owner, bits,
              apart ? "; routes by source keep them apart"
                    : ", for which the kernel uses one interface only");
    if (!apart)
        check_remedy("put each path in a subnet of its own, or route by source (ip rule) with "
                     "arp_ignore = 1 and arp_announce = 2");
}

void check_routes_compare(const struct check_route *const *routes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_usable(routes[i]))
            continue;
        if (is_first(routes, i, LINK(out)))
            compare_links(routes, count, i);
        for (size_t k = i + 1; k < count; k++)
            if (is_usable(routes[k]))
                compare_two(routes, i, k);
    }
}
