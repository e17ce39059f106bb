/* Size and attributes of a file: what is known, and what the server is asked for. */
#include "file/attributes.h"
#include "file/inode.h"
#include "file/renew.h"
#include "mount/mounts.h"
#include "sys/sys.h"

enum { ASK_MOST = 3 }; /* while writes of this host keep overtaking the answers */

/* If attributes may be as old as this, some milliseconds more do not matter. */
#define ABOUT_NS UINT64_C(500000000)

uint64_t file_fresh_since(struct file_inode *inode)
{
    uint64_t allowed_ns = (uint64_t)(mount_tunables.actimeo * 1e9);
    uint64_t now_ns = allowed_ns >= ABOUT_NS ? sys_about_ns() : sys_now_ns();
    uint64_t opened_ns = atomic_load_explicit(&inode->opened_ns, memory_order_relaxed);
    uint64_t since_ns = now_ns > allowed_ns ? now_ns - allowed_ns : 0;
    return since_ns > opened_ns ? since_ns : opened_ns;
}

/* One question. *settled: the size that was told needs no further question. */
static int ask_once(struct file_inode *inode, const struct rpc_auth *auth,
                    struct ledger_attributes *attributes, bool *settled)
{
    uint64_t verified_ns;
    struct nfs_client client = mount_client(inode->mount, auth);
    struct nfs_attr attr;
    uint64_t asked_ns = sys_now_ns();
    uint64_t epoch = ledger_file_asking(&inode->entry);
    struct file_handle_use use = file_inode_use(inode);
    int result;
    do
        result = nfs_getattr(&client, use.fh, &attr);
    while (result == -ESTALE && file_inode_renew(inode, auth, &use));
    if (result != 0)
        return result;
    struct ledger_attributes fresh;
    file_attributes_convert(&attr, &fresh);
    ledger_file_learned(&inode->entry, epoch, &fresh, asked_ns);
    if (ledger_file_attributes(&inode->entry, attributes, &verified_ns)) {
        *settled = verified_ns >= asked_ns || fresh.size >= attributes->size;
    } else {
        uint64_t least = ledger_file_least_size(&inode->entry);
        *settled = ledger_file_asking(&inode->entry) == epoch; /* else it may be an older answer */
        *attributes = fresh;
        if (attributes->size < least)
            attributes->size = least;
    }
    return 0;
}

int file_inode_ask(struct file_inode *inode, const struct rpc_auth *auth,
                   struct ledger_attributes *attributes)
{
    bool settled = false;
    int result = 0;
    for (unsigned i = 0; i < ASK_MOST && result == 0 && !settled; i++)
        result = ask_once(inode, auth, attributes, &settled);
    return result;
}

bool file_inode_known(struct file_inode *inode, struct ledger_attributes *attributes)
{
    uint64_t verified;
    return ledger_file_attributes(&inode->entry, attributes, &verified) &&
           verified >= file_fresh_since(inode);
}

int file_inode_attributes(struct file_inode *inode, const struct rpc_auth *auth,
                          struct ledger_attributes *attributes)
{
    return file_inode_known(inode, attributes) ? 0 : file_inode_ask(inode, auth, attributes);
}
