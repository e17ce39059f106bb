"""What `run` prints for people."""

COLUMNS = [  # heading, key, format
    ("ops/s", "ops_per_s", "%.0f"), ("MB/s", "mb_per_s", "%.0f"), ("mean us", "mean_us", "%.1f"),
    ("p50 us", "p50_us", "%.1f"), ("p99 us", "p99_us", "%.1f"), ("user us", "user_us_per_op", "%.2f"),
    ("sys us", "sys_us_per_op", "%.2f"), ("cpu us", "cpu_us_per_op", "%.2f"),
    ("calls", "syscalls_per_op", "%.2f"),
]
CPU = ("user_us_per_op", "sys_us_per_op", "cpu_us_per_op")
OURS = ("loop", "loop-v41", "fio")
PEERS = ("floor", "floor-one-reply", "fio-local")
PEERS_V41 = ("floor-v41", "loop")  # further ones, of loop-v41
FAR_CALLS = ("READ", "WRITE", "COMMIT", "GETATTR", "LOOKUP", "ACCESS")
NO_LATENCY = {"fio-null"}  # it moves nothing: only its CPU time says something

# What issue and manual promise, as far as it can be read off one case with the in-memory server:
# case, client, key of the ratio, the limit, and which side of it is good.
GOALS = [
    ("8 KiB random read 1 thread", "loop", "cpu", "at most", 1.30),
    ("8 KiB random read depth 1", "loop", "cpu", "at most", 1.50),
    ("8 KiB random read depth 32", "fio", "cpu", "at most", 1.25),
    *(("8 KiB random %s depth %d NFSv4.1" % (rw, depth), "loop-v41", "cpu", "at most", 1.25)
      for rw in ("read", "write") for depth in (1, 32)),
    ("8 KiB random write depth 32", "fio", "cpu", "at most", 1.40),
    ("1 MiB sequential read depth 4", "fio", "ops_per_s", "at least", 0.95),
]


def number(value, form):
    return "-" if value is None else form % value


def print_case(case, server_shown):
    print("\n%s (%s)" % (case["name"], server_shown))
    print("  %-30s" % "client" + "".join("%9s" % heading for heading, _, _ in COLUMNS))
    for client in case["clients"]:
        line = "  %-30s" % client["title"]
        if "reason" in client:
            print("%s  not measured: %s" % (line, client["reason"]))
            continue
        for _, key, form in COLUMNS:
            hidden = client["name"] in NO_LATENCY and key not in CPU
            line += "%9s" % number(None if hidden else client[key], form)
        print(line)
    shown = {client["name"]: client["title"] for client in case["clients"]}
    for client in case["clients"]:
        if client["name"] not in OURS or "reason" in client:
            continue
        for heading, key in (("CPU", "cpu"), ("operations", "ops_per_s")):
            print("  %s: %s %s" % (client["title"], heading, ", ".join(
                "%.2f of %s" % (client["ratios"][peer][key], shown[peer])
                for peer in (*PEERS, *PEERS_V41) if client["ratios"].get(peer, {}).get(key) is not None)))
    for client in case["clients"]:
        if client.get("syscalls"):
            print("  %s: system calls %s" % (client["title"], ", ".join(
                "%s %.2f" % item for item in sorted(client["syscalls"].items(),
                                                    key=lambda item: -item[1]))))


def print_far(case):
    """One case of a server that is far away."""
    print("\n%s" % case["name"])
    print("  %-30s" % "client" + "".join("%10s" % heading for heading in (
        "MB/s", "of " + case["peer"], "mean us", "cpu us", *FAR_CALLS, "others")))
    for client in case["clients"]:
        line = "  %-30s" % client["title"]
        if "reason" in client:
            print("%s  not measured: %s" % (line, client["reason"]))
            continue
        calls = client["calls"]
        shown = [calls.get(name, 0) for name in FAR_CALLS] + [
            sum(count for name, count in calls.items() if name not in FAR_CALLS)]
        print(line + "%10.2f%10s%10.1f%10s" % (
            client["mb_per_s"], number(client.get("of_peer"), "%.3f"), client["mean_us"],
            number(client.get("cpu_us"), "%.2f"))
            + "".join("%10.3f" % count for count in shown))


def print_scrapes(scrapes):
    """A program whose exporter is asked for metrics all the time."""
    print("\nwhile 8 connections ask an exporter, whose CPU is %s"
          % ("the server's" if scrapes["shares_cpu"] else "its own and theirs"))
    for case in scrapes["cases"]:
        print("  %(name)s: %(alone_ops_per_s).0f a second alone, %(scraped_ops_per_s).0f meanwhile (%(of_alone).3f)" % case
              + "; %.0f scrapes a second, exporter %.1f %% of a CPU" % (case["scrapes_per_s"], 100 * case["exporter_cpu"]))


def print_overheads(overheads):
    print("\nread of a foreign descriptor: %(plain_ns).1f ns, under preload %(preload_ns).1f ns: "
          "%(added_ns)+.1f ns" % overheads["nullread"])
    print("true: %(plain_ms).2f ms, directnfs run true %(preload_ms).2f ms: %(added_ms)+.2f ms"
          % overheads["start"])


def own_share(case, peer):
    """fio's own CPU time, as a ratio to a peer's; None when one of them was not measured."""
    cpu = {client["name"]: client.get("cpu_us_per_op") for client in case["clients"]}
    return cpu["fio-null"] / cpu[peer] if cpu.get("fio-null") and cpu.get(peer) else None


def print_goals(report, path_goals_set):
    lines = path_goals(report["paths"], path_goals_set) if "paths" in report else []
    for name, client_name, key, side, limit in GOALS:
        for case in report["cases"]:
            if case["server"] != "memserver" or case["name"] != name:
                continue
            for client in case["clients"]:
                if client["name"] != client_name or "reason" in client:
                    continue
                for peer in ("loop",) if client_name == "loop-v41" else ("floor", "floor-one-reply"):
                    ratio = client["ratios"].get(peer, {}).get(key)
                    if ratio is None:
                        continue
                    line = "  %-32s %-20s %-12s %5.2f of the %s (goal: %s %.2f)" % (
                        name, client["title"], "CPU" if key == "cpu" else "throughput", ratio,
                        peer.replace("-", " "), side, limit)
                    alone = own_share(case, peer) if client_name == "fio" and key == "cpu" else None
                    lines.append(line + ("; fio alone %.2f" % alone if alone is not None else ""))
    if lines:
        print("\nRatios that goals are set for:")
        print("\n".join(lines))


def print_end(report):
    where = ("CPU %d, shared by client and server" % report["cpu"]
             if report["cpu"] == report["server_cpu"]
             else "CPU %d, the server on CPU %d" % (report["cpu"], report["server_cpu"]))
    print("\nMedians of %d rounds on %s; times are the client's, per operation.  Ratios are medians of "
          "neighbours'.%s" % (report["rounds"], where,
                              "  Over network paths all run on any CPU." if "paths" in report else ""))
    for server, reason in report["skipped"].items():
        print("Without %s: %s." % (server, reason))


def print_paths(report):
    """What `run` measured over several network paths."""
    for title, cases, of in (("equal", report["equal"], "of linear"), ("unequal", report["unequal"], "of the sum")):
        for case in cases:
            rates = case["mbit"] if title == "unequal" else [case["mbit"]]
            print("\n%s, %s network paths of %s Mbit/s" % (case["name"], title, ", ".join(map(str, rates))))
            for client in case["clients"]:
                if "reason" in client:
                    print("  %-30s  not measured: %s" % (client["title"], client["reason"]))
                for one in client["sets"]:
                    ratios = ["%.3f %s" % (one[key], words) for key, words in (("ratio", of), ("of_floor", "of floor"))
                              if one[key] is not None]
                    print("  %-30s%9s%9.2f MB/s%12.0f us (99 of 100)  %s" % (
                        client["title"], one["name"], one["mb_per_s"], one["p99_us"], ", ".join(ratios)))
    for case in report["deaths"]:
        print("\n%s under preload, one of %d paths dies: %s" % (case["name"], case["paths"], case["how"]))
        if "reason" in case:
            print("  not measured: %s" % case["reason"])
            continue
        print("  MB/s: %(full).1f before, %(during).1f while it is dead, %(after).1f after it is healed; no error" % case)
        for words, key in (("until the library said that it is down", "detected_after_s"),
                           ("from then until the rate is %.2f of what remains" % report["settled"], "settled_after_s"),
                           ("longest stall of everything", "longest_stall_s"),
                           ("longest single call", "longest_call_s"),
                           ("from healing until the library said that it is up", "said_up_after_s"),
                           ("from healing until the rate is %.2f of that before" % report["settled"], "full_after_s")):
            print("  %-58s %s" % (words, "never" if case[key] is None else "%.1f s" % case[key]))


def path_goals(report, goals):
    lines = []

    def goal(name, what, value, side, limit):
        lines.append("  %-32s %-44s %s (goal: %s %.2f)" % (
            name, what, "never" if value is None else "%5.3f" % value, side, limit))

    for cases, limit_of in ((report["equal"], lambda one: goals["linear"].get(one["paths"])),
                            (report["unequal"], lambda one: goals["sum"])):
        for case in cases:
            for client in case["clients"]:
                for one in client["sets"] if client["name"] in ("loop", "loop-v41") else []:
                    if one["ratio"] is not None and limit_of(one):
                        goal(case["name"], "%s, %sequal%s" % (one["name"], "un" if cases is report["unequal"] else "",
                                                              ", NFSv4.1" if client["name"] == "loop-v41" else ""),
                             one["ratio"], "at least", limit_of(one))
    for case in report["deaths"]:
        if "reason" not in case:
            goal(case["name"], case["how"] + ", seconds from detection", case["settled_after_s"], "at most", goals["settle_s"])
            goal(case["name"], case["how"] + ", seconds from healing", case["full_after_s"], "at most", goals["heal_s"])
    return lines
