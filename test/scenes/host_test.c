/* See host_test.h. */
#include "host_test.h"
#include "ledger/store/arena.h"
#include "ledger/store/pocket.h"

char test_directory[64];

bool in_child;

_Noreturn void not_true(const char *file, int line, const char *condition)
{
    if (in_child) {
        fprintf(stderr, "%s:%d: %s\n", file, line, condition);
        _exit(99);
    }
    print_error("not true: %s\n", condition);
    _fail(file, line);
    abort(); /* it does not return */
}

void remove_contents(const char *path)
{
    char name[512];
    struct dirent *entry;
    DIR *directory = opendir(path);
    while (directory && (entry = readdir(directory))) {
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(name);
    }
    if (directory)
        closedir(directory);
}

int count_run_files(void)
{
    int count = 0;
    struct dirent *entry;
    DIR *directory = opendir(test_directory);
    while (directory && (entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

int make_run_directory(void **state)
{
    (void)state;
    strcpy(test_directory, "/dev/shm/directnfs-test.XXXXXX");
    if (!mkdtemp(test_directory))
        return -1;
    log_set_level(LOG_LEVEL_ERROR);
    return setenv("DIRECTNFS_RUN", test_directory, 1);
}

int open_registry(void **state)
{
    if (make_run_directory(state))
        return -1;
    return ledger_registry_open(UNCOMMITTED_MAX, 0);
}

int remove_run_directory(void **state)
{
    (void)state;
    remove_contents(test_directory);
    return rmdir(test_directory);
}

pid_t start_child(int (*body)(void *), void *argument)
{
    pid_t child = fork();
    if (child == 0) {
        in_child = true;
        ledger_registry_after_fork();
        _exit(body(argument));
    }
    assert_true(child > 0);
    return child;
}

int end_child(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_child(int (*body)(void *), void *argument)
{
    return end_child(start_child(body, argument));
}

void key_for(struct ledger_file_key *key, uint64_t inode)
{
    memset(key, 0, sizeof(*key));
    key->device = 77;
    key->inode = inode;
    key->server = 5;
    key->handle_length = 16;
    memcpy(key->handle, &inode, sizeof(inode));
}

void attach(struct ledger_file *file, uint64_t inode)
{
    struct ledger_file_key key;
    key_for(&key, inode);
    ledger_file_attach(file, &key, &(struct timespec){0}, &(uint64_t){0});
}

/* A look in the tree of its bucket finds it. No other record of its file in the same layer of the
 * ledger overlaps it. */
static void check_alone(uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
    bool found = false, acked = ledger_record_is_acked(record);
    bool layered = acked || record->state == LEDGER_RECORD_DIRTY;
    assert_true(!layered || (record->kept && ledger_record_length(record) > 0));
    for (uint32_t i = ledger_span_first(record->file, start, end); i;
         i = ledger_span_next(i, start, end)) {
        const struct ledger_record *other = ledger_record(i);
        found |= i == index;
        if (i != index && layered &&
            (acked ? ledger_record_is_acked(other) : other->state == LEDGER_RECORD_DIRTY))
            assert_false(ledger_record_overlaps(other, record->file, start, end));
    }
    assert_true(found);
}

/* The tree at or below a record, and the records that come before it and behind it. Returns how
 * many there are. */
static uint32_t check_tree(uint32_t index, uint32_t above, uint32_t before, uint32_t behind)
{
    const struct ledger_record *record = ledger_record(index);
    if (!index)
        return 0;
    assert_true(record->state > LEDGER_RECORD_PRIVATE && record->above == above);
    uint32_t from = ledger_record_from(record), to = ledger_record_to(record);
    bool held = record->held_until != 0;
    assert_int_equal(record->span_from,
                     held && record->held_from < from ? record->held_from : from);
    assert_int_equal(record->span_to, held && record->held_to > to ? record->held_to : to);
    assert_true(!before || ledger_span_start(ledger_record(before)) <= ledger_span_start(record));
    assert_true(!behind || ledger_span_start(ledger_record(behind)) >= ledger_span_start(record));
    uint64_t reach = record->base + record->span_to;
    uint32_t count = 1 + check_tree(record->left, index, before, index) +
                     check_tree(record->right, index, index, behind);
    for (int i = 0; i < 2; i++) {
        uint32_t below = i ? record->left : record->right;
        if (below && ledger_record(below)->reach > reach)
            reach = ledger_record(below)->reach;
    }
    assert_int_equal(record->reach, reach);
    return count;
}

/* The trees of all buckets. Returns how many records there are. */
static uint32_t check_trees(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < LEDGER_STRIPES * ledger_map.shared->bucket_count; i++)
        count += check_tree(ledger_map.buckets[i].root, 0, 0, 0);
    return count;
}

/* Records: how often each chunk is used by them. Returns the acknowledged and dirty bytes. */
static uint64_t check_records(uint16_t *users)
{
    struct ledger_shared *shared = ledger_map.shared;
    uint64_t bytes = 0;
    uint32_t used = 0, linked = 0;
    for (uint32_t i = 1; i < shared->next_record; i++) {
        const struct ledger_record *record = ledger_record(i);
        if (record->state == LEDGER_RECORD_FREE)
            continue;
        used++;
        if (record->state == LEDGER_RECORD_PRIVATE) /* else it is lost */
            assert_int_equal(shared->processes[record->owner].state, 1);
        for (int k = 0; k < LEDGER_RECORD_CHUNKS; k++) {
            assert_true(record->chunk[k] < shared->next_chunk);
            users[record->chunk[k]]++;
        }
        bool promised = record->state == LEDGER_RECORD_IN_FLIGHT && record->promised;
        if (promised || ledger_record_is_acked(record) || record->state == LEDGER_RECORD_DIRTY)
            bytes += ledger_record_length(record);
        if (record->state == LEDGER_RECORD_PRIVATE)
            continue;
        linked++;
        check_alone(i);
    }
    assert_int_equal(check_trees(), linked);
    assert_int_equal(shared->free_records + used, shared->next_record - 1);
    return bytes;
}

/* The lists of free records and chunks. */
static void check_free(uint16_t *users)
{
    const struct ledger_shared *shared = ledger_map.shared;
    uint32_t records = shared->next_record, chunks = shared->next_chunk;
    uint8_t *seen = calloc(records, 1);
    for (uint32_t i = 0; i < shared->free_records; i++) {
        uint32_t index = ledger_map.free_records[i];
        assert_true(index && index < records && !seen[index]);
        assert_int_equal(ledger_record(index)->state, LEDGER_RECORD_FREE);
        seen[index] = 1;
    }
    free(seen);
    for (uint32_t i = 0; i < shared->free_chunks; i++) {
        uint32_t index = ledger_map.free_chunks[i];
        assert_true(index && index < chunks);
        assert_int_equal(users[index], 0);
        users[index] = UINT16_MAX;
    }
    for (uint32_t i = 1; i < chunks; i++) {
        assert_int_not_equal(users[i], 0); /* lost */
        if (users[i] != UINT16_MAX)
            assert_int_equal(users[i], ledger_map.chunk_users[i]);
    }
}

static uint64_t check_dirty(const struct ledger_entry *entry)
{
    uint64_t sum = entry->sending;
    uint32_t previous = 0;
    for (uint32_t r = entry->dirty_first; r; r = ledger_record(r)->file_next) {
        const struct ledger_record *record = ledger_record(r);
        assert_int_equal(record->state, LEDGER_RECORD_DIRTY);
        assert_true(ledger_record_end(record) <= entry->dirty_end);
        assert_true(ledger_record_end(record) <= entry->size);
        sum += ledger_record_length(record);
        assert_int_equal(record->file_previous, previous);
        previous = r;
    }
    assert_int_equal(entry->dirty_last, previous);
    assert_int_equal(entry->dirty, sum);
    return sum;
}

/* The list of what was sent and is not answered, or may still be executed. Returns how many. */
static uint32_t check_sent(const struct ledger_entry *entry)
{
    uint32_t previous = 0, count = 0;
    for (uint32_t r = entry->sent_first; r; r = ledger_record(r)->file_next) {
        uint32_t state = ledger_record(r)->state;
        assert_true(state == LEDGER_RECORD_IN_FLIGHT || state == LEDGER_RECORD_GHOST);
        assert_int_equal(ledger_record(r)->file_previous, previous);
        previous = r;
        count++;
    }
    assert_int_equal(entry->sent_last, previous);
    return count;
}

/* The lists of a file. Returns their bytes. */
static uint64_t check_entry(const struct ledger_entry *entry)
{
    uint64_t sum = 0, sequence = 0;
    uint32_t previous = 0, count = check_sent(entry);
    for (uint32_t r = entry->dirty_first; r; r = ledger_record(r)->file_next)
        count++;
    for (uint32_t r = entry->first; r; r = ledger_record(r)->file_next) {
        sum += ledger_record_to(ledger_record(r)) - ledger_record_from(ledger_record(r));
        assert_int_equal(ledger_record(r)->file_previous, previous);
        assert_true(ledger_record(r)->sequence >= sequence);
        assert_true(ledger_record(r)->state != LEDGER_RECORD_REPLAY ||
                    entry->flags & LEDGER_ENTRY_REPLAYED);
        sequence = ledger_record(r)->sequence;
        previous = r;
        count++;
    }
    assert_int_equal(entry->records, count);
    assert_int_equal(entry->last, previous);
    assert_int_equal(entry->uncommitted, sum);
    assert_int_equal(entry->sequence & 1, 0);
    return sum + check_dirty(entry);
}

void check_invariants(void)
{
    struct ledger_shared *shared = ledger_map.shared;
    struct ledger_slice slice = {0, 1, 0};
    uint64_t listed = 0;
    /* Whatever a dead process left is put in order by the next one that takes the lock. */
    for (uint32_t i = 0; i < LEDGER_STRIPES; i++) {
        ledger_stripe_lock(i);
        ledger_stripe_unlock(i);
    }
    assert_int_equal(shared->damages, 0);
    ledger_pocket_empty();
    if (ledger_arena_take(&slice, 1, false, 0) == 0)
        ledger_arena_free(slice.record);
    uint16_t *users = calloc(shared->next_chunk, sizeof(*users));
    uint64_t bytes = check_records(users);
    check_free(users);
    free(users);
    for (uint32_t set = 0; set < LEDGER_SETS; set++) {
        for (uint32_t i = 0; shared->set_state[set] && i < LEDGER_SET_SIZE; i++)
            listed += check_entry(&ledger_map.entries[set * LEDGER_SET_SIZE + i]);
    }
    assert_int_equal(listed, bytes);
    assert_int_equal(ledger_uncommitted(), bytes);
}

void read_ledger(struct ledger_file *file, int *bytes, uint64_t *verifiers, size_t size)
{
    int error;
    for (size_t i = 0; i < size; i++)
        bytes[i] = -1;
    struct ledger_entry *entry = ledger_entry_lock(file, false, &error);
    if (!entry)
        return;
    for (uint32_t r = entry->first; r; r = ledger_record(r)->file_next) {
        const struct ledger_record *record = ledger_record(r);
        for (uint32_t at = ledger_record_from(record); at < ledger_record_to(record); at++) {
            uint64_t place = record->base + at;
            assert_true(place < size);
            assert_int_equal(bytes[place], -1);
            bytes[place] =
                ledger_map.chunks[(uint64_t)record->chunk[at / LEDGER_CHUNK] * LEDGER_CHUNK +
                                  at % LEDGER_CHUNK];
            if (verifiers)
                verifiers[place] = record->verifier;
        }
    }
    ledger_entry_unlock(file);
}
