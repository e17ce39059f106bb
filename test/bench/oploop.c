// oploop: an ordinary program that makes one kind of call again and again. It knows nothing of NFS.
#include "work.h"

enum { BLOCK = 8192, PAGE = 4096 };

static struct {
    bool direct;
    const char *name;
    uint64_t blocks; // of the file
    unsigned char *buffer;
    int file;
} loop;

static void need(bool good, const char *what)
{
    if (!good)
        die("%s: %s: %s", loop.name, what, strerror(errno));
}

static off_t place(uint64_t turn)
{
    return (off_t)(turn % loop.blocks * BLOCK);
}

static void op_read(uint64_t turn)
{
    need(pread(loop.file, loop.buffer, BLOCK, place(turn)) == BLOCK, "pread");
}

static void op_write(uint64_t turn)
{
    need(pwrite(loop.file, loop.buffer, BLOCK, place(turn)) == BLOCK, "pwrite");
}

static void op_fsync(uint64_t turn)
{
    need(pwrite(loop.file, loop.buffer, PAGE, place(turn)) == PAGE, "pwrite");
    need(fsync(loop.file) == 0, "fsync");
}

static void op_open(uint64_t turn)
{
    (void)turn;
    int file = open(loop.name, O_RDWR | O_CLOEXEC);
    need(file >= 0, "open");
    need(close(file) == 0, "close");
}

static void op_stat(uint64_t turn)
{
    (void)turn;
    struct stat attributes;
    need(stat(loop.name, &attributes) == 0, "stat");
}

static const struct {
    const char *name;
    void (*make)(uint64_t turn);
    bool writes;
} operations[] = {
    {"read", op_read, false}, {"write", op_write, true}, {"fsync", op_fsync, true},
    {"open", op_open, false}, {"stat", op_stat, false},
};

static void usage(FILE *to)
{
    fputs("usage: oploop [--direct] read|write|fsync|open|stat COUNT FILE\n"
          "Makes so many calls: read and write of 8 KiB from the file's beginning on, a write of\n"
          "4 KiB with fsync, open with close, or stat.  What was written is at the server when it\n"
          "ends.  The file must be there.\n",
          to);
}

int main(int argc, char **argv)
{
    loop.direct = argc > 1 && !strcmp(argv[1], "--direct");
    argv += loop.direct;
    if (argc - loop.direct != 4)
        wrong_usage(usage, NULL, NULL);
    size_t which = 0;
    while (strcmp(operations[which].name, argv[1]))
        if (++which == sizeof operations / sizeof *operations)
            wrong_usage(usage, NULL, NULL);
    uint64_t count = number_option("count", argv[2], 0, UINT64_MAX);
    struct stat attributes;
    loop.name = argv[3];
    loop.file = open(loop.name, O_RDWR | O_CLOEXEC | (loop.direct ? O_DIRECT : 0));
    need(loop.file >= 0, "open");
    need(fstat(loop.file, &attributes) == 0, "fstat");
    loop.blocks = (uint64_t)attributes.st_size / BLOCK;
    if (!loop.blocks || posix_memalign((void **)&loop.buffer, PAGE, BLOCK))
        die("%s: shorter than one block, or out of memory", loop.name);
    memset(loop.buffer, 'a', BLOCK);
    for (uint64_t turn = 0; turn < count; turn++)
        operations[which].make(turn);
    if (operations[which].writes)
        need(fsync(loop.file) == 0, "fsync");
    need(close(loop.file) == 0, "close");
    free(loop.buffer);
    return 0;
}
