#include "cmd/top/grid.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

bool top_grid_begin(struct top_grid *grid, int height, int width)
{
    size_t count = (size_t)height * (size_t)width;
    if (height != grid->height || width != grid->width || !grid->places) {
        free(grid->places);
        grid->places = calloc(count + 1, sizeof(*grid->places));
        grid->height = grid->places ? height : 0;
        grid->width = grid->places ? width : 0;
    }
    for (size_t i = 0; grid->places && i < count; i++)
        grid->places[i] = (struct top_place){.text = " "};
    return grid->places != NULL;
}

void top_grid_free(struct top_grid *grid)
{
    free(grid->places);
    *grid = (struct top_grid){0};
}

/* Takes the next character. A character that the terminal cannot show becomes '?'. Returns its
 * columns; 0: it has none; -1: the text ends. */
static int next(const struct top_grid *grid, const char **text, struct top_place *place)
{
    wchar_t character;
    mbstate_t state = {0};
    if (**text == '\0')
        return -1;
    size_t length = mbrtowc(&character, *text, sizeof(place->text) - 1, &state);
    bool known = length < sizeof(place->text) && length > 0;
    int width = known ? wcwidth(character) : 1;
    if (!known || width < 0 || (!grid->wide && length > 1)) {
        *place = (struct top_place){.text = "?"};
        length = known ? length : 1;
        width = 1;
    } else {
        memcpy(place->text, *text, length);
        place->text[length] = '\0';
    }
    *text += length;
    return width;
}

int top_grid_width(const struct top_grid *grid, const char *text)
{
    struct top_place place;
    int sum = 0;
    for (int width; (width = next(grid, &text, &place)) >= 0;)
        sum += width;
    return sum;
}

static void set(struct top_grid *grid, int row, int column, struct top_place place, unsigned look)
{
    if (row < 0 || row >= grid->height || column < 0 || column >= grid->width)
        return;
    place.look = (unsigned char)look;
    grid->places[(size_t)row * (size_t)grid->width + (size_t)column] = place;
}

int top_grid_put(struct top_grid *grid, int row, int column, int room, unsigned look,
                 const char *text)
{
    static const struct top_place cut = {.text = "~"}, rest = {.text = ""};
    struct top_place place;
    bool end = look & TOP_CUT_START;
    room = room < grid->width - column ? room : grid->width - column;
    int used = 0, width, missing = top_grid_width(grid, text) - room;
    if (room <= 0)
        return 0;
    if (missing > 0 && end) {
        for (int skipped = 0; skipped <= missing && (width = next(grid, &text, &place)) >= 0;)
            skipped += width;
        set(grid, row, column + used++, cut, look);
    }
    while ((width = next(grid, &text, &place)) >= 0) {
        bool more = missing > 0 && !end;
        if (width == 0)
            continue;
        if (used + width > room - more) {
            if (more)
                set(grid, row, column + used++, cut, look);
            break;
        }
        set(grid, row, column + used++, place, look);
        if (width > 1)
            set(grid, row, column + used++, rest, look);
    }
    return used;
}

void top_grid_look(struct top_grid *grid, int row, int column, int room, unsigned look)
{
    for (int i = column; i < column + room && i < grid->width; i++)
        if (row >= 0 && row < grid->height && i >= 0)
            grid->places[(size_t)row * (size_t)grid->width + (size_t)i].look = (unsigned char)look;
}

void top_grid_print(const struct top_grid *grid, FILE *out)
{
    for (int row = 0; row < grid->height; row++) {
        const struct top_place *places = &grid->places[(size_t)row * (size_t)grid->width];
        int end = grid->width;
        while (end > 0 && strcmp(places[end - 1].text, " ") == 0)
            end--;
        for (int i = 0; i < end; i++)
            fputs(places[i].text, out);
        fputc('\n', out);
    }
}
