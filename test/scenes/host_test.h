/*
 * What the tests of src/ledger, src/run and src/stats share: a run directory of their own,
 * children, and a look at the ledger from inside that checks its invariants.
 */
#ifndef HOST_TEST_H
#define HOST_TEST_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger/append.h"
#include "ledger/store/arena.h"
#include "ledger/commits.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/hold.h"
#include "ledger/offset.h"
#include "ledger/store/processes.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "unit.h"

/* (file, offset, vectors, count, length, keep, write): waits; -EAGAIN instead. */
#define ledger_write_begin(file, ...) \
    ledger_write_start((file), &(const struct ledger_beginning){__VA_ARGS__, false, 0}, true)

#define ledger_write_try(file, ...) \
    ledger_write_start((file), &(const struct ledger_beginning){__VA_ARGS__, false, 0}, false)

extern char test_directory[64];

/* In a child a failed assertion would jump back into the test runner: children use this. */
extern bool in_child;

#define must(condition) ((condition) ? (void)0 : not_true(__FILE__, __LINE__, #condition))

/* Ends a child, and fails the test otherwise. */
_Noreturn void not_true(const char *file, int line, const char *condition);

void remove_contents(const char *path);
int count_run_files(void);
int make_run_directory(void **state);

enum { UNCOMMITTED_MAX = 8 << 20 };

int open_registry(void **state);
int remove_run_directory(void **state);

/* Runs a function in a child that is told about by the after-fork hook; returns its exit status, or
 * 128 + signal. */
pid_t start_child(int (*body)(void *), void *argument);
int end_child(pid_t child);
int run_child(int (*body)(void *), void *argument);

/* Runs a function in a child, in a run directory that is empty: a process opens what is there once.
 */
#define run_afresh(body, argument)                      \
    do {                                                \
        remove_contents(test_directory);                \
        assert_int_equal(run_child(body, argument), 0); \
    } while (0)

void key_for(struct ledger_file_key *key, uint64_t inode);

/* Of the file of key_for(), if its handle is not known. */
#define NUMBER_KEY(number) (&(struct ledger_file_key){.device = 77, .inode = (number)})

void attach(struct ledger_file *file, uint64_t inode);

/*
 * With no other process running: acknowledged records do not overlap, every chunk and record is
 * free or used exactly as often as it is referred to, lists and counters agree with the records.
 */
void check_invariants(void);

/* The byte of the ledger at `offset` of a file, -1 when it has none; of acknowledged data only. */
void read_ledger(struct ledger_file *file, int *bytes, uint64_t *verifiers, size_t size);

#endif
