"""The NFSv3 servers that `run` measures against: memserver, and nfs-ganesha on a directory in memory."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

class Failure(Exception):
    """Something that could not be measured, with its reason."""


def end(process, seconds=10):
    """Ends a process that was started here."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Server:
    """A server of one exported directory below /dev/shm; a context manager."""

    name = None

    def __init__(self, programs, cpu):
        self.programs, self.cpu = programs, cpu
        self.process = self.directory = self.local = self.state = None
        self.nfs_port = self.mount_port = self.files = 0
        self.file_name = None

    def __enter__(self):
        try:
            self.directory = tempfile.mkdtemp(prefix="directnfs-bench.", dir="/dev/shm")
            self.local = tempfile.mkdtemp(prefix="directnfs-bench.", dir="/dev/shm")
            self.state = tempfile.mkdtemp(prefix="directnfs-bench.")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()
        for directory in (self.directory, self.local, self.state):
            if directory:
                shutil.rmtree(directory, ignore_errors=True)

    def start(self):
        raise NotImplementedError

    def stop(self):
        if self.process:
            end(self.process)

    def new_file(self):
        """Another file for the next job: what happened to the last one, the kernel's writes behind
        the server's back for instance, is no matter for it."""
        if self.file_name and os.path.exists(self.file()):
            os.truncate(self.file(), 0)  # a server caches attributes of the directory too
        self.files += 1
        self.file_name = "bench-%d.data" % self.files

    def file(self):
        return os.path.join(self.directory, self.file_name)

    def local_file(self, size):
        """A file of the same file system that only the kernel uses."""
        path = os.path.join(self.local, "local.data")
        if not os.path.exists(path):
            with open(path, "wb") as file:
                for _ in range(size >> 20):
                    file.write(os.urandom(1 << 20))
        return path

    def pinned(self, *arguments):
        return ["taskset", "-c", str(self.cpu), *map(str, arguments)]

    def bytes_served(self):
        """Bytes of READ and WRITE so far: the proof of who served a program."""
        raise NotImplementedError


class MemServer(Server):
    """One thread, at memory speed: the server hides nothing of the client."""

    name = "memserver"
    bind = "127.0.0.1"

    def __init__(self, programs, cpu, delay_us=0):
        super().__init__(programs, cpu)
        self.delay_us = delay_us  # of each reply

    def start(self):
        program = os.path.join(self.programs, "memserver")
        self.process = subprocess.Popen(
            self.pinned(program, "--dir", self.directory, "--bind", self.bind, "--delay", self.delay_us),
            stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if len(words) != 3 or words[0] != "ready":
            raise Failure("memserver did not start")
        self.nfs_port, self.mount_port = (int(word.split("=")[1]) for word in words[1:])

    def stop(self):
        super().stop()
        if self.process:
            self.process.stdout.close()

    def counters(self):
        """Calls of each procedure so far, and bytes."""
        self.process.send_signal(signal.SIGUSR1)
        line = self.process.stdout.readline()
        if not line:
            raise Failure("memserver ended")
        return json.loads(line)

    def bytes_served(self):
        counters = self.counters()
        return counters["read_bytes"] + counters["written_bytes"]


GANESHA_CONFIGURATION = """NFS_CORE_PARAM { NFS_Port = %d; MNT_Port = %d; Protocols = 3; Enable_NLM = false;
    Enable_RQUOTA = false; Bind_addr = 127.0.0.1; }
NFSV4 { Graceless = true; %s }
EXPORT { Export_Id = 1; Path = %s; Pseudo = /bench; Protocols = 3; Transports = TCP; Access_Type = RW;
    Squash = No_Root_Squash; MaxRead = 1048576; MaxWrite = 1048576; %s FSAL { Name = VFS; } }
%s
"""


def port_answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Ganesha(Server):
    """nfs-ganesha, VFS on tmpfs: a real server, which answers out of order.  Only in namespaces of our
    own: it registers itself with the port mapper, in the place of a server that may be in use."""

    name = "nfs-ganesha"
    rpcbind = environment = None
    options = export = blocks = ""  # more of its configuration

    @staticmethod
    def missing(own_namespaces):
        """Why it cannot be started here; None if it can."""
        for program, package in (("ganesha.nfsd", "nfs-ganesha"), ("rpcbind", "rpcbind")):
            if not shutil.which(program):
                return "%s is missing (Debian package %s)" % (program, package)
        return None if own_namespaces else "namespaces of its own are not permitted here"

    def start(self):
        for directory in ("/run/rpcbind", "/run/ganesha", "/var/lib/nfs/ganesha"):
            os.makedirs(directory, exist_ok=True)
        log = os.path.join(self.state, "ganesha.log")
        configuration = os.path.join(self.state, "ganesha.conf")
        with open(os.path.join(self.state, "output"), "w") as output:
            self.rpcbind = subprocess.Popen(["rpcbind", "-w", "-f"], stdout=output, stderr=output)
            self.wait("rpcbind", self.rpcbind, lambda: port_answers(111))
            self.nfs_port, self.mount_port = free_ports(2)
            with open(configuration, "w") as text:
                text.write(GANESHA_CONFIGURATION % (self.nfs_port, self.mount_port, self.options, self.directory, self.export, self.blocks))
            self.process = subprocess.Popen(
                self.pinned("ganesha.nfsd", "-f", configuration, "-L", log, "-p",
                            os.path.join(self.state, "pid"), "-F"), stdout=output, stderr=output, env=self.environment)

        def initialized():
            try:
                with open(log) as lines:
                    return "NFS SERVER INITIALIZED" in lines.read()
            except OSError:
                return False

        self.wait("nfs-ganesha", self.process, initialized)

    @staticmethod
    def wait(what, process, ready, seconds=30):
        give_up = time.monotonic() + seconds
        while not ready():
            if process.poll() is not None or time.monotonic() > give_up:
                raise Failure("%s did not start" % what)
            time.sleep(0.05)

    def stop(self):
        super().stop()
        if self.rpcbind:
            end(self.rpcbind)

    def bytes_served(self):
        # It reads and writes the exported files by pread and pwrite, and its sockets by other calls.
        with open("/proc/%d/io" % self.process.pid) as lines:
            counters = dict(line.split(": ") for line in lines)
        return int(counters["rchar"]) + int(counters["wchar"])
