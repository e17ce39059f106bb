#!/usr/bin/env python3
"""What the model's guest printed, as a table; and the budgets: figures that no change may make worse."""

import argparse
import json
import sys

TOLERANCE = 2.0  # per cent, for a budget without one of its own


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", required=True, help="what the guest printed")
    parser.add_argument("--budgets", required=True, help="the file of budgets")
    parser.add_argument("--case", required=True, help="which mount, paths and delay were measured")
    parser.add_argument("--machine", required=True, help="what was measured with")
    parser.add_argument("--judge", action="store_true", help="a line that is worse than its budget is a failure")
    parser.add_argument("--keep", action="store_true", help="the figures become the budgets")
    parser.add_argument("--json", help="a file for the figures")
    return parser.parse_args()


def less_is_better(name):
    return name.endswith(("_s", "_insn"))


def read_results(name):
    """The figures, {line: {client: figure}}, and what went wrong."""
    figures, wrong, disturbed = {}, [], False
    with open(name, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if words[:1] == ["figure"] and len(words) == 4:
                _, client, what, figure = words
                try:
                    figures.setdefault(what, {})[client] = float(figure)
                except ValueError:
                    wrong.append("%s of %s failed" % (what, client))
            elif line.startswith("not served: "):
                wrong.append(line.strip())
            disturbed = disturbed or line.startswith("disturbed: ")
    return figures, wrong, disturbed


def shown(figure):
    if figure is None:
        return "-"
    if abs(figure) >= 1000:
        return "%.0f" % figure
    return "%.*f" % (3 if abs(figure) < 10 else 1, figure)


def speed(name, figures):
    ours, kernel = figures.get("ours"), figures.get("kernel")
    if not ours or not kernel:
        return None
    return kernel / ours if less_is_better(name) else ours / kernel


def print_table(figures):
    for name, of in figures.items():
        ratio = speed(name, of)
        line = "%s kernel %s ours %s speed %s" % (name, shown(of.get("kernel")), shown(of.get("ours")),
                                                  "-" if ratio is None else "%.2f" % ratio)
        for other in ("floor", "clear", "sys"):
            if other in of:
                line += " %s %s" % (other, shown(of[other]))
                if of.get("ours"):
                    line += " of %s %.2f" % (other, of["ours"] / of[other])
            if other in of and of.get("ours") and of.get("alone"):
                added = of["ours"] - of[other]
                line += " added %s alone %s of alone %.2f" % (shown(added), shown(of["alone"]), added / of["alone"])
        if name.startswith("start_") and of.get("ours") and of.get("kernel"):
            line += " added %s" % shown(of["ours"] - of["kernel"])
        print(line)


def read_budgets(name):
    """[(case, line, figure, tolerance or None)], the comments, and what they were measured with, {case: machine}."""
    budgets, comments, machines = [], [], {}
    with open(name, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if line.startswith("#"):
                comments.append(line)
            elif words and words[0] == "machine":
                machines[words[1]] = " ".join(words[2:])
            elif words:
                try:
                    case, what, figure = words[0], words[1], float(words[2])
                    tolerance = float(words[3].rstrip("%")) if len(words) > 3 else None
                except (IndexError, ValueError):
                    sys.exit("%s:%d: not CASE NAME FIGURE [TOLERANCE%%]" % (name, number))
                budgets.append((case, what, figure, tolerance))
    return budgets, comments, machines


def write_budgets(name, case, machine, figures):
    budgets, comments, machines = read_budgets(name)
    known = {(of, what): tolerance for of, what, _, tolerance in budgets}
    kept = {(of, what): figure for of, what, figure, _ in budgets}
    kept.update({(case, what): of["ours"] for what, of in figures.items() if "ours" in of})
    machines[case] = machine
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(comments)
        for of in sorted({of for of, _ in kept}):
            print("\nmachine %s %s" % (of, machines.get(of, "")), file=file)
            for (this, what), figure in kept.items():
                if this == of:
                    tolerance = known.get((this, what))
                    print(this, what, shown(figure), *(["%g%%" % tolerance] if tolerance else []), file=file)


def judge(name, case, machine, figures):
    """The lines that are worse than their budget; those that are better are only said."""
    budgets, _, machines = read_budgets(name)
    worse = []
    if case in machines and machines[case] != machine:
        print("budgets: measured with %s, this is %s: where all lines moved alike, keep them anew" % (machines[case], machine))
    for of, what, budget, tolerance in budgets:
        if of != case or figures.get(what, {}).get("ours") is None:
            continue
        ours, allowed = figures[what]["ours"], TOLERANCE if tolerance is None else tolerance
        by = (ours / budget - 1 if less_is_better(what) else budget / ours - 1) * 100
        if by > allowed:
            worse.append("%s: %s, its budget is %s: worse by %.1f %%, allowed are %g %%" % (what, shown(ours), shown(budget), by, allowed))
        elif by < -allowed:
            print("budgets: %s: %s is better than %s by %.1f %%: --keep" % (what, shown(ours), shown(budget), -by))
    if not any(of == case for of, *_ in budgets):
        print("budgets: none for %s" % case)
    return worse


def main():
    options = parse_arguments()
    figures, wrong, disturbed = read_results(options.results)
    print_table(figures)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"case": options.case, "machine": options.machine, "figures": figures}, file, indent=1)
    if disturbed:
        print("bench-model: disturbed: the guest was answered from outside while it was measured; the figures mean nothing", file=sys.stderr)
        return 2
    if not figures:
        print("bench-model: skipped: no phase could be measured", file=sys.stderr)
        return 2
    if options.keep and not wrong:
        write_budgets(options.budgets, options.case, options.machine, figures)
    elif options.judge:
        wrong += judge(options.budgets, options.case, options.machine, figures)
    for line in wrong:
        print("not ok %s" % line)
    return 1 if wrong else 0


sys.exit(main())
