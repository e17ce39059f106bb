"""Several network paths to one server: how throughput grows with their number, equal and unequal, and what happens
while one of them is dead.  The paths are those of test/lib/paths.sh: slow enough that no CPU is the limit."""

import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import threading
import time

import clients
from clients import MIB, Job
from servers import Failure, MemServer

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "paths.sh")
PATHS = 4
MBIT = 200  # of each path; of the unequal ones half of it, and the last one four times that
JOBS = [Job("paths", "read", size=MIB, random=False, depth=16), Job("paths", "read", depth=64)]
DEATHS = [("black hole", "path_blackhole", "path_heal"), ("link down", "path_down", "path_up")]
DEAD = PATHS  # the one that dies

# A death, in seconds: so much before it, while the path is dead, and after it is healed.  Rates are counted in
# intervals; a rate is "back" from the first moment on after which one second has it.
BEFORE, DURING, AFTER, INTERVAL = 5, 12, 10, 0.1
SETTLED = 0.95

# What the issue promises: at least so much of linear, by the number of paths; of the sum; seconds.
GOALS = {"linear": {2: 0.99, 3: 0.98, 4: 0.98}, "sum": 0.95, "settle_s": 2.0, "heal_s": 5.0}


def lab(*words):
    """Calls a function of paths.sh."""
    done = subprocess.run(["bash", SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failure(done.stdout.strip() or "%s failed" % words[0])
    return done.stdout.strip()


@functools.lru_cache(maxsize=None)
def missing(own_namespaces):
    """Why there can be no paths here; None if there can.  Makes them."""
    if not own_namespaces:
        return "namespaces of its own are not permitted here"
    try:
        lab("paths_lab", str(PATHS), "%dmbit" % MBIT)
    except Failure as failure:
        return str(failure)
    return None


class PathServer(MemServer):
    """memserver in the namespace at the other end of the paths."""

    bind = "::"

    def pinned(self, *arguments):
        return ["nsenter", "--net=/run/netns/server", "--", *map(str, arguments)]


class PathPlace(clients.Place):
    """Client and server run on any CPU."""

    def pinned(self, arguments):
        return arguments


class Floor:
    """Raw sockets, one on each path, each with its share of the calls."""

    name, title = "floor", "floor, a socket a path"

    def __init__(self, place):
        self.place = place

    def command(self, job, paths, seconds, warm_up):
        server = self.place.server
        return self.place.program(
            "floor", "--nfs-port", server.nfs_port, "--mount-port", server.mount_port, "--export", server.directory,
            "--file", server.file_name, "--file-size", clients.FILE_BYTES, "--host",
            ",".join(addresses(paths)), "--connections", len(paths), *options(job, seconds, warm_up))

    def measure(self, job, paths, seconds, warm_up):
        command = self.command(job, paths, seconds, warm_up)
        output, _ = clients.run_program(command, self.place.environment)
        result = clients.parse_line(command, output)
        return {"mb_per_s": round(result["ops"] * job.size / result["seconds"] / 1e6, 3), "p99_us": result["p99_us"],
                "cpu_us_per_op": result["cpu_us_per_op"], "ops": result["ops"]}


class Loop(Floor):
    """The cheapest program that makes the calls, under preload."""

    name, title = "loop", "loop under preload"

    def command(self, job, paths, seconds, warm_up, *more):
        return self.place.under_preload(
            self.place.program("aioloop", "--direct", *options(job, seconds, warm_up), *more, self.place.server.file()),
            paths=addresses(paths))

    def measure(self, job, paths, seconds, warm_up):
        measured = super().measure
        # The file is read in the measured time and in the warm-up.
        return self.place.served(job.size, lambda: measured(job, paths, seconds, warm_up))


class LoopV41(Loop):
    """By one session over all paths."""

    name, title = "loop-v41", "loop under preload, NFSv4.1"

    def command(self, job, paths, seconds, warm_up, *more):
        return self.place.under_preload(
            self.place.program("aioloop", "--direct", *options(job, seconds, warm_up), *more, self.place.server.file()),
            paths=addresses(paths), v41=True)


CLIENTS = [Floor, Loop, LoopV41]


def clients_of(job, rates):
    """By NFSv4.1 long transfers over equal paths only."""
    return [make for make in CLIENTS if make is not LoopV41 or (job.size == MIB and len(set(rates.values())) == 1)]


def addresses(paths):
    return [lab("path_server", str(path)) for path in paths]


def options(job, seconds, warm_up):
    return ["--rw", job.rw, "--size", job.size, "--random" if job.random else "--sequential", "--depth", job.depth,
            "--seconds", seconds, "--warm-up", warm_up]


def warm_up_of(job, mbit):
    """Transfers of half a second."""
    return max(int(mbit * 1e6 / 8 * 0.5 / job.size), job.depth)


class Turns:
    """Measures each client with each set of paths, in turns."""

    def __init__(self, place, job, turns, seconds, progress):
        self.place, self.job, self.turns, self.seconds, self.progress = place, job, turns, seconds, progress

    def measure(self, what, sets, rates):
        """{client name: {name of the set: [result of each turn]}}, and {client name: reason}"""
        found, reasons = {}, {}
        for turn in range(self.turns):
            for name, paths in sets.items():
                for make in clients_of(self.job, rates):
                    if make.name in reasons:
                        continue
                    self.progress("%s, %s: %s, %s, round %d of %d" % (what, self.job.name, name, make.title, turn + 1,
                                                                       self.turns))
                    try:
                        result = make(self.place).measure(
                            self.job, paths, self.seconds, warm_up_of(self.job, sum(rates[path] for path in paths)))
                    except Failure as failure:
                        reasons[make.name] = " ".join(str(failure).split())[-400:]
                        continue
                    found.setdefault(make.name, {}).setdefault(name, []).append(result)
        return found, reasons


def median(values):
    return round(statistics.median(values), 4)


def rows_of(sets, found, reasons, ratio_of):
    """A row for each client: for each set of paths the median of its throughput, and of the ratios of its turns, to its
    own other sets and to the floor's turns with this one."""
    rows = []
    for make in CLIENTS:
        if make.name not in found and make.name not in reasons:
            continue
        row = {"name": make.name, "title": make.title, "sets": []}
        rows.append(row)
        if make.name in reasons:
            row["reason"] = reasons[make.name]
            continue
        mine, floor = found[make.name], found.get(Floor.name, {})
        for name, results in mine.items():
            throughput = {each: [result["mb_per_s"] for result in mine[each]] for each in mine}
            ratios = [ratio_of(name, {each: values[turn] for each, values in throughput.items()})
                      for turn in range(len(results))]
            row["sets"].append({"name": name, "paths": len(sets[name]), "ratio": median(ratios) if None not in ratios else None,
                                "of_floor": median(a["mb_per_s"] / b["mb_per_s"] for a, b in zip(results, floor[name]))
                                if name in floor and make is not Floor else None,
                                **{key: median(result[key] for result in results) for key in results[0]}})
    return rows


def equal(turns):
    sets = {"%d path%s" % (count, "s"[count == 1:]): list(range(1, count + 1)) for count in range(1, PATHS + 1)}
    found, reasons = turns.measure("equal paths", sets, {path: MBIT for path in range(1, PATHS + 1)})

    def linear(name, throughput):
        return throughput[name] / throughput["1 path"] / len(sets[name])

    return {"name": turns.job.name, "mbit": MBIT, "clients": rows_of(sets, found, reasons, linear)}


def unequal(turns):
    rates = {path: MBIT // 2 for path in range(1, PATHS)}
    rates[PATHS] = 2 * MBIT
    for path, rate in rates.items():
        lab("path_rate", str(path), "%dmbit" % rate)
    sets = {"path %d" % path: [path] for path in rates}
    sets["all"] = list(rates)
    found, reasons = turns.measure("unequal paths", sets, rates)
    for path in rates:
        lab("path_rate", str(path), "%dmbit" % MBIT)

    def of_sum(name, throughput):
        return throughput["all"] / sum(throughput["path %d" % path] for path in rates) if name == "all" else None

    return {"name": turns.job.name, "mbit": list(rates.values()), "clients": rows_of(sets, found, reasons, of_sum)}


class LogWatch(threading.Thread):
    """Notes when the library says that a path is down, and that it is up again."""

    def __init__(self, log, address):
        super().__init__(daemon=True)
        self.log, self.seen, self.done = log, {}, threading.Event()
        self.patterns = {word: re.compile(r"path %s\b.* is %s" % (re.escape(address), word)) for word in ("down", "up")}

    def run(self):
        at = 0
        while not self.done.wait(0.02):
            if not os.path.exists(self.log):
                continue
            with open(self.log) as text:
                text.seek(at)
                lines = text.read()
                at = text.tell()
            for word, pattern in self.patterns.items():
                if word not in self.seen and pattern.search(lines):
                    self.seen[word] = time.monotonic()


def settled_after(rates, since, wanted):
    """Seconds from `since` until the rate of one second is `wanted` or more; None if it never is."""
    width = round(1 / INTERVAL)
    first = max(int(since / INTERVAL), 0)
    for at in range(first, len(rates) - width + 1):
        if sum(rates[at:at + width]) / width >= wanted:
            return round(max(at * INTERVAL - since, 0), 2)
    return None


def longest_stall(rates):
    """Seconds without a single completion."""
    longest = now = 0
    for rate in rates:
        now = 0 if rate else now + 1
        longest = max(longest, now)
    return round(longest * INTERVAL, 1)


def death(place, job, how, progress):
    """Throughput before, during and after the death of one of the paths."""
    name, kill, heal = how
    progress("death of one of %d paths, %s: %s" % (PATHS, name, job.name))
    paths = list(range(1, PATHS + 1))
    command = Loop(place).command(job, paths, BEFORE + DURING + AFTER, 0, "--series", int(INTERVAL * 1000))
    watch = LogWatch(place.log, addresses([DEAD])[0])
    times = {}

    def kill_and_heal():
        time.sleep(BEFORE)
        times["kill"] = time.monotonic()
        lab(kill, str(DEAD))
        time.sleep(DURING)
        times["heal"] = time.monotonic()
        lab(heal, str(DEAD))

    def run():
        watch.start()
        killer = threading.Thread(target=kill_and_heal)
        killer.start()
        try:
            return clients.run_program(command, place.environment)[0]
        finally:
            killer.join()
            watch.done.set()
            watch.join()

    case = {"name": job.name, "how": name, "paths": PATHS, "interval_s": INTERVAL}
    try:
        output = place.served(job.size, run)
        series, result = (json.loads(line) for line in output.splitlines()[-2:])
    except Failure as failure:
        case["reason"] = " ".join(str(failure).split())[-400:]
        return case
    begin = series["begin_ns"] / 1e9
    rates = [count * job.size / 1e6 / INTERVAL for count in series["completed"]][:round((BEFORE + DURING + AFTER) / INTERVAL)]
    killed, healed = times["kill"] - begin, times["heal"] - begin
    full = statistics.mean(rates[int((BEFORE - 3) / INTERVAL):int(killed / INTERVAL)])
    remaining = full * (PATHS - 1) / PATHS
    detected = watch.seen["down"] - begin if "down" in watch.seen else None
    # From the last whole interval before it was said that the path is down.
    settled = settled_after(rates, killed if detected is None else detected - INTERVAL, SETTLED * remaining)
    case.update(
        mb_per_s=[round(rate, 2) for rate in rates], kill_s=round(killed, 2), heal_s=round(healed, 2), full=round(full, 2),
        detected_after_s=None if detected is None else round(detected - killed, 2), settled_after_s=settled,
        said_up_after_s=round(watch.seen["up"] - times["heal"], 2) if "up" in watch.seen else None,
        full_after_s=settled_after(rates, healed, SETTLED * full), longest_stall_s=longest_stall(rates[5:]),
        longest_call_s=round(result["max_us"] / 1e6, 1),
        during=round(statistics.mean(rates[int(healed / INTERVAL) - 30:int(healed / INTERVAL)]), 2),
        after=round(statistics.mean(rates[-30:]), 2))
    return case


def measure(options, seconds, progress):
    """The part of the report that is about paths."""
    turns, deaths = options.rounds, not options.quick
    report = {"rounds": turns, "seconds": seconds, "settled": SETTLED, "equal": [], "unequal": [], "deaths": []}
    with PathServer(os.path.join(options.build, "test", "bench"), None) as server:
        place = PathPlace(server, options.build, None, seconds, options.tunable)
        server.new_file()
        shutil.copyfile(server.local_file(clients.FILE_BYTES), server.file())
        for job in JOBS:
            report["equal"].append(equal(Turns(place, job, turns, seconds, progress)))
            report["unequal"].append(unequal(Turns(place, job, turns, seconds, progress)))
        for job in JOBS if deaths else []:
            report["deaths"] += [death(place, job, how, progress) for how in DEATHS]
    return report
