/* directnfs exporter: the socket that it listens on, and the rights that it keeps. */
#include <errno.h>
#include <linux/capability.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/exporter/exporter.h"

enum { HANDED = 3, BACKLOG = 64 }; /* HANDED: the first descriptor of sd_listen_fds(3) */

bool exporter_is_handed(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    double number;
    return pid && count && cmd_parse_number(pid, false, 1, INT32_MAX, &number) &&
           (pid_t)number == getpid() && cmd_parse_number(count, false, 1, INT32_MAX, &number);
}

static int handed(char why[EXPORTER_WHY])
{
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (strcmp(getenv("LISTEN_FDS"), "1") != 0)
        snprintf(why, EXPORTER_WHY, "systemd hands over %.20s sockets; one is served",
                 getenv("LISTEN_FDS"));
    else if (getsockopt(HANDED, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
        snprintf(why, EXPORTER_WHY, "what systemd hands over is no socket that listens");
    else
        return HANDED;
    return -1;
}

/* Takes "ADDRESS:PORT" apart, in place. */
static bool split(char *where, const char **address, const char **port)
{
    char *colon = strrchr(where, ':');
    double number;
    if (colon == NULL || !cmd_parse_number(colon + 1, false, 1, 65535, &number))
        return false;
    *colon = '\0';
    *port = colon + 1;
    size_t length = strlen(where);
    if (where[0] == '[' && where[length - 1] == ']') {
        where[length - 1] = '\0';
        *address = where + 1;
        return true;
    }
    *address = length ? where : NULL; /* all addresses */
    return strchr(where, ':') == NULL;
}

int exporter_listen(const char *where, bool *wrong, char why[EXPORTER_WHY])
{
    char text[128];
    const char *address = NULL, *port = NULL;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    *wrong = false;
    if (where == NULL)
        return handed(why);
    bool fits = (size_t)snprintf(text, sizeof(text), "%s", where) < sizeof(text);
    if (!fits || !split(text, &address, &port) || getaddrinfo(address, port, &hints, &found) != 0) {
        *wrong = true;
        snprintf(why, EXPORTER_WHY,
                 "--listen takes ADDRESS:PORT, [ADDRESS]:PORT or :PORT, in numbers, not '%.60s'",
                 where);
        return -1;
    }
    const int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        snprintf(why, EXPORTER_WHY, "cannot listen on %.60s: %s", where, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

bool exporter_drop_privileges(void)
{
    /* For opening the directories of users, and for being these users while their files are
     * read. */
    const uint32_t kept = 1u << CAP_DAC_READ_SEARCH | 1u << CAP_SETUID | 1u << CAP_SETGID;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = 0}};
    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    for (int i = 0; i < 64; i++)
        if ((i > 31 || !(kept & 1u << i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0 &&
            errno != EINVAL && errno != EPERM) /* it is unknown, or it is dropped below */
            return false;
    data[0].permitted &= kept;
    data[0].effective = data[0].permitted;
    data[1].permitted = data[1].effective = data[0].inheritable = data[1].inheritable = 0;
    return syscall(SYS_capset, &header, data) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}
