/* Which instance of a server is up, by the verifiers in its answers. */
#include "mount/mount.h"
#include "ledger/uncommitted.h"
#include "mount/verifier.h"

/* Under the server's lock. */
static void note_instance(struct mount_server *server, uint64_t verifier)
{
    if (server->verifier == verifier)
        return;
    server->before = server->verifier;
    server->before_until = server->up_until;
    server->up_since = server->up_until = 0;
    server->verifier = verifier;
}

void mount_server_saw(struct mount_server *server, uint64_t verifier, uint64_t sent_ns,
                      int64_t told)
{
    if (sent_ns <= atomic_load_explicit(&server->seen_ns, memory_order_relaxed))
        return; /* as most are: many calls leave together */
    pthread_mutex_lock(&server->lock);
    if (sent_ns > server->seen_ns) {
        note_instance(server, verifier);
        server->seen_ns = sent_ns;
        if (told != 0 && server->up_since == 0)
            server->up_since = told;
        if (told > server->up_until)
            server->up_until = told;
    }
    pthread_mutex_unlock(&server->lock);
}

bool mount_server_verifier(struct mount_server *server, uint64_t connected_ns, uint64_t *verifier)
{
    pthread_mutex_lock(&server->lock);
    bool known = server->seen_ns >= connected_ns && server->seen_ns != 0;
    *verifier = server->verifier;
    pthread_mutex_unlock(&server->lock);
    return known;
}

bool mount_server_was_up(struct mount_server *server, uint64_t verifier, int64_t time,
                         struct ledger_file *file)
{
    pthread_mutex_lock(&server->lock);
    bool noted = server->verifier == verifier; /* else an older call was answered so */
    int64_t since = noted ? server->up_since : 0;
    int64_t before_until = noted ? server->before_until : server->up_until;
    uint64_t before = noted ? server->before : server->verifier;
    pthread_mutex_unlock(&server->lock);
    return (since != 0 && time > since) ||
           (time <= before_until && !ledger_file_verifier_differs(file, before));
}
