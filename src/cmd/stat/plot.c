/*
 * directnfs stat --plot: an SVG file with the histogram of latencies and, of several reports,
 * latencies over time.
 */
#include "cmd/stat/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

/* Pixels. Each panel has its own margins. */
enum { WIDTH = 900, PANEL = 380, LEFT = 80, RIGHT = 30, TOP = 92, BOTTOM = 56 };

static const char *const colours[STAT_PLOT_PROCEDURES] = {"#2066b0", "#c0392b", "#0a7d38"};

struct panel {
    FILE *out;
    double top, low, high; /* the axis of y: pixels, values */
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

static void text(FILE *out, double x, double y, const char *anchor, const char *words)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, words);
}

static void grid_line(const struct panel *panel, double value, const char *label)
{
    double y = y_of(panel, value);
    fprintf(panel->out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT);
    text(panel->out, LEFT - 8, y + 4, "end", label);
}

static void frame(const struct panel *panel, const char *title, const char *x_axis)
{
    fprintf(panel->out, "<text x=\"%d\" y=\"%.1f\" font-size=\"16\">%s</text>\n", LEFT,
            panel->top + 26, title);
    fprintf(
        panel->out,
        "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n",
        LEFT, panel->top + TOP, WIDTH - LEFT - RIGHT, PANEL - TOP - BOTTOM);
    text(panel->out, (LEFT + WIDTH - RIGHT) / 2.0, panel->top + PANEL - 14, "middle", x_axis);
}

/* "512 us", "2 ms", "4 s" */
static void duration(char *words, size_t size, double us)
{
    if (us < 1000)
        snprintf(words, size, "%.3g us", us);
    else if (us < 1e6)
        snprintf(words, size, "%.3g ms", us / 1000);
    else
        snprintf(words, size, "%.3g s", us / 1e6);
}

/* One line for each procedure: its colour, its name, and what `words` says of it. */
static void legend(const struct panel *panel, unsigned place, const char *words)
{
    double y = panel->top + 46 + 15 * place;
    fprintf(panel->out, "<rect x=\"%d\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"%s\"/>\n",
            LEFT, y - 10, colours[place]);
    text(panel->out, LEFT + 18, y, "start", words);
}

/* ---- the histogram ---- */

static double calls_of(const struct directnfs_latency *counted)
{
    double calls = 0;
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
        calls += (double)counted->histogram[i];
    return calls;
}

static void bars(const struct panel *panel, const struct stat_plot *plot, unsigned first,
                 unsigned end)
{
    double step = (double)(WIDTH - LEFT - RIGHT) / (end - first);
    double bar = step * 0.8 / plot->procedure_count;
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        const struct directnfs_latency *counted =
            &plot->sum.procedures[plot->procedures[p]].latency;
        double calls = calls_of(counted);
        for (unsigned i = first; i < end && calls > 0; i++) {
            double y = y_of(panel, 100 * (double)counted->histogram[i] / calls);
            fprintf(panel->out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                    LEFT + step * (i - first + 0.1) + bar * p, y, bar, y_of(panel, 0) - y,
                    colours[p]);
        }
    }
    for (unsigned i = first; i <= end; i++) {
        char words[32];
        if (end - first > 12 && (i - first) % 2)
            continue;
        duration(words, sizeof(words), (double)stat_bucket_from(i));
        text(panel->out, LEFT + step * (i - first), panel->top + PANEL - BOTTOM + 18, "middle",
             i ? words : "0");
    }
}

static void histogram(const struct stat_plot *plot, FILE *out)
{
    struct panel panel = {.out = out};
    unsigned first = DIRECTNFS_HISTOGRAM_BUCKETS, end = 0;
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        const struct directnfs_latency *counted =
            &plot->sum.procedures[plot->procedures[p]].latency;
        double calls = calls_of(counted);
        for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
            double percent = calls > 0 ? 100 * (double)counted->histogram[i] / calls : 0;
            if (percent > panel.high)
                panel.high = percent;
            if (percent > 0 && i < first)
                first = i;
            if (percent > 0 && i >= end)
                end = i + 1;
        }
    }
    panel.high = ceil(panel.high / 10) * 10;
    for (int percent = 0; percent <= panel.high; percent += panel.high > 50 ? 20 : 10) {
        char words[16];
        snprintf(words, sizeof(words), "%d %%", percent);
        grid_line(&panel, percent, words);
    }
    frame(&panel, "How long calls took: share of the calls of each procedure",
          "time until the answer came");
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        const struct directnfs_latency *counted =
            &plot->sum.procedures[plot->procedures[p]].latency;
        struct stats_latency latency;
        char words[128], half[32], most[32];
        stats_latency(counted, &latency);
        duration(half, sizeof(half), latency.p50);
        duration(most, sizeof(most), latency.p99);
        snprintf(words, sizeof(words), "%s: %llu, p50 %s, p99 %s",
                 stats_procedure_name(plot->procedures[p]), (unsigned long long)counted->calls,
                 half, most);
        legend(&panel, p, words);
    }
    bars(&panel, plot, first, end);
}

/* ---- over time ---- */

/* A line through the reports in which the procedure was called. */
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
                    drawing ? "" : "h.1"); /* a single point is seen too */
        drawing = value > 0;
    }
    fprintf(panel->out, "\" stroke-linecap=\"round\"/>\n");
}

/* 1, 2 or 5 times a power of ten, `least` at least. */
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
            if (latency->mean > 0 && latency->mean < panel.low)
                panel.low = latency->mean;
            if (latency->mean > panel.high || latency->p99 > panel.high)
                panel.high = latency->p99 > latency->mean ? latency->p99 : latency->mean;
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
        char words[32];
        duration(words, sizeof(words), value);
        grid_line(&panel, value, words);
    }
    frame(&panel, "Over time: mean (line) and 99th percentile (dashes) of each interval",
          "seconds");
    double length = plot->points[plot->point_count - 1].at - plot->points[0].at;
    double step = round_step(length / 8);
    for (double at = 0; length > 0 && at <= length; at += step) {
        char words[32];
        snprintf(words, sizeof(words), "%g", at);
        text(out, LEFT + (WIDTH - LEFT - RIGHT) * at / length, PANEL + PANEL - BOTTOM + 18,
             "middle", words);
    }
    for (unsigned p = 0; p < plot->procedure_count; p++) {
        legend(&panel, p, stats_procedure_name(plot->procedures[p]));
        curve(&panel, plot, p, false);
        curve(&panel, plot, p, true);
    }
}

/* ---- collecting ---- */

void stat_plot_add(struct stat_plot *plot, const struct stat_set *set)
{
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

/* Those that were called most often. */
static void choose(struct stat_plot *plot)
{
    bool chosen[DIRECTNFS_PROCEDURES] = {false};
    for (plot->procedure_count = 0; plot->procedure_count < STAT_PLOT_PROCEDURES;) {
        int best = -1;
        for (int p = 0; p < DIRECTNFS_PROCEDURES; p++) {
            uint64_t calls = plot->sum.procedures[p].latency.calls;
            if (!chosen[p] && calls &&
                (best < 0 || calls > plot->sum.procedures[best].latency.calls))
                best = p;
        }
        if (best < 0)
            return;
        chosen[best] = true;
        plot->procedures[plot->procedure_count++] = (unsigned)best;
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
    int height = several ? 2 * PANEL : PANEL;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, height);
    choose(plot);
    if (plot->procedure_count == 0) {
        text(out, LEFT, TOP, "start", "No call was made.");
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
