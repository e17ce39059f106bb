/* See hosts_program.h. */
#include "hosts_program.h"

enum { TRIES = 8, WARM_MS = 3000 };

static unsigned my_host, my_index, my_turn;

static int my_files[FILES], warm_file = -1;

static uint64_t my_random;

static char my_name[64];

static struct program *self(void)
{
    return &journal->programs[my_host][my_index];
}

/* Of a file the blocks [*first, *first + the result) are this program's. */
static unsigned my_blocks(unsigned file, unsigned *first)
{
    unsigned count = files_of_hosts[file].count / PROGRAMS;
    *first = my_index * count;
    return count;
}

static unsigned pick(unsigned most)
{
    return (unsigned)(random_next(&my_random) >> 16) % most;
}

static void check_all(void)
{
    static unsigned char bytes[BLOCK_MOST];
    for (unsigned file = 0; file < FILES; file++) {
        unsigned size = files_of_hosts[file].size;
        for (unsigned block = 0; block < files_of_hosts[file].count; block++) {
            uint32_t least = atomic_load(&journal->blocks[file][block].synced);
            if (pread(my_files[file], bytes, size, (off_t)block * size) != (ssize_t)size) {
                failed("%s: file %s block %u cannot be read: %s", my_name,
                       files_of_hosts[file].name, block, strerror(errno));
                return;
            }
            if (!block_check(bytes, file, block, least, my_name))
                return;
            atomic_fetch_add(&journal->reads, 1);
        }
    }
}

/* False: the call failed, with EIO. That is said to who has a file open of which something was set
 * aside. */
static bool write_blocks(unsigned file, unsigned first, unsigned count)
{
    static unsigned char bytes[RUN_MOST * BLOCK_MOST];
    unsigned size = files_of_hosts[file].size;
    uint32_t versions[RUN_MOST];
    for (unsigned i = 0; i < count; i++) {
        versions[i] = atomic_fetch_add(&journal->blocks[file][first + i].issued, 1) + 1;
        block_fill(bytes + (size_t)i * size, file, first + i, versions[i]);
    }
    ssize_t length = (ssize_t)count * size,
            done = pwrite(my_files[file], bytes, (size_t)length, (off_t)first * size);
    if (done < 0 && errno == EIO) {
        atomic_fetch_add(&journal->errors, 1);
        return false;
    }
    if (done != length) {
        failed("%s: a write to file %s: %s", my_name, files_of_hosts[file].name,
               done < 0 ? strerror(errno) : "short");
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        struct block *b = &journal->blocks[file][first + i];
        atomic_store(&b->written, versions[i]);
        atomic_store(&b->written_turn, my_turn);
    }
    atomic_fetch_add(&journal->writes, 1);
    return true;
}

/* What this program wrote is stable. False: EIO. */
static bool sync_file(unsigned file)
{
    uint32_t written[BLOCKS_MOST];
    unsigned first, count = my_blocks(file, &first);
    for (unsigned i = 0; i < count; i++) {
        const struct block *b = &journal->blocks[file][first + i];
        /* What others wrote, who were killed, is not this program's to vouch for. */
        written[i] = atomic_load(&b->written_turn) == my_turn ? atomic_load(&b->written) : 0;
    }
    if (fsync(my_files[file]) < 0) {
        if (errno != EIO)
            failed("%s: fsync of file %s: %s", my_name, files_of_hosts[file].name, strerror(errno));
        atomic_fetch_add(&journal->errors, 1);
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        struct block *b = &journal->blocks[file][first + i];
        if (written[i] <= atomic_load(&b->synced))
            continue;
        atomic_store(&b->synced_turn, my_turn);
        atomic_store(&b->synced, written[i]);
    }
    atomic_fetch_add(&journal->syncs, 1);
    return true;
}

/* After an EIO all is written again: it may be this program's that is lost. */
static void sync_surely(unsigned file)
{
    unsigned first, count = my_blocks(file, &first);
    bool synced = sync_file(file);
    for (unsigned tries = 0; !synced && !atomic_load(&journal->failed); tries++) {
        if (tries == TRIES) {
            failed("%s: fsync of file %s fails again and again", my_name,
                   files_of_hosts[file].name);
            return;
        }
        bool written = true;
        for (unsigned i = 0; i < count; i++)
            written = write_blocks(file, first + i, 1) && written;
        synced = written && sync_file(file);
    }
}

/* Waits until the server has not what was written: it was left behind. */
static void warm_up(void)
{
    struct program *program = self();
    uint64_t limit = clock_ns() + milliseconds(WARM_MS);
    off_t at = (off_t)(my_host * PROGRAMS + my_index) * WORD;
    while (clock_ns() < limit && !atomic_load(&journal->failed)) {
        uint64_t word = atomic_load(&program->warm) + 1;
        if (pwrite(warm_file, &word, WORD, at) != WORD)
            failed("%s: the file warm cannot be written: %s", my_name, strerror(errno));
        atomic_store(&program->warm, (uint32_t)word);
        while (atomic_load(&program->at_server) != word && atomic_load(&program->behind) != word &&
               clock_ns() < limit)
            usleep(300);
        if (atomic_load(&program->behind) == word) {
            atomic_store(&program->is_warm, true);
            atomic_fetch_add(&journal->behind, 1);
            return;
        }
        usleep(5000);
    }
}

static void files_open(void)
{
    char path[512];
    for (unsigned file = 0; file < FILES; file++) {
        my_files[file] = open(file_path(files_of_hosts[file].name, path), O_RDWR | O_CLOEXEC);
        if (my_files[file] < 0)
            failed("%s: %s: %s", my_name, path, strerror(errno));
    }
    if (warm_file < 0)
        warm_file = open(file_path("warm", path), O_RDWR | O_CLOEXEC);
}

static void operate(void)
{
    unsigned file = pick(FILES), first, count = my_blocks(file, &first);
    unsigned at = pick(count), run = 1 + pick(RUN_MOST);
    run = at + run > count ? count - at : run;
    (void)write_blocks(file, first + at, run); /* the fsync that comes tells as well */
    atomic_fetch_add(&self()->operations, 1);
}

static void take_turn(const struct turn *turn)
{
    my_turn = turn->number;
    my_random = mix(journal->seed ^ mix(turn->number * 16 + my_index)) | 1;
    files_open();
    if (!atomic_load(&journal->failed))
        check_all();
    if (turn->warms)
        warm_up();
    for (unsigned i = 1; i <= turn->operations && !atomic_load(&journal->failed); i++) {
        operate();
        if (turn->sync_every && i % turn->sync_every == 0)
            sync_surely(pick(FILES));
    }
    while (turn->lingers && !atomic_load(&journal->release) && !atomic_load(&journal->failed))
        usleep(500);
    for (unsigned file = 0; file < FILES && !atomic_load(&journal->failed); file++) {
        sync_surely(file);
        /* EIO: something was set aside since, of another program that was killed. */
        if (close(my_files[file]) < 0 && errno != EIO)
            failed("%s: close of file %s: %s", my_name, files_of_hosts[file].name, strerror(errno));
    }
    (void)fsync(warm_file);
    atomic_store(&self()->done, turn->number);
}

int program_process(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    journal = journal_map(argv[2], false);
    my_host = (unsigned)atoi(argv[3]) % HOSTS;
    my_index = (unsigned)atoi(argv[4]) % PROGRAMS;
    snprintf(my_name, sizeof my_name, "program %u of host %u", my_index, my_host);
    for (;;) {
        uint32_t step = atomic_load(&journal->step);
        if (step == UINT32_MAX || atomic_load(&journal->failed))
            return 0;
        if (step == 0 || turn_of(step)->host != my_host || atomic_load(&self()->done) == step)
            wait_on(&journal->step, step, 100000000);
        else
            take_turn(turn_of(step));
    }
}

int visitor_process(int argc, char **argv)
{
    char path[512], byte;
    if (argc != 3)
        return 2;
    journal = journal_map(argv[2], false);
    int fd = open(file_path("other", path), O_RDONLY | O_CLOEXEC);
    return fd >= 0 && pread(fd, &byte, 1, 0) == 1 && close(fd) == 0 ? 0 : 1;
}
