/*
 * Several processes of one host use one file, each with or without the library, and see the bytes
 * that they would see if nobody had it.
 *
 *     worlds SCENE ROUNDS DIRECTORY [LIBRARY [SEED]]
 *
 * Two or three actors (actor.h) do in each round what the scene and chance say with a new file. A
 * model in memory knows what the file must hold. Without LIBRARY no actor has it: what fails then
 * is a fault of the scene or of the file system. With it all have it, or all but one.
 *
 * Those that are in one world (with the library; without it) see each other's changes at once. From
 * one to the other there is what close-to-open promises: the writers call fsync(), and the others
 * open the file anew. What they have open besides stays open.
 *
 * The first rounds that went wrong are described, then those of each kind are counted. The exit
 * status is 1 if there were any.
 */
#include <stddef.h>

#include "actor.h"

enum { CAST = 3, PAGE = 4096, LARGEST = 60000, KINDS = 64, TOLD = 5 };
/* The slots of each actor: for reading and writing, held open, appending, a stream. */
enum { WORK, HELD, APPEND, STREAM };

static struct performer {
    struct actor actor;
    bool dirty;             /* has changed the file since it last called fsync() */
    uint64_t seen;          /* of the changes of the other world, when it opened the file */
    bool uses[ACTOR_SLOTS]; /* slots that are open */
    bool maps[ACTOR_SLOTS];
    int64_t position, flags; /* of WORK */
} cast[CAST];
static int performers;
static struct actor_message m;

static char path[PATH_MAX - 100];
static uint8_t model[ACTOR_DATA];
static int64_t model_size;
static uint64_t version, changes[2], chance = 1, round_number;
static bool wrong; /* this round: no more is done */

static struct kind {
    char text[80];
    unsigned count;
} kinds[KINDS];
static unsigned wrong_rounds;

static int64_t below_number(int64_t limit)
{
    return (int64_t)(next_random(&chance) >> 11) % limit;
}

static bool served(const struct performer *p)
{
    return p->actor.library != NULL;
}

/* The end of the round, for the reason `what` in the hands of p. */
__attribute__((format(printf, 3, 4))) static void
not_right(const struct performer *p, const char *what, const char *format, ...)
{
    char text[80];
    va_list arguments;
    int kind = 0;
    wrong = true;
    snprintf(text, sizeof(text), "%s %s", what, served(p) ? "with the library" : "without it");
    while (kind < KINDS - 1 && kinds[kind].count > 0 && strcmp(kinds[kind].text, text) != 0)
        kind++;
    snprintf(kinds[kind].text, sizeof(kinds[kind].text), "%s", text);
    kinds[kind].count++;
    if (wrong_rounds++ >= TOLD)
        return;
    printf("round %llu, actor %td of", (unsigned long long)round_number, p - cast);
    for (int i = 0; i < performers; i++)
        printf(" %s", served(&cast[i]) ? "with" : "without");
    printf(": %s: ", text);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

/* What m says, done by p. A negative answer is wrong. */
static int64_t ask(struct performer *p, enum actor_verb verb, unsigned slot, const char *what)
{
    if (wrong)
        return -1;
    m.verb = verb;
    m.slot = slot;
    if (actor_ask(&p->actor, &m) < 0)
        not_right(p, what, "%s", strerror((int)-m.number));
    return m.number;
}

/* A request without data. */
static int64_t tell(struct performer *p, enum actor_verb verb, unsigned slot, int64_t number,
                    const char *what)
{
    m.number = number;
    m.data_size = 0;
    m.size = 0;
    return ask(p, verb, slot, what);
}

static void name_file(void)
{
    m.data_size = strlen(path) + 1;
    memcpy(m.data, path, m.data_size);
}

static void open_file(struct performer *p, unsigned slot, int64_t flags)
{
    name_file();
    m.number = flags;
    p->uses[slot] = ask(p, ACTOR_OPEN, slot, "open") >= 0;
    if (slot == WORK) {
        p->seen = changes[!served(p)];
        p->position = 0;
        p->flags = flags & O_APPEND;
    }
}

static void open_stream(struct performer *p, char mode)
{
    name_file();
    m.number = mode;
    p->uses[STREAM] = ask(p, ACTOR_FOPEN, STREAM, "fopen") >= 0;
}

static void unmap(struct performer *p, unsigned slot)
{
    if (p->maps[slot])
        tell(p, ACTOR_UNMAP, slot, 0, "munmap");
    p->maps[slot] = false;
}

static void close_slot(struct performer *p, unsigned slot)
{
    unmap(p, slot);
    if (p->uses[slot])
        tell(p, slot == STREAM ? ACTOR_FCLOSE : ACTOR_CLOSE, slot, 0, "close");
    p->uses[slot] = false;
}

static void map(struct performer *p, unsigned slot, int64_t how)
{
    m.number = how;
    m.size = (size_t)model_size;
    m.data_size = 0;
    p->maps[slot] = ask(p, ACTOR_MAP, slot, "mmap") >= 0;
}

/* p is about to use the file: what the other world has changed is settled, and it opens it anew. */
static void enter(struct performer *p)
{
    bool mapped = p->maps[WORK];
    for (int i = 0; i < performers; i++) {
        struct performer *other = &cast[i];
        if (!other->dirty || served(other) == served(p))
            continue;
        if (other->maps[WORK])
            tell(other, ACTOR_MSYNC, WORK, 0, "msync");
        tell(other, ACTOR_SYNC, WORK, 0, "fsync");
        other->dirty = false;
    }
    if (p->seen == changes[!served(p)])
        return;
    close_slot(p, WORK);
    close_slot(p, APPEND);
    close_slot(p, STREAM);
    open_file(p, WORK, O_RDWR);
    if (mapped)
        map(p, WORK, MAP_SHARED);
}

static void changed(struct performer *p)
{
    p->dirty = true;
    changes[served(p)]++;
}

/* New bytes for the model, and for a request to write them. */
static void new_bytes(int64_t offset, int64_t size)
{
    fill(m.data, (size_t)size, (uint64_t)offset, ++version);
    memcpy(model + offset, m.data, (size_t)size);
    m.offset = offset;
    m.data_size = (size_t)size;
    m.number = 0;
    if (offset + size > model_size)
        model_size = offset + size;
}

/* The answer of one that has written `size` bytes */
static void written(struct performer *p, int64_t size, const char *what)
{
    if (!wrong && m.number != size)
        not_right(p, what, "%lld of %lld bytes", (long long)m.number, (long long)size);
    changed(p);
}

static void put(struct performer *p, int64_t offset, int64_t size)
{
    enter(p);
    new_bytes(offset, size);
    ask(p, ACTOR_PWRITE, WORK, "pwrite");
    written(p, size, "pwrite");
}

/* At some place, mostly without a change of the size */
static void put_somewhere(struct performer *p)
{
    int64_t end = below_number(4) == 0 ? LARGEST : model_size;
    int64_t offset = below_number(end < model_size + 1 ? end : model_size);
    int64_t most = end - offset < 3 * PAGE ? end - offset : 3 * PAGE;
    put(p, offset, 1 + below_number(most));
}

/* What an actor has read into m is what the model holds from `offset` on. */
static void compare(struct performer *p, int64_t offset, int64_t size, const char *what)
{
    if (wrong)
        return;
    if (m.number != size) {
        not_right(p, what, "%lld bytes for %lld", (long long)m.number, (long long)size);
        return;
    }
    for (int64_t i = 0; i < size; i++)
        if (m.data[i] != model[offset + i]) {
            not_right(p, what, "byte %lld of %lld", (long long)(offset + i), (long long)model_size);
            return;
        }
}

/* ---- ways to read all of the file ---- */

static void read_pread(struct performer *p)
{
    m.offset = 0;
    m.data_size = 0;
    m.size = LARGEST + 1;
    ask(p, ACTOR_PREAD, WORK, "pread");
    compare(p, 0, model_size, "pread");
}

static void read_size(struct performer *p)
{
    if (tell(p, ACTOR_SIZE, WORK, 0, "size") != model_size && !wrong)
        not_right(p, "size", "%lld for %lld", (long long)m.number, (long long)model_size);
}

static void read_stat(struct performer *p)
{
    name_file();
    if (ask(p, ACTOR_STAT, WORK, "stat") != model_size && !wrong)
        not_right(p, "stat", "%lld for %lld", (long long)m.number, (long long)model_size);
}

static void read_cat(struct performer *p)
{
    name_file();
    m.size = LARGEST + 1;
    ask(p, ACTOR_CAT, WORK, "cat");
    compare(p, 0, model_size, "cat");
}

static void read_stream(struct performer *p)
{
    close_slot(p, STREAM);
    open_stream(p, 'r');
    m.data_size = 0;
    m.size = LARGEST + 1;
    ask(p, ACTOR_FREAD, STREAM, "fread");
    compare(p, 0, model_size, "fread");
    close_slot(p, STREAM);
}

static void read_map(struct performer *p, int64_t how, const char *what)
{
    map(p, WORK, how);
    m.offset = 0;
    m.data_size = 0;
    m.size = (size_t)model_size;
    ask(p, ACTOR_LOAD, WORK, what);
    compare(p, 0, model_size, what);
    unmap(p, WORK);
}

static void read_somehow(struct performer *p)
{
    enter(p);
    switch (below_number(11)) {
    case 0:
        read_map(p, MAP_SHARED, "shared mapping");
        break;
    case 1:
        read_map(p, MAP_PRIVATE, "private mapping");
        break;
    case 2:
    case 3:
        read_stream(p);
        break;
    case 4:
    case 5:
        read_pread(p);
        break;
    case 6:
        read_size(p);
        break;
    case 7:
        read_stat(p);
        break;
    default:
        read_cat(p);
    }
}

/* ---- scenes ---- */

static struct performer *anybody(void)
{
    return &cast[below_number(performers)];
}

/* Pages that the kernel has cached, while somebody has the file open for writing */
static void scene_stale(void)
{
    open_file(anybody(), HELD, O_RDWR);
    read_cat(&cast[performers - 1]);
    for (int i = 0; i < 4; i++) {
        put_somewhere(anybody());
        read_somehow(anybody());
    }
}

/* Appending by O_APPEND, by a stream, by writing where the file ends */
static void append_somehow(struct performer *p)
{
    int64_t size = 1 + below_number(3000);
    int way = (int)below_number(3);
    enter(p);
    if (way == 0) {
        put(p, model_size, size);
    } else if (way == 1) {
        if (!p->uses[APPEND])
            open_file(p, APPEND, O_WRONLY | O_APPEND);
        new_bytes(model_size, size);
        ask(p, ACTOR_WRITE, APPEND, "write, O_APPEND");
        written(p, size, "write, O_APPEND");
    } else {
        if (!p->uses[STREAM])
            open_stream(p, 'a');
        new_bytes(model_size, size);
        ask(p, ACTOR_FWRITE, STREAM, "fwrite, appending");
        written(p, size, "fwrite, appending");
    }
}

static void scene_append(void)
{
    model_size = 0;
    for (int i = 0; i < performers; i++)
        enter(&cast[i]);
    tell(&cast[0], ACTOR_CLOSE, WORK, 0, "close");
    open_file(&cast[0], WORK, O_RDWR | O_TRUNC);
    changed(&cast[0]);
    for (int i = 0; i < 8; i++)
        append_somehow(anybody());
    for (int i = 0; i < performers; i++) {
        enter(&cast[i]);
        read_size(&cast[i]);
        read_stat(&cast[i]);
        read_pread(&cast[i]);
    }
}

/* One sets and clears O_APPEND, himself or in a child, and writes where he stands; others extend
 * the file. */
static void scene_flags(void)
{
    for (int i = 0; i < 8; i++) {
        struct performer *p = &cast[0];
        int64_t size = 1 + below_number(2000), offset;
        if (below_number(3) == 0)
            put(&cast[1 + below_number(performers - 1)], model_size, size);
        enter(p);
        if (below_number(2) == 0) {
            bool child = below_number(2) == 0;
            int64_t before = p->flags;
            p->flags = below_number(2) ? O_APPEND : 0;
            int64_t got = tell(p, child ? ACTOR_FORKED : ACTOR_FLAGS, WORK, p->flags, "F_SETFL");
            if (!wrong && !child && (got & O_APPEND) != before)
                not_right(p, "F_GETFL", "%#llx", (unsigned long long)got);
        }
        offset = p->flags ? model_size : p->position;
        const char *what = p->flags ? "write after F_SETFL O_APPEND" : "write";
        new_bytes(offset, size);
        p->position = offset + size;
        ask(p, ACTOR_WRITE, WORK, what);
        written(p, size, what);
        if (below_number(2) == 0) {
            p = anybody();
            enter(p);
            read_pread(p);
        }
    }
}

/* One has the file mapped; he and others read and write it by calls too. */
static void scene_mapping(void)
{
    struct performer *mapper = &cast[0];
    enter(mapper);
    map(mapper, WORK, MAP_SHARED);
    for (int i = 0; i < 8; i++) {
        struct performer *p = anybody();
        int64_t offset = below_number(model_size), size = 1 + below_number(model_size - offset);
        switch (below_number(4)) {
        case 0:
            enter(mapper);
            new_bytes(offset, size);
            ask(mapper, ACTOR_STORE, WORK, "store");
            written(mapper, size, "store");
            break;
        case 1:
            enter(mapper);
            m.offset = offset;
            m.size = (size_t)size;
            m.data_size = 0;
            ask(mapper, ACTOR_LOAD, WORK, "load");
            compare(mapper, offset, size, p == mapper ? "load of a mapping" : "load");
            break;
        case 2:
            put(p, offset, size);
            break;
        default:
            enter(p);
            read_pread(p);
        }
    }
}

static const struct {
    const char *name;
    void (*perform)(void);
} scenes[] = {{"stale", scene_stale},
              {"append", scene_append},
              {"flags", scene_flags},
              {"mapping", scene_mapping}};

/* ---- rounds ---- */

static void play(void (*scene)(void))
{
    wrong = false;
    model_size = 0;
    for (int i = 0; i < performers; i++)
        cast[i] = (struct performer){.actor = cast[i].actor};
    changes[0] = changes[1] = 0;
    unlink(path);
    open_file(&cast[0], WORK, O_RDWR | O_CREAT | O_EXCL);
    new_bytes(0, 1 + below_number(LARGEST / 2));
    int64_t size = model_size;
    ask(&cast[0], ACTOR_PWRITE, WORK, "pwrite");
    written(&cast[0], size, "pwrite");
    tell(&cast[0], ACTOR_SYNC, WORK, 0, "fsync");
    cast[0].dirty = false;
    for (int i = 1; i < performers; i++)
        open_file(&cast[i], WORK, O_RDWR);
    scene();
    /* Whatever happened, all is closed, and on the server is what should be there. */
    for (int i = 0; i < performers; i++)
        enter(&cast[i]);
    for (int i = 0; i < performers; i++) {
        bool before = wrong;
        wrong = false;
        for (unsigned slot = 0; slot < ACTOR_SLOTS; slot++)
            close_slot(&cast[i], slot);
        wrong |= before;
    }
    read_cat(&cast[performers - 1]);
}

/* Rounds of one cast, before others take its place */
enum { SEASON = 5 };

static void season(void (*scene)(void), const char *library, unsigned rounds, unsigned number)
{
    performers = 2 + (int)(number & 1);
    /* One of them may be without the library. */
    int without = (int)(number / 2) % (performers + 1);
    for (int i = 0; i < performers; i++)
        actor_start(&cast[i].actor, i == without - 1 ? NULL : library);
    for (unsigned i = 0; i < rounds; i++, round_number++)
        play(scene);
    for (int i = 0; i < performers; i++)
        actor_end(&cast[i].actor);
}

int main(int argc, char **argv)
{
    actor_main(argc, argv);
    if (argc < 4)
        fail("usage: %s SCENE ROUNDS DIRECTORY [LIBRARY [SEED]]", argv[0]);
    void (*scene)(void) = NULL;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        if (strcmp(argv[1], scenes[i].name) == 0)
            scene = scenes[i].perform;
    if (!scene)
        fail("no scene %s", argv[1]);
    unsigned rounds = (unsigned)atoi(argv[2]);
    const char *library = argc > 4 && *argv[4] ? argv[4] : NULL;
    chance = argc > 5 ? strtoull(argv[5], NULL, 10) * 2654435761u + 1 : 88172645463325252u;
    snprintf(path, sizeof(path), "%s/%s", argv[3], argv[1]);

    for (unsigned i = 0; i * SEASON < rounds; i++)
        season(scene, library, rounds - i * SEASON < SEASON ? rounds - i * SEASON : SEASON, i);
    for (int i = 0; i < KINDS && kinds[i].count > 0; i++)
        printf("%u of %u rounds wrong: %s\n", kinds[i].count, rounds, kinds[i].text);
    return wrong_rounds > 0;
}
