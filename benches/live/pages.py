"""What live pages cost a run: the same training without a page, with a page that nobody looks at, and with ten that are read.

Usage: python3 benches/live/pages.py SPECTRAL [--pages 10] [--repeats 5] [--threads N] [--task …] [--agents …] [--frames …]

A page is two connections, one for numbers and one for pictures, read as fast as they come by another process (as browsers do, but
without drawing: what a browser does with a picture is not the run's cost). The three kinds take turns, so that a machine that
slows down slows all of them. Printed for each kind: frames per second by the clock, and frames per second of the process's own
processor time; both vary by many percent from run to run on a machine that is not alone. What does not vary is also printed: the
share of the process's processor time that the page's own threads took (their names begin with live-). Model files and tables
must be the same to the byte.
Needs nothing but Python.
"""

import argparse
import hashlib
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KINDS = ("no page", "page, no reader", "pages read")


def read_stream(port: int, token: str, target: str, counts: dict, key: str) -> None:
    """Reads one stream to its end."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(
                f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
            while data := connection.recv(1 << 18):
                counts[key] = counts.get(key, 0) + len(data)
    except OSError:
        pass


def readers(url: str, agents: list[str], pages: int) -> None:
    """Ten pages in a process of their own; prints the bytes that they read."""
    match = re.match(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]+)", url)
    port, token = int(match[1]), match[2]
    counts: dict = {}
    threads = [
        threading.Thread(target=read_stream, args=(port, token, f"/{kind}?agent={agents[page % len(agents)]}", counts, kind))
        for page in range(pages)
        for kind in ("events", "pictures")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(counts.get("pictures", 0))


def digest(run: pathlib.Path) -> str:
    """One number for every table and model of a run."""
    whole = hashlib.sha256()
    for path in sorted(run.glob("agents/*/*")):
        if path.suffix in (".csv", ".safetensors"):
            whole.update(path.relative_to(run).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()


def thread_times(pid: int, seen: dict) -> None:
    """Notes the processor time of every thread, in hundredths of a second, by thread number."""
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            name = (task / "comm").read_text().strip()
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            seen[task.name] = (name, int(fields[11]) + int(fields[12]))
        except OSError:
            pass


def train(args, kind: str, folder: pathlib.Path) -> dict:
    run = folder / kind.replace(" ", "-").replace(",", "")
    command = [args.spectral, "train", "--task", args.task, "--agents", args.agents, "--seeds", args.seeds]
    command += ["--frames", str(args.frames), "--device", args.device, "--out", str(run)]
    command += ["--set", f"threads={args.threads}"]
    command += ["--set", "checkpoint_seconds=100000"] + [word for pair in args.set for word in ("--set", pair)]
    if kind != KINDS[0]:
        command.append("--live")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    client, read, times = None, 0, {}

    def sample() -> None:
        while process.poll() is None:
            thread_times(process.pid, times)
            time.sleep(0.1)

    sampler = threading.Thread(target=sample)
    sampler.start()
    for line in process.stderr:
        found = re.search(r"http://\S+", line)
        if found and kind == KINDS[2]:
            agents = [f"{name}-s1" for name in args.agents.split(",")]
            client = subprocess.Popen(
                [sys.executable, __file__, "--read", found[0], "--pages", str(args.pages), "--agents", ",".join(agents)],
                stdout=subprocess.PIPE,
                text=True,
            )
    if process.wait() != 0:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}")
    sampler.join()
    # Only the training process has been waited for so far.
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if client:
        read = int(client.communicate()[0])
    state = (run / "state.toml").read_text()
    frames = sum(int(number) for number in re.findall(r"frames = (\d+)", state))
    seconds = float(re.search(r"seconds = ([\d.]+)", state)[1])
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"clock": frames / seconds, "processor": frames / processor, "bits": digest(run), "read": read, "seconds": seconds,
            "share": sum(t for name, t in times.values() if name.startswith("live-")) / max(1, sum(t for _, t in times.values()))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spectral", nargs="?")
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--task", default="exponential-pong-mini")
    parser.add_argument("--agents", default="spectral,compressed")
    parser.add_argument("--seeds", default="2")
    parser.add_argument("--frames", type=int, default=60000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--read")
    args = parser.parse_args()
    if args.read:
        readers(args.read, args.agents.split(","), args.pages)
        return
    results: dict = {kind: [] for kind in KINDS}
    for repeat in range(args.repeats):
        for kind in KINDS[repeat % 3 :] + KINDS[: repeat % 3]:
            with tempfile.TemporaryDirectory() as folder:
                results[kind].append(train(args, kind, pathlib.Path(folder)))
            last = results[kind][-1]
            print(f"{repeat + 1} {kind:16} {last['clock']:10.0f} frames/s {last['processor']:10.0f} frames/processor-s", flush=True)
    bits = {result["bits"] for kind in KINDS for result in results[kind]}
    read = results[KINDS[2]]
    print(f"\n{args.task}, {args.agents} x {args.seeds} seeds, {args.frames} frames each, threads {args.threads or os.cpu_count()}, "
          f"{args.device}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians of {args.repeats}")
    print(f"pictures read: {statistics.median(r['read'] / r['seconds'] for r in read) / 1e6:.2f} MB/s by {args.pages} pages")
    for kind in KINDS[1:]:
        shares = [100 * result["share"] for result in results[kind]]
        print(f"{kind}: the page's threads took {statistics.median(shares):.2f}% of the process's time (by repeat {min(shares):.2f} to {max(shares):.2f}%)")
    for measure in ("clock", "processor"):
        base = statistics.median(result[measure] for result in results[KINDS[0]])
        for kind in KINDS:
            # Each repeat is compared with its own neighbour without a page.
            ratios = [a[measure] / b[measure] for a, b in zip(results[kind], results[KINDS[0]])]
            middle = statistics.median(result[measure] for result in results[kind])
            print(f"{measure:10} {kind:16} {middle:10.0f} frames/s  {100 * middle / base:6.1f}%"
                  f"  (by repeat {100 * min(ratios):.1f} to {100 * max(ratios):.1f}%)")
    print("bits: " + ("the same in all runs" if len(bits) == 1 else f"DIFFERENT: {len(bits)} kinds"))
    sys.exit(len(bits) != 1)


if __name__ == "__main__":
    main()
