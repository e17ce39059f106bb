/* See memfiles.h. */
#include "memfiles.h"

#define MAPPING_LEAST (16u << 20)
struct files files;

void files_tick(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    files.tick = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct file **file_bucket(dev_t dev, ino_t ino)
{
    uint64_t hash = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15u;
    return &files.bucket[hash >> 52];
}

struct file *file_find(dev_t dev, ino_t ino)
{
    struct file *f = *file_bucket(dev, ino);
    while (f && (f->st.st_ino != ino || f->st.st_dev != dev))
        f = f->next;
    return f;
}

static void mapping_retire(struct file *f)
{
    if (!f->map)
        return;
    struct retired_mapping *old = malloc(sizeof *old);
    if (old) { // else it stays mapped: a leak of addresses, but never a dangling reply
        *old = (struct retired_mapping){f->map, f->map_size, files.retired};
        files.retired = old;
    }
    f->map = NULL;
    f->map_size = 0;
}

void mappings_release(void)
{
    while (files.retired) {
        struct retired_mapping *old = files.retired;
        files.retired = old->next;
        munmap(old->map, old->size);
        free(old);
    }
}

static void file_forget(struct file *f)
{
    struct file **link = file_bucket(f->st.st_dev, f->st.st_ino);
    while (*link != f)
        link = &(*link)->next;
    *link = f->next;
    mapping_retire(f);
    close(f->fd);
    free(f);
}

int file_refresh(struct file *f)
{
    if (fstat(f->fd, &f->st) < 0)
        return -errno;
    f->fresh = files.tick;
    if (f->st.st_nlink == 0 && f != files.root) {
        file_forget(f);
        return -ESTALE;
    }
    return 0;
}

int file_refresh_if_old(struct file *f)
{
    return f->fresh == files.tick ? 0 : file_refresh(f);
}

int file_adopt(int fd, bool writable, struct file **found)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    struct file *f = file_find(st.st_dev, st.st_ino);
    if (f) {
        close(fd);
        f->st = st;
    } else {
        f = calloc(1, sizeof *f);
        if (!f) {
            close(fd);
            return -ENOMEM;
        }
        struct file **bucket = file_bucket(st.st_dev, st.st_ino);
        *f = (struct file){.fd = fd, .writable = writable, .st = st, .next = *bucket};
        *bucket = f;
    }
    f->fresh = files.tick;
    *found = f;
    return 0;
}

int file_open_any(int dir_fd, const char *name, bool *writable)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    const int common = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd;
    *writable = false;
    if (S_ISREG(st.st_mode)) {
        fd = openat(dir_fd, name, O_RDWR | common);
        *writable = fd >= 0;
        if (fd < 0 && (errno == EACCES || errno == EROFS))
            fd = openat(dir_fd, name, O_RDONLY | common);
    } else if (S_ISDIR(st.st_mode)) {
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | common);
    } else {
        fd = openat(dir_fd, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    }
    return fd < 0 ? -errno : fd;
}

int file_lookup(struct file *dir, const char *name, struct file **found)
{
    struct stat st;
    if (!S_ISDIR(dir->st.st_mode))
        return -ENOTDIR;
    if (strcmp(name, ".") == 0 || (dir == files.root && strcmp(name, "..") == 0)) {
        *found = dir;
        return 0;
    }
    if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    struct file *known = file_find(st.st_dev, st.st_ino);
    if (known) {
        known->st = st;
        known->fresh = files.tick;
        *found = known;
        return 0;
    }
    bool writable;
    int fd = file_open_any(dir->fd, name, &writable);
    return fd < 0 ? fd : file_adopt(fd, writable, found);
}

int file_map(struct file *f, uint64_t end)
{
    if (f->map && end <= f->map_size)
        return 0;
    uint64_t wanted = end > (uint64_t)f->st.st_size ? end : (uint64_t)f->st.st_size;
    wanted = wanted < MAPPING_LEAST / 2 ? MAPPING_LEAST : wanted * 2;
    wanted = (wanted + 0xffff) & ~(uint64_t)0xffff;
    if (wanted > SIZE_MAX / 2)
        return -EFBIG;
    void *map =
        mmap(NULL, wanted, f->writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, f->fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    mapping_retire(f);
    f->map = map;
    f->map_size = wanted;
    return 0;
}

// A page that is not there: the file was cut by somebody else, or its file system is full.
static void fault_handler(int signal_number)
{
    if (files.fault_expected)
        siglongjmp(files.fault, 1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void files_catch_faults(void)
{
    struct sigaction action = {.sa_handler = fault_handler, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
}

bool mapping_store(unsigned char *to, const unsigned char *from, size_t length)
{
    if (sigsetjmp(files.fault, 0)) {
        files.fault_expected = 0;
        return false;
    }
    files.fault_expected = 1;
    memcpy(to, from, length);
    files.fault_expected = 0;
    return true;
}

// Writes through the kernel: the file grows, or says why it cannot.  Bytes written, or -errno.
static ssize_t file_write_slowly(struct file *f, const unsigned char *data, size_t length,
                                 uint64_t offset)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = pwrite(f->fd, data + done, length - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !done)
            return -errno;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    int error = file_refresh(f);
    return error ? error : (ssize_t)done;
}

ssize_t file_write(struct file *f, const unsigned char *data, size_t length, uint64_t offset)
{
    f->stores++;
    if (!S_ISREG(f->st.st_mode))
        return S_ISDIR(f->st.st_mode) ? -EISDIR : -EINVAL;
    if (!f->writable)
        return -EACCES;
    if (offset > INT64_MAX || length > INT64_MAX - offset)
        return -EFBIG;
    if (offset + length > (uint64_t)f->st.st_size || file_map(f, offset + length) < 0 ||
        !mapping_store(f->map + offset, data, length))
        return file_write_slowly(f, data, length, offset);
    if (f->touched != files.tick) {
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
        if (futimens(f->fd, times) < 0)
            return -errno;
        f->touched = files.tick;
    }
    // The kernel sets them, too, within a tick, when a page is stored to for the first time.
    int error = file_refresh(f);
    return error ? error : (ssize_t)length;
}

int file_sync(const struct file *f)
{
    return files.syncing && fdatasync(f->fd) < 0 ? -errno : 0;
}

void files_sweep(void)
{
    for (unsigned i = 0; i < FILE_BUCKETS; i++) {
        struct file *next;
        for (struct file *f = files.bucket[i]; f; f = next) {
            next = f->next;
            file_refresh(f);
        }
    }
}

void files_forget_all(void)
{
    for (unsigned i = 0; i < FILE_BUCKETS; i++)
        while (files.bucket[i])
            file_forget(files.bucket[i]);
    mappings_release();
}
