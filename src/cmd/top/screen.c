#include "cmd/top/screen.h"

#include <curses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

/* Included last: it defines short words as macros. */
#include <term.h>

static SCREEN *screen;
static bool colours;
static volatile sig_atomic_t stopped;
static unsigned failed_reads; /* in a row */

static void stop(int signal)
{
    stopped = signal;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = stop};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);
}

static void choose_colours(void)
{
    const char *no_colour = getenv("NO_COLOR");
    colours = has_colors() && !(no_colour && *no_colour) && start_color() == OK;
    if (!colours)
        return;
    short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
    init_pair(TOP_LOOK_GOOD, COLOR_GREEN, background);
    init_pair(TOP_LOOK_NOTICE, COLOR_CYAN, background);
    init_pair(TOP_LOOK_WARNING, COLOR_YELLOW, background);
    init_pair(TOP_LOOK_BAD, COLOR_RED, background);
}

int top_screen_begin(void)
{
    int error;
    const char *type = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return cmd_usage_error("top", "standard input and output are no terminal: use --batch");
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK || !cursor_address) {
        cmd_complain("top", "cannot draw on a terminal of type '%s' (TERM): use --batch",
                     type ? type : "");
        return CMD_NOT_FINE;
    }
    del_curterm(cur_term);
    use_tioctl(TRUE);
    set_escdelay(50);
    screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        cmd_complain("top", "cannot use this terminal: use --batch");
        return CMD_NOT_FINE;
    }
    catch_signals();
    atexit(top_screen_end);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    choose_colours();
    return CMD_FINE;
}

void top_screen_end(void)
{
    if (!screen)
        return;
    endwin();
    delscreen(screen);
    screen = NULL;
}

void top_screen_size(int *height, int *width)
{
    getmaxyx(stdscr, *height, *width);
}

static attr_t attributes(unsigned look)
{
    static const attr_t plain[] = {
        [TOP_LOOK_STRONG] = A_BOLD,
        [TOP_LOOK_NOTICE] = A_UNDERLINE,
        [TOP_LOOK_WARNING] = A_BOLD,
        [TOP_LOOK_BAD] = A_BOLD | A_UNDERLINE,
    };
    unsigned kind = look & ~(unsigned)TOP_REVERSE;
    attr_t result = look & TOP_REVERSE ? A_REVERSE : A_NORMAL;
    if (kind > TOP_LOOK_STRONG && colours)
        return result | (attr_t)COLOR_PAIR(kind) | (kind == TOP_LOOK_BAD ? A_BOLD : 0);
    return result | plain[kind];
}

void top_screen_show(const struct top_grid *grid, bool repair)
{
    erase();
    for (int row = 0; row < grid->height; row++) {
        for (int i = 0; i < grid->width; i++) {
            const struct top_place *place =
                &grid->places[(size_t)row * (size_t)grid->width + (size_t)i];
            if (place->text[0] == '\0')
                continue;
            attrset(attributes(place->look));
            mvaddstr(row, i, place->text);
        }
    }
    attrset(A_NORMAL);
    if (repair)
        clearok(curscr, TRUE);
    refresh();
}

static int translate(int key)
{
    static const struct {
        int curses, ours;
    } keys[] = {
        {KEY_UP, TOP_KEY_UP},
        {KEY_DOWN, TOP_KEY_DOWN},
        {KEY_PPAGE, TOP_KEY_PAGE_UP},
        {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
        {KEY_HOME, TOP_KEY_HOME},
        {KEY_END, TOP_KEY_END},
        {KEY_BTAB, TOP_KEY_BACK_TAB},
        {KEY_ENTER, TOP_KEY_ENTER},
        {'\r', TOP_KEY_ENTER},
        {KEY_F(1), 'h'},
        {KEY_LEFT, '<'},
        {KEY_RIGHT, '>'},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].curses == key)
            return keys[i].ours;
    return key < 0x80 ? key : TOP_KEY_OTHER;
}

int top_screen_key(double seconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = poll(&input, 1, seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
    if (stopped || (ready > 0 && !(input.revents & POLLIN)))
        return TOP_KEY_GONE;
    timeout(0);
    int key = getch(); /* even without input: the size may have changed */
    if (key == ERR || key == KEY_RESIZE) {
        failed_reads = ready > 0 && key == ERR ? failed_reads + 1 : 0;
        return failed_reads > 2 ? TOP_KEY_GONE : TOP_KEY_NONE;
    }
    failed_reads = 0;
    return translate(key);
}
