#include "ledger/store/left.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ledger/store/map.h"
#include "run/identity.h"
#include "sys/sys.h"

enum { SUMS_MAX = 1024 };

_Static_assert(offsetof(struct ledger_shared, head) == 0 &&
                   offsetof(struct ledger_stripe, lock) == 0 &&
                   offsetof(pthread_mutex_t, __data.__lock) == 0 &&
                   offsetof(struct ledger_stripe, dirty) ==
                       offsetof(struct ledger_stripe, uncommitted) + sizeof(uint64_t),
               "as struct ledger_head promises");

/* 1; 0: the file ends before; or -errno. */
static int read_at(int fd, void *memory, size_t size, uint64_t offset)
{
    ssize_t length;
    do
        length = sys_pread(fd, memory, size, (off_t)offset);
    while (length == -EINTR);
    return length < 0 ? (int)length : length == (ssize_t)size;
}

/* The bounds are checked: with a forged file the loop could run for ever. */
static int add_up(int fd, const struct ledger_head *head, struct ledger_left *left)
{
    int known = head->layout >= LEDGER_HEAD_SINCE && head->sum_count > 0 &&
                head->sum_count <= SUMS_MAX && head->sums_at <= left->size;
    for (uint32_t i = 0; i < head->sum_count && known > 0; i++) {
        uint64_t at = head->sums_at + (uint64_t)i * head->sum_step, sums[2];
        uint32_t word = 0;
        known = read_at(fd, &word, sizeof(word), at);
        if (known > 0)
            known = read_at(fd, sums, sizeof(sums), at + head->sum_offset);
        if (known > 0 && (__builtin_add_overflow(left->bytes, sums[0], &left->bytes) ||
                          __builtin_add_overflow(left->bytes, sums[1], &left->bytes)))
            known = 0;
        left->certain = left->certain && word == 0;
    }
    left->certain = left->certain && known > 0;
    return known < 0 ? known : 0;
}

static enum ledger_left_what judge(const void *start, const struct ledger_left *left)
{
    const struct ledger_head *head = start;
    uint64_t own = run_boot_id();
    if (head->magic != LEDGER_REGISTRY_MAGIC)
        return LEDGER_LEFT_STRANGE;
    if (head->layout >= LEDGER_HEAD_SINCE && head->boot_id != own)
        return head->boot_id ? LEDGER_LEFT_OTHER_BOOT : LEDGER_LEFT_DAMAGED;
    if (head->layout != LEDGER_REGISTRY_LAYOUT)
        return LEDGER_LEFT_OTHER_LAYOUT;
    return ledger_registry_fits(start, left->size) ? LEDGER_LEFT_USABLE : LEDGER_LEFT_DAMAGED;
}

/* The beginning of a registry, up to its first lock. */
struct beginning {
    _Alignas(struct ledger_shared) uint8_t bytes[offsetof(struct ledger_shared, process_lock)];
};

/* As ledger_left_examine(), but for the sums: `certain` says whether there are any. */
static int look(int fd, struct beginning *beginning, struct ledger_left *left)
{
    const struct ledger_head *head = (const struct ledger_head *)beginning->bytes;
    struct stat status;
    *left = (struct ledger_left){.what = LEDGER_LEFT_STRANGE};
    if (run_boot_id() == 0)
        return -ENODATA;
    int error = sys_fstat(fd, &status);
    if (error != 0)
        return error;
    left->size = (uint64_t)status.st_size;
    int whole = read_at(fd, beginning->bytes, sizeof(beginning->bytes), 0);
    if (whole <= 0)
        return whole;
    left->what = judge(beginning->bytes, left);
    if (left->what == LEDGER_LEFT_STRANGE)
        return 0;
    left->layout = head->layout;
    left->namespaces = head->layout >= LEDGER_HEAD_SINCE ? atomic_load(&head->namespaces) : 0;
    left->certain = true;
    return 0;
}

int ledger_left_look(int fd, struct ledger_left *left)
{
    struct beginning beginning;
    int error = look(fd, &beginning, left);
    left->certain = false;
    return error;
}

int ledger_left_examine(int fd, struct ledger_left *left)
{
    struct beginning beginning;
    int error = look(fd, &beginning, left);
    return error == 0 && left->certain
               ? add_up(fd, (const struct ledger_head *)beginning.bytes, left)
               : error;
}

const char *ledger_left_text(const struct ledger_left *left, char text[LEDGER_LEFT_TEXT])
{
    char what[48];
    snprintf(what, sizeof(what),
             left->what == LEDGER_LEFT_STRANGE        ? "is no registry"
             : left->what == LEDGER_LEFT_OTHER_LAYOUT ? "is of another version (layout %u)"
             : left->what == LEDGER_LEFT_OTHER_BOOT   ? "is of before the last boot"
             : left->what == LEDGER_LEFT_DAMAGED      ? "is damaged"
                                                      : "is whole",
             left->layout);
    if (ledger_left_is_empty(left))
        snprintf(text, LEDGER_LEFT_TEXT, "%s, and holds nothing", what);
    else if (left->bytes == 0)
        snprintf(text, LEDGER_LEFT_TEXT, "%s, and may hold data that no server has", what);
    else
        snprintf(text, LEDGER_LEFT_TEXT, "%s, and holds %llu bytes%s that no server has on disk",
                 what, (unsigned long long)left->bytes, left->certain ? "" : " or more");
    return text;
}
