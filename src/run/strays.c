#include "run/strays.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "run/directory.h"
#include "sys/sys.h"

#define FIRST_LINE "directnfs stray 1"

enum { ATTEMPTS = 1000 };

struct head {
    uint64_t offset;
    uint32_t length;
} __attribute__((packed));

static int write_all(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t done = sys_write(fd, at, length);
        if (done == -EINTR)
            continue;
        if (done <= 0)
            return done == 0 ? -EIO : (int)done;
        at += done;
        length -= (size_t)done;
    }
    return 0;
}

/* -EBADMSG: the file is shorter. */
static int read_all(int fd, void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t done = sys_read(fd, at, length);
        if (done == -EINTR)
            continue;
        if (done <= 0)
            return done == 0 ? -EBADMSG : (int)done;
        at += done;
        length -= (size_t)done;
    }
    return 0;
}

/* ---- names ---- */

static void form(char name[RUN_STRAY_NAME], const struct run_stray_name *parsed)
{
    snprintf(name, RUN_STRAY_NAME, RUN_STRAY_PREFIX "%" PRIx64 ".%" PRIu64 ".%u", parsed->device,
             parsed->inode, parsed->number);
}

/* Only a name that form() makes is valid, so that each name stands for one file. */
bool run_stray_parse(const char *name, struct run_stray_name *parsed)
{
    char again[RUN_STRAY_NAME];
    if (sscanf(name, RUN_STRAY_PREFIX "%" SCNx64 ".%" SCNu64 ".%u", &parsed->device, &parsed->inode,
               &parsed->number) != 3)
        return false;
    form(again, parsed);
    return strcmp(name, again) == 0;
}

int run_stray_remove(int run, const char *name)
{
    struct run_stray_name parsed;
    if (!run_stray_parse(name, &parsed))
        return -EINVAL;
    int fd = run_open_file(run, name, O_RDONLY), result = fd == -ENOENT ? fd : 0;
    if (fd >= 0 && sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB) == -EWOULDBLOCK)
        result = -EBUSY;
    if (!result)
        result = sys_unlinkat(run, name, 0);
    if (fd >= 0)
        sys_close(fd);
    return result;
}

/* ---- writing ---- */

/* Notes the highest number of the strays of this file. Devices are not compared, as the mount may
 * have had another number. */
static int find_newest(void *argument, const char *name)
{
    struct run_stray_name *newest = argument, one;
    if (run_stray_parse(name, &one) && one.inode == newest->inode && one.number > newest->number)
        newest->number = one.number;
    return 0;
}

static int make(struct run_stray_file *file, const struct run_stray *stray)
{
    struct run_stray_name name = {.device = stray->device, .inode = stray->inode};
    int fd = -EEXIST, result = run_list(file->run, find_newest, &name);
    if (result < 0)
        return result;
    for (int i = 0; i < ATTEMPTS && fd == -EEXIST && name.number < UINT32_MAX; i++) {
        name.number++; /* another process may take it now, too */
        form(file->name, &name);
        fd = run_open_file(file->run, file->name, O_RDWR | O_CREAT | O_EXCL);
    }
    return fd;
}

/* A name may hold any byte but the newline, which ends it here. */
static int write_line(int fd, const char *word, const char *value)
{
    int result = write_all(fd, word, strlen(word));
    if (!result)
        result = write_all(fd, value, strcspn(value, "\n"));
    return result ? result : write_all(fd, "\n", 1);
}

int run_stray_begin(struct run_stray_file *file, const struct run_stray *stray)
{
    char numbers[64], since[32];
    *file = (struct run_stray_file){.run = run_open(), .fd = -1};
    if (file->run < 0)
        return file->run;
    file->fd = make(file, stray);
    if (file->fd < 0)
        return file->fd;
    sys_call2(SYS_flock, file->fd, LOCK_EX | LOCK_NB); /* so nobody removes it meanwhile */
    snprintf(numbers, sizeof(numbers), "%" PRIu64 " %" PRIu64, stray->device, stray->inode);
    snprintf(since, sizeof(since), "%" PRIu64, stray->since_s);
    int result = write_line(file->fd, FIRST_LINE, "");
    if (!result)
        result = write_line(file->fd, "server ", stray->server);
    if (!result)
        result = write_line(file->fd, "mount ", stray->mount);
    if (!result)
        result = write_line(file->fd, "path ", stray->path);
    if (!result)
        result = write_line(file->fd, "file ", numbers);
    if (!result)
        result = write_line(file->fd, "since ", since);
    return result ? result : write_line(file->fd, "", "");
}

int run_stray_piece(struct run_stray_file *file, uint64_t offset, const void *bytes,
                    uint32_t length)
{
    const struct head head = {offset, length};
    int result = write_all(file->fd, &head, sizeof(head));
    if (!result)
        result = write_all(file->fd, bytes, length);
    file->bytes += length;
    return result;
}

int run_stray_end(struct run_stray_file *file, bool keep)
{
    const struct head head = {file->bytes, 0};
    int result = keep ? write_all(file->fd, &head, sizeof(head)) : 0;
    if ((result || !keep) && file->fd >= 0)
        sys_unlinkat(file->run, file->name, 0);
    run_stray_close(file);
    return result;
}

/* ---- reading ---- */

/* The next line, without its end. False: there is none that begins with `word`. */
static bool read_line(char **at, const char *word, const char **value)
{
    size_t length = strlen(word);
    char *end = strchr(*at, '\n');
    if (!end || strncmp(*at, word, length) != 0 || (*at)[length] != ' ')
        return false;
    *end = '\0';
    *value = *at + length + 1;
    *at = end + 1;
    return true;
}

static bool parse(char *text, struct run_stray *stray, size_t *used)
{
    char *at = text;
    const char *numbers, *since;
    if (strncmp(at, FIRST_LINE "\n", sizeof(FIRST_LINE)) != 0)
        return false;
    at += sizeof(FIRST_LINE);
    if (!read_line(&at, "server", &stray->server) || !read_line(&at, "mount", &stray->mount) ||
        !read_line(&at, "path", &stray->path) || !read_line(&at, "file", &numbers) ||
        !read_line(&at, "since", &since) || *at != '\n')
        return false;
    *used = (size_t)(at + 1 - text);
    return sscanf(numbers, "%" SCNu64 " %" SCNu64, &stray->device, &stray->inode) == 2 &&
           sscanf(since, "%" SCNu64, &stray->since_s) == 1;
}

static int read_head(struct run_stray_file *file, struct head *head)
{
    int result = read_all(file->fd, head, sizeof(*head));
    return result ? result : head->length > RUN_STRAY_PIECE ? -EBADMSG : 0;
}

/* Has the file an end, so that it was finished? Then *bytes is the sum that the end tells.
 * -EBADMSG: there is no end, or a file of this size cannot have that sum. */
static int read_end(const struct run_stray_file *file, uint64_t *bytes)
{
    struct head head;
    struct stat status;
    int result = sys_fstat(file->fd, &status);
    if (result)
        return result;
    uint64_t size = (uint64_t)status.st_size, least = file->first + sizeof(head), pieces;
    if (size < least || sys_pread(file->fd, &head, sizeof(head), (off_t)(size - sizeof(head))) !=
                            (ssize_t)sizeof(head))
        return -EBADMSG;
    *bytes = head.offset;
    if (head.length != 0 || head.offset > size - least)
        return -EBADMSG;
    pieces = (size - least - head.offset) / sizeof(head);
    bool fits = (size - least - head.offset) % sizeof(head) == 0 && pieces <= head.offset &&
                head.offset <= pieces * RUN_STRAY_PIECE;
    return fits ? 0 : -EBADMSG;
}

int run_stray_read(struct run_stray_file *file, int run, const char *name,
                   char text[RUN_STRAY_TEXT], struct run_stray *stray)
{
    struct run_stray_name parsed;
    size_t used = 0;
    *file = (struct run_stray_file){.run = -1, .fd = -1};
    *stray = (struct run_stray){0};
    if (!run_stray_parse(name, &parsed))
        return -EBADMSG;
    strcpy(file->name, name);
    file->fd = run_open_file(run, name, O_RDONLY);
    if (file->fd < 0)
        return file->fd;
    ssize_t length = sys_pread(file->fd, text, RUN_STRAY_TEXT - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    int result = length < 0 ? (int)length : parse(text, stray, &used) ? 0 : -EBADMSG;
    if (!result && (stray->device != parsed.device || stray->inode != parsed.inode))
        result = -EBADMSG;
    file->first = used;
    if (!result)
        result = read_end(file, &stray->bytes);
    file->bytes = stray->bytes;
    sys_lseek(file->fd, (off_t)used, SEEK_SET);
    if (result)
        run_stray_close(file);
    return result;
}

/* The file can change at any time, as others may be able to write to it. This check is for files
 * that a process with this library left half done. */
int run_stray_check(struct run_stray_file *file)
{
    struct head head;
    uint64_t sum = 0, end = file->first;
    struct stat status;
    int result = sys_fstat(file->fd, &status);
    while (!result && (result = read_head(file, &head)) == 0) {
        end += sizeof(head) + head.length;
        if (head.length == 0)
            break;
        bool beyond = head.offset > (uint64_t)INT64_MAX - head.length;
        sum += head.length;
        result = beyond || end > (uint64_t)status.st_size ? -EBADMSG : 0;
        sys_lseek(file->fd, (off_t)end, SEEK_SET);
    }
    if (!result && (head.offset != sum || sum != file->bytes || end != (uint64_t)status.st_size))
        result = -EBADMSG;
    sys_lseek(file->fd, (off_t)file->first, SEEK_SET);
    return result;
}

ssize_t run_stray_next(struct run_stray_file *file, uint64_t *offset, void *bytes)
{
    struct head head;
    int result = read_head(file, &head);
    if (!result)
        result = read_all(file->fd, bytes, head.length);
    *offset = head.offset;
    return result ? result : (ssize_t)head.length;
}

void run_stray_close(struct run_stray_file *file)
{
    if (file->fd >= 0)
        sys_close(file->fd);
    run_close(file->run);
    file->fd = file->run = -1;
}
