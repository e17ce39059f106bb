/*
 * Does the server of v41_server.h understand what a kernel's client says, and answer in the shape
 * in which a kernel's server does?
 */
#include "v41_kernel.h"
#include "v41_peer.h"

/* What a server gave to the kernel's client. */
struct given {
    uint8_t client[8], session[16], other[12];
    struct handle root, file;
    uint32_t sequence, slot_sequence;
};

/* A call of the kernel's client, with what this server gave. */
static struct bytes kernel_call(const char *text, struct given *given)
{
    struct bytes out = {0};
    for (; *text; text += strcspn(text, " "), text += strspn(text, " ")) {
        switch (*text) {
        case 'C':
            v41_put_fixed(&out, given->client, 8);
            break;
        case 'E':
            put_word(&out, given->sequence);
            break;
        case 'S':
            v41_put_fixed(&out, given->session, 16);
            break;
        case 'Q':
            put_word(&out, ++given->slot_sequence);
            break;
        case 'R':
            v41_put_opaque(&out, given->root.data, given->root.length);
            break;
        case 'F':
            v41_put_opaque(&out, given->file.data, given->file.length);
            break;
        case 'O':
            v41_put_fixed(&out, given->other, 12);
            break;
        default:
            put_word(&out, (uint32_t)strtoul(text, NULL, 16));
            break;
        }
    }
    return out;
}

static void keep_handle(struct handle *handle, const uint8_t *opaque)
{
    handle->length = v41_word_at(opaque);
    memcpy(handle->data, opaque + 4, handle->length);
}

/* What later calls need, from where it is in a reply. */
static void kernel_reply(const char *name, const uint8_t *reply, struct given *given)
{
    enum { FIRST = 12 + 8, SECOND = FIRST + 36 }; /* results of operations: the status is before */
    if (strcmp(name, "EXCHANGE_ID") == 0) {
        memcpy(given->client, reply + FIRST, 8);
        given->sequence = v41_word_at(reply + FIRST + 8);
    } else if (strcmp(name, "CREATE_SESSION") == 0) {
        memcpy(given->session, reply + FIRST, 16);
    } else if (strncmp(name, "the root", 8) == 0) {
        keep_handle(&given->root, reply + SECOND + 8 + 8);
    } else if (strncmp(name, "OPEN", 4) == 0) {
        memcpy(given->other, reply + SECOND + 8 + 8 + 4, 12);
        if (strstr(name, "by name"))
            keep_handle(&given->file, reply + SECOND + 8 + 8 + 16 + 20 + 4 + 4 + 4 + 8);
    }
}

/* The same calls that a kernel's server was asked, and replies of the same shape. */
UNIT_TEST(a_kernels_client_is_answered_as_by_a_kernels_server)
{
    struct v41_control control;
    struct given given = {.sequence = 0};
    v41_control_init(&control);
    strcpy(control.owner, "vm");
    strcpy(control.scope, "vm");
    struct v41_server *server = v41_server_start(&control, INADDR_LOOPBACK, 0);
    struct peer peer = peer_new(server);
    v41_node_write(v41_node_at(&server->state.store, "/f"),
                   (struct v41_bytes){(const uint8_t *)"0123456789\n", 11}, 0, true);
    for (size_t i = 0; i < v41_kernel_call_count; i++) {
        const struct v41_kernel_call *kernel = &v41_kernel_calls[i];
        struct bytes call = kernel_call(kernel->call, &given);
        struct bytes theirs = kernel_call(kernel->reply, &given);
        struct answer answer = ask(&peer, &call);
        if (answer.status != V41_OK)
            fail_msg("%s: %u", kernel->name, answer.status);
        assert_int_equal(answer.count, v41_word_at(theirs.data + 8));
        if ((size_t)(answer.in.end - answer.data) != theirs.length + (size_t)kernel->longer)
            fail_msg("%s: %zu bytes instead of %zu", kernel->name,
                     (size_t)(answer.in.end - answer.data), theirs.length);
        kernel_reply(kernel->name, answer.data, &given);
        answer_free(&answer);
        free(theirs.data);
    }
    assert_int_equal(control.bad_calls, 0);
    assert_int_equal(control.clients, 0);
    close(peer.fd);
    v41_server_stop(server);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
