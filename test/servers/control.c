/* See control.h. */
#include "control.h"

unsigned control_words(char *line, char **words)
{
    unsigned count = 0;
    for (char *at = strtok(line, " \t\n"); at && count < WORDS_MOST; at = strtok(NULL, " \t\n"))
        words[count++] = at;
    return count;
}

static void control_ready(struct watch *watch, short events)
{
    struct control *control = (struct control *)watch;
    char line[1024], answer[ANSWER_MOST], *words[WORDS_MOST];
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);
    (void)events;
    if (fd < 0)
        return;
    struct timeval patience = {.tv_sec = 2}; /* the one who asks is a friend, and writes at once */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t got = recv(fd, line, sizeof line - 1, 0);
    if (got > 0) {
        line[got] = '\0';
        memset(answer, 0, sizeof answer);
        FILE *out = fmemopen(answer, sizeof answer - 1, "w");
        if (!out)
            die("no memory");
        unsigned count = control_words(line, words);
        bool understood = count > 0 && control->command(words, count, out);
        fclose(out);
        if (!understood)
            snprintf(answer, sizeof answer, "error: not understood\n");
        else if (!answer[0])
            snprintf(answer, sizeof answer, "ok\n");
        (void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    }
    close(fd);
}

static struct sockaddr_un control_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        die("%s: the name of a socket is at most %zu long", path, sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    return address;
}

static void control_listen(const char *path, control_command *command)
{
    struct sockaddr_un address = control_address(path);
    struct control *control = need(sizeof *control);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0)
        die("%s: %s", path, strerror(errno));
    control->watch = (struct watch){.fd = fd, .events = POLLIN, .ready = control_ready};
    control->command = command;
    watch_add(&control->watch);
}

void control_run(const char *path, control_command *command, uint64_t (*due)(uint64_t now))
{
    control_listen(path, command);
    puts("ready");
    fflush(stdout);
    loop_run(due);
    unlink(path);
}

void control_counter(FILE *out, const char *name, uint64_t value)
{
    fprintf(out, " %s=%llu", name, (unsigned long long)value);
}

bool control_ask(const char *path, const char *command, char answer[ANSWER_MOST])
{
    struct sockaddr_un address = control_address(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t used = 0;
    ssize_t got;
    answer[0] = '\0';
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        send(fd, command, strlen(command), MSG_NOSIGNAL) < 0) {
        snprintf(answer, ANSWER_MOST, "error: %s: %s\n", path, strerror(errno));
    } else {
        while ((got = recv(fd, answer + used, ANSWER_MOST - 1 - used, 0)) > 0)
            used += (size_t)got;
        answer[used] = '\0';
    }
    if (fd >= 0)
        close(fd);
    return answer[0] && strncmp(answer, "error", 5) != 0;
}

void control_option(struct control_options *options, int letter)
{
    if (letter == 'c')
        options->path = optarg;
    else if (letter == 's')
        options->seed = number_option("seed", optarg, 0, UINT64_MAX);
    else
        exit(2);
}

bool control_asks(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--ask") == 0;
}

int control_client(int argc, char **argv)
{
    char command[1024] = "", answer[ANSWER_MOST];
    if (argc < 4)
        die("usage: --ask SOCKET WORD...");
    for (int i = 3; i < argc; i++) {
        strncat(command, argv[i], sizeof command - strlen(command) - 2);
        strcat(command, " ");
    }
    bool taken = control_ask(argv[2], command, answer);
    fputs(answer, taken ? stdout : stderr);
    return taken ? 0 : 1;
}

bool word_number(const char *word, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(word, &end, 10);
    if (errno || end == word || *end || *word == '-' || value > most)
        return false;
    *number = value;
    return true;
}
