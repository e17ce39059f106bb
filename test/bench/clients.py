"""The programs that `run` measures: how each is started for a job, and what it prints."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import threading
import time

from servers import Failure

LIMIT_SECONDS = 120  # of one program; a hard mount would wait for ever
FILE_BYTES = 64 << 20
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of one comparison; `depth` calls in flight, or one in each of `threads`."""

    group: str
    rw: str  # read, write, mixed: three reads to a write
    size: int = 8192
    random: bool = True
    depth: int = 1
    threads: int = 0
    connections: int = 0  # 0: one, and as many as the library opens by itself
    dsync: bool = False
    strace: bool = True

    @property
    def name(self):
        size = "%d MiB" % (self.size >> 20) if self.size >= MIB else "%d KiB" % (self.size >> 10)
        words = [size, "random" if self.random else "sequential",
                 "read/write 75/25" if self.rw == "mixed" else self.rw]
        words.append("%d thread%s" % (self.threads, "s"[self.threads == 1:]) if self.threads
                     else "depth %d" % self.depth)
        if self.connections:
            words.append("%d connection%s" % (self.connections, "s"[self.connections == 1:]))
        if self.dsync:
            words.append("O_DSYNC")
        if self.group == "v41":
            words.append("NFSv4.1")
        return " ".join(words)

    @property
    def in_flight(self):
        return self.threads or self.depth


class NotServed(Failure):
    """The program ran, but not through the library."""


def run_program(arguments, environment):
    """Runs a program; (what it printed, its CPU seconds: user, system).  Ends it when it does not end."""
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    late = threading.Event()

    def kill():
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(LIMIT_SECONDS, kill)
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    try:
        timer.start()
        reader.start()
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        timer.cancel()
        if process.returncode is None:  # an exception: interrupted
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()
    if late.is_set():
        raise Failure("%s: no end after %d s" % (" ".join(arguments), LIMIT_SECONDS))
    if process.returncode != 0:
        raise Failure("%s: exit code %d\n%s" % (" ".join(arguments), process.returncode,
                                                "".join(errors)[-2000:]))
    return output, (usage.ru_utime, usage.ru_stime)


class Place:
    """Where clients run: the server, the CPU, the library with its tunables; and how long a turn takes, about."""

    def __init__(self, server, build, cpu, seconds, tunables=()):
        self.server, self.build, self.cpu, self.seconds = server, build, cpu, seconds
        self.log = os.path.join(server.state, "log")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("DIRECTNFS_") and name != "LD_PRELOAD"}
        self.environment.update(DIRECTNFS_LOG=self.log, DIRECTNFS_LOG_LEVEL="info",
                                DIRECTNFS_RUN=os.path.join(server.state, "run"),
                                DIRECTNFS_CONF=self.configuration("tuned.conf", tunables))
        self.untuned = {**self.environment, "DIRECTNFS_CONF": self.configuration("empty.conf", ())}

    def configuration(self, name, tunables):
        path = os.path.join(self.server.state, name)
        with open(path, "w") as text:
            text.writelines("%s;\n" % tunable.strip().rstrip(";") for tunable in tunables)
        return path

    def program(self, name, *arguments):
        return [os.path.join(self.build, "test", "bench", name), *map(str, arguments)]

    def pinned(self, arguments):
        return ["taskset", "-c", str(self.cpu), *arguments]

    def under_preload(self, arguments, connections=0, paths=("127.0.0.1",), v41=False):
        nfstab = os.path.join(self.server.state, "-".join(["nfstab", "4" * v41, str(connections), *paths]))
        if not os.path.exists(nfstab):
            with open(nfstab, "w") as text:
                text.write("server: bench\n%snfsport: %d\nmntport: %d\n%s%sexport: %s mount: %s\n"
                           % ("".join("path: %s\n" % path for path in paths), self.server.nfs_port,
                              self.server.mount_port, "connections: %d\n" % connections if connections else "",
                              "nfs_version: nfsv4.1\n" if v41 else "",
                              "/" if v41 else self.server.directory, self.server.directory))
        return [os.path.join(self.build, "directnfs"), "run", "-t", nfstab, "--", *arguments]

    def log_tail(self, lines=3):
        try:
            with open(self.log) as log:
                return "".join(log.readlines()[-lines:]).strip()
        except OSError:
            return ""

    def served(self, wanted, run):
        """Runs something that must move `wanted` bytes through the server."""
        if os.path.exists(self.log):
            os.truncate(self.log, 0)
        before = self.server.bytes_served()
        result = run()
        moved = self.server.bytes_served() - before
        if moved < wanted:
            raise NotServed("the server moved %d of %d bytes; the library's last words: %s"
                            % (moved, wanted, self.log_tail(1).rpartition("]: ")[2] or "none"))
        return result


def parse_line(arguments, output):
    try:
        return json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failure("%s: printed no result: %r" % (" ".join(arguments), output[:200])) from None


class Client:
    """Base: a program of ours that prints one line of JSON."""

    name = title = None
    ours = False  # runs under preload
    traced = False  # counts system calls by strace, if it does not know them itself
    once = False  # one turn is enough: nothing is compared with it

    def __init__(self, place):
        self.place = place

    def fits(self, job):
        return True

    def command(self, job, count, warm_up):
        raise NotImplementedError

    def finish(self, job, count):
        """Runs the job; the result without its check."""
        arguments = self.place.pinned(self.command(job, count, None))
        output, _ = run_program(arguments, self.place.environment)
        result = parse_line(arguments, output)
        return {"ops": result["ops"], "ops_per_s": result["ops_per_s"],
                "mb_per_s": result["ops_per_s"] * job.size / 1e6,
                "mean_us": result["mean_us"], "p50_us": result["p50_us"], "p99_us": result["p99_us"],
                "user_us_per_op": result["user_us_per_op"], "sys_us_per_op": result["sys_us_per_op"],
                "cpu_us_per_op": result["cpu_us_per_op"],
                "syscalls_per_op": result["syscalls_per_op"]}

    def prepare(self, job, count):
        """Once before the turns of a job."""

    def measure(self, job, count):
        if not self.ours:
            return self.finish(job, count)
        return self.place.served(count * job.size, lambda: self.finish(job, count))

    def system_calls(self, job):
        """System calls per operation: the difference of a long and a short run under strace."""
        few, many = (40, 400) if job.size >= MIB else (500, 3500)
        few, many = (-(-count // job.in_flight) * job.in_flight for count in (few, many))
        summary = os.path.join(self.place.server.state, "strace")
        totals = []
        for count in (few, many):
            command = ["strace", "-c", "-f", "-o", summary, *self.command(job, count, 0)]
            run = lambda: run_program(self.place.pinned(command), self.place.environment)
            if self.ours:
                self.place.served(count * job.size, run)
            else:
                run()
            calls = {}
            with open(summary) as lines:
                for line in lines:
                    fields = line.split()
                    if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
                        calls[fields[-1]] = int(fields[3])
            totals.append(calls)
        per_op = {name: (calls - totals[0].get(name, 0)) / (many - few)
                  for name, calls in totals[1].items()}
        kept = {name: round(value, 3) for name, value in per_op.items() if abs(value) >= 0.02}
        return round(sum(per_op.values()), 3), kept


class Floor(Client):
    name, title = "floor", "floor"
    extra = []

    def command(self, job, count, warm_up):
        server = self.place.server
        return self.place.program(
            "floor", "--nfs-port", server.nfs_port, "--mount-port", server.mount_port, "--export",
            server.directory, "--file", server.file_name, "--file-size", FILE_BYTES, "--rw", job.rw, "--size",
            job.size, "--depth", job.in_flight, "--connections", job.connections or 1,
            "--random" if job.random else "--sequential", "--stable",
            "data_sync" if job.dsync else "unstable", "--count", count, *self.extra,
            *([] if warm_up is None else ["--warm-up", warm_up]))


class FloorV41(Floor):
    name, title = "floor-v41", "floor, NFSv4.1"
    extra = ["--v41"]

    def fits(self, job):
        return job.group == "v41"


class FloorOneReply(Floor):
    name, title = "floor-one-reply", "floor, one reply per receive"
    extra = ["--one-reply"]

    def fits(self, job):
        return job.rw == "read" and job.group != "v41"


class Loop(Client):
    """The cheapest program that makes the calls, under preload."""

    name, title = "loop", "loop under preload"
    ours = traced = True
    v41 = False

    def command(self, job, count, warm_up):
        warm = [] if warm_up is None else ["--warm-up", warm_up]
        shared = ["--rw", job.rw, "--size", job.size, "--count", count,
                  "--random" if job.random else "--sequential", *warm]
        if job.threads:
            arguments = self.place.program("preadloop", *shared, "--threads", job.threads,
                                           *(["--dsync"] if job.dsync else []))
        else:
            arguments = self.place.program("aioloop", *shared, "--depth", job.depth, "--direct")
        return self.place.under_preload([*arguments, self.place.server.file()], job.connections, v41=self.v41)


class LoopV41(Loop):
    name, title = "loop-v41", "loop under preload, NFSv4.1"
    v41 = True

    def fits(self, job):
        return job.group == "v41"


class Fio(Client):
    """fio.  Its CPU time is that of the whole process, all threads, less that of a run of the same job
    that ends at once: fio takes more than 100 ms of CPU to start."""

    name, title = "fio", "fio under preload"
    ours = traced = True
    engine = None  # libaio, or psync for threads

    def fits(self, job):
        return not job.dsync and job.group != "v41" and bool(shutil.which("fio"))

    def path(self):
        return self.place.server.file()

    def command(self, job, count, warm_up):
        rw = {"read": "read", "write": "write", "mixed": "rw"}[job.rw]
        threads = job.threads or 1
        arguments = [
            "fio", "--name=bench", "--thread", "--output-format=json",
            "--output=" + os.path.join(self.place.server.state, "fio.json"),
            "--ioengine=" + (self.engine or ("psync" if job.threads else "libaio")),
            "--direct=1", "--rw=" + ("rand" + rw if job.random else rw), "--rwmixread=75",
            "--bs=%d" % job.size, "--iodepth=%d" % job.depth, "--numjobs=%d" % threads,
            "--size=%d" % FILE_BYTES, "--io_size=%d" % (max(count // threads, 1) * job.size),
            "--norandommap", "--fallocate=none", "--scramble_buffers=0", "--group_reporting",
            "--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99",
            "--filename=" + self.path()]
        return self.place.under_preload(arguments, job.connections) if self.ours else arguments

    def cpu(self, job, count):
        _, used = run_program(self.place.pinned(self.command(job, count, None)),
                              self.place.environment)
        return used

    def prepare(self, job, count):
        starts = [self.cpu(job, job.in_flight) for _ in range(3 if self.ours else 1)]
        self.start = sorted(starts, key=sum)[len(starts) // 2]

    def measure(self, job, count):
        # Twice the operations for ours: a start differs by some milliseconds from the next.
        return super().measure(job, count * 2 if self.ours else count)

    def finish(self, job, count):
        used = self.cpu(job, count)
        with open(os.path.join(self.place.server.state, "fio.json")) as text:
            output = text.read()
        # Notes of fio may come before the JSON.
        result = json.loads(output[output.index("\n{") if "\n{" in output else 0:])["jobs"][0]
        return self.result(job, result, used)

    def result(self, job, result, used):
        both = [result[kind] for kind in ("read", "write") if result[kind]["total_ios"]]
        ops = sum(one["total_ios"] for one in both)
        if result["error"] or not ops:
            raise Failure("fio: error %d, %d operations" % (result["error"], ops))
        seconds = max(one["runtime"] for one in both) / 1000
        per_op = [max(used[i] - self.start[i], 0) * 1e6 / max(ops - job.in_flight, 1) for i in (0, 1)]

        def quantile(percent):
            # Of a mixed job: of the reads, which are three of four.
            return both[0]["lat_ns"].get("percentile", {}).get(percent, 0) / 1000

        return {"ops": ops, "ops_per_s": ops / seconds if seconds else None,
                "mb_per_s": ops * job.size / seconds / 1e6 if seconds else None,
                "mean_us": sum(one["lat_ns"]["mean"] * one["total_ios"] for one in both) / ops / 1000,
                "p50_us": quantile("50.000000"), "p99_us": quantile("99.000000"),
                "user_us_per_op": per_op[0], "sys_us_per_op": per_op[1],
                "cpu_us_per_op": sum(per_op), "syscalls_per_op": None,
                "start_cpu_ms": sum(self.start) * 1000}


class FioLocal(Fio):
    """On a file of its own: a server caches the attributes of files that it exports."""

    name, title = "fio-local", "fio, local file system"
    ours = False

    def path(self):
        return self.place.server.local_file(FILE_BYTES)

    def finish(self, job, count):
        # Of the floor's count threads would do their share one after the other, not side by side.
        return super().finish(job, max(count, int(
            self.place.seconds * (4000 if job.size >= MIB else 480000))))


class FioNull(Fio):
    """The same job with an engine that does nothing: what of the CPU time is fio's own."""

    name, title = "fio-null", "fio's own share (engine null)"
    ours = traced = False
    once = True
    engine = "null"

    def finish(self, job, count):
        return super().finish(job, 100000 if job.size >= MIB else 1000000)


CLIENTS = [Floor, FloorV41, FloorOneReply, Loop, LoopV41, Fio, FioLocal, FioNull]


def null_read(place, preload):
    """Nanoseconds of one read on a descriptor that is nobody's business."""
    command = place.program("nullread")
    command = place.pinned(place.under_preload(command) if preload else command)
    output, _ = run_program(command, place.environment)
    return parse_line(command, output)["ns_per_call"]


def start_ms(place, preload):
    """Milliseconds from start to end of a program that does nothing."""
    command = [shutil.which("true")]
    command = place.pinned(place.under_preload(command) if preload else command)
    begin = time.monotonic()
    run_program(command, place.environment)
    return (time.monotonic() - begin) * 1000
