/* See dirty_scene.h. */
#include "dirty_scene.h"

int write_behind(struct ledger_file *file, uint64_t offset, size_t length)
{
    struct iovec vector = {buffer, length};
    struct ledger_write write;
    uint64_t dirty;
    const struct ledger_beginning beginning = {.offset = offset,
                                               .data = &vector,
                                               .count = 1,
                                               .length = length,
                                               .keep = true,
                                               .write = &write};
    return ledger_write_behind(file, &beginning, false, &dirty);
}

void write_dirty(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill)
{
    memset(buffer, fill, length);
    must(write_behind(file, offset, length) == 0);
}

int take(struct ledger_file *file, struct ledger_write *write)
{
    struct ledger_sending sending = ledger_dirty_now(file, MOST);
    return ledger_dirty_take(file, &sending, false, write);
}

int take_strays(struct ledger_file *file, struct ledger_write *write)
{
    struct ledger_sending sending = ledger_dirty_now(file, MOST);
    sending.strays = true;
    return ledger_dirty_take(file, &sending, false, write);
}

int read_dirty(struct ledger_file *file, uint64_t offset, size_t length, size_t *done)
{
    return ledger_dirty_read(file, offset, length, buffer, done);
}

void expect_dirty(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill)
{
    size_t done = 0;
    memset(buffer, ~fill, length);
    assert_int_equal(read_dirty(file, offset, length, &done), LEDGER_DIRTY_ALL);
    assert_int_equal(done, length);
    for (size_t i = 0; i < length; i++)
        assert_int_equal(buffer[i], fill);
}
