"""A server that is far away: what a program that makes one buffered call at a time gets of what the wire has.

memserver holds each reply back for the time of a round trip.  Over one path, the loopback, nothing else limits but the
processor; of the four paths of test/lib/paths.sh, and of one of them alone, each has a rate of its own.  In a guest of test/vm the server is the kernel's, and the
kernel's client the peer."""

import dataclasses
import json
import os
import shutil
import statistics
import subprocess

import clients
import paths
from clients import MIB, Job
from servers import Failure, MemServer

DELAYS_US = (0, 100, 500, 2000)
SIZE = 8192
FILES = 2000  # that are opened, read and closed
GUEST_US = 500
HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW = MIB * 16  # that the wire has in flight where it need not wait for an answer to know what comes next


@dataclasses.dataclass(frozen=True)
class Case:
    """What is done over how long a round trip, on how many paths; 0: on a mount of the kernel's, in a guest."""

    delay_us: int
    paths: int
    rw: str  # read, write, open: files are opened, read once, closed
    random: bool = False
    limited: bool = False  # each path has a rate

    @property
    def name(self):
        work = "open, read, close" if self.rw == "open" else "%s %s" % ("random" if self.random else "sequential", self.rw)
        where = "%d path%s" % (self.paths, "s"[self.paths == 1:]) if self.paths else "kernel mount"
        where += " of %d Mbit/s" % paths.MBIT if self.limited else ""
        return "latency %d us %s 8 KiB %s" % (self.delay_us, where, work)

    @property
    def wire(self):
        """The same as the best that a client could make of it: size and number of the calls in flight."""
        if self.rw == "open" or self.random and self.rw == "read":
            return Job("latency", "read", random=True)  # the next one is known when the answer is there
        if self.random:
            return Job("latency", "write", depth=128)
        return Job("latency", self.rw, size=MIB, random=False, depth=WINDOW // MIB)


def cases(quick):
    if quick:
        return [Case(500, 1, rw) for rw in ("read", "write", "open")]
    one_file = [("read", False), ("read", True), ("write", False), ("write", True)]
    all_work = one_file + [("open", False)]
    return ([Case(delay, 1, *work) for delay in DELAYS_US for work in all_work]
            + [Case(delay, paths.PATHS, *work, limited=True) for delay in DELAYS_US for work in one_file]
            + [Case(GUEST_US, 1, *work, limited=True) for work in one_file]
            + [Case(GUEST_US, 0, *work) for work in all_work])


class Wire:
    """Raw sockets, one on each path, and as many calls in flight as help."""

    name, title = "wire", "wire"

    def __init__(self, place):
        self.place = place

    def command(self, case):
        job, server = case.wire, self.place.server
        hosts = addresses(case)
        return self.place.program(
            "floor", "--nfs-port", server.nfs_port, "--mount-port", server.mount_port, "--export", server.directory,
            "--file", server.file_name, "--file-size", clients.FILE_BYTES, "--host", ",".join(hosts), "--connections",
            min(len(hosts), job.depth), "--rw", job.rw, "--size", job.size, "--depth", job.depth,
            "--random" if job.random else "--sequential", "--seconds", self.place.seconds, "--warm-up", 0)

    def run(self, case):
        command = self.place.pinned(self.command(case))
        return clients.parse_line(command, clients.run_program(command, self.environment())[0]), case.wire.size

    def environment(self):
        return self.place.environment

    def measure(self, case):
        before = self.place.server.counters()
        result, size = self.run(case)
        after = self.place.server.counters()
        blocks = result["ops"] * size / SIZE
        calls = {name: round((count - before[name]) / blocks, 4) for name, count in after.items()
                 if name.isupper() and count > before[name]}
        return {"mb_per_s": round(result["ops"] * size / result["seconds"] / 1e6, 3), "mean_us": result["mean_us"],
                "cpu_us": round(result["cpu_us_per_op"] * SIZE / size, 3), "calls": calls}


class Loop(Wire):
    """The cheapest program that makes the calls, under preload."""

    name, title = "loop", "loop under preload"

    def command(self, case):
        seconds = ["--seconds", self.place.seconds, "--warm-up", 0]
        if case.rw == "open":
            program = self.place.program("openloop", *seconds, "--files", FILES, files_directory(self.place.server))
        else:
            program = self.place.program(
                "preadloop", *seconds, "--rw", case.rw, "--random" if case.random else "--sequential",
                *(["--fsync"] if case.rw == "write" else []), self.place.server.file())
        return self.place.under_preload(program, paths=addresses(case))

    def run(self, case):
        run = super().run
        return self.place.served(SIZE, lambda: run(case))[0], SIZE

    def environment(self):
        return self.place.untuned


class TunedLoop(Loop):
    """The same with the tunables of the command line."""

    name, title = "tuned", "loop, with --tunable"

    def environment(self):
        return self.place.environment


def addresses(case):
    return paths.addresses(range(1, case.paths + 1)) if case.limited else ["127.0.0.1"]


def files_directory(server):
    return os.path.join(server.directory, "files")


def make_files(server):
    os.mkdir(files_directory(server))
    for number in range(FILES):
        with open(os.path.join(files_directory(server), str(number)), "wb") as file:
            file.write(os.urandom(SIZE))


def median_of(results):
    """The median of each value, of the calls too."""
    row = {key: round(statistics.median(result[key] for result in results), 4) for key in results[0] if key != "calls"}
    names = sorted({name for result in results for name in result["calls"]})
    row["calls"] = {name: round(statistics.median(result["calls"].get(name, 0) for result in results), 4) for name in names}
    return row


def report_of(case, shown, results, reasons):
    """`shown` is [(name, title)], the peer first; `results` and `reasons` have a client's turns, or why there are none."""
    peer = shown[0][0]
    report = {"name": case.name, "delay_us": case.delay_us, "paths": case.paths, "rw": case.rw, "random": case.random,
              "peer": peer, "clients": []}
    for name, title in shown:
        row = {"name": name, "title": title}
        report["clients"].append(row)
        if name in reasons:
            row["reason"] = reasons[name]
            continue
        row.update(median_of(results[name]))
        if name != peer and peer not in reasons:
            row["of_peer"] = round(statistics.median(
                mine["mb_per_s"] / theirs["mb_per_s"] for mine, theirs in zip(results[name], results[peer])), 4)
    return report


def measure_case(case, place, makes, turns, progress):
    results, reasons = {make.name: [] for make in makes}, {}
    for turn in range(turns):
        for make in makes:
            if make.name in reasons:
                continue
            progress("%s: %s, round %d of %d" % (case.name, make.title, turn + 1, turns))
            try:
                results[make.name].append(make(place).measure(case))
            except Failure as failure:
                reasons[make.name] = " ".join(str(failure).split())[-400:]
    titles = [make.title for make in makes]
    titles[0] += ", %d x %d KiB" % (case.wire.depth, case.wire.size >> 10)
    return report_of(case, [(make.name, title) for make, title in zip(makes, titles)], results, reasons)


def run_guest(chosen, options):
    """All turns of all cases, in one guest: {work: {client: [result of a turn]}}"""
    works = {work_of(case): {} for case in chosen}
    command = [os.path.join(HERE, "..", "vm", "run"), "-t", 100 + options.rounds * len(works) * 3 * (options.seconds + 5), "--",
               os.path.join(HERE, "guest"), options.build, GUEST_US, options.seconds, options.rounds,
               "".join("%s;\n" % tunable.strip().rstrip(";") for tunable in options.tunable), *works]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure((done.stderr or done.stdout).strip()[-400:] or "test/vm/run: exit code %d" % done.returncode)
    for line in done.stdout.splitlines():
        turn = json.loads(line)
        result, words = turn["result"], turn["calls"].split()
        if turn["client"] != "kernel" and not turn["served"]:
            raise Failure("the library served nothing")
        # The guest counts its CPU time in hundredths of a second, of emulated system calls.
        works[turn["work"]].setdefault(turn["client"], []).append({
            "mb_per_s": round(result["ops"] * SIZE / result["seconds"] / 1e6, 3), "mean_us": result["mean_us"],
            "calls": {name.upper(): round(int(count) / result["ops"], 4) for name, count in zip(words[::2], words[1::2])}})
    return works


def work_of(case):
    return "%s:%s" % (case.rw, "random" if case.random else "sequential")


def measure_guest(chosen, options, progress, show):
    """The cases on a mount of the kernel's, where its own client is the peer; and why there are none, or None."""
    progress("a guest with the kernel's NFS client and server")
    try:
        works = run_guest(chosen, options)
    except Failure as failure:
        return [], " ".join(str(failure).split())
    shown = [("kernel", "kernel's client, nconnect=4")] + [
        (make.name, make.title) for make in (Loop, TunedLoop)][:2 if options.tunable else 1]
    reports = [report_of(case, shown, works[work_of(case)], {}) for case in chosen]
    for report in reports:
        show(report)
    return reports, None


def measure(chosen, options, progress, show):
    """The part of the report that is about latency.  `show(case)` is called for each case when it is measured."""
    report = []
    makes = [Wire, Loop] + ([TunedLoop] if options.tunable else [])
    programs = os.path.join(options.build, "test", "bench")
    for limited, delay in dict.fromkeys((case.limited, case.delay_us) for case in chosen):
        kind, where = (paths.PathServer, paths.PathPlace) if limited else (MemServer, clients.Place)
        with kind(programs, options.server_cpu, delay) as server:
            place = where(server, options.build, options.cpu, options.seconds, options.tunable)
            server.new_file()
            shutil.copyfile(server.local_file(clients.FILE_BYTES), server.file())
            make_files(server)
            for case in chosen:
                if (case.limited, case.delay_us) == (limited, delay):
                    report.append(measure_case(case, place, makes, options.rounds, progress))
                    show(report[-1])
    return report
