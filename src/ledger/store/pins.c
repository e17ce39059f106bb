#include "ledger/store/pins.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/file.h>

#include "ledger/store/layout.h"
#include "run/directory.h"
#include "sys/fd.h"
#include "sys/large.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

/*
 * For each question the kernel looks through all locks of a file. So a process takes at most
 * PINS_MAX locks of single files. It pins further files by locking whole parts, with all other
 * files that belong there.
 */
enum { PINS_MAX = 1024, PARTS = 256, PART_SHIFT = 54 /* of 62 bits */ };

/*
 * Two open file descriptions of `worlds`: the kernel does not tell of locks that belong to the
 * description that asks. The one with the pins is shared with children: what they inherited is
 * pinned as long as they live. A child that pins more opens a description of its own, so that its
 * pins end with it.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; held briefly */
static int asking = -1, holding = -1;
static uint32_t holder; /* the process that opened `holding` */
static SYS_LARGE struct {
    off_t at;
    const char *reason;
} pins[PINS_MAX]; /* that it has taken, or inherited */
static unsigned pin_count;
static const char *parts[PARTS]; /* the reasons, of those that are taken */

static int open_worlds(void)
{
    int fd = run_open_named("worlds", O_RDWR | O_CREAT);
    return fd < 0 ? fd : sys_fd_protect(fd);
}

/* Under `lock`. */
static int open_asking(void)
{
    if (asking < 0)
        asking = open_worlds();
    return asking < 0 ? asking : 0;
}

/* Under `lock`. The descriptor that a parent opened stays open, with its pins. A process that is
 * another user now may have no access to the run directory any more. Then it adds its pins to those
 * of its parent. */
static void open_holding(void)
{
    uint32_t self = (uint32_t)sys_getpid();
    int fd = holder == self ? -1 : open_worlds();
    if (fd >= 0) {
        holding = fd;
        holder = self;
    }
}

static bool is_removed(void)
{
    struct stat status;
    pthread_mutex_lock(&lock);
    bool removed = asking >= 0 && sys_fstat(asking, &status) == 0 && status.st_nlink == 0;
    pthread_mutex_unlock(&lock);
    return removed;
}

/* Opens the one for pins too: it may be needed later, when the process is another user. */
int ledger_world_open(void)
{
    if (is_removed())
        ledger_world_move();
    pthread_mutex_lock(&lock);
    int result = open_asking();
    if (result == 0)
        open_holding();
    pthread_mutex_unlock(&lock);
    return result;
}

static struct flock pin_of(short type, uint64_t device, uint64_t inode)
{
    uint64_t hash = (inode ^ device * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 32) * UINT64_C(0x94d049bb133111eb);
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(hash >> 2), .l_len = 1};
}

static int ask_kernel(int fd, int command, struct flock *pin)
{
    int result;
    do
        result = (int)sys_call3(SYS_fcntl, fd, command, pin);
    while (result == -EINTR);
    return result;
}

void ledger_world_after_fork(void)
{
    pthread_mutex_init(&lock, NULL); /* the thread that held it does not exist here */
}

/* Under `lock`. */
static const char *reason_of(off_t at)
{
    for (unsigned i = 0; i < pin_count; i++) {
        if (pins[i].at == at)
            return pins[i].reason;
    }
    return parts[at >> PART_SHIFT];
}

/* Under `lock`. */
static bool take_part(struct flock *pin, const char *reason)
{
    off_t part = pin->l_start >> PART_SHIFT;
    pin->l_start = part << PART_SHIFT;
    pin->l_len = (off_t)1 << PART_SHIFT;
    if (ask_kernel(holding, F_OFD_SETLK, pin) != 0)
        return false;
    parts[part] = reason;
    return true;
}

/* Under `lock`. */
static bool take(struct flock *pin, const char *reason)
{
    open_holding();
    if (holding < 0)
        return false;
    if (pin_count == PINS_MAX)
        return take_part(pin, reason);
    if (ask_kernel(holding, F_OFD_SETLK, pin) != 0)
        return false;
    pins[pin_count].at = pin->l_start;
    pins[pin_count++].reason = reason;
    return true;
}

void ledger_world_move(void)
{
    pthread_mutex_lock(&lock);
    sys_fd_close(asking);
    asking = -1;
    /* The old descriptor stays open, for the processes that stay there. If the new user cannot open
     * a new one, later pins go to the old one, too. */
    holder = 0;
    open_holding();
    for (unsigned i = 0; i < pin_count && holder; i++) {
        struct flock pin = {
            .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = pins[i].at, .l_len = 1};
        ask_kernel(holding, F_OFD_SETLK, &pin);
    }
    for (off_t part = 0; part < PARTS && holder; part++) {
        struct flock pin = {.l_type = F_RDLCK, .l_start = part << PART_SHIFT};
        if (parts[part])
            take_part(&pin, parts[part]);
    }
    pthread_mutex_unlock(&lock);
}

bool ledger_world_pin(uint64_t device, uint64_t inode, const char *reason)
{
    struct flock pin = pin_of(F_RDLCK, device, inode);
    pthread_mutex_lock(&lock);
    bool pinned = reason_of(pin.l_start) || take(&pin, reason);
    pthread_mutex_unlock(&lock);
    return pinned;
}

const char *ledger_world_reason(uint64_t device, uint64_t inode)
{
    struct flock pin = pin_of(F_RDLCK, device, inode);
    pthread_mutex_lock(&lock);
    const char *reason = reason_of(pin.l_start);
    pthread_mutex_unlock(&lock);
    return reason;
}

bool ledger_world_is_pinned(uint64_t device, uint64_t inode)
{
    struct flock pin = pin_of(F_WRLCK, device, inode);
    pthread_mutex_lock(&lock);
    bool known = open_asking() == 0 && ask_kernel(asking, F_OFD_GETLK, &pin) == 0;
    pthread_mutex_unlock(&lock);
    if (sys_test_unsafe(SYS_TEST_PINS))
        return false;
    return !known || pin.l_type != F_UNLCK; /* in doubt the file is pinned */
}

bool ledger_world_tell(void)
{
    struct ledger_head head = {0};
    uint64_t now = sys_now_ns();
    int fd = run_open_named("registry", O_RDWR);
    if (fd < 0)
        return false;
    bool others = sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB) != 0;
    if (others && sys_pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
        head.magic == LEDGER_REGISTRY_MAGIC && head.layout >= LEDGER_HEAD_SINCE)
        sys_call4(SYS_pwrite64, fd, &now, sizeof(now), offsetof(struct ledger_head, outside_pins));
    sys_close(fd);
    return others;
}
