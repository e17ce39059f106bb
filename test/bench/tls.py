"""What TLS costs: turns of a program in clear and by TLS, to the same server in memory; of TLS a proxy stands before it,
on the CPU of the server. Beside them what the cipher alone takes for as many bytes, as `openssl speed` says it; what OpenSSL
takes for such records between two ends in memory (tlsloop); and the memory that a connection takes."""

import os
import re
import shutil
import statistics
import subprocess

import clients
import servers
from servers import Failure

SIZE = 8192
CONNECTIONS = 64
CASES = {(rw, depth): "tls, random %s 8 KiB, depth %d" % (rw, depth) for rw in ("read", "write") for depth in (1, 32)}


def chosen(options):
    return [case for case, name in CASES.items() if options.only and options.only.search(name)]


class Proxy:
    """test/fault/tlsproxy before the server of a place, with a certificate that is made for it."""

    def __init__(self, place, cpu):
        self.place, self.cpu = place, cpu
        self.port = servers.free_ports(1)[0]
        self.files = [os.path.join(place.server.state, name) for name in ("tls.pem", "tls.key")]

    def __enter__(self):
        program = os.path.join(self.place.build, "test", "fault", "tlsproxy")
        if not shutil.which("openssl") or not os.path.exists(program):
            raise Failure("openssl or %s is missing" % program)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        self.files[1], "-out", self.files[0], "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, stderr=subprocess.DEVNULL)
        self.process = subprocess.Popen(["taskset", "-c", str(self.cpu), program, str(self.port), str(self.place.server.nfs_port),
                                         *self.files], stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise Failure("tlsproxy did not start")
        return self

    def __exit__(self, *unused):
        servers.end(self.process)
        self.process.stdout.close()


def nfstab(place, proxy, connections=1):
    path = os.path.join(place.server.state, "nfstab-%s-%d" % ("tls" if proxy else "clear", connections))
    server = place.server
    with open(path, "w") as text:
        text.write("server: bench\npath: 127.0.0.1\nnfsport: %d\nmntport: %d\nconnections: %d\n%sexport: %s mount: %s\n" % (
            proxy.port if proxy else server.nfs_port, server.mount_port, connections,
            "tls: prefer\ntls_ca: %s\n" % proxy.files[0] if proxy else "", server.directory, server.directory))
    return path


def run_loop(place, rw, proxy, depth=1, threads=1, connections=1):
    # Writes wait for the server: what is left behind would be sent after the turn.
    words = ["--seconds", place.seconds, "--warm-up", 100, "--rw", rw, "--random"]
    program = place.program("preadloop", *words, "--threads", threads) if depth == 1 else \
        place.program("aioloop", *words, "--depth", depth, "--direct")
    command = place.pinned([os.path.join(place.build, "directnfs"), "run", "-t", nfstab(place, proxy, connections), "--",
                            *program, place.server.file()])
    environment = {**place.environment, "DIRECTNFS_CONF": place.configuration("tls.conf", ["write_behind_max = 0", "read_cache_max = 0"])}
    return place.served(SIZE, lambda: clients.parse_line(command, clients.run_program(command, environment)[0]))


def cipher_us():
    """What the cipher takes for SIZE bytes."""
    output = subprocess.run(["openssl", "speed", "-evp", "aes-256-gcm", "-bytes", str(SIZE), "-seconds", "1"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    found = re.search(r"AES-256-GCM\s+([\d.]+)k", output)
    return SIZE / float(found.group(1)) / 1000 * 1e6 if found else None


def openssl_us(place, proxy, rw):
    """What OpenSSL takes for the records of an operation."""
    command = place.pinned(place.program("tlsloop", *proxy.files, SIZE))
    times = clients.parse_line(command, clients.run_program(command, place.environment)[0])
    return times["small_write"] + times["read"] if rw == "read" else times["write"] + times["small_read"]


def memory_kb(place, proxy):
    """KiB that one more connection takes."""
    few, many = (statistics.median(run_loop(place, "read", proxy, 1, CONNECTIONS, connections)["rss_kb"] for _ in range(3))
                 for connections in (1, CONNECTIONS))
    return round((many - few) / (CONNECTIONS - 1), 1)


def measure(options, progress):
    programs = os.path.join(options.build, "test", "bench")
    results = []
    with servers.MemServer(programs, options.server_cpu) as server:
        place = clients.Place(server, options.build, options.cpu, options.seconds, options.tunable)
        server.new_file()
        with open(server.file(), "wb") as file:
            file.truncate(16 << 20)
        cipher = statistics.median(cipher_us() for _ in range(3))
        with Proxy(place, options.server_cpu) as proxy:
            for rw, depth in chosen(options):
                progress(CASES[rw, depth])
                openssl = statistics.median(openssl_us(place, proxy, rw) for _ in range(3))
                pairs = [[run_loop(place, rw, by, depth)["cpu_us_per_op"] for by in (None, proxy)] for _ in range(options.rounds)]
                clear, tls = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
                added = statistics.median(pair[1] - pair[0] for pair in pairs)
                results.append({"name": CASES[rw, depth], "clear_cpu_us": round(clear, 2), "tls_cpu_us": round(tls, 2),
                                "added_us": round(added, 2), "openssl_us": round(openssl, 2), "cipher_us": round(cipher, 2)})
            progress("tls, memory")
            for result in results[:1]:
                result["connection_kb"] = {"clear": memory_kb(place, None), "TLS": memory_kb(place, proxy)}
    return results


def show(results):
    print("\nTLS: CPU time of the client for 8 KiB, microseconds; OpenSSL alone, with its records, and its cipher\n"
          "%-34s %8s %8s %8s %8s %8s" % ("", "in clear", "TLS", "added", "OpenSSL", "cipher"))
    for result in results:
        print("%-34s %8.2f %8.2f %8.2f %8.2f %8.2f" % (result["name"], result["clear_cpu_us"], result["tls_cpu_us"],
                                                       result["added_us"], result["openssl_us"], result["cipher_us"]))
    for result in results[:1]:
        print("a further connection, KiB: " + ", ".join("%s %s" % pair for pair in result["connection_kb"].items()))
