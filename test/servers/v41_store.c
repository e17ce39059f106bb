/* See v41_store.h. */
#include "v41_store.h"

void v41_control_init(struct v41_control *control)
{
    memset(control, 0, sizeof(*control));
    control->slots = V41_SLOTS;
    control->largest = 1 << 20 | 4096;
    control->cached = 4096;
    control->lease_s = 20;
    control->minor = 1;
    control->access = 0x3f;
    control->handle_length = 24;
    control->flavor = 1;
    control->verifier = 0x5eed;
    memcpy(control->owner, "memory", 7);
    memcpy(control->scope, "memory", 7);
}

bool v41_counts(_Atomic unsigned *count)
{
    unsigned now = atomic_load(count);
    while (now > 0 && !atomic_compare_exchange_weak(count, &now, now - 1))
        ;
    return now > 0;
}

bool v41_ends(_Atomic unsigned *count)
{
    unsigned now = atomic_load(count);
    while (now > 0 && !atomic_compare_exchange_weak(count, &now, now - 1))
        ;
    return now == 1;
}

static void v41_touch(struct v41_node *node)
{
    clock_gettime(CLOCK_REALTIME, &node->ctime);
    node->mtime = node->ctime;
    node->change++;
}

struct v41_node *v41_node_new(struct v41_store *store, struct v41_node *parent, const char *name,
                              bool directory)
{
    for (unsigned i = 0; i < V41_NODES; i++) {
        struct v41_node *node = &store->nodes[i];
        if (node->id != 0)
            continue;
        *node = (struct v41_node){.id = ++store->ids,
                                  .parent = parent ? parent->id : 0,
                                  .directory = directory,
                                  .mode = directory ? 0755 : 0644};
        for (unsigned at = 0; at < V41_NAME - 1 && name[at] != 0; at++)
            node->name[at] = name[at];
        v41_touch(node);
        node->atime = node->mtime;
        if (parent)
            v41_touch(parent);
        return node;
    }
    return NULL;
}

struct v41_node *v41_child(struct v41_store *store, const struct v41_node *parent, const void *name,
                           size_t length)
{
    for (unsigned i = 0; i < V41_NODES; i++) {
        struct v41_node *node = &store->nodes[i];
        if (node->id && node->parent == parent->id && strlen(node->name) == length &&
            memcmp(node->name, name, length) == 0)
            return node;
    }
    return NULL;
}

static void v41_resize(uint8_t **data, size_t *size, size_t to)
{
    *data = realloc(*data, to + 1);
    if (!*data)
        abort();
    if (to > *size)
        memset(*data + *size, 0, to - *size);
    *size = to;
}

/* Before the first change that is not stable. */
static void v41_node_save(struct v41_node *node)
{
    if (node->dirty)
        return;
    node->dirty = true;
    node->durable = NULL;
    node->durable_size = 0;
    v41_resize(&node->durable, &node->durable_size, node->size);
    if (node->size)
        memcpy(node->durable, node->data, node->size);
}

void v41_node_commit(struct v41_node *node)
{
    free(node->durable);
    node->durable = NULL;
    node->dirty = false;
}

void v41_node_write(struct v41_node *node, struct v41_bytes data, uint64_t offset, bool stable)
{
    if (!stable)
        v41_node_save(node);
    if (offset + data.length > node->size)
        v41_resize(&node->data, &node->size, offset + data.length);
    if (data.length)
        memcpy(node->data + offset, data.data, data.length);
    v41_touch(node);
    if (!stable || !node->dirty)
        return;
    if (offset + data.length > node->durable_size)
        v41_resize(&node->durable, &node->durable_size, offset + data.length);
    memcpy(node->durable + offset, data.data, data.length);
}

void v41_node_cut(struct v41_node *node, size_t size)
{
    v41_resize(&node->data, &node->size, size);
    if (node->dirty)
        v41_resize(&node->durable, &node->durable_size, size);
    v41_touch(node);
}

void v41_store_lose_power(struct v41_store *store, struct v41_control *control)
{
    for (unsigned i = 0; i < V41_NODES; i++) {
        struct v41_node *node = &store->nodes[i];
        if (!node->id || !node->dirty)
            continue;
        atomic_fetch_add(&control->lost_bytes, node->size + 1);
        free(node->data);
        node->data = node->durable;
        node->size = node->durable_size;
        node->durable = NULL;
        node->dirty = false;
        node->change++;
    }
}

void v41_store_free(struct v41_store *store)
{
    for (unsigned i = 0; i < V41_NODES; i++) {
        free(store->nodes[i].data);
        free(store->nodes[i].durable);
    }
}

struct v41_node *v41_node_at(struct v41_store *store, const char *path)
{
    struct v41_node *node = &store->nodes[0];
    for (;;) {
        path += strspn(path, "/");
        size_t length = strcspn(path, "/");
        if (length == 0)
            return node;
        struct v41_node *child = v41_child(store, node, path, length);
        char name[V41_NAME] = "";
        if (!child) {
            memcpy(name, path, length < V41_NAME ? length : V41_NAME - 1);
            child = v41_node_new(store, node, name, path[length] == '/');
        }
        if (!child)
            abort();
        path += length;
        node = child;
    }
}

/* ---- handles ---- */

void v41_put_handle(struct bytes *out, const struct v41_control *control,
                    const struct v41_node *node)
{
    uint8_t handle[V41_HANDLE_MOST] = "v41";
    uint32_t epoch = atomic_load(&control->handles);
    memcpy(handle + 4, &epoch, 4);
    memcpy(handle + 8, &node->id, 8);
    for (unsigned i = 16; i < V41_HANDLE_MOST; i++)
        handle[i] = (uint8_t)i;
    v41_put_opaque(out, handle, atomic_load(&control->handle_length));
}

struct v41_node *v41_handle_node(struct v41_store *store, const struct v41_control *control,
                                 struct v41_bytes handle, uint32_t *status)
{
    uint32_t epoch;
    uint64_t id;
    *status = V41_BADHANDLE;
    if (handle.length != atomic_load(&control->handle_length) || memcmp(handle.data, "v41", 4) != 0)
        return NULL;
    memcpy(&epoch, handle.data + 4, 4);
    memcpy(&id, handle.data + 8, 8);
    *status = V41_STALE;
    if (epoch != atomic_load(&control->handles))
        return NULL;
    for (unsigned i = 0; i < V41_NODES; i++) {
        if (id != 0 && store->nodes[i].id == id) {
            *status = V41_OK;
            return &store->nodes[i];
        }
    }
    return NULL;
}
