"""What Kerberos costs: turns of a program with sys, krb5, krb5i and krb5p, on nfs-ganesha, with a realm of its own. Beside
them what the library of Kerberos takes alone for the same messages (gssloop), and the memory of a connection and its context."""

import os
import shutil
import statistics
import subprocess
import time

import clients
import servers
from servers import Failure

SIZE = 8192
CONNECTIONS = 64
SECURITIES = ("sys", "krb5", "krb5i", "krb5p")
GOALS = {"krb5": 1.25, "krb5i": 1.8}  # of sys, serial; krb5p: what it adds is at most 1.2 of the cipher
CASES = {(rw, depth): "krb5, random %s 8 KiB, depth %d" % (rw, depth) for rw in ("read", "write") for depth in (1, 32)}
PROGRAMS = {"kdb5_util": "krb5-kdc", "krb5kdc": "krb5-kdc", "kadmin.local": "krb5-admin-server", "kinit": "krb5-user"}
HOST = "bench.test"

KRB5_CONF = """[libdefaults]
    default_realm = B.TEST
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
[realms]
    B.TEST = {
        kdc = 127.0.0.1:%(port)d
    }
[domain_realm]
    bench.test = B.TEST
"""
KDC_CONF = """[kdcdefaults]
    kdc_listen = 127.0.0.1:%(port)d
    kdc_tcp_listen = 127.0.0.1:%(port)d
[realms]
    B.TEST = {
        database_name = %(state)s/database
        key_stash_file = %(state)s/stash
        acl_file = %(state)s/acl
        max_life = 10h
    }
"""
IDMAPD_CONF = """[General]
Domain = b.test
Local-Realms = B.TEST
[Translation]
Method = nsswitch
"""


def chosen(options):
    return [case for case, name in CASES.items() if options.only and options.only.search(name)]


class Realm:
    """A KDC, the keys of the server, and a ticket of root."""

    process = None

    def __init__(self, state):
        self.state = os.path.join(state, "realm")
        self.environment = {"KRB5_CONFIG": self.path("krb5.conf"), "KRB5_KDC_PROFILE": self.path("kdc.conf"),
                            "KRB5CCNAME": "FILE:" + self.path("ticket"), "KRB5_KTNAME": self.path("server.keytab"),
                            "KRB5RCACHENAME": "none:"}

    def path(self, name):
        return os.path.join(self.state, name)

    def run(self, *words):
        with open(self.path("log"), "a") as log:
            subprocess.run(words, check=True, stdout=log, stderr=log, env={**os.environ, **self.environment})

    def __enter__(self):
        names = {"port": servers.free_ports(1)[0], "state": self.state}
        os.makedirs(self.state)
        for name, text in (("krb5.conf", KRB5_CONF), ("kdc.conf", KDC_CONF), ("idmapd.conf", IDMAPD_CONF)):
            with open(self.path(name), "w") as file:
                file.write(text % names)
        self.run("kdb5_util", "create", "-s", "-r", "B.TEST", "-P", "bench")
        for principal, keytab in (("nfs/" + HOST, "server.keytab"), ("root", "root.keytab")):
            self.run("kadmin.local", "-q", "addprinc -randkey " + principal)
            self.run("kadmin.local", "-q", "ktadd -k %s %s" % (self.path(keytab), principal))
        self.process = subprocess.Popen(["krb5kdc", "-n"], env={**os.environ, **self.environment}, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while not servers.port_answers(names["port"]):
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failure("krb5kdc did not start")
            time.sleep(0.02)
        self.run("kinit", "-k", "-t", self.path("root.keytab"), "root")
        return self

    def __exit__(self, *unused):
        if self.process:
            servers.end(self.process)


class Ganesha(servers.Ganesha):
    """nfs-ganesha that takes all kinds of security."""

    realm = None

    def start(self):
        self.realm = Realm(self.state)
        self.realm.__enter__()
        self.options = "IdmapConf = %s;" % self.realm.path("idmapd.conf")
        self.export = "SecType = sys, krb5, krb5i, krb5p;"
        self.blocks = "NFS_KRB5 { PrincipalName = nfs; KeytabPath = %s; Active_krb5 = true; CCacheDir = %s; }" % (
            self.realm.path("server.keytab"), self.realm.path("server"))
        self.environment = {**os.environ, **self.realm.environment}
        self.new_file()  # before the server looks at the directory: it keeps what it saw
        with open(self.file(), "wb") as file:
            file.truncate(16 << 20)
        super().start()

    def stop(self):
        super().stop()
        if self.realm:
            self.realm.__exit__()


def nfstab(place, security, connections):
    path = os.path.join(place.server.state, "nfstab-%s-%d" % (security, connections))
    server = place.server
    with open(path, "w") as text:
        text.write("server: %s\npath: 127.0.0.1\nnfsport: %d\nmntport: %d\nsecurity_default: %s\nconnections: %d\n"
                   "export: %s mount: %s\n" % (HOST, server.nfs_port, server.mount_port, security, connections,
                                              server.directory, server.directory))
    return path


def run_loop(place, rw, security, depth, threads=1, connections=1):
    """The result of the loop's turn, and the most memory that its process had."""
    words = ["--seconds", place.seconds, "--warm-up", 100, "--rw", rw, "--random"]
    program = place.program("preadloop", *words, "--threads", threads) if depth == 1 else \
        place.program("aioloop", *words, "--depth", depth, "--direct")
    command = place.pinned([os.path.join(place.build, "directnfs"), "run", "-t", nfstab(place, security, connections), "--",
                            *program, place.server.file()])
    environment = {**place.environment, **place.server.realm.environment,
                   "DIRECTNFS_CONF": place.configuration("krb5.conf", ["write_behind_max = 0", "read_cache_max = 0"])}
    return place.served(SIZE, lambda: clients.parse_line(command, clients.run_program(command, environment)[0]))


def alone(place):
    """What the library of Kerberos takes for messages like these."""
    command = place.pinned(place.program("gssloop", "nfs@" + HOST, SIZE))
    return clients.parse_line(command, clients.run_program(command, {**place.environment, **place.server.realm.environment})[0])


def cipher_us(library, security, rw):
    """Of an operation: the MIC of the call's header, that of the reply's; and what the service adds."""
    head = library["small_mic"] + library["verifier"]
    if security == "krb5i":
        head += library["small_mic"] + library["verify"] if rw == "read" else library["mic"] + library["small_verify"]
    elif security == "krb5p":
        head += library["small_wrap"] + library["unwrap"] if rw == "read" else library["wrap"] + library["small_unwrap"]
    return 0 if security == "sys" else head


def memory_kb(place, security):
    """KiB that one more connection takes, with its context."""
    few, many = (statistics.median(run_loop(place, "read", security, 1, CONNECTIONS, connections)["rss_kb"] for _ in range(3))
                 for connections in (1, CONNECTIONS))
    return round((many - few) / (CONNECTIONS - 1), 1)


def measure(options, own_namespaces, progress):
    for program, package in PROGRAMS.items():
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin"):
            raise Failure("%s is missing (Debian package %s)" % (program, package))
    reason = servers.Ganesha.missing(own_namespaces)
    if reason:
        raise Failure(reason)
    results = {"cases": [], "memory": {}}
    with Ganesha(os.path.join(options.build, "test", "bench"), options.server_cpu) as server:
        place = clients.Place(server, options.build, options.cpu, options.seconds, options.tunable)
        libraries = []
        for rw, depth in chosen(options):
            progress(CASES[rw, depth])
            libraries.append(alone(place))
            rounds = [[run_loop(place, rw, security, depth)["cpu_us_per_op"] for security in SECURITIES]
                      for _ in range(options.rounds)]
            case = {"name": CASES[rw, depth], "rw": rw, "depth": depth}
            case["cpu_us"] = {security: round(statistics.median(turn[i] for turn in rounds), 2)
                              for i, security in enumerate(SECURITIES)}
            case["of_sys"] = {security: round(statistics.median(turn[i] / turn[0] for turn in rounds), 3)
                              for i, security in enumerate(SECURITIES)}
            case["added_us"] = {security: round(statistics.median(turn[i] - turn[0] for turn in rounds), 2)
                                for i, security in enumerate(SECURITIES)}
            results["cases"].append(case)
        library = {name: statistics.median(one[name] for one in libraries) for name in libraries[0]}
        for case in results["cases"]:
            case["cipher_us"] = {security: round(cipher_us(library, security, case["rw"]), 2) for security in SECURITIES}
        results["library"] = library
        progress("krb5, memory")
        results["memory"] = {security: memory_kb(place, security) for security in SECURITIES}
    return results


def show(results):
    print("\nKerberos on nfs-ganesha: CPU time of the client for 8 KiB, microseconds; `alone`: what the library of Kerberos takes")
    print("%-36s %8s %8s %8s %8s %8s" % ("", "CPU", "of sys", "added", "alone", "of alone"))
    for case in results["cases"]:
        print(case["name"])
        for security in SECURITIES:
            cipher, added = case["cipher_us"][security], case["added_us"][security]
            print("    %-32s %8.2f %8.2f %8s %8s %8s" % (
                security, case["cpu_us"][security], case["of_sys"][security], "%.2f" % added if cipher else "",
                "%.2f" % cipher if cipher else "", "%.2f" % (added / cipher) if cipher else ""))
    print("goals: krb5 1.25 and krb5i 1.8 of sys; krb5p adds 1.2 of what the library takes alone")
    print("a further connection, KiB: " + ", ".join("%s %s" % pair for pair in results["memory"].items())
          + "; of them a context of the library: %.1f" % (results["library"]["context_bytes"] / 1024))
