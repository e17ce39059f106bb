/* See tool.h. */
#include "tool.h"

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

uint64_t number_option(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    unsigned shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    if (shift)
        end++;
    if (errno || end == text || *end || strchr(text, '-') || value > UINT64_MAX >> shift ||
        value << shift < least || value << shift > most) {
        fprintf(stderr, "%s: --%s %s: expected a number from %llu to %llu\n",
                program_invocation_short_name, name, text, (unsigned long long)least,
                (unsigned long long)most);
        exit(2);
    }
    return value << shift;
}

uint64_t seconds_option(const char *name, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0.001 && value <= 86400)) {
        fprintf(stderr, "%s: --%s %s: expected seconds from 0.001 to 86400\n",
                program_invocation_short_name, name, text);
        exit(2);
    }
    return (uint64_t)(value * 1e9);
}

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
