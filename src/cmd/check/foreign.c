/*
 * directnfs check --program: mounts with Kerberos or TLS need a library that is loaded when their
 * first file is opened. Would it be found then, and could it be used? Nothing is executed.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cmd/check/program.h"
#include "cmd/cmd.h"
#include "cmd/print.h"
#include "config/mountinfo.h"
#include "net/tls/tls.h"
#include "reach/kernel.h"
#include "rpc/secure/gss.h"

/* ---- what mounts need ---- */

/* Mounts that need a library. */
struct need {
    unsigned mounts; /* how many do */
    char first[512]; /* one of them, and how it is protected */
};

struct needs {
    struct need kerberos, tls;
    unsigned mounts; /* all that there are */
};

/* The kernel's mount that has this directory, by the table alone: nobody is asked. */
static void kernel_mount_of(const struct conf_mountinfo *info, const char *directory,
                            struct reach_kernel_mount *kernel)
{
    char path[PATH_MAX];
    const struct conf_mount *mount = NULL;
    *kernel = (struct reach_kernel_mount){.speaks = NULL};
    snprintf(path, sizeof(path), "%s", directory);
    while (path[0] && (mount = conf_mountinfo_at(info, path)) == NULL) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path)
            break;
        *slash = '\0';
    }
    if (mount)
        reach_kernel_mount_in(info, makedev(mount->major, mount->minor), kernel);
}

static void add(struct need *need, const struct conf_export *export, const char *protection)
{
    if (need->mounts++ == 0)
        snprintf(need->first, sizeof(need->first), "%s (%s)", export->mount, protection);
}

/* What the mounts of a program that starts now need. After a mistake in the nfstab: nothing, as all
 * files are the kernel's then. */
static void learn(struct needs *needs)
{
    struct conf_nfstab tab = {0};
    struct conf_mountinfo info = {0};
    struct conf_sources sources;
    conf_sources_default(&sources);
    bool good = conf_nfstab_load(&tab, &sources, NULL) == 0;
    conf_mountinfo_load(&info, "/proc/self/mountinfo");
    for (size_t i = 0; good && i < tab.server_count; i++) {
        const struct conf_server *server = &tab.servers[i];
        for (size_t k = 0; k < server->export_count; k++) {
            const struct conf_export *export = &server->exports[k];
            struct reach_kernel_mount kernel;
            kernel_mount_of(&info, export->mount, &kernel);
            enum conf_security security = reach_security(export->security, &kernel);
            enum conf_tls tls = reach_tls(server->tls, &kernel);
            const char *text = reach_protection_text(security, tls >= CONF_TLS_PREFER);
            needs->mounts++;
            if (security >= CONF_SECURITY_KRB5)
                add(&needs->kerberos, export, text);
            if (tls >= CONF_TLS_PREFER)
                add(&needs->tls, export, text);
        }
    }
    conf_mountinfo_free(&info);
    conf_nfstab_free(&tab);
}

/* ---- the libraries ---- */

/* A library, and what it stands on. */
struct foreign {
    const char *label;
    const char *sonames[2];                /* the last one is what is named */
    const char *(*function)(size_t index); /* which it must have; NULL beyond the last */
    const char *(*alone)(size_t index);    /* which no other object may define without a version */
    const char *family;                    /* what such another is called */
    const char *below; /* a library without versions that it stands on, up to ".so"; or NULL */
    const char *remedy;
};

/* One program, its own objects, and what is looked for. */
struct looking {
    struct program *program;
    size_t own;    /* objects that are there when it starts, or are mapped */
    size_t global; /* of these, the ones whose functions all others see */
    const struct foreign *foreign;
    const struct need *need;
    bool all; /* all mounts need it */
};

static void fail(const struct looking *looking, const char *what)
{
    char others[64] = "";
    const struct need *need = looking->need;
    if (need->mounts > 1)
        snprintf(others, sizeof(others), " and %u more mount%s", need->mounts - 1,
                 need->mounts > 2 ? "s" : "");
    check_say(looking->all ? CHECK_ERROR : CHECK_WARNING, looking->foreign->label,
              "%s, and %s%s need%s it: their files are not served", what, need->first, others,
              need->mounts > 1 ? "" : "s");
    check_remedy("%s", looking->foreign->remedy);
}

/* Finds a library as dlopen() would for our library. NULL: reported. */
static const struct program_object *find(const struct looking *looking,
                                         const struct program_object *loader, const char *soname,
                                         bool secure)
{
    char what[PATH_MAX + 256];
    const struct program_object *object = program_load(looking->program, loader, soname, secure);
    if (object == NULL || object->path == NULL) {
        snprintf(what, sizeof(what), "%s is not found", soname);
        fail(looking, what);
        return NULL;
    }
    for (size_t i = looking->own; i < looking->program->count; i++) {
        const struct program_object *missing = &looking->program->objects[i];
        if (missing->path != NULL || missing->parent == NULL || missing->parent == loader)
            continue;
        snprintf(what, sizeof(what), "%s cannot be loaded, as %s, which %s needs, is not found",
                 soname, missing->name, missing->parent->name);
        fail(looking, what);
        return NULL;
    }
    return object;
}

/* The first object of the program's own that exports the function, as dlsym() finds it. */
static const struct program_object *exporter(const struct looking *looking, const char *name)
{
    for (size_t i = 0; i < looking->global; i++) {
        const struct program_object *object = &looking->program->objects[i];
        if (object->path != NULL && elf_exports(&object->elf, name))
            return object;
    }
    return NULL;
}

static bool lacks_nothing(const struct looking *looking, const struct program_object *found[2])
{
    char what[256];
    const char *name;
    for (size_t i = 0; (name = looking->foreign->function(i)) != NULL; i++) {
        bool has = false;
        for (int k = 0; k < 2; k++)
            has = has || (found[k] && elf_exports(&found[k]->elf, name));
        if (has)
            continue;
        snprintf(what, sizeof(what), "%s lacks the function %s", looking->foreign->sonames[1],
                 name);
        fail(looking, what);
        return false;
    }
    return true;
}

/* Does nobody else offer functions in their place? False: reported. */
static bool is_alone(const struct looking *looking, const struct program_object *found[2])
{
    char what[PATH_MAX + 256];
    const struct foreign *foreign = looking->foreign;
    const char *name, *below = foreign->below;
    for (size_t i = 0; (name = foreign->alone(i)) != NULL; i++) {
        const struct program_object *other = exporter(looking, name);
        if (!other || other == found[0] || other == found[1] || elf_has_versions(&other->elf) ||
            (below && strncmp(other->name, below, strlen(below)) == 0))
            continue;
        snprintf(what, sizeof(what),
                 "%s cannot be used, as %s exports the function %s of another %s",
                 foreign->sonames[1], other->path, name, foreign->family);
        fail(looking, what);
        return false;
    }
    return true;
}

/* A process has the library mapped, for itself or for us. */
static void say_mapped(const struct looking *looking, const struct program_object *object)
{
    const struct program_object *found[2] = {NULL, object};
    if (looking->foreign->sonames[0])
        found[0] = program_find(looking->program, looking->foreign->sonames[0]);
    if (!is_alone(looking, found))
        return;
    check_say(CHECK_INFO, looking->foreign->label, "%s (%s) is loaded, which %s needs",
              looking->foreign->sonames[1], object->path, looking->need->first);
    check_word("soname", looking->foreign->sonames[1]);
    check_word("path", object->path);
    if (!object->deleted)
        return;
    check_say(CHECK_WARNING, looking->foreign->label,
              "the file was replaced or removed since: the process runs the old one");
    check_remedy("restart it to use the new one");
}

static void look_for(const struct looking *looking, const struct program_object *loader,
                     bool secure)
{
    const struct foreign *foreign = looking->foreign;
    const struct program_object *found[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) {
        if (foreign->sonames[k] && !(found[k] = find(looking, loader, foreign->sonames[k], secure)))
            return;
    }
    if (!lacks_nothing(looking, found) || !is_alone(looking, found))
        return;
    check_say(CHECK_INFO, foreign->label,
              looking->global == looking->own
                  ? "%s (%s), which is loaded for %s"
                  : "%s (%s) is loaded when the process opens its first file of %s",
              foreign->sonames[1], found[1]->path, looking->need->first);
    check_word("soname", foreign->sonames[1]);
    check_word("path", found[1]->path);
}

/* Our library, which loads the others. */
static const struct program_object *add_loader(struct program *program)
{
    char path[PATH_MAX];
    const char *why;
    struct program_object *loader = NULL;
    for (size_t i = 0; i < program->count; i++)
        if (check_is_ours(&program->objects[i]))
            return &program->objects[i];
    int fd = cmd_library(path) ? program_open(path) : -1;
    if (fd >= 0)
        loader = program_add(program, path, path, fd, &program->objects[0]);
    if (loader && elf_open(&loader->elf, fd, &why) != 0)
        elf_close(&loader->elf);
    return loader ? loader : &program->objects[0];
}

/* What is looked for after chroot(2) is looked for inside. */
static void say_chroot(const struct program *program)
{
    const struct elf_file *elf = &program->objects[0].elf;
    for (size_t i = 0; i < elf->symbol_count; i++) {
        if (elf->symbols[i].defined || strcmp(elf->symbols[i].name, "chroot") != 0)
            continue;
        check_say(CHECK_INFO, "chroot",
                  "it can change its root directory: what it opens first of such a mount after "
                  "that needs these libraries, and what they read, inside");
        check_remedy("copy them there with what ldd(1) shows, or have it open a file of the mount "
                     "before");
        return;
    }
}

static const struct foreign kerberos = {"Kerberos",
                                        {NULL, "libgssapi_krb5.so.2"},
                                        rpc_gss_function,
                                        rpc_gss_alone,
                                        "Kerberos",
                                        "libcom_err.so",
                                        "it takes libgssapi-krb5-2 (Debian) or krb5-libs (Red Hat) "
                                        "where the program runs, and a program that exports no "
                                        "other Kerberos"};
static const struct foreign tls = {"TLS",
                                   {"libcrypto.so.3", "libssl.so.3"},
                                   net_tls_function,
                                   net_tls_function,
                                   "OpenSSL",
                                   NULL,
                                   "it takes OpenSSL 3 (Debian: libssl3, RPM: openssl-libs) where "
                                   "the program runs, and a program that exports no other one"};

/* The libraries that mounts need, one after the other. */
static void look_for_all(const struct needs *needs, struct looking *looking,
                         const struct program_object *loader, bool secure)
{
    const struct {
        const struct foreign *foreign;
        const struct need *need;
    } all[] = {{&kerberos, &needs->kerberos}, {&tls, &needs->tls}};
    for (int i = 0; i < 2; i++) {
        if (all[i].need->mounts == 0)
            continue;
        looking->foreign = all[i].foreign;
        looking->need = all[i].need;
        looking->all = all[i].need->mounts == needs->mounts;
        bool runs = looking->global != looking->own;
        const struct program_object *mapped =
            runs ? program_find(looking->program, looking->foreign->sonames[1]) : NULL;
        if (mapped)
            say_mapped(looking, mapped);
        else
            look_for(looking, loader, secure);
    }
}

void check_foreign(struct program *program, bool secure)
{
    struct needs needs = {.mounts = 0};
    learn(&needs);
    if (needs.kerberos.mounts + needs.tls.mounts == 0)
        return;
    struct looking looking = {.program = program, .own = program->count, .global = program->count};
    look_for_all(&needs, &looking, add_loader(program), secure);
    say_chroot(program);
}

void check_foreign_of_process(struct program *program, const struct program_object *loader)
{
    struct needs needs = {.mounts = 0};
    learn(&needs);
    /* What libraries export that were loaded by dlopen(3) may be theirs alone. */
    struct looking looking = {.program = program, .own = program->count, .global = 1};
    look_for_all(&needs, &looking, loader, false);
}

void check_foreign_nothing(void)
{
    struct needs needs = {.mounts = 0};
    learn(&needs);
    const struct need *need = needs.kerberos.mounts > 0 ? &needs.kerberos : &needs.tls;
    if (need->mounts > 0)
        check_say(CHECK_INFO, needs.kerberos.mounts > 0 ? "Kerberos" : "TLS",
                  "nothing can be loaded into it: what it does with files of %s the kernel "
                  "protects, as its own mount says",
                  need->first);
}
