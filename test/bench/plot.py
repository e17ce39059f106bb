"""An SVG file: latency against depth, a row of panels per server, reads left and writes right; below it throughput over
network paths, against their number, and against time while one dies."""

import html
import math

COLOURS = {"floor": "#000000", "floor-one-reply": "#8a8a8a", "loop": "#0a7d38", "fio": "#c0392b",
           "fio-local": "#2066b0"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 300, 78, 108, 96


def series(report, server, rw):
    """{client: [(depth, mean, p99)]} of the random transfers in the group of depths."""
    found = {}
    for case in report["cases"]:
        if case["server"] != server or case["group"] != "depth" or case["rw"] != rw:
            continue
        for client in case["clients"]:
            if client["name"] in COLOURS and client.get("mean_us"):
                found.setdefault(client["name"], []).append(
                    (case["depth"], client["mean_us"], client["p99_us"]))
    return {name: sorted(points) for name, points in found.items()}


def titles(report):
    return {client["name"]: client["title"] for case in report["cases"] for client in case["clients"]
            if client["name"] in COLOURS}


def text(x, y, words, size=12, anchor="start", more=""):
    return ('<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s"%s>%s</text>'
            % (x, y, size, anchor, more, html.escape(words)))


def line(x1, y1, x2, y2, colour, more=""):
    return ('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"%s/>'
            % (x1, y1, x2, y2, colour, more))


def panel(x, y, title, lines, depths, low, high):
    """One pair of axes; low and high are powers of ten of a microsecond."""
    def across(depth):
        span = math.log2(depths[-1] / depths[0]) or 1
        return x + 12 + (WIDTH - 24) * math.log2(depth / depths[0]) / span

    def up(us):
        return y + HEIGHT - HEIGHT * (math.log10(us) - low) / (high - low)

    out = [text(x, y - 10, title, 14, more=' font-weight="bold"')]
    for power in range(low, high + 1):
        out.append(line(x, up(10 ** power), x + WIDTH, up(10 ** power), "#cccccc"))
        out.append(text(x - 6, up(10 ** power) + 4, "%g" % 10 ** power, anchor="end"))
        if power < high:
            for step in range(2, 10):
                out.append(line(x, up(step * 10 ** power), x + WIDTH, up(step * 10 ** power), "#eeeeee"))
    for depth in depths:
        out.append(line(across(depth), y, across(depth), y + HEIGHT, "#eeeeee"))
        out.append(text(across(depth), y + HEIGHT + 18, str(depth), anchor="middle"))
    out.append('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#444444"/>'
               % (x, y, WIDTH, HEIGHT))
    out.append(text(x + WIDTH / 2, y + HEIGHT + 38, "calls in flight", anchor="middle"))
    out.append(text(x - 56, y + HEIGHT / 2, "microseconds", anchor="middle",
                    more=' transform="rotate(-90 %.1f %.1f)"' % (x - 56, y + HEIGHT / 2)))
    for name, points in lines.items():
        for which, style in ((1, ' stroke-width="2"'), (2, ' stroke-width="1" stroke-dasharray="4 3"')):
            path = " ".join("%.1f,%.1f" % (across(point[0]), up(point[which])) for point in points
                            if point[which])
            out.append('<polyline points="%s" fill="none" stroke="%s"%s/>' % (path, COLOURS[name], style))
        for point in points:
            out.append('<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s, depth %d: mean %.1f us, '
                       'p99 %.1f us</title></circle>' % (across(point[0]), up(point[1]), COLOURS[name],
                                                         html.escape(name), *point))
    return out


def latency(report, top):
    """(elements, height)"""
    panels = [(server, rw, series(report, server, rw)) for server in report["servers"]
              for rw in ("read", "write")]
    values = [value for _, _, lines in panels for points in lines.values() for point in points
              for value in point[1:] if value]
    depths = sorted({point[0] for _, _, lines in panels for points in lines.values()
                     for point in points})
    if not values:
        return [], 0
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    out = [text(LEFT, top + 26, "Latency of 8 KiB random transfers, one CPU for client and server"
                if report["cpu"] == report["server_cpu"] else
                "Latency of 8 KiB random transfers", 16, more=' font-weight="bold"')]
    out += legend(top + 46, titles(report))
    out.append(text(LEFT, top + 68, "solid: mean; dashed: 99 per cent are below; medians of %d rounds"
                    % report["rounds"], more=' fill="#444444"'))
    for row, server in enumerate(report["servers"]):
        for column, rw in enumerate(("read", "write")):
            lines = next(found for one, kind, found in panels if (one, kind) == (server, rw))
            if lines:
                out += panel(LEFT + column * (WIDTH + GAP), top + TOP + row * (HEIGHT + GAP),
                             "%s, %s" % (server, rw), lines, depths, low, high)
    return out, TOP + len(report["servers"]) * (HEIGHT + GAP)


def legend(y, names):
    out, at = [], LEFT
    for name, title in names.items():
        out.append(line(at, y, at + 22, y, COLOURS[name], ' stroke-width="2"'))
        out.append(text(at + 28, y + 4, title))
        at += 50 + 6.4 * len(title)
    return out


def rate_panel(x, y, title, lines, most, across_title, marks=()):
    """Megabytes per second: `lines` is [(name, points, style)], `most` the end of both axes, `marks` [(where, word)]."""
    def across(value):
        return x + WIDTH * value / most[0]

    def up(value):
        return y + HEIGHT - HEIGHT * value / most[1]

    out = [text(x, y - 10, title, 14, more=' font-weight="bold"')]
    for axis, end in enumerate(most):
        step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, end) if end / step <= 8)
        for value in range(0, math.floor(end) + 1, math.ceil(step)):
            if axis:
                out.append(line(x, up(value), x + WIDTH, up(value), "#eeeeee"))
                out.append(text(x - 6, up(value) + 4, str(value), anchor="end"))
            else:
                out.append(line(across(value), y, across(value), y + HEIGHT, "#eeeeee"))
                out.append(text(across(value), y + HEIGHT + 18, str(value), anchor="middle"))
    for where, word in marks:
        out.append(line(across(where), y, across(where), y + HEIGHT, "#888888", ' stroke-dasharray="2 3"'))
        out.append(text(across(where) + 4, y + HEIGHT - 8, word, 11))
    out.append('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#444444"/>' % (x, y, WIDTH, HEIGHT))
    out.append(text(x + WIDTH / 2, y + HEIGHT + 38, across_title, anchor="middle"))
    out.append(text(x - 56, y + HEIGHT / 2, "MB/s", anchor="middle",
                    more=' transform="rotate(-90 %.1f %.1f)"' % (x - 56, y + HEIGHT / 2)))
    for name, points, style in lines:
        out.append('<polyline points="%s" fill="none" stroke="%s"%s/>' % (
            " ".join("%.1f,%.1f" % (across(a), up(min(b, most[1]))) for a, b in points), COLOURS[name], style))
    return out


def over_paths(report, top):
    """(elements, height)"""
    panels = []
    found = report.get("paths", {"equal": [], "deaths": []})
    for case in found["equal"]:
        lines = [(client["name"], [(one["paths"], one["mb_per_s"]) for one in client["sets"]], ' stroke-width="2"')
                 for client in case["clients"] if client["sets"]]
        if lines:
            paths = max(point[0] for _, points, _ in lines for point in points)
            one = lines[0][1][0][1]
            lines.append(("fio-local", [(1, one), (paths, one * paths)], ' stroke-dasharray="4 3"'))
            panels.append((case["name"], lines, (paths + 0.5, one * paths * 1.15), "network paths; dashed: linear"))
    for case in found["deaths"]:
        if "mb_per_s" in case:
            points = [(at * case["interval_s"], rate) for at, rate in enumerate(case["mb_per_s"])]
            marks = [(case["kill_s"], case["how"]), (case["heal_s"], "healed")]
            if case["detected_after_s"] is not None:
                marks.append((case["kill_s"] + case["detected_after_s"], ""))
            panels.append(("%s, %s" % (case["name"], case["how"]), [("loop", points, ' stroke-width="1"')],
                           (points[-1][0], case["full"] * 1.3), "seconds", marks))
    if not panels:
        return [], 0
    out = [text(LEFT, top + 26, "Throughput over network paths", 16, more=' font-weight="bold"')]
    out += legend(top + 46, {client["name"]: client["title"] for case in found["equal"] for client in case["clients"]})
    for number, words in enumerate(panels):
        out += rate_panel(LEFT + number % 2 * (WIDTH + GAP), top + TOP + number // 2 * (HEIGHT + GAP), *words)
    return out, TOP + (len(panels) + 1) // 2 * (HEIGHT + GAP)


def svg(report):
    """None if there is nothing to draw."""
    out, height = [], 0
    for section in (latency, over_paths):
        elements, more = section(report, height)
        out += elements
        height += more
    if not out:
        return None
    width = LEFT + 2 * WIDTH + GAP + 30
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
        'font-family="sans-serif">' % (width, height, width, height),
        '<rect width="%d" height="%d" fill="white"/>' % (width, height), *out, "</svg>"]) + "\n"
