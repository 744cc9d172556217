#!/usr/bin/env python3
"""Two Ray nodes on one machine, out of one folder: for tests, and for trying things out.

    ray_nodes.py start DIR     head n1 and a second node n2, one CPU and one pretended GPU each
    ray_nodes.py exec DIR COMMAND...   runs a client: RAY_ADDRESS is set, and the nodes can be reached
    ray_nodes.py kill DIR n2   as if n2 lost power: kill -9 of its raylet, its workers and all their children (--ray-only: not the children)
    ray_nodes.py join DIR n2   its power is back
    ray_nodes.py stop DIR      ends everything; the folder remains, with the logs

Run it with a Python that has the package ray, as root. The head holds the cluster's state, so that n1 cannot be killed.
There is no dashboard, and no usage statistics are sent.
Whoever reaches a Ray node can run programs on it, and Ray listens on all addresses even if it is told 127.0.0.1.
Therefore the nodes live in a network namespace that has nothing but loopback; `exec` enters it.
Each node has a resource of its own name ("n1", "n2"), with which a task can be tied to it.
"""

import argparse
import fcntl
import json
import os
import pathlib
import signal
import shutil
import socket
import struct
import subprocess
import sys
import time

NODES = ("n1", "n2")
# From linux/sockios.h and linux/if.h.
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def fail(message):
    sys.exit(f"ray_nodes.py: {message}")


# Free in a namespace of its own.
ADDRESS = "127.0.0.1:6379"


def raise_loopback():
    """What `ip link set lo up` does: a new network namespace has its loopback down."""
    with socket.socket() as any_socket:
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))


def processes():
    """pid -> (parent, start time) of everything that runs on this machine. A pid with its start time names a process once and for all."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            found[int(stat.parent.name)] = (int(fields[1]), int(fields[19]))
    return found


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


class Nodes:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory).resolve()
        # Ray makes sockets of up to 70 more characters below its folder, and a socket's path has at most 107.
        if len(str(self.directory)) > 36:
            fail(f"the path {self.directory} is too long for Ray's sockets; use a folder of at most 36 characters")

    def mark(self, node):
        """What every process of a node has in its environment; a task's subprocess inherits it."""
        return f"RAY_NODES_MEMBER={self.directory}:{node}"

    def members(self, node, children=True):
        """Processes of a node. Without `children`: raylet, workers and what else is Ray's, not what a task has started."""
        running = processes()
        marked = {pid for pid in running if self.mark(node).encode() in environment_of(pid)}
        if not children:
            return {pid for pid in marked if self.is_ray(pid)}
        # Some may have cleaned their environment: descendants count as well.
        grown = True
        while grown:
            more = {pid for pid, (parent, _) in running.items() if parent in marked} - marked
            grown = bool(more)
            marked |= more
        return marked - {os.getpid()}

    @staticmethod
    def is_ray(pid):
        try:
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            return False
        return line.startswith(b"ray::") or b"/ray/" in line or b"ray start" in line or b"/bin/ray" in line

    def kill(self, node, children=True):
        """Stops all of them before any dies, so that none can report or clean up."""
        # Half a minute: what was killed may be in the middle of a write.
        for _ in range(300):
            members = self.members(node, children)
            if not members:
                return
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in members:
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        pass
            time.sleep(0.1)
        fail(f"processes of node {node} do not end: {sorted(self.members(node, children))}")

    def launch(self, node, arguments):
        """Starts a node, and waits until `ray start` says that it runs."""
        name, _, value = self.mark(node).partition("=")
        environment = {
            **os.environ,
            name: value,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            # A dead node is noticed after about 10 seconds.
            "RAY_health_check_initial_delay_ms": "2000",
            "RAY_health_check_period_ms": "2000",
            "RAY_health_check_timeout_ms": "4000",
            "RAY_health_check_failure_threshold": "3",
        }
        environment.pop("RAY_ADDRESS", None)
        command = [
            *self.inside(node), sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *arguments,
            "--node-ip-address=127.0.0.1", f"--node-name={node}", "--num-cpus=1", "--num-gpus=1", f"--resources={json.dumps({node: 1})}",
            "--object-store-memory=100000000", "--disable-usage-stats",
        ]  # fmt: skip
        with open(self.directory / f"{node}.log", "ab") as log:
            try:
                code = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, timeout=120).returncode
            except subprocess.TimeoutExpired:
                code = "no answer in two minutes"
        if code != 0:
            self.stop()
            fail(f"ray start of {node} failed ({code}); see {self.directory / f'{node}.log'}")

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        if any(self.members(node) for node in NODES):
            fail(f"nodes run in {self.directory} already; stop them first")
        for program in ("unshare", "nsenter"):
            if shutil.which(program) is None:
                fail(f"{program} is missing; it is in the package util-linux")
        if os.geteuid() != 0:
            fail("a network namespace needs root")
        self.launch("n1", ["--head", f"--port={ADDRESS.split(':')[1]}", "--include-dashboard=false", f"--temp-dir={self.directory / 'ray'}"])
        self.join("n2")

    def inside(self, node):
        """Beginning of a command that runs in the namespace of the nodes; the head makes it."""
        if node == "n1":
            return ["unshare", "--net", "--", sys.executable, __file__, "with-loopback"]
        members = self.members("n1")
        if not members:
            fail(f"there are no nodes in {self.directory}; begin with: ray_nodes.py start {self.directory}")
        return ["nsenter", f"--net=/proc/{min(members)}/ns/net", "--"]

    def execute(self, command):
        os.environ.update(RAY_ADDRESS=ADDRESS, RAY_USAGE_STATS_ENABLED="0")
        inside = self.inside("n2") + command
        os.execvp(inside[0], inside)

    def join(self, node):
        if self.members(node, children=False):
            fail(f"node {node} runs already")
        self.launch(node, [f"--address={ADDRESS}"])

    def stop(self):
        # The head last: workers that lose it fill the logs.
        for node in reversed(NODES):
            self.kill(node)


def main():
    if sys.argv[1:2] == ["with-loopback"]:
        raise_loopback()
        os.execvp(sys.argv[2], sys.argv[2:])
    if sys.argv[1:2] == ["exec"] and len(sys.argv) > 3:
        Nodes(sys.argv[2]).execute(sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("start", "exec", "kill", "join", "stop"))
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("node", nargs="?", choices=("n2",), help="only n2 can go and come: n1 holds the cluster's state")
    parser.add_argument("--ray-only", action="store_true", help="kill: leave what tasks have started")
    options = parser.parse_args()
    if (options.what in ("kill", "join")) != (options.node is not None):
        parser.error("kill and join need the node n2; start and stop need none")
    if options.what == "exec":
        parser.error("exec needs a command")
    nodes = Nodes(options.directory)
    if options.what == "start":
        nodes.start()
    elif options.what == "join":
        nodes.join(options.node)
    elif options.what == "kill":
        nodes.kill(options.node, children=not options.ray_only)
    else:
        nodes.stop()


if __name__ == "__main__":
    main()
