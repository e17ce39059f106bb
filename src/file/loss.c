/*
 * Which losses of a file an open file has told its program: each exactly once for each open file. A
 * child shares open files with its parent, so from fork on what was told is in memory that both
 * have.
 */
#include "file/inode.h"
#include "file/loss.h"
#include "ledger/uncommitted.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { PAGE = 4096, IN_A_PAGE = PAGE / sizeof(struct ledger_seen) };

/* This process's use of a page that it shares with its children, or with its parent. Each place on
 * it is given out once. When all those open files are closed here, the page goes. Under file_lock.
 */
struct file_seen_page {
    struct ledger_seen *places;
    unsigned given, open;
};
static struct file_seen_page *current; /* the page with places to give out */

static void drop_if_unused(struct file_seen_page *page)
{
    if (page->open > 0 || page == current)
        return;
    sys_munmap(page->places, PAGE);
    sys_free(page);
}

/* Under file_lock. NULL: no memory. */
static struct file_seen_page *page_with_room(void)
{
    if (current && current->given < IN_A_PAGE)
        return current;
    struct file_seen_page *full = current, *page = sys_alloc_zeroed(sizeof(*page));
    void *memory =
        page ? sys_mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
             : NULL;
    if (!page || sys_mmap_failed(memory)) {
        if (page)
            sys_free(page);
        return NULL;
    }
    page->places = memory;
    current = page;
    if (full)
        drop_if_unused(full);
    return page;
}

void file_seen_open(struct file_open *open)
{
    open->seen_page = NULL;
    ledger_seen_begin(&open->inode->entry, &open->own_seen);
    atomic_store(&open->seen, &open->own_seen);
}

void file_seen_close(struct file_open *open)
{
    struct file_seen_page *page = open->seen_page;
    if (!page)
        return;
    page->open--;
    drop_if_unused(page);
    open->seen_page = NULL;
}

/* Before a child is made. (Without memory for it, parent and child each tell a loss once.) */
static void share(struct file_open *open)
{
    struct file_seen_page *page = open->seen_page ? NULL : page_with_room();
    if (!page)
        return;
    ledger_seen_move(&open->inode->entry, &open->seen, &page->places[page->given++]);
    page->open++;
    open->seen_page = page;
}

void file_seen_fork_prepare(int table_end)
{
    for (int fd = 0; fd < table_end; fd++) {
        struct file_open *open = atomic_load(&file_table[fd]);
        if (open)
            share(open);
    }
}

void file_seen_fork_child(void)
{
    current = NULL; /* the parent gives out the rest of it */
}

void file_loss_report(struct file_inode *inode, uint64_t bytes)
{
    atomic_store(&inode->loss_due, true);
    log_error(
        "%s: %llu bytes that were not committed may be lost: the server gave the file another "
        "handle, and it was changed meanwhile; the next fsync fails",
        inode->path, (unsigned long long)bytes);
}
