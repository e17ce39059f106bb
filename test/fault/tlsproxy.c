/*
 * A TLS end before an NFS server: test/servers/tls_proxy.h.
 *
 *     tlsproxy PORT BACKEND CERTIFICATE KEY [direct] [anywhere] [client-authority FILE] [deny]
 *
 * SIGUSR1 cuts all connections. SIGUSR2 and SIGTERM print what was counted; SIGTERM ends it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls_proxy.h"

static void print(const struct tls_proxy *proxy)
{
    printf("connections=%u handshakes=%u clear=%u in_clear=%u alerts=%u certificates=%u "
           "bytes=%llu\n",
           proxy->count, proxy->handshakes, proxy->clear, proxy->in_clear, proxy->alerts,
           proxy->certificates, (unsigned long long)proxy->bytes);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: tlsproxy PORT BACKEND CERTIFICATE KEY [direct] [anywhere] "
                        "[deny] [client-authority FILE]\n");
        return 2;
    }
    struct tls_proxy_options options = {.port = (in_port_t)atoi(argv[1]),
                                        .backend = (in_port_t)atoi(argv[2]),
                                        .certificate = argv[3],
                                        .key = argv[4],
                                        .protocol = "sunrpc"};
    for (int i = 5; i < argc; i++) {
        if (strcmp(argv[i], "direct") == 0)
            options.direct = true;
        else if (strcmp(argv[i], "anywhere") == 0)
            options.anywhere = true;
        else if (strcmp(argv[i], "deny") == 0)
            options.answer = TLS_PROXY_DENIES;
        else if (strcmp(argv[i], "client-authority") == 0 && i + 1 < argc)
            options.client_authority = argv[++i];
    }
    sigset_t signals;
    int signal;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct tls_proxy *proxy = tls_proxy_start(&options);
    printf("ready\n");
    fflush(stdout);
    while (sigwait(&signals, &signal) == 0) {
        if (signal == SIGUSR1)
            tls_proxy_cut(proxy);
        else
            print(proxy);
        if (signal == SIGTERM)
            break;
    }
    return 0;
}
