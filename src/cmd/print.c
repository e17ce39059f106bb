#include "cmd/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "sys/text.h"

void *cmd_need(void *memory)
{
    if (memory == NULL) {
        cmd_complain(NULL, "there is not enough memory");
        exit(CMD_NOT_FINE);
    }
    return memory;
}

char *cmd_printable(const char *text, size_t limit)
{
    size_t size = strnlen(text, limit);
    char *result = cmd_need(malloc(4 * size + 1));
    char *end = result;
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        uint32_t character;
        size_t length = sys_text_decode(bytes + i, size - i, &character);
        if (length > 0 && !sys_text_is_control(character)) {
            memcpy(end, bytes + i, length);
            end += length;
            i += length;
            continue;
        }
        for (size_t last = i + (length ? length : 1); i < last; i++)
            end += sprintf(end, "\\x%02x", bytes[i]);
    }
    *end = '\0';
    return cmd_need(realloc(result, (size_t)(end - result) + 1));
}

const char *cmd_user_name(uid_t user, char number[CMD_USER_NUMBER])
{
    /* Most rows have the same user as the row before, and there may be many rows. */
    static uid_t known = CMD_NO_USER;
    static char name[64];
    if (user == CMD_NO_USER)
        return "-";
    if (user != known) {
        const struct passwd *entry = getpwuid(user);
        snprintf(name, sizeof(name), "%s", entry ? entry->pw_name : "");
        known = user;
    }
    snprintf(number, CMD_USER_NUMBER, "%u", user);
    return name[0] ? name : number;
}

void cmd_time(char text[CMD_TIME_BYTES], uint64_t realtime_ns)
{
    time_t seconds = (time_t)(realtime_ns / 1000000000u);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL || strftime(text, CMD_TIME_BYTES, "%FT%TZ", &tm) == 0)
        strcpy(text, "-");
}

size_t cmd_terminal_width(void)
{
    const char *columns = getenv("COLUMNS");
    double number;
    if (columns && cmd_parse_number(columns, false, 1, 10000, &number))
        return (size_t)number;
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        return size.ws_col;
    return 0;
}

/* ---- JSON ---- */

static void json_string(FILE *out, const char *text, size_t limit, bool lower)
{
    size_t size = strnlen(text, limit);
    const unsigned char *bytes = (const unsigned char *)text;
    fputc('"', out);
    for (size_t i = 0; i < size;) {
        uint32_t character;
        size_t length = sys_text_decode(bytes + i, size - i, &character);
        if (length == 0) {
            fputs("\\ufffd", out);
            i++;
            continue;
        }
        if (sys_text_is_control(character))
            fprintf(out, "\\u%04x", character);
        else if (character == '"' || character == '\\')
            fprintf(out, "\\%c", (int)character);
        else if (lower && character < 0x80)
            fputc(tolower((int)character), out);
        else
            fwrite(bytes + i, 1, length, out);
        i += length;
    }
    fputc('"', out);
}

/* Writes what comes before an element: comma, line, indentation, key. */
static void json_element(struct cmd_json *json, const char *key)
{
    if (json->filled)
        fputc(',', json->out);
    if (json->depth > 0)
        fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
    json->filled = true;
    if (key) {
        json_string(json->out, key, SIZE_MAX, true);
        fputs(": ", json->out);
    }
}

void cmd_json_open(struct cmd_json *json, const char *key, char bracket)
{
    json_element(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->filled = false;
}

void cmd_json_close(struct cmd_json *json, char bracket)
{
    json->depth--;
    if (json->filled)
        fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
    fputc(bracket, json->out);
    json->filled = true;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void cmd_json_text(struct cmd_json *json, const char *key, const char *text, size_t limit)
{
    json_element(json, key);
    json_string(json->out, text, limit, false);
}

void cmd_json_number(struct cmd_json *json, const char *key, uint64_t number)
{
    json_element(json, key);
    fprintf(json->out, "%" PRIu64, number);
}

void cmd_json_real(struct cmd_json *json, const char *key, double number)
{
    json_element(json, key);
    fprintf(json->out, "%.3f", number);
}

void cmd_json_digits(struct cmd_json *json, const char *key, const char *digits)
{
    json_element(json, key);
    fputs(digits, json->out);
}
