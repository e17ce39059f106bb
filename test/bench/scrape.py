"""What it costs a program that its exporter is asked for metrics: turns alone, and turns while 8 connections ask 1,000
times a second in all.  Exporter and scraper share a CPU that is not the program's: the server's, where there are two."""

import os
import socket
import statistics
import subprocess
import time

import clients
import servers
from servers import Failure

SIZE = 8192
CONNECTIONS = 8
RATE = 1000  # a second, over all connections
NAMES = {rw: "exporter, 1,000 scrapes a second, random %s 8 KiB" % rw for rw in ("read", "write")}


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as stat:
        words = stat.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def other_cpu(options):
    free = sorted(os.sched_getaffinity(0) - {options.cpu, options.server_cpu})
    return free[0] if free else options.server_cpu


class Exporter:
    """`directnfs exporter` for the run directory of a place."""

    def __init__(self, place, cpu):
        self.place, self.cpu = place, cpu
        self.port = servers.free_ports(1)[0]

    def __enter__(self):
        self.process = subprocess.Popen(
            ["taskset", "-c", str(self.cpu), os.path.join(self.place.build, "directnfs"), "exporter", "--listen",
             "127.0.0.1:%d" % self.port], env=self.place.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(100):
            if self.process.poll() is not None:
                raise Failure("the exporter ended: %s" % self.process.stderr.read().strip())
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise Failure("the exporter does not listen")

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()


def run_loop(place, rw):
    command = place.pinned(place.under_preload(place.program(
        "preadloop", "--seconds", place.seconds, "--warm-up", 0, "--rw", rw, "--random", place.server.file())))
    return place.served(SIZE, lambda: clients.parse_line(command, clients.run_program(command, place.untuned)[0]))


def scraped(place, rw, exporter):
    """The program's result while it is scraped, with what was scraped and the exporter's CPU."""
    command = ["taskset", "-c", str(exporter.cpu), *place.program("scrapeloop", exporter.port, CONNECTIONS, RATE, place.seconds + 0.5)]
    before = cpu_seconds(exporter.process.pid)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as scraper:
        time.sleep(0.2)
        result = run_loop(place, rw)
        scrapes = clients.parse_line(command, scraper.stdout.read())
    if scrapes["failed"] or not scrapes["scrapes"]:
        raise Failure("%d of %d scrapes failed" % (scrapes["failed"], scrapes["failed"] + scrapes["scrapes"]))
    used = cpu_seconds(exporter.process.pid) - before
    return {**result, "scrapes_per_s": scrapes["scrapes"] / scrapes["seconds"], "exporter_cpu": used / scrapes["seconds"]}


def measure_case(place, rw, exporter, turns):
    pairs = []
    for turn in range(turns):
        halves = [lambda: run_loop(place, rw), lambda: scraped(place, rw, exporter)]
        if turn % 2:
            with_scrapes, alone = halves[1](), halves[0]()
        else:
            alone, with_scrapes = halves[0](), halves[1]()
        pairs.append((alone, with_scrapes))

    def median(value):
        return round(statistics.median(value(*pair) for pair in pairs), 4)

    return {"name": NAMES[rw], "alone_ops_per_s": median(lambda a, s: a["ops_per_s"]),
            "scraped_ops_per_s": median(lambda a, s: s["ops_per_s"]),
            "of_alone": median(lambda a, s: s["ops_per_s"] / a["ops_per_s"]),
            "scrapes_per_s": median(lambda a, s: s["scrapes_per_s"]), "exporter_cpu": median(lambda a, s: s["exporter_cpu"])}


def chosen(options):
    return [rw for rw, name in NAMES.items() if not options.only or options.only.search(name)]


def measure(options, progress):
    programs, report = os.path.join(options.build, "test", "bench"), []
    with servers.MemServer(programs, options.server_cpu) as server:
        place = clients.Place(server, options.build, options.cpu, max(options.seconds, 1), options.tunable)
        server.new_file()
        with open(server.file(), "wb") as file:
            file.write(os.urandom(clients.FILE_BYTES))
        run_loop(place, "read")  # which makes the run directory
        with Exporter(place, other_cpu(options)) as exporter:
            for rw in chosen(options):
                progress(NAMES[rw])
                report.append(measure_case(place, rw, exporter, options.rounds))
    return {"shares_cpu": other_cpu(options) == options.server_cpu, "cases": report}
