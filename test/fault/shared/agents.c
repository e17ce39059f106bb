/* See agents.h. */
#include "agents.h"

static ssize_t read_of(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

bool runs_in(pid_t pid, const char *run)
{
    static char text[ENVIRONMENT_MOST];
    static const char name[] = "DIRECTNFS_RUN=";
    ssize_t got = read_of(pid, "environ", text, sizeof text);
    for (char *at = text; at < text + got; at += strlen(at) + 1) {
        if (strncmp(at, name, sizeof name - 1) == 0)
            return strcmp(at + sizeof name - 1, run) == 0;
    }
    return false;
}

bool is_agent(pid_t pid)
{
    char text[4096];
    ssize_t got = read_of(pid, "cmdline", text, sizeof text);
    size_t first = strlen(text) + 1;
    return got > (ssize_t)first && strcmp(text + first, "agent") == 0;
}

unsigned run_find(const char *run, bool agent, pid_t found[PROCESSES_MOST])
{
    DIR *directory = opendir("/proc");
    const struct dirent *entry;
    unsigned count = 0;
    if (!directory)
        die("/proc: %s", strerror(errno));
    while (count < PROCESSES_MOST && (entry = readdir(directory))) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
        if (pid > 0 && pid != getpid() && runs_in(pid, run) && (!agent || is_agent(pid)))
            found[count++] = pid;
    }
    closedir(directory);
    return count;
}

int process_wait(pid_t process)
{
    uint64_t limit = clock_ns() + milliseconds(PATIENCE_S * 1000);
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
        if (clock_ns() > limit)
            return -1;
        usleep(2000);
    }
    return status;
}
