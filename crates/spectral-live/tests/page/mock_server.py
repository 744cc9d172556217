"""A server that speaks docs/LIVE_PROTOCOL.md with made-up data, to develop and test the page without training.

    python3 mock_server.py --mode playing --actions 18 --port 8123

prints the link to open. Only Python's standard library is needed.
"""

import argparse
import json
import math
import random
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[2] / "assets"
CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:"
ATARI = (
    "noop fire up right left down upright upleft downright downleft up-fire right-fire left-fire down-fire "
    "upright-fire upleft-fire downright-fire downleft-fire"
).split()
COLOURS = {
    "spectral": "#1f77c4", "clipped": "#b5569a", "categorical": "#b07d00", "compressed": "#d55e00", "popart": "#0a9472",
}
HOSTILE = "<img src=x onerror=\"document.documentElement.dataset.hacked='yes'\">"
SUPPORT = [round(-10 + 20 * k / 50, 3) for k in range(51)]


class Mock:
    """What the made-up run is, and switches for the tests."""

    def __init__(self, mode="training", actions=3, agents=("spectral", "categorical", "clipped"), seeds=2, frames=150_000,
                 hostile=False, stopped=False, scores=True, waits=False, legal=False, level="well",
                 gaps=False, older=False, checkpoint=True, references=None, huge=False, names=None):
        self.mode, self.level, self.legal, self.stopped = mode, level, legal, stopped
        self.token = "0123456789abcdef0123456789abcdef"
        self.names = {3: ["stay", "up", "down"], 4: ["up", "right", "down", "left"], 18: ATARI}[actions]
        if names:
            self.names = list(names)
        # Values only in every fourth picture; values of older weights; a frozen model that exists; scores that grow to 100,000.
        self.gaps, self.older, self.checkpoint, self.huge = gaps, older, checkpoint, huge
        self.frames = frames
        self.start = time.monotonic() - 40
        self.lock = threading.Lock()
        self.posts, self.requests, self.closing = [], [], []
        self.down = self.ended = self.small = False
        self.generation = 0
        self.controls = {"agent": f"{agents[0]}-s1", "paused": False, "speed": 15.0, "epsilon": 0.001, "human": False}
        self.action, self.steps, self.restarts = None, 0, 0
        self.agents = []
        for name in agents:
            for seed in range(1, seeds + 1):
                kind = {"spectral": "frequencies", "categorical": "distribution"}.get(name, "value")
                outputs = {"kind": kind}
                if kind == "frequencies":
                    outputs["weights"] = [2.0**k for k in range(21)]
                if kind == "distribution":
                    outputs["support"] = SUPPORT
                self.agents.append({
                    "id": f"{name}-s{seed}", "agent": name, "seed": seed, "colour": COLOURS.get(name, "#7a7f87"),
                    "dash": [6, 3] if name == "popart" else None, "sees_true_rewards": name != "clipped", "outputs": outputs,
                })
        self.run = {
            "mode": mode, "path": "runs/pong", "task": "exponential-pong-mini" if actions == 3 else "atari/alien",
            "command": "spectral train --task exponential-pong-mini --live", "protocol": "quick", "version": "0.2.0",
            "frames": frames, "frames_per_step": 1, "actions": self.names, "rest_action": None if waits else 0,
            "max_player_score": 21 if scores else 0, "agents": self.agents,
        }
        if references:
            self.run["references"] = references
        if actions == 4:
            self.run["task"] = "2048"
        if hostile:
            self.run["task"] = self.run["path"] = self.run["command"] = HOSTILE
            self.agents[-1]["agent"] = HOSTILE
            self.agents[-1]["colour"] = "url(javascript:alert(1))"
            self.run["actions"] = [HOSTILE] + self.names[1:]
        self.hostile = hostile

    def index(self, agent_id):
        return next((k for k, one in enumerate(self.agents) if one["id"] == agent_id), 0)

    def now_frame(self, agent):
        if self.mode == "playing":
            return self.frames
        if self.stopped and agent == len(self.agents) - 1:
            return min(self.frames, 30_000)
        return int(min(self.frames, (time.monotonic() - self.start) * (1100 + 60 * (agent % 3))))

    def score(self, agent, frame):
        rng = random.Random(agent * 1_000_003 + frame)
        speed = {"spectral": 9.0, "categorical": 6.0, "clipped": 4.5}.get(self.agents[agent]["agent"], 3.0)
        base = -20 + 37 / (1 + math.exp(-(frame / self.frames * speed - 2.4 - 0.2 * (agent % 2)) * 1.6))
        if self.huge:
            return base if frame < self.frames / 6 else 10 ** (3 + 2 * frame / self.frames)
        return base + rng.gauss(0, 1.1)

    def curves(self, agent, first, last):
        frames = list(range(first, last + 1, 1500))
        return {
            "agent": agent, "reset": first == 1500, "frame": frames,
            "score": [None if f == 1500 else round(self.score(agent, f), 2) for f in frames],
            "td": [round(3.0 * math.exp(-f / self.frames * 3) + 0.05 + 0.05 * random.random(), 4) for f in frames],
        }

    def td(self, agent, first, last):
        frame, score, error = [], [], []
        for f in range(first, last + 1, 1500):
            reach = int(min(21, 2 + 22 * f / self.frames))
            for s in range(reach):
                frame.append(f)
                score.append(s)
                error.append(round(0.03 + 1.8 * math.exp(-(f / self.frames * 26 - s) * 0.28) * random.uniform(0.7, 1.4), 4))
        return {"agent": agent, "reset": first == 1500, "frame": frame, "score": score, "error": error}

    def frequencies(self, agent):
        frame = self.now_frame(agent)
        reach = 4 + 18 * frame / self.frames
        activity = [max(0.0, 0.06 * 0.75**k / (1 + math.exp((k - reach) * 1.6))) for k in range(21)]
        activity = [a if a > 2e-6 else 0 for a in activity]
        sigma = [max(0.0316, 1.3 * math.sqrt(a / 0.06)) if a else 0.0316 for a in activity]
        share = [(0.4 + math.sin(k * 1.7) ** 2) if a else 0 for k, a in enumerate(activity)]
        return {
            "agent": agent, "frame": frame, "activity": activity, "sigma": sigma,
            "target_mean": [a * 3 for a in activity], "loss_share": [s / sum(share) for s in share],
        }

    def progress(self):
        running = self.mode == "training" and not self.ended
        frames = [self.frames if self.ended else self.now_frame(k) for k in range(len(self.agents))]
        agents = [{"frames": f, "score": self.score(k, f), "epsilon": 0.1 + 0.05 * k, "stopped": None, "saturated": 0} for k, f in enumerate(frames)]
        text = {"well": "All agents are running.", "look": "Rewards go beyond the capacity of spectral.", "bad": "One agent has stopped."}
        if self.stopped:
            agents[-1]["stopped"] = HOSTILE if self.hostile else "the loss is not finite; lower the learning rate"
            agents[0]["saturated"] = 1234
        return {
            "status": "running" if running else "finished", "seconds": time.monotonic() - self.start,
            "rate": 51_234.0 if running else None, "left_seconds": 92.0 if running else None,
            "checkpoint_age": (time.monotonic() - self.start) % 60, "checkpoint_seconds": 60.0,
            "health": {"level": self.level, "text": text[self.level]}, "agents": agents,
        }

    # The game: a ball between two paddles.

    def picture(self, agent, sequence, t):
        atari = len(self.names) > 5
        width, height = (160, 210) if atari and not self.small else (84, 84)
        palette = bytes([20, 24, 40, 232, 232, 232, 230, 140, 60, 80, 200, 120, 60, 66, 90])
        rows = [bytearray(width) for _ in range(height)]
        bx = int((0.5 + 0.46 * math.sin(t * 1.9)) * (width - 4))
        by = int((0.5 + 0.45 * math.sin(t * 2.63)) * (height - 6))
        left, right = int(by * 0.8 + 8), by - 4
        unit = max(3, width // 40)
        for y in range(0, height, 8):
            rows[y][width // 2] = 4
        for y in range(max(0, left), min(height, left + height // 6)):
            rows[y][2:2 + unit] = bytes([2]) * unit
        for y in range(max(0, right), min(height, right + height // 6)):
            rows[y][width - 2 - unit:width - 2] = bytes([3]) * unit
        for y in range(by, min(height, by + unit)):
            rows[y][bx:bx + unit] = bytes([1]) * unit
        pixels = b"".join(rows)
        one = self.agents[agent]
        kind = one["outputs"]["kind"]
        count = len(self.names)
        pull = [0.08 * math.sin(t * 2.63 + a * 2.1) for a in range(count)]
        outputs, values = [], []
        rise = 0.5 + 0.5 * math.sin(t * 0.25)
        for a in range(count):
            if kind == "frequencies":
                top = 6 + 12 * rise
                row = []
                for i in range(21):
                    swing = math.sin(i * 0.55 - t * 0.8) * 0.25
                    level = (0.85 + swing + pull[a] * (1 + i / 6)) / (1 + math.exp((i - top) * 1.1))
                    row.append(round(level - (0.35 if 9 < i < 13 and math.sin(t * 0.4) > 0.2 else 0) * (1 - i / 22), 4))
                outputs.append(row)
                values.append(sum(v * 2.0**i for i, v in enumerate(row)))
            elif kind == "distribution":
                mean, spread = 4 * math.sin(t * 0.5) + pull[a] * 12, 1.2 + rise
                row = [math.exp(-0.5 * ((v - mean) / spread) ** 2) + 0.25 * math.exp(-0.5 * ((v + 7) / 0.9) ** 2) for v in SUPPORT]
                total = sum(row)
                row = [round(v / total, 5) for v in row]
                outputs.append(row)
                values.append(sum(p * v for p, v in zip(row, SUPPORT)))
            else:
                outputs.append([])
                values.append(1.4 + rise + pull[a] * 4)
        human = self.controls["human"]
        legal = [a for a in range(count) if a != 2] if self.legal else None
        best = max(legal or range(count), key=lambda a: values[a])
        chance = random.random() < 0.04 or (self.mode == "playing" and random.random() < self.controls["epsilon"])
        action, by_whom = (random.choice(legal or range(count)), "chance") if chance else (best, "agent")
        if human:
            action, by_whom = (self.action if self.action is not None else (self.run["rest_action"] or 0)), "human"
        frame = self.now_frame(agent) + (sequence if self.mode == "playing" else 0)
        jump = self.mode == "training" and sequence % 60 == 0
        weights = frame
        if self.mode == "playing":
            weights = self.frames if self.checkpoint else None
        elif self.older:
            # The weights that act have come further: they choose another action than the values say.
            weights = frame // 1000 * 1000 - 1000
            if by_whom == "agent":
                action = (best + 1) % count
        if human and self.run["rest_action"] is None:
            action = self.action
        if not self.checkpoint or (self.gaps and sequence % 4):
            values = outputs = None
            # Marks of such a picture must not be mixed with numbers of another.
            if self.gaps:
                action = (best + 1) % count
        head = {
            "sequence": sequence, "agent": agent, "width": width, "height": height, "colours": 5,
            "frame": frame, "jump": jump, "weights_frame": weights, "episode": 12 + int(t / 20), "score": float(int(t) % 20 - 4),
            "reward": 2.0 ** (int(t) % 20) if int(t * 15) % 15 == 0 else 0.0, "over": False,
            "action": action, "chosen_by": by_whom, "legal": legal,
            "values": values, "outputs": outputs, "controls": self.controls if self.mode == "playing" else None,
        }
        body = json.dumps(head).encode()
        message = struct.pack("<I", len(body)) + body + palette + pixels
        return struct.pack("<I", len(message)) + message

    def control(self, change):
        for key, value in change.items():
            if key in ("agent", "paused", "speed", "epsilon", "human"):
                self.controls[key] = value
            elif key == "action":
                self.action = value
            elif key == "step":
                self.steps += 1
            elif key == "restart":
                self.restarts += 1
        if not self.controls["human"]:
            self.action = None
        return self.controls


GIF = bytes.fromhex("47494638396101000100800000ffffff00000021f90400000000002c00000000010001000002024401003b")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mock: Mock

    def log_message(self, *_):
        pass

    def reply(self, code, body, kind="text/plain; charset=utf-8"):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CSP)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def stream(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def parts(self):
        path, _, query = self.path.partition("?")
        agent = query.removeprefix("agent=") if query.startswith("agent=") else ""
        return path, self.mock.index(agent)

    def allowed(self):
        if self.mock.down:
            self.close_connection = True
            self.connection.close()
            return False
        if self.headers.get("Authorization") != "Bearer " + self.mock.token:
            self.reply(401, b"Open the link that the command printed.\n")
            return False
        return True

    def do_GET(self):
        path, agent = self.parts()
        self.mock.requests.append(self.path)
        name = {"/": "index.html", "/style.css": "style.css"}.get(path) or (path[1:] if path.startswith("/app/") else None)
        if name is not None:
            file = ASSETS / name
            if ".." in name or not file.is_file():
                return self.reply(404, b"No such file.\n")
            return self.reply(200, file.read_bytes(), TYPES[file.suffix])
        try:
            if not self.allowed():
                return None
            if path == "/run":
                return self.reply(200, json.dumps(self.mock.run).encode(), "application/json")
            if path == "/events":
                return self.events(agent)
            if path == "/pictures":
                return self.pictures(agent)
            if path == "/film":
                return self.reply(200, GIF, "image/gif")
            return self.reply(404, b"No such page.\n")
        except (BrokenPipeError, ConnectionResetError, ValueError):
            self.mock.closing.append(path)
            self.close_connection = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if not self.allowed():
                return None
            if self.headers.get("Origin") != "http://" + self.headers.get("Host", ""):
                return self.reply(403, b"Another origin.\n")
            if self.mock.mode != "playing":
                return self.reply(409, b"Nothing can be steered in training.\n")
            with self.mock.lock:
                change = json.loads(body)
                self.mock.posts.append(change)
                answer = self.mock.control(change)
            return self.reply(200, json.dumps(answer).encode(), "application/json")
        except (BrokenPipeError, ConnectionResetError):
            return None

    def event(self, name, data):
        self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def events(self, agent):
        mock, generation = self.mock, self.mock.generation
        self.stream("text/event-stream")
        upto = {}
        while not mock.down and generation == mock.generation:
            if mock.ended:
                self.event("progress", mock.progress())
                return self.event("ended", {"text": "The run has ended: spectral watch runs/pong shows it."})
            self.event("progress", mock.progress())
            for k in range(len(mock.agents)):
                last = mock.now_frame(k) // 1500 * 1500
                first = upto.get(k, 0) + 1500
                if last >= first:
                    self.event("curves", mock.curves(k, first, last))
                    if k == agent and mock.run["max_player_score"]:
                        self.event("td", mock.td(k, first, last))
                    upto[k] = last
            if mock.agents[agent]["outputs"]["kind"] == "frequencies":
                self.event("frequencies", mock.frequencies(agent))
            self.wfile.write(b": here\n\n")
            for _ in range(5):
                if mock.down or generation != mock.generation or mock.ended:
                    break
                time.sleep(0.1)
        return None

    def pictures(self, agent):
        mock, generation = self.mock, self.mock.generation
        self.stream("application/octet-stream")
        if mock.stopped and mock.mode == "training" and agent == len(mock.agents) - 1:
            # Nothing plays any more: the server only says that it is there.
            while not mock.down and generation == mock.generation and not mock.ended:
                self.wfile.write(bytes(4))
                time.sleep(0.5)
            return
        sequence, t = 0, 0.0
        while not mock.down and generation == mock.generation and not mock.ended:
            if mock.mode == "playing":
                agent = mock.index(mock.controls["agent"])
            sequence += 1
            if not mock.controls["paused"]:
                t = time.monotonic() - mock.start
            self.wfile.write(mock.picture(agent, sequence, t))
            self.wfile.flush()
            time.sleep(1 / 30)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


def serve(mock, port=0):
    """Starts a server in a thread; returns it and the link of its page."""
    handler = type("MockHandler", (Handler,), {"mock": mock})
    server = Server(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/#{mock.token}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["training", "playing"], default="training")
    parser.add_argument("--actions", type=int, choices=[3, 4, 18], default=3)
    parser.add_argument("--agents", default="spectral,categorical,clipped")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--stopped", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    options = parser.parse_args()
    mock = Mock(mode=options.mode, actions=options.actions, agents=tuple(options.agents.split(",")), seeds=options.seeds,
                stopped=options.stopped, hostile=options.hostile, level="bad" if options.stopped else "well",
                waits=options.actions == 4, legal=options.actions == 4)
    print(serve(mock, options.port)[1], flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
