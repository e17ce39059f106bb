/*
 * The log, for administrators: one line a message, never on the application's standard output. A
 * message says what failed, on which file, path or line, why, and what to do.
 */
#ifndef SYS_LOG_H
#define SYS_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_NOTICE,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

/*
 * Chooses where messages go: "stderr" (also NULL), "syslog", or a file to append to. Until then
 * they go to stderr. Call it once, at start. A file needs an absolute path. A relative one would be
 * another file, maybe among an application's data, in each directory that a program starts in.
 * 0: done.
 * -EINVAL: it is another word.
 * Another -errno: the file cannot be opened; stderr stays in use.
 */
int log_open(const char *target);

/* Messages above `level` are dropped. The default is LOG_LEVEL_NOTICE. */
void log_set_level(enum log_level level);

/* Finds a level by its name ("error" ... "debug"). -EINVAL: there is none. */
int log_level_parse(const char *name, enum log_level *level);

bool log_wanted(enum log_level level);

/* A number for the place where messages go; two places on this host have different ones. 0: not
 * known, or syslog. */
uint64_t log_place(void);

/* Writes "directnfs[PID]: text". Allocates nothing; long messages are cut at 1 KiB. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...)  log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) \
    (log_wanted(LOG_LEVEL_INFO) ? log_write(LOG_LEVEL_INFO, __VA_ARGS__) : (void)0)
#define log_debug(...) \
    (log_wanted(LOG_LEVEL_DEBUG) ? log_write(LOG_LEVEL_DEBUG, __VA_ARGS__) : (void)0)

#endif
