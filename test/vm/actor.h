/*
 * Actors: processes that do with files what they are told, one request at a time, each with or
 * without the library. The director, who has no library, starts them from its own executable.
 *
 * An actor keeps descriptors, streams and mappings in slots, numbered from 0.
 */
#ifndef VM_ACTOR_H
#define VM_ACTOR_H

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>

#include "../integration/program.h"

enum { ACTOR_SLOTS = 4, ACTOR_DATA = 64 * 1024 };

enum actor_verb {
    ACTOR_OPEN,   /* path in data, flags in number */
    ACTOR_CLOSE,  /* */
    ACTOR_PREAD,  /* size bytes at offset */
    ACTOR_PWRITE, /* data at offset */
    ACTOR_WRITE,  /* data, where the descriptor stands */
    ACTOR_SYNC,   /* fsync */
    ACTOR_FLAGS,  /* F_SETFL to number; the answer is F_GETFL before */
    ACTOR_FORKED, /* F_SETFL to number by a forked child, which shares the open file */
    ACTOR_SIZE,   /* by lseek(SEEK_END) on a duplicate, and by fstat: -1 if they differ */
    ACTOR_FOPEN,  /* path in data, mode by number: 'r', 'a' */
    ACTOR_FREAD,  /* up to size bytes from the beginning of the file on */
    ACTOR_FWRITE, /* data, and fflush */
    ACTOR_FCLOSE,
    ACTOR_MAP,   /* size bytes of the slot's descriptor, MAP_SHARED or MAP_PRIVATE in number */
    ACTOR_LOAD,  /* size bytes at offset of the mapping */
    ACTOR_STORE, /* data at offset of the mapping */
    ACTOR_MSYNC,
    ACTOR_UNMAP,
    ACTOR_STAT, /* path in data: its size */
    ACTOR_CAT,  /* path in data: opened, read up to size bytes, closed */
};

struct actor_message {
    enum actor_verb verb;
    unsigned slot;
    int64_t number; /* of a request; of an answer the result, or a negative errno value */
    int64_t offset;
    size_t size;      /* of a request to read: how much */
    size_t data_size; /* how much of `data` is sent */
    uint8_t data[ACTOR_DATA];
};

/* ---- the process of an actor ---- */

static struct actor_place {
    int fd;
    FILE *stream;
    uint8_t *map;
    size_t map_size;
} actor_places[ACTOR_SLOTS];

static int64_t actor_size(int fd)
{
    struct stat status;
    int other = dup(fd);
    off_t position = lseek(fd, 0, SEEK_CUR), end = lseek(other, 0, SEEK_END);
    lseek(fd, position, SEEK_SET);
    close(other);
    if (end < 0 || fstat(fd, &status) < 0)
        return -errno;
    return status.st_size == end ? end : -EUCLEAN;
}

static int64_t actor_forked(int fd, int flags)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(fcntl(fd, F_SETFL, flags) < 0 ? errno : 0);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -errno;
    return -WEXITSTATUS(status);
}

static int64_t actor_cat(struct actor_message *m)
{
    int fd = open((char *)m->data, O_RDONLY);
    ssize_t got = 0, n = -1;
    while (fd >= 0 && (n = read(fd, m->data + got, m->size - (size_t)got)) > 0)
        got += n;
    if (n < 0 || close(fd) < 0)
        return -errno;
    m->data_size = (size_t)got;
    return got;
}

static int64_t actor_fread(struct actor_place *place, struct actor_message *m)
{
    if (fseek(place->stream, 0, SEEK_SET) != 0)
        return -errno;
    m->data_size = fread(m->data, 1, m->size, place->stream);
    return ferror(place->stream) ? -EIO : (int64_t)m->data_size;
}

static int64_t actor_result(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* Reads leave what they got in m->data, and its size in m->data_size. */
static int64_t actor_do_file(struct actor_place *place, struct actor_message *m, size_t sent)
{
    int64_t result;
    switch (m->verb) {
    case ACTOR_OPEN:
        return actor_result(place->fd = open((char *)m->data, (int)m->number, 0666));
    case ACTOR_CLOSE:
        return actor_result(close(place->fd));
    case ACTOR_PREAD:
        result = actor_result(pread(place->fd, m->data, m->size, m->offset));
        m->data_size = result > 0 ? (size_t)result : 0;
        return result;
    case ACTOR_PWRITE:
        return actor_result(pwrite(place->fd, m->data, sent, m->offset));
    case ACTOR_WRITE:
        return actor_result(write(place->fd, m->data, sent));
    case ACTOR_SYNC:
        return actor_result(fsync(place->fd));
    case ACTOR_FLAGS:
        result = fcntl(place->fd, F_GETFL);
        return fcntl(place->fd, F_SETFL, (int)m->number) < 0 ? -errno : result;
    case ACTOR_FORKED:
        return actor_forked(place->fd, (int)m->number);
    case ACTOR_SIZE:
        return actor_size(place->fd);
    default:
        return -EINVAL;
    }
}

static int64_t actor_do(struct actor_message *m)
{
    struct actor_place *place = &actor_places[m->slot];
    size_t sent = m->data_size;
    struct stat status;
    m->data_size = 0;
    switch (m->verb) {
    case ACTOR_FOPEN:
        place->stream = fopen((char *)m->data, m->number == 'a' ? "a" : "r");
        return place->stream != NULL ? 0 : -errno;
    case ACTOR_FREAD:
        return actor_fread(place, m);
    case ACTOR_FWRITE:
        if (fwrite(m->data, 1, sent, place->stream) != sent || fflush(place->stream) != 0)
            return -errno;
        return (int64_t)sent;
    case ACTOR_FCLOSE:
        return actor_result(fclose(place->stream));
    case ACTOR_MAP:
        place->map_size = m->size;
        place->map =
            mmap(NULL, m->size, m->number == MAP_SHARED ? PROT_READ | PROT_WRITE : PROT_READ,
                 (int)m->number, place->fd, 0);
        return place->map != MAP_FAILED ? 0 : -errno;
    case ACTOR_LOAD:
        memcpy(m->data, place->map + m->offset, m->size);
        m->data_size = m->size;
        return (int64_t)m->size;
    case ACTOR_STORE:
        memcpy(place->map + m->offset, m->data, sent);
        return (int64_t)sent;
    case ACTOR_MSYNC:
        return actor_result(msync(place->map, place->map_size, MS_SYNC));
    case ACTOR_UNMAP:
        return actor_result(munmap(place->map, place->map_size));
    case ACTOR_STAT:
        return stat((char *)m->data, &status) < 0 ? -errno : status.st_size;
    case ACTOR_CAT:
        return actor_cat(m);
    default:
        return actor_do_file(place, m, sent);
    }
}

enum { ACTOR_HEAD = offsetof(struct actor_message, data), ACTOR_SOCKET = 0 };

/* What main() of the director calls first: the process of an actor does not return from it. */
static void actor_main(int argc, char **argv)
{
    static struct actor_message message;
    if (argc != 2 || strcmp(argv[1], "actor") != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(ACTOR_SOCKET, &message, sizeof(message), 0) > 0) {
        message.number = actor_do(&message);
        if (send(ACTOR_SOCKET, &message, ACTOR_HEAD + message.data_size, 0) < 0)
            _exit(1);
    }
    exit(0);
}

/* ---- the director's side ---- */

struct actor {
    const char *library; /* NULL: it is without */
    int socket;
    pid_t pid;
};

static void actor_start(struct actor *actor, const char *library)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (library)
            setenv("LD_PRELOAD", library, 1);
        if (dup2(pair[1], ACTOR_SOCKET) == ACTOR_SOCKET)
            execl("/proc/self/exe", "actor", "actor", NULL);
        _exit(127);
    }
    close(pair[1]);
    *actor = (struct actor){.library = library, .socket = pair[0], .pid = pid};
}

static void actor_end(struct actor *actor)
{
    int status;
    close(actor->socket);
    CHECK(waitpid(actor->pid, &status, 0) == actor->pid && status == 0);
}

/* The request in *m, with m->data_size bytes of data; the answer takes its place. */
static int64_t actor_ask(struct actor *actor, struct actor_message *m)
{
    CHECK(send(actor->socket, m, ACTOR_HEAD + m->data_size, 0) > 0);
    if (recv(actor->socket, m, sizeof(*m), 0) < (ssize_t)ACTOR_HEAD)
        fail("an actor has died");
    return m->number;
}

#endif
