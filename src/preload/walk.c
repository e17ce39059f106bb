/*
 * Walks over trees of files. libc asks for the attributes by calls of its own, which no wrapper
 * sees. What it gives to the program is corrected as in stat.c.
 */
#include <fts.h>
#include <ftw.h>
#include <limits.h>

#include "fd/stat.h"
#include "preload/preload.h"

/* For a regular file of a mount. `path` leads to it from the working directory. */
static void overlay(const char *path, struct stat *status)
{
    if (!S_ISREG(status->st_mode) || !fd_on_mount(status->st_dev))
        return;
    int saved = errno;
    sys_critical_enter();
    fd_stat_path(AT_FDCWD, path, 0, status);
    sys_critical_leave();
    errno = saved;
}

/* ---- nftw(3) and ftw(3) ---- */

struct walk {
    __nftw_func_t visit; /* NULL: it is ... */
    __ftw_func_t visit_simply;
    bool changes_directory;
};

/* This thread's walk: the functions pass no argument of the program. */
static __thread const struct walk *walk;

/* The program's function may make a walk of its own, and leave it by longjmp(). */
static int visit(const char *path, const struct stat *told, int type, struct FTW *place)
{
    const struct walk *own = walk;
    struct stat status = *told;
    if (type == FTW_F)
        overlay(own->changes_directory ? path + place->base : path, &status);
    int result = own->visit ? own->visit(path, &status, type, place)
                            : own->visit_simply(path, &status, type);
    walk = own;
    return result;
}

static int visit_simply(const char *path, const struct stat *told, int type)
{
    return visit(path, told, type, NULL);
}

PRELOAD_EXPORT int nftw(const char *path, __nftw_func_t function, int descriptors, int flags)
{
    if (!preload_active())
        return PRELOAD_REAL(nftw)(path, function, descriptors, flags);
    const struct walk *outer = walk;
    const struct walk own = {.visit = function, .changes_directory = flags & FTW_CHDIR};
    walk = &own;
    int result = PRELOAD_REAL(nftw)(path, visit, descriptors, flags);
    walk = outer;
    return result;
}

PRELOAD_EXPORT int ftw(const char *path, __ftw_func_t function, int descriptors)
{
    if (!preload_active())
        return PRELOAD_REAL(ftw)(path, function, descriptors);
    const struct walk *outer = walk;
    const struct walk own = {.visit_simply = function};
    walk = &own;
    int result = PRELOAD_REAL(ftw)(path, visit_simply, descriptors);
    walk = outer;
    return result;
}

/* ---- fts(3) ---- */

static void overlay_entry(const FTSENT *entry, const char *path)
{
    if (entry->fts_info == FTS_F)
        overlay(path, entry->fts_statp);
}

PRELOAD_EXPORT FTSENT *fts_read(FTS *tree)
{
    FTSENT *entry = PRELOAD_REAL(fts_read)(tree);
    if (entry != NULL && preload_active())
        overlay_entry(entry, entry->fts_accpath);
    return entry;
}

/* Their own path is valid only when they are read. Now the path goes through the directory. */
static void overlay_child(const FTSENT *entry, const FTSENT *directory)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", directory->fts_accpath, entry->fts_name) <
        (int)sizeof(path))
        overlay_entry(entry, path);
}

PRELOAD_EXPORT FTSENT *fts_children(FTS *tree, int options)
{
    FTSENT *first = PRELOAD_REAL(fts_children)(tree, options);
    for (const FTSENT *entry = preload_active() ? first : NULL; entry; entry = entry->fts_link) {
        if (entry->fts_level == FTS_ROOTLEVEL)
            overlay_entry(entry, entry->fts_accpath);
        else
            overlay_child(entry, tree->fts_cur);
    }
    return first;
}
