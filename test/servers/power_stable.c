/* See power_stable.h. */
#include "power_stable.h"

enum { PAGE = 4096, WORD = 8, PAGE_BUCKETS = 8192 };

struct page {
    struct page *next;
    dev_t device;
    ino_t inode;
    uint64_t number;
    unsigned char bytes[PAGE];  /* on stable storage */
    unsigned char served[PAGE]; /* after the last call; what differs now the kernel wrote */
};

struct extent {
    struct extent *next;
    dev_t device;
    ino_t inode;
    uint64_t size;         /* on stable storage */
    uint64_t seen;         /* after the last call: if it is less now, the kernel cut the file */
    struct timespec mtime; /* when a loss of power begins */
};

static struct page *pages[PAGE_BUCKETS];

static struct extent *extents;

/* ---- pages ---- */

static struct page **page_bucket(ino_t inode, uint64_t number)
{
    return &pages[mix(inode ^ number << 24) % PAGE_BUCKETS];
}

static struct page *page_find(const struct file *f, uint64_t number)
{
    struct page *page = *page_bucket(f->st.st_ino, number);
    while (page &&
           (page->inode != f->st.st_ino || page->device != f->st.st_dev || page->number != number))
        page = page->next;
    return page;
}

static void page_keep(const struct file *f, uint64_t number)
{
    if (page_find(f, number))
        return;
    struct page **bucket = page_bucket(f->st.st_ino, number), *page = need(sizeof *page);
    page->device = f->st.st_dev;
    page->inode = f->st.st_ino;
    page->number = number;
    if (pread(f->fd, page->bytes, PAGE, (off_t)(number * PAGE)) < 0)
        die("read: %s", strerror(errno));
    memcpy(page->served, page->bytes, PAGE);
    page->next = *bucket;
    *bucket = page;
}

/* Takes out the pages of a file that begin at `from` or later; of all files if it is NULL. */
static void pages_take(const struct file *f, uint64_t from, void (*then)(struct page *))
{
    for (unsigned i = 0; i < PAGE_BUCKETS; i++) {
        for (struct page **link = &pages[i]; *link;) {
            struct page *page = *link;
            if (f && (page->inode != f->st.st_ino || page->device != f->st.st_dev ||
                      page->number * PAGE < from)) {
                link = &page->next;
                continue;
            }
            *link = page->next;
            if (then)
                then(page);
            free(page);
        }
    }
}

/* ---- sizes ---- */

static struct extent *extent_find(dev_t device, ino_t inode)
{
    struct extent *extent = extents;
    while (extent && (extent->inode != inode || extent->device != device))
        extent = extent->next;
    return extent;
}

static void extent_drop(const struct file *f)
{
    for (struct extent **link = &extents; *link; link = &(*link)->next) {
        struct extent *extent = *link;
        if (extent->inode != f->st.st_ino || extent->device != f->st.st_dev)
            continue;
        *link = extent->next;
        free(extent);
        return;
    }
}

static void cut(const struct file *f, struct extent *extent, uint64_t size)
{
    struct page *last = page_find(f, size / PAGE);
    pages_take(f, (size + PAGE - 1) / PAGE * PAGE, NULL);
    if (last && size % PAGE) {
        memset(last->bytes + size % PAGE, 0, PAGE - size % PAGE);
        memset(last->served + size % PAGE, 0, PAGE - size % PAGE);
    }
    extent->size = size;
}

void stable_notice(const struct file *f)
{
    struct extent *extent = extent_find(f->st.st_dev, f->st.st_ino);
    if (extent && (uint64_t)f->st.st_size < extent->seen)
        cut(f, extent, (uint64_t)f->st.st_size);
}

void stable_seen(const struct file *f)
{
    struct extent *extent = extent_find(f->st.st_dev, f->st.st_ino);
    if (extent)
        extent->seen = (uint64_t)f->st.st_size;
}

/* ---- what the calls do ---- */

void stable_keep(const struct file *f, uint64_t offset, uint64_t end)
{
    if (!extent_find(f->st.st_dev, f->st.st_ino)) {
        struct extent *extent = need(sizeof *extent);
        *extent = (struct extent){.next = extents,
                                  .device = f->st.st_dev,
                                  .inode = f->st.st_ino,
                                  .size = (uint64_t)f->st.st_size,
                                  .seen = (uint64_t)f->st.st_size};
        extents = extent;
    }
    for (uint64_t number = offset / PAGE; number * PAGE < end; number++)
        page_keep(f, number);
}

void stable_write(const struct file *f, uint64_t offset, uint64_t end, const unsigned char *data,
                  bool stable)
{
    struct extent *extent = extent_find(f->st.st_dev, f->st.st_ino);
    if (stable && extent && extent->size < end)
        extent->size = end;
    for (uint64_t number = offset / PAGE; number * PAGE < end; number++) {
        struct page *page = page_find(f, number);
        if (!page)
            continue;
        uint64_t from = number * PAGE > offset ? number * PAGE : offset;
        uint64_t to = (number + 1) * PAGE < end ? (number + 1) * PAGE : end;
        memcpy(page->served + from % PAGE, data + (from - offset), to - from);
        if (stable)
            memcpy(page->bytes + from % PAGE, data + (from - offset), to - from);
    }
}

void stable_size(const struct file *f, uint64_t size)
{
    struct extent *extent = extent_find(f->st.st_dev, f->st.st_ino);
    if (extent)
        cut(f, extent, size);
}

void stable_commit(const struct file *f)
{
    pages_take(f, 0, NULL);
    extent_drop(f);
}

void stable_forget(void)
{
    pages_take(NULL, 0, NULL);
    while (extents) {
        struct extent *extent = extents;
        extents = extent->next;
        free(extent);
    }
}

/* ---- loss of power ---- */

uint64_t survive_percent, *survive_random, lost_pages;

static void page_lose(struct page *page)
{
    struct file *f = file_find(page->device, page->inode);
    struct extent *extent = extent_find(page->device, page->inode);
    if (!f || !extent)
        return;
    uint64_t at = page->number * PAGE, size = (uint64_t)f->st.st_size;
    size_t length = at >= size ? 0 : size - at < PAGE ? size - at : PAGE;
    if (random_next(survive_random) % 100 < survive_percent) {
        if (extent->size < at + length)
            extent->size = at + length;
        return;
    }
    /* Not by pwrite(): should the kernel cut the file just now, this must not make it longer. */
    for (size_t i = 0; i < length && file_map(f, at + length) == 0; i += WORD) {
        size_t word = length - i < WORD ? length - i : WORD;
        unsigned char now[WORD];
        if (!mapping_store(now, f->map + at + i, word))
            break;
        if (memcmp(now, page->served + i, word) == 0)
            mapping_store(f->map + at + i, page->bytes + i, word);
        else if (extent->size < at + i + word)
            extent->size = at + i + word;
    }
    lost_pages++;
}

/* Nobody changed a file that loses data: it does not become newer by that. */
static void keep_time(const struct file *f, const struct timespec *mtime)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, *mtime};
    if (futimens(f->fd, times) < 0)
        die("futimens: %s", strerror(errno));
}

void stable_lose_pages(const struct file *f, uint64_t *random_state)
{
    struct stat before;
    bool known = fstat(f->fd, &before) == 0;
    survive_percent = 0;
    survive_random = random_state;
    pages_take(f, 0, page_lose);
    extent_drop(f);
    if (known)
        keep_time(f, &before.st_mtim);
}

void stable_lose(uint64_t percent, uint64_t *random_state)
{
    survive_percent = percent;
    survive_random = random_state;
    files_tick();
    files_sweep(); /* what is left is fresh */
    for (struct extent *extent = extents; extent; extent = extent->next) {
        struct file *f = file_find(extent->device, extent->inode);
        if (!f)
            continue;
        stable_notice(f);
        if (file_refresh(f) == 0)
            extent->mtime = f->st.st_mtim;
    }
    pages_take(NULL, 0, page_lose);
    for (struct extent *extent = extents; extent; extent = extent->next) {
        struct file *f = file_find(extent->device, extent->inode);
        if (!f || file_refresh(f) != 0)
            continue;
        if (extent->size < (uint64_t)f->st.st_size && extent->seen == (uint64_t)f->st.st_size &&
            ftruncate(f->fd, (off_t)extent->size) < 0)
            die("ftruncate: %s", strerror(errno));
        keep_time(f, &extent->mtime);
    }
    stable_forget();
    files_sweep();
}
