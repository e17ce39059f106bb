/*
 * Calls that are made in two directories: the one given, and one that is a plain local directory (a
 * second argument, or a new one in /tmp). The results, the errors and the contents of all files
 * must be the same, call for call and byte for byte.
 *
 * What may differ by the file system and not by us (fallocate's modes, allocated blocks, reflinks,
 * times) is left out, or only checked to be one of the answers that programs expect.
 */
#ifndef INTEGRATION_PROTOCOL_H
#define INTEGRATION_PROTOCOL_H

#include "program.h"

enum { LINES = 2000, LINE = 160, LARGE = 300000 };

/* What happened in one of the two directories. */
struct protocol {
    char lines[LINES][LINE];
    int count;
};
static struct protocol protocols[2], *protocol;

static void note(int line, const char *what, long long result, int error)
{
    if (protocol->count == LINES)
        fail("too many lines");
    snprintf(protocol->lines[protocol->count++], LINE, "line %d: %.100s = %lld%s%s", line, what,
             result, result < 0 ? " " : "", result < 0 ? strerrorname_np(error) : "");
}

/* Makes a call, notes result and errno, and yields the result. */
#define CALL(expression)                             \
    ({                                               \
        errno = 0;                                   \
        long long result_ = (long long)(expression); \
        note(__LINE__, #expression, result_, errno); \
        result_;                                     \
    })

/* Bytes, as a checksum (FNV-1a). */
static void note_bytes(int line, const char *what, const void *bytes, size_t size)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    note(line, what, (long long)(sum >> 1), 0);
}
#define BYTES(buffer, size) note_bytes(__LINE__, "bytes of " #buffer, buffer, size)

/* A descriptor's number is of no interest, its failure is. */
static int noted_open(int line, const char *what, int fd)
{
    note(line, what, fd < 0 ? -1 : 0, errno);
    return fd;
}
#define OPEN(expression) (errno = 0, noted_open(__LINE__, #expression, (expression)))

static char block[LARGE], got[LARGE];

static void contents(void)
{
    struct dirent **entries;
    int count = scandir(".", &entries, NULL, alphasort);
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        struct stat status;
        if (name[0] == '.') {
            free(entries[i]);
            continue;
        }
        CHECK(lstat(name, &status) == 0);
        note(__LINE__, name, status.st_mode, 0);
        if (S_ISREG(status.st_mode)) {
            note(__LINE__, "its size", status.st_size, 0);
            /* Once through each door. */
            int fd = open(name, O_RDONLY);
            CHECK(fd >= 0);
            memset(got, 1, sizeof(got));
            note(__LINE__, "read", read(fd, got, sizeof(got)), errno);
            BYTES(got, sizeof(got));
            CHECK(close(fd) == 0);
            FILE *stream = fopen(name, "r");
            CHECK(stream != NULL);
            memset(got, 1, sizeof(got));
            note(__LINE__, "fread", (long long)fread(got, 1, sizeof(got), stream), 0);
            BYTES(got, sizeof(got));
            CHECK(fclose(stream) == 0);
        }
        CHECK(unlink(name) == 0);
        free(entries[i]);
    }
    free(entries);
}

static void run_in(const char *path, struct protocol *into, void (*calls)(void))
{
    protocol = into;
    CHECK(chdir(path) == 0);
    calls();
    contents();
    CHECK(chdir("/") == 0);
}

/* Makes the calls in both directories, with the arguments of main(). */
static void run_in_both(int argc, char **argv, void (*calls)(void))
{
    char pattern[] = "/tmp/face.XXXXXX", here[PATH_MAX], other[PATH_MAX];
    CHECK(realpath(directory(argc, argv), here) != NULL);
    const char *second = argc > 2 ? argv[2] : mkdtemp(pattern);
    CHECK(second != NULL && (mkdir(second, 0777) == 0 || errno == EEXIST));
    CHECK(realpath(second, other) != NULL);
    umask(022);
    fill(block, sizeof(block), 0, 11);

    run_in(here, &protocols[0], calls);
    run_in(other, &protocols[1], calls);
    if (argc <= 2)
        CHECK(rmdir(other) == 0);

    int wrong = 0;
    for (int i = 0; i < protocols[0].count || i < protocols[1].count; i++)
        if (strcmp(protocols[0].lines[i], protocols[1].lines[i]) != 0 && wrong++ < 20)
            fprintf(stderr, "here:  %s\nthere: %s\n", protocols[0].lines[i], protocols[1].lines[i]);
    if (wrong > 0)
        fail("%d of %d answers differ", wrong, protocols[0].count);
}

#endif
