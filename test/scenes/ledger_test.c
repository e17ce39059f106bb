/* See ledger_test.h. */
#include "ledger_test.h"

const uint64_t first_verifier = 0x65a1b2c300000001;

const uint64_t second_verifier = 0x65a1b2c300000002;

uint32_t seed;

uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * limit >> 28);
}

uint8_t buffer[LEDGER_WRITE_MAX];

int found[MODEL_BYTES];

int begin(struct ledger_file *file, uint64_t offset, size_t length, bool keep,
          struct ledger_write *write)
{
    struct iovec vector = {buffer, length};
    return ledger_write_begin(file, offset, &vector, 1, length, keep, write);
}

void write_kept(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill,
                uint64_t verifier)
{
    struct ledger_write write;
    memset(buffer, fill, length);
    must(begin(file, offset, length, true, &write) == 0);
    ledger_write_end(file, &write, LEDGER_WRITE_UNSTABLE, verifier);
}

void write_stable(struct ledger_file *file, uint64_t offset, size_t length)
{
    struct ledger_write write;
    assert_int_equal(begin(file, offset, length, false, &write), 0);
    ledger_write_end(file, &write, LEDGER_WRITE_STABLE, 0);
}

static int child_stays_in_flight(void *argument)
{
    struct in_flight *in_flight = argument;
    struct ledger_write write;
    if (begin(in_flight->file, 0, in_flight->length, true, &write) != 0 ||
        sys_write(in_flight->ready[1], "x", 1) != 1)
        return 1;
    pause();
    return 2;
}

pid_t start_in_flight(struct ledger_file *file, size_t length)
{
    struct in_flight in_flight = {.file = file, .length = length};
    char byte;
    assert_int_equal(pipe(in_flight.ready), 0);
    pid_t child = start_child(child_stays_in_flight, &in_flight);
    assert_int_equal(read(in_flight.ready[0], &byte, 1), 1);
    close(in_flight.ready[0]);
    close(in_flight.ready[1]);
    return child;
}
