/*
 * directnfs run: puts the library in front of a program and becomes that program.
 *
 * Nothing here may take time: the program's user waits for it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/check/program.h"

#define LIBRARY "libdirectnfs.so"

/* Writes the directory of this command, with a slash at its end. False, with errno: it is not
 * known. */
static bool find_command(char directory[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);
    if (length < 0)
        return false;
    directory[length] = '\0';
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[1] = '\0';
    return true;
}

bool cmd_library(char path[PATH_MAX])
{
    static const char *const places[] = {LIBRARY, "../lib/directnfs/" LIBRARY,
                                         "../" PROGRAM_LIB "/directnfs/" LIBRARY,
                                         "../lib64/directnfs/" LIBRARY};
    char command[PATH_MAX];
    bool known = find_command(command);
    for (size_t i = 0; known && i < sizeof(places) / sizeof(places[0]); i++) {
        char place[2 * PATH_MAX];
        snprintf(place, sizeof(place), "%s%s", command, places[i]);
        if (realpath(place, path) != NULL && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* As cmd_library(), with a complaint if the library cannot be used. */
static bool find_library(char path[PATH_MAX])
{
    char command[PATH_MAX];
    if (!find_command(command)) {
        cmd_complain("run", "cannot find where this command lies: /proc/self/exe: %m");
        return false;
    }
    if (!cmd_library(path)) {
        cmd_complain("run",
                     "%s is neither in %s nor in %s../lib/directnfs; build or install it there",
                     LIBRARY, command, command);
        return false;
    }
    if (strpbrk(path, " :") != NULL) {
        cmd_complain("run",
                     "%s cannot be preloaded: LD_PRELOAD takes no path with a blank or a colon; "
                     "move the installation elsewhere",
                     path);
        return false;
    }
    return true;
}

int cmd_preload(const char *library)
{
    const char *others = getenv("LD_PRELOAD");
    if (others == NULL || others[0] == '\0')
        return setenv("LD_PRELOAD", library, 1);
    char *both;
    if (asprintf(&both, "%s:%s", library, others) < 0)
        return -1;
    int result = setenv("LD_PRELOAD", both, 1);
    free(both);
    return result;
}

/* Names this start: of the processes that come from it, one logs that it has the library. */
static int set_start(void)
{
    char name[64];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(name, sizeof(name), "%d.%lld.%09ld", getpid(), (long long)now.tv_sec, now.tv_nsec);
    return setenv("DIRECTNFS_START", name, 1);
}

/* The program may change its directory, so the environment gets an absolute name. */
static bool set_nfstab(const char *nfstab)
{
    char path[PATH_MAX];
    struct stat status;
    if (realpath(nfstab, path) == NULL || stat(path, &status) != 0 || access(path, R_OK) != 0) {
        cmd_complain("run", "cannot read the nfstab '%s': %m", nfstab);
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        cmd_complain("run", "the nfstab '%s' is no regular file", nfstab);
        return false;
    }
    if (setenv("DIRECTNFS_NFSTAB", path, 1) != 0) {
        cmd_complain("run", "%m");
        return false;
    }
    return true;
}

struct request {
    const char *nfstab;
};

static int run(int argc, char **argv)
{
    struct request request = {0};
    int status = cmd_options(&cmd_run, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (optind == argc)
        return cmd_usage_error("run", "which program is to be run?");
    if (request.nfstab && !set_nfstab(request.nfstab))
        return CMD_WRONG_USAGE;

    char library[PATH_MAX], why[PROGRAM_WHY];
    if (!find_library(library))
        return CMD_RUN_FAILED;
    if (cmd_preload(library) != 0) {
        cmd_complain("run", "%m");
        return CMD_RUN_FAILED;
    }
    if (set_start() != 0)
        cmd_complain("run", "%m");
    if (program_is_unloadable(argv[optind], why))
        cmd_complain(
            "run",
            "%s: libdirectnfs.so is not loaded, and the kernel serves all files. It starts "
            "nevertheless; 'directnfs check --program' says what to do",
            why);
    execvp(argv[optind], argv + optind);
    int error = errno;
    cmd_complain("run", "cannot start '%s': %s", argv[optind], strerror(error));
    return error == ENOENT ? CMD_NOT_FOUND : CMD_NOT_EXECUTABLE;
}

static const struct cmd_option options[] = {
    CMD_TEXT_OPTION("nfstab", 't', nfstab, "NFSTAB", "use this nfstab and no other"),
};

const struct cmd_command cmd_run = {
    .name = "run",
    .usage = "run [-t NFSTAB] [--] PROGRAM [ARGUMENT...]\n",
    .purpose = "starts an unmodified program whose files on configured mounts are read and\n"
               "         written by the NFS client in libdirectnfs.so",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .stops = true,
    .run = run,
};
