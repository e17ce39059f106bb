/*
 * directnfs stat --plot: an SVG file with the histogram of latencies. With several reports, it also
 * has latencies over time.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/stat/view.h"

/* Pixels. Each panel has its own margins. */
enum { WIDTH = 900, PANEL = 380, LEFT = 80, RIGHT = 30, TOP = 92, BOTTOM = 56 };

static const char *const colours[STAT_PLOT_PROCEDURES] = {"#2066b0", "#c0392b", "#0a7d38"};

struct panel {
    FILE *out;
    double top, low, high; /* of the y axis: pixels, values */
    bool logarithmic;
};

static double y_of(const struct panel *panel, double value)
{
    double height = PANEL - TOP - BOTTOM;
    double share = panel->logarithmic ? log(value / panel->low) / log(panel->high / panel->low)
                                      : (value - panel->low) / (panel->high - panel->low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return panel->top + TOP + height * (1 - share);
}

__attribute__((format(printf, 5, 6))) static void
text(const struct panel *panel, double x, double y, const char *anchor, const char *format, ...)
{
    va_list arguments;
    fprintf(panel->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    va_start(arguments, format);
    vfprintf(panel->out, format, arguments);
    va_end(arguments);
    fputs("</text>\n", panel->out);
}

static void grid_line(const struct panel *panel, double value, const char *label)
{
    double y = y_of(panel, value);
    fprintf(panel->out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT);
    text(panel, LEFT - 8, y + 4, "end", "%s", label);
}

static void frame(const struct panel *panel, const char *title, const char *x_axis)
{
    fprintf(panel->out, "<text x=\"%d\" y=\"%.1f\" font-size=\"16\">%s</text>\n", LEFT,
            panel->top + 26, title);
    fprintf(
        panel->out,
        "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n",
        LEFT, panel->top + TOP, WIDTH - LEFT - RIGHT, PANEL - TOP - BOTTOM);
    text(panel, (LEFT + WIDTH - RIGHT) / 2.0, panel->top + PANEL - 14, "middle", "%s", x_axis);
}

enum { WORDS = 32 };

/* "512 us", "2 ms", "4 s" */
static const char *duration(char words[WORDS], double us)
{
    if (us < 1000)
        snprintf(words, WORDS, "%.3g us", us);
    else if (us < 1e6)
        snprintf(words, WORDS, "%.3g ms", us / 1000);
    else
        snprintf(words, WORDS, "%.3g s", us / 1e6);
    return words;
}

/* Draws the colour of a procedure. Returns the place of the line with its name. */
static double legend(const struct panel *panel, unsigned place)
{
    double y = panel->top + 46 + 15 * place;
    fprintf(panel->out, "<rect x=\"%d\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"%s\"/>\n",
            LEFT, y - 10, colours[place]);
    return y;
}

/* ---- the histogram ---- */

static const struct directnfs_latency *drawn(const struct stat_plot *plot, unsigned place)
{
    return &plot->sum.procedures[plot->procedures[place]].latency;
}

/* The percentage of the calls in a bucket. Less than 0: there are no calls. */
static double percent_in(const struct directnfs_latency *counted, unsigned bucket)
{
    double calls = 0;
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
        calls += (double)counted->histogram[i];
    return calls > 0 ? 100 * (double)counted->histogram[bucket] / calls : -1;
}

/* Draws the buckets [first, end). */
static void bars(const struct panel *panel, const struct stat_plot *plot, unsigned first,
                 unsigned end)
{
    double step = (double)(WIDTH - LEFT - RIGHT) / (end - first);
    double bar = step * 0.8 / plot->procedure_count;
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        for (unsigned i = first; i < end; i++) {
            double percent = percent_in(drawn(plot, p), i), y = y_of(panel, percent);
            if (percent >= 0)
                fprintf(
                    panel->out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                    LEFT + step * (i - first + 0.1) + bar * p, y, bar, y_of(panel, 0) - y,
                    colours[p]);
        }
    }
    for (unsigned i = first; i <= end; i += end - first > 12 ? 2 : 1) {
        char words[WORDS];
        text(panel, LEFT + step * (i - first), panel->top + PANEL - BOTTOM + 18, "middle", "%s",
             i ? duration(words, (double)(stat_bucket_to(i) / 2)) : "0");
    }
}

static void histogram(const struct stat_plot *plot, FILE *out)
{
    struct panel panel = {.out = out};
    unsigned first = DIRECTNFS_HISTOGRAM_BUCKETS, end = 0;
    char words[WORDS], more[WORDS];
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
            double percent = percent_in(drawn(plot, p), i);
            panel.high = percent > panel.high ? percent : panel.high;
            if (percent > 0 && i < first)
                first = i;
            if (percent > 0 && i >= end)
                end = i + 1;
        }
    }
    panel.high = ceil(panel.high / 10) * 10;
    for (int percent = 0; percent <= panel.high; percent += panel.high > 50 ? 20 : 10) {
        snprintf(words, sizeof(words), "%d %%", percent);
        grid_line(&panel, percent, words);
    }
    frame(&panel, "How long calls took: share of the calls of each procedure",
          "time until the answer came");
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        struct stats_latency latency;
        stats_latency(drawn(plot, p), &latency);
        text(&panel, LEFT + 18, legend(&panel, p), "start", "%s: %llu, p50 %s, p99 %s",
             stats_procedure_name(plot->procedures[p]), (unsigned long long)drawn(plot, p)->calls,
             duration(words, latency.p50), duration(more, latency.p99));
    }
    bars(&panel, plot, first, end);
}

/* ---- over time ---- */

/* Draws a line through the reports with calls of the procedure. */
static void curve(const struct panel *panel, const struct stat_plot *plot, unsigned p, bool most)
{
    double from = plot->points[0].at, length = plot->points[plot->point_count - 1].at - from;
    bool drawing = false;
    fprintf(panel->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s d=\"", colours[p],
            most ? "1.5" : "2", most ? " stroke-dasharray=\"5 3\"" : "");
    for (size_t i = 0; i < plot->point_count; i++) {
        const struct stats_latency *latency = &plot->points[i].latency[plot->procedures[p]];
        double value = most ? latency->p99 : latency->mean;
        double x = LEFT + (WIDTH - LEFT - RIGHT) *
                              (length > 0 ? (plot->points[i].at - from) / length : 0.5);
        if (value > 0)
            fprintf(panel->out, "%s%.1f %.1f%s", drawing ? "L" : "M", x, y_of(panel, value),
                    drawing ? "" : "h.1"); /* makes a single point visible */
        drawing = value > 0;
    }
    fprintf(panel->out, "\" stroke-linecap=\"round\"/>\n");
}

/* 1, 2 or 5 times a power of ten, and at least `least`. */
static double round_step(double least)
{
    double step = pow(10, floor(log10(least)));
    return step >= least       ? step
           : 2 * step >= least ? 2 * step
           : 5 * step >= least ? 5 * step
                               : 10 * step;
}

static void over_time(const struct stat_plot *plot, FILE *out)
{
    struct panel panel = {.out = out, .top = PANEL, .low = INFINITY, .logarithmic = true};
    for (size_t i = 0; i < plot->point_count; i++) {
        for (unsigned p = 0; p < plot->procedure_count; p++) {
            const struct stats_latency *latency = &plot->points[i].latency[plot->procedures[p]];
            if (latency->mean > 0)
                panel.low = fmin(panel.low, latency->mean);
            panel.high = fmax(panel.high, fmax(latency->mean, latency->p99));
        }
    }
    if (panel.high <= 0) {
        panel.low = 1;
        panel.high = 1000;
    }
    panel.low = pow(10, floor(log10(panel.low)));
    panel.high = pow(10, ceil(log10(panel.high)));
    if (panel.high <= panel.low)
        panel.high = panel.low * 10;
    for (double value = panel.low; value <= panel.high * 1.01; value *= 10) {
        char words[WORDS];
        grid_line(&panel, value, duration(words, value));
    }
    frame(&panel, "Over time: mean (line) and 99th percentile (dashes) of each interval",
          "seconds");
    double length = plot->points[plot->point_count - 1].at - plot->points[0].at;
    double step = round_step(length / 8);
    for (double at = 0; length > 0 && at <= length; at += step)
        text(&panel, LEFT + (WIDTH - LEFT - RIGHT) * at / length, PANEL + PANEL - BOTTOM + 18,
             "middle", "%g", at);
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        text(&panel, LEFT + 18, legend(&panel, p), "start", "%s",
             stats_procedure_name(plot->procedures[p]));
        curve(&panel, plot, p, false);
        curve(&panel, plot, p, true);
    }
}

/* ---- collecting ---- */

/* Makes "db1, 2026-11-27T00:12:56Z, server filer", safe for XML. */
static void name_plot(struct stat_plot *plot, const struct stat_set *set)
{
    char time[CMD_TIME_BYTES], host[64] = "", text[sizeof(plot->of)];
    gethostname(host, sizeof(host) - 1);
    cmd_time(time, set->snapshot->taken_ns);
    size_t length = (size_t)snprintf(text, sizeof(text), "%s, %s", host, time);
    for (size_t i = 0; i < set->server_count && length < sizeof(text) - 1; i++) {
        const char *name = set->servers[i]->name;
        if (i > 0 && strcmp(name, set->servers[i - 1]->name) == 0)
            continue; /* another mount of this server */
        length += (size_t)snprintf(text + length, sizeof(text) - length, ", server %.40s", name);
    }
    char *printable = cmd_printable(text, sizeof(text));
    for (char *at = printable; *at; at++)
        if (strchr("<>&", *at))
            *at = '?';
    snprintf(plot->of, sizeof(plot->of), "%s", printable);
    free(printable);
}

void stat_plot_add(struct stat_plot *plot, const struct stat_set *set)
{
    name_plot(plot, set);
    stats_add_counters(&plot->sum, &set->sum->counters);
    if (set->snapshot->seconds <= 0)
        return;
    struct stat_plot_point *more =
        reallocarray(plot->points, plot->point_count + 1, sizeof(*plot->points));
    if (more == NULL)
        return;
    plot->points = more;
    struct stat_plot_point *point = &more[plot->point_count++];
    point->at = (double)set->snapshot->taken_ns / 1e9;
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        stats_latency(&set->sum->counters.procedures[p].latency, &point->latency[p]);
}

/* Chooses the procedures with the most calls. */
static void choose(struct stat_plot *plot)
{
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++) {
        uint64_t calls = plot->sum.procedures[p].latency.calls;
        unsigned place = plot->procedure_count;
        while (place > 0 && calls > drawn(plot, place - 1)->calls)
            place--;
        if (calls == 0 || place == STAT_PLOT_PROCEDURES)
            continue;
        plot->procedure_count += plot->procedure_count < STAT_PLOT_PROCEDURES;
        for (unsigned i = plot->procedure_count - 1; i > place; i--)
            plot->procedures[i] = plot->procedures[i - 1];
        plot->procedures[place] = p;
    }
}

int stat_plot_write(struct stat_plot *plot, const char *file)
{
    FILE *out = fopen(file, "we");
    if (out == NULL) {
        cmd_complain("stat", "cannot write %s: %m", file);
        return CMD_NOT_FINE;
    }
    bool several = plot->point_count > 1;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, several ? 2 * PANEL : PANEL);
    choose(plot);
    text(&(struct panel){.out = out}, WIDTH - RIGHT, 12, "end", "%s", plot->of);
    if (plot->procedure_count == 0) {
        text(&(struct panel){.out = out}, LEFT, TOP, "start", "No call was made.");
    } else {
        histogram(plot, out);
        if (several)
            over_time(plot, out);
    }
    fputs("</svg>\n", out);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        cmd_complain("stat", "cannot write %s: %s", file, errno ? strerror(errno) : "I/O error");
        return CMD_NOT_FINE;
    }
    return CMD_FINE;
}

void stat_plot_free(struct stat_plot *plot)
{
    free(plot->points);
}
