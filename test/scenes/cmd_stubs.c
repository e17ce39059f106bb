/* In place of src/cmd/main.c, for tests that include parts of the command. */
#include "cmd/cmd.h"
#include "unit.h"

void cmd_complain(const char *command, const char *format, ...)
{
    (void)command;
    fail_msg("%s", format);
}

bool cmd_parse_number(const char *text, bool fraction, double low, double high, double *value)
{
    (void)text, (void)fraction, (void)low, (void)high, (void)value;
    return false;
}
