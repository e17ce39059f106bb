/* See file_server.h. */
#include "file_server.h"

enum { FILE_SERVER_CONNECTIONS = 64, FILE_SERVER_HELD = 512 };

struct file_server_connection {
    int fd; /* -1: free */
    unsigned number;
    struct bytes in;
};

struct file_server_held {
    unsigned connection, number;
    uint8_t *record;
    size_t length;
};

/* The server process's own. */
static struct {
    int listener;
    bool stopped; /* it is bound, and does not listen */
    struct file_server_connection connections[FILE_SERVER_CONNECTIONS];
    unsigned numbers;
    struct file_server_held held[FILE_SERVER_HELD];
    unsigned held_count;
} mount_server;

/* ---- connections ---- */

static void file_server_break(struct file_server_connection *connection)
{
    if (connection->fd < 0)
        return;
    stream_abort(connection->fd);
    close(connection->fd);
    connection->fd = -1;
}

static void file_server_break_all(void)
{
    for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++)
        file_server_break(&mount_server.connections[i]);
}

static void file_server_lose_power(void)
{
    for (unsigned i = 0; i < file_store.node_count; i++) {
        struct file_server_node *node = &file_store.nodes[i];
        struct stat status;
        if (!node->dirty)
            continue;
        /* No server's clock goes on for what it lost. */
        if (fstat(node->fd, &status) != 0 || ftruncate(node->fd, 0) != 0 ||
            pwrite(node->fd, node->durable, node->durable_size, 0) != (ssize_t)node->durable_size ||
            futimens(node->fd, (struct timespec[]){status.st_atim, status.st_mtim}) != 0)
            abort();
        atomic_fetch_add(&file_store.control->lost_bytes, node->durable_size + 1);
        file_server_commit(node);
    }
    file_server_break_all();
    /* And those that the kernel accepted for us: for the client they exist. */
    int fd;
    while ((fd = accept4(mount_server.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
    atomic_fetch_add(&file_store.control->verifier, 0x0101);
}

static bool file_server_send(struct file_server_connection *connection, const void *data,
                             size_t length)
{
    bool sent = stream_send(connection->fd, data, length);
    if (!sent)
        file_server_break(connection);
    return sent;
}

/* ---- calls ---- */

static uint32_t file_server_procedure(const uint8_t *record)
{
    return xdr_load_u32(record + 12) == NFS_PROGRAM ? xdr_load_u32(record + 20) : 0;
}

/* After the call was executed: false, nothing is to be answered. */
static bool file_server_fate(struct file_server_connection *connection, uint32_t procedure)
{
    struct file_control *control = file_store.control;
    atomic_fetch_add(&control->calls[procedure], 1);
    bool lose = atomic_load(&control->power_after[procedure]) == 1;
    bool drop = atomic_load(&control->drop_after[procedure]) == 1;
    if (lose && atomic_load(&control->power_often))
        atomic_store(&control->power_after[procedure], 2);
    else
        file_server_take(&control->power_after[procedure]);
    file_server_take(&control->drop_after[procedure]);
    if (lose)
        file_server_lose_power();
    else if (drop)
        file_server_break(connection);
    return !lose && !drop;
}

static void file_server_execute(struct file_server_connection *connection, const uint8_t *record,
                                size_t length)
{
    uint8_t reply[1024], *payload = NULL;
    size_t payload_length = 0;
    struct xdr_reader r;
    struct xdr_writer w;
    struct call_head head;
    if (!call_read(record, length, &head))
        abort();
    uint32_t program = head.program, procedure = head.procedure;
    xdr_reader_init(&r, head.arguments, (size_t)(record + length - head.arguments));
    xdr_writer_init(&w, reply, sizeof(reply));
    xdr_put_u32(&w, 0); /* the record mark */
    xdr_put_u32(&w, head.xid);
    xdr_put_u32(&w, 1); /* REPLY, MSG_ACCEPTED, empty verifier, SUCCESS */
    for (int i = 0; i < 4; i++)
        xdr_put_u32(&w, 0);
    unsigned delay = atomic_load(&file_store.control->delay_ms);
    if (program == NFS_PROGRAM && procedure == NFS_PROC_COMMIT)
        delay += atomic_load(&file_store.control->commit_delay_ms);
    if (delay)
        usleep(delay * 1000);
    if (program != NFS_PROGRAM)
        file_server_look(connection->fd, head.credential, head.credential_length);
    if (program != NFS_PROGRAM)
        file_server_mount(procedure, &r, &w);
    else if (procedure == NFS_PROC_LOOKUP)
        file_server_lookup(&r, &w);
    else if (procedure == NFS_PROC_READ)
        file_server_read(&r, &w, &payload, &payload_length);
    else if (procedure == NFS_PROC_WRITE)
        file_server_write(&r, &w);
    else if (procedure == NFS_PROC_COMMIT)
        file_server_commit_call(&r, &w);
    else if (procedure == NFS_PROC_SETATTR)
        file_server_setattr(&r, &w);
    else if (procedure == NFS_PROC_GETATTR || procedure == NFS_PROC_ACCESS ||
             procedure == NFS_PROC_FSINFO)
        file_server_ask(procedure, &r, &w);
    else if (procedure != NFS_PROC_NULL)
        abort();
    size_t size = (size_t)(w.p - reply),
           padded = payload_length + xdr_pad((uint32_t)payload_length);
    record_mark(reply, size + padded);
    if (program != NFS_PROGRAM && file_server_take(&file_store.control->mount_resets)) {
        file_server_break(connection);
        return;
    }
    if ((program != NFS_PROGRAM || file_server_fate(connection, procedure)) &&
        connection->fd >= 0 && file_server_send(connection, reply, size))
        file_server_send(connection, payload, padded);
    free(payload);
}

static void file_server_call(struct file_server_connection *connection, const uint8_t *record,
                             size_t length)
{
    struct file_control *control = file_store.control;
    bool nfs = xdr_load_u32(record + 12) == NFS_PROGRAM;
    if (!nfs || !(atomic_load(&control->hold) & 1u << file_server_procedure(record))) {
        file_server_execute(connection, record, length);
        return;
    }
    if (mount_server.held_count == FILE_SERVER_HELD)
        abort();
    struct file_server_held *held = &mount_server.held[mount_server.held_count++];
    held->connection = (unsigned)(connection - mount_server.connections);
    held->number = connection->number;
    held->record = malloc(length);
    held->length = length;
    memcpy(held->record, record, length);
    atomic_store(&control->held, mount_server.held_count);
}

/* Executes or forgets what was held. Of a connection that is gone it is executed all the same. */
static void file_server_let_go(bool execute)
{
    unsigned count = mount_server.held_count;
    mount_server.held_count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct file_server_held *held = &mount_server.held[i];
        struct file_server_connection *connection = &mount_server.connections[held->connection];
        struct file_server_connection gone = {.fd = -1};
        if (connection->number != held->number)
            connection = &gone;
        if (execute)
            file_server_execute(connection, held->record, held->length);
        else
            file_server_break(connection);
        free(held->record);
    }
    atomic_store(&file_store.control->held, 0);
}

static void file_server_receive(struct file_server_connection *connection)
{
    ssize_t got = record_receive(connection->fd, &connection->in, MSG_DONTWAIT);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            file_server_break(connection);
        return;
    }
    const uint8_t *record;
    size_t at = 0, length;
    while (connection->fd >= 0 &&
           record_next(&connection->in, &at, &record, &length) == RECORD_WHOLE)
        file_server_call(connection, record, length);
    bytes_drop(&connection->in, at);
}

static void file_server_accept(void)
{
    int fd = stream_accept(mount_server.listener, NULL);
    if (fd < 0)
        return;
    atomic_fetch_add(&file_store.control->connections, 1);
    for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++) {
        struct file_server_connection *connection = &mount_server.connections[i];
        if (connection->fd >= 0)
            continue;
        connection->fd = fd;
        connection->number = ++mount_server.numbers;
        connection->in.length = 0;
        return;
    }
    abort();
}

int file_server_listener(in_port_t *port)
{
    int fd = stream_bind_kept(AF_INET, port);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || listen(fd, 64) != 0)
        abort();
    return fd;
}

static void file_server_obey(char command)
{
    struct file_control *control = file_store.control;
    switch (command) {
    case FILE_SERVER_LOSE_POWER:
        file_server_lose_power();
        break;
    case FILE_SERVER_NEW_VERIFIER:
        atomic_fetch_add(&control->verifier, 0x0101);
        break;
    case FILE_SERVER_RESET:
        file_server_break_all();
        break;
    case FILE_SERVER_RELEASE:
    case FILE_SERVER_DROP_HELD:
        file_server_let_go(command == FILE_SERVER_RELEASE);
        break;
    case FILE_SERVER_STOP:
    case FILE_SERVER_REFUSE:
        shutdown(mount_server.listener, SHUT_RDWR);
        mount_server.stopped = true;
        if (command == FILE_SERVER_STOP)
            file_server_break_all();
        break;
    case FILE_SERVER_START:
        if (listen(mount_server.listener, 64) != 0)
            abort();
        mount_server.stopped = false;
        break;
    }
}

void file_server_run(struct file_control *control, int listener, int commands)
{
    file_store.control = control;
    mount_server.listener = listener;
    for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++)
        mount_server.connections[i].fd = -1;
    for (;;) {
        struct pollfd polls[FILE_SERVER_CONNECTIONS + 2];
        polls[0] = (struct pollfd){.fd = commands, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = mount_server.stopped ? -1 : mount_server.listener,
                                   .events = POLLIN};
        for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++)
            polls[i + 2] = (struct pollfd){.fd = mount_server.connections[i].fd, .events = POLLIN};
        poll(polls, FILE_SERVER_CONNECTIONS + 2, -1);
        char command;
        if (polls[0].revents) {
            if (read(commands, &command, 1) != 1)
                _exit(0);
            file_server_obey(command);
            if (write(commands, &command, 1) != 1)
                _exit(0);
            continue;
        }
        if (polls[1].revents)
            file_server_accept();
        for (unsigned i = 0; i < FILE_SERVER_CONNECTIONS; i++) {
            struct file_server_connection *connection = &mount_server.connections[i];
            if (polls[i + 2].revents && connection->fd == polls[i + 2].fd && connection->fd >= 0)
                file_server_receive(connection);
        }
    }
}
