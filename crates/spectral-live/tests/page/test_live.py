"""Drives the live page in a headless Chromium against the real command, which trains and plays in temporary folders.

    python3 test_live.py BINARY [--shots FOLDER] [--roms FOLDER] [NAME ...]

BINARY is the `spectral` command. Every function `test_*` gets a browser. `--roms` names a folder of Atari ROMs; without
it, games are not tested, and that is said on standard error. The exit code is 1 if a test fails; without Chromium it
is 77. Only Python's standard library is needed.
"""

import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlparse

from runner import Skipped, run
from test_page import DATA, drawn, print_of, text

BINARY = ROMS = SHOTS = FOLDER = None
# Everything here shares its cores with others: what comes late is no fault, what never comes is.
LONG = 60
LINK = re.compile(r"http://127\.0\.0\.1:\d+/#[0-9a-f]{32}")
# A small network that learns from the first seconds on, with rows and checkpoints as often.
SMALL = {"hidden": "32", "batch": "16", "replay": "5000", "learning_starts": "400", "epsilon_frames": "2000",
         "log_frames": "500", "checkpoint_seconds": "2"}
NEVER = "100000000"


def settings(**changes):
    """Flags of the small settings with changes; None leaves one out."""
    return [part for key, value in {**SMALL, **changes}.items() if value is not None for part in ("--set", f"{key}={value}")]


def wait(check, seconds=LONG, what="a condition"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class Spectral:
    """A command at work, and what it has said."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.process = subprocess.Popen([BINARY, *arguments], cwd=FOLDER, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
        self.said = ""
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self):
        for line in self.process.stderr:
            self.said += line

    @property
    def link(self):
        """The page's address, once it was printed."""
        wait(lambda: LINK.search(self.said) or self.process.poll() is not None, what="an address")
        found = LINK.search(self.said)
        assert found, f"{self.arguments} printed no address: {self.said}"
        return found[0]

    def end(self, number=signal.SIGINT, seconds=LONG):
        """Asks it to end and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.ended(seconds)

    def ended(self, seconds=LONG):
        code = self.process.wait(seconds)
        self.reader.join(5)
        assert "panicked" not in self.said, self.said
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def environment():
    return {**os.environ, "SPECTRAL_ROMS": os.path.join(FOLDER, "roms")}


def command(*arguments):
    """Runs a command to its end."""
    done = subprocess.run([BINARY, *arguments], cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=environment(), timeout=5 * LONG)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"


FINISHED = {}


def finished(task, frames="3000", agents="spectral,categorical,clipped"):
    """A run of this task that has ended; it is trained when it is first asked for."""
    if task not in FINISHED:
        # Every test has a folder of its own; this one's serves the later ones, too.
        run = os.path.join(FOLDER, f"finished-{task}")
        command("train", "--task", task, "--agents", agents, "--frames", frames, "--out", run, *settings())
        FINISHED[task] = run
    return FINISHED[task]


def watch(task, *arguments):
    return Spectral("watch", finished(task), *arguments)


@contextmanager
def page(browser, link, width=1280, height=800, dark=False, ready=True, quiet=True, by=None):
    """Opens an address, by a file that leads to it if one is named, and checks afterwards that the page complained of nothing and asked nobody else."""
    browser.size(width, height)
    browser.media(dark)
    browser.console.clear()
    browser.urls.clear()
    try:
        browser.go(by or link)
        if ready:
            browser.until(f"Number({DATA}.frames ?? 0) > 2 && Number({DATA}.events ?? 0) > 3", LONG, "pictures and numbers")
            assert browser.eval("location.href") == link.split("#")[0], "the key stays in the address bar"
        yield
        assert browser.eval(f"{DATA}.error ?? null") is None, browser.eval(f"{DATA}.error")
        if quiet:
            assert not browser.console, browser.console
        host, token = urlparse(link).netloc, urlparse(link).fragment
        assert any(urlparse(url).netloc == host for url in browser.urls), "no request was seen"
        for url in browser.urls:
            parts = urlparse(url)
            assert url == by or parts.scheme in ("data", "blob", "about") or parts.netloc == host, f"a request elsewhere: {url}"
            # The browser's own note of the address that was typed has the fragment, which is not sent.
            assert not token or token not in parts.path + parts.query, f"the key is sent in an address: {url}"
    finally:
        browser.send("Page.navigate", {"url": "about:blank"})


def shot(browser, name):
    if SHOTS:
        # Canvases are drawn at most twice a second.
        time.sleep(0.7)
        browser.screenshot(os.path.join(SHOTS, name + ".png"), full=True)


def says(browser, code):
    """Whether an expression is true; between two documents nothing is."""
    try:
        return bool(browser.eval(code))
    except RuntimeError:
        return False


def number(browser, code):
    return float(browser.eval(f"Number({code})"))


def count(browser, selector):
    return browser.eval(f"document.querySelectorAll('{selector}').length")


def state(browser):
    return browser.eval("document.querySelector('#connection').dataset.state")


def moves(browser, *selectors, seconds=LONG):
    """Waits until each canvas shows something else than now."""
    left = {selector: print_of(browser, selector) for selector in selectors}
    end = time.monotonic() + seconds
    while left:
        left = {selector: old for selector, old in left.items() if print_of(browser, selector) == old}
        assert not left or time.monotonic() < end, f"stands still: {list(left)}"
        time.sleep(0.1)


def shows(browser, *selectors):
    """Waits until each canvas has more than a background."""
    for selector in selectors:
        wait(lambda: drawn(browser, selector) > 3, what=f"something in {selector}")


def rows(browser):
    """Rows of the curves that have a score, over all agents."""
    return browser.eval("spectralPage.series.rows.reduce((sum, one) => sum + one.score.filter((s) => s !== null).length, 0)")


def choose(browser, place):
    browser.eval(f"""(() => {{ const e = document.querySelector('#agent'); e.value = '{place}';
        e.dispatchEvent(new Event('change')); }})()""")


def slide(browser, name, place):
    browser.eval(f"""(() => {{ const e = document.querySelector('#{name}'); e.value = '{place}';
        e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); }})()""")


def film(browser, expected):
    """Presses the film's button and returns the file."""
    for name in os.listdir(browser.downloads):
        os.remove(os.path.join(browser.downloads, name))
    mark = len(browser.urls)
    browser.click("#film")
    path = os.path.join(browser.downloads, expected)
    wait(lambda: os.path.exists(path), what=f"{expected}; there is {os.listdir(browser.downloads)}, {text(browser, '#control-message')}")
    asked = [url for url in browser.urls[mark:] if "/film" in url]
    agent = browser.eval(f"{DATA}.agent")
    assert len(asked) == 1 and asked[0].endswith(f"/film?agent={agent}"), f"the film of another agent than {agent}: {asked}"
    with open(path, "rb") as file:
        return file.read()


def gif_size(data):
    assert data.startswith(b"GIF89a") and data.endswith(b";"), data[:6]
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def frame(browser):
    return int(re.sub(r"\D", "", text(browser, "#frame")))


PAUSED = "document.querySelector('#pause').textContent === 'Resume'"
PLAYS = "document.querySelector('#pause').textContent === 'Pause'"


def test_training_moves(b):
    with Spectral("train", "--task", "exponential-pong-mini", "--agents", "spectral,categorical,clipped", "--seeds", "2",
                  "--live", "--frames", "200000", "--out", "training", *settings()) as train:
        with page(b, train.link):
            assert text(b, "#task") == "exponential-pong-mini" and text(b, "#path").endswith("training")
            assert text(b, "#command").startswith("spectral train --task exponential-pong-mini")
            assert b.eval("document.querySelector('#controls').hidden"), "nobody steers agents that learn"
            b.until("document.querySelector('#health').dataset.level === 'well'", LONG)
            b.until("document.querySelector('#health-text').textContent === 'All 6 agents are running.'", LONG)
            assert text(b, "#status") == "running" and text(b, "#connection") == "connected"
            b.until("/^[\\d.]+k? frames\\/s$/.test(document.querySelector('#rate').textContent)", LONG)
            b.until("/\\d (s|min)/.test(document.querySelector('#left').textContent)", LONG)
            b.until("/^\\d+ s ago$/.test(document.querySelector('#checkpoint').textContent)", LONG)
            assert count(b, "#agent option") == 6 and count(b, "#bars .cell") == 3 and count(b, "#legend button") == 3
            b.until("document.querySelectorAll('#bars .cell.chosen').length === 1", LONG)
            b.until("document.querySelectorAll('#bars .cell.best').length === 1", LONG)

            # Everything is there, and moves.
            canvases = ["#picture", "#bars .cell canvas", "#curves-canvas", "#td-canvas", "#activity", "#sigma", "#loss-share"]
            shows(b, *canvases)
            share = number(b, "document.querySelector('#progress').getAttribute('aria-valuenow')")
            score_rows, played, values = rows(b), frame(b), text(b, "#bars .cell .decoded")
            b.until(f"Number({DATA}.heat) > 1 && Number({DATA}.curves) > 1", LONG)
            moves(b, *canvases)
            b.until(f"document.querySelector('#bars .cell .decoded').textContent !== '{values}'", LONG)
            b.until(f"Number(document.querySelector('#progress').getAttribute('aria-valuenow')) > {share}", LONG)
            wait(lambda: rows(b) > score_rows, what="rows of the curves")
            wait(lambda: frame(b) > played, what="frames")
            for table in ("#bars-table", "#curves-table", "#td-table", "#frequencies-table"):
                b.until(f"document.querySelectorAll('{table} tbody tr').length > 0", LONG)
            b.until("document.querySelector('#announcer').textContent.length > 10", LONG)
            shot(b, "live-training")

            # Another agent: its pictures, its values, its film.
            for place, agent, title, inside in ((2, "categorical-s1", "Distribution", False), (5, "clipped-s2", "Values", False),
                                                (1, "spectral-s2", "Spectrum", True)):
                choose(b, place)
                b.until(f"{DATA}.agent === '{agent}' && document.querySelector('#spectrum-title').textContent === '{title}'", LONG)
                b.until(f"document.querySelector('#frequencies').hidden === {'false' if inside else 'true'}", LONG)
                moves(b, "#picture", "#bars .cell canvas")
                shows(b, "#td-canvas")
                assert gif_size(film(b, f"exponential-pong-mini-{agent}.gif")) == (336, 272)


def test_training_that_ends_says_so(b):
    # A machine may train faster than its browser opens a page: then the next run is longer.
    for frames in (30000, 120000, 480000):
        name = f"short-{frames}"
        with Spectral("train", "--task", "catch-scale", "--agents", "spectral", "--live", "--frames", str(frames),
                      "--out", name, *settings()) as train:
            with page(b, train.link, ready=False, quiet=False):
                ready = f"Number({DATA}.frames ?? 0) > 2 && Number({DATA}.curves ?? 0) > 2"
                wait(lambda: says(b, ready) or train.process.poll() is not None, what="pictures and numbers")
                if not says(b, ready):
                    continue
                b.until("document.querySelector('#connection').dataset.state === 'ended'", 3 * LONG)
                assert f"spectral watch {name}" in text(b, "#notice"), text(b, "#notice")
                assert text(b, "#connection") == "ended" and drawn(b, "#picture") > 1 and drawn(b, "#curves-canvas") > 3
                assert train.ended() == 0, train.said
                shot(b, "live-ended")
                # The page asks whether another run follows; nobody answers any more.
                assert not [line for line in b.console if "ERR_CONNECTION_REFUSED" not in line], b.console
                return
    raise AssertionError("no run was long enough")


def test_training_that_is_interrupted_says_so(b):
    with Spectral("train", "--task", "catch-scale", "--live", "--frames", NEVER, "--out", "interrupted", *settings()) as train:
        # The run's folder has a file that leads to the page.
        with page(b, train.link, by=f"file://{FOLDER}/interrupted/live.html"):
            train.process.send_signal(signal.SIGINT)
            b.until("document.querySelector('#connection').dataset.state === 'ended'", LONG)
            assert "spectral resume" in text(b, "#notice")
            train.ended()
        assert not os.path.exists(os.path.join(FOLDER, "interrupted", "live.html")), "the file goes with the page"
    # A run that was interrupted can be watched, and the page says how it goes on.
    with Spectral("watch", "interrupted") as watched, page(b, watched.link):
        b.until("document.querySelector('#status').textContent === 'interrupted'", LONG)
        told = b.eval("document.querySelector('#health').dataset.level") + ": " + text(b, "#health-text")
        assert told.startswith("look: Interrupted and saved: `spectral resume`"), told
        moves(b, "#picture")


def test_atari_training(b):
    if ROMS is None:
        raise Skipped("no folder of ROMs was named, so no game was trained")
    command("roms", "install", "--from", ROMS)
    small = settings(hidden=None, batch="4", replay="1000", learning_starts="400", update_period="64", log_frames="200")
    with Spectral("train", "--task", "atari/pong", "--agents", "spectral", "--device", "cpu", "--live", "--frames", NEVER,
                  "--out", "atari", *small) as train:
        with page(b, train.link):
            assert text(b, "#task") == "atari/pong" and count(b, "#bars .cell") == 6
            size = b.eval("[document.querySelector('#picture').width, document.querySelector('#picture').height]")
            assert size in ([160, 210], [320, 210]), size
            b.until("document.querySelector('#health-text').textContent === 'The agent is running.'", LONG)
            shows(b, "#picture", "#bars .cell canvas", "#activity")
            values = text(b, "#bars .cell .decoded")
            moves(b, "#picture", "#bars .cell canvas")
            b.until(f"document.querySelector('#bars .cell .decoded').textContent !== '{values}'", LONG)
            names = b.eval("[...document.querySelectorAll('#bars .cell b')].map((e) => e.textContent)")
            assert len(set(names)) == 6, names
            assert b.eval("document.documentElement.scrollWidth") <= 1280
            shot(b, "live-atari")


def stands_still(b, seconds):
    """Whether the game takes no step for a while: what was on its way at a higher speed has come."""
    first = frame(b)
    time.sleep(seconds)
    return frame(b) == first


def test_playing_is_steered(b):
    with watch("exponential-pong-mini") as watched, page(b, watched.link):
        assert text(b, "#status") == "finished" and b.eval("document.querySelector('#health').dataset.level") == "well"
        assert number(b, "document.querySelector('#progress').getAttribute('aria-valuenow')") == 100
        b.until(f"{PLAYS} && document.querySelector('#speed-value').textContent === '15/s'", LONG)
        shows(b, "#picture", "#bars .cell canvas", "#curves-canvas", "#td-canvas", "#activity")
        moves(b, "#picture", "#bars .cell canvas")
        shot(b, "live-playing")

        # Pause: the picture stands still. A step: one frame, no more.
        b.click("#pause")
        b.until(PAUSED, LONG)
        for _ in range(3):
            before = frame(b)
            b.click("#step")
            b.until(f"document.querySelector('#frame').textContent === '{before + 1:,}'", LONG)
        stands, shown = frame(b), print_of(b, "#picture")
        events = number(b, f"{DATA}.events")
        b.until(f"Number({DATA}.events) > {events} + 2", LONG)
        assert frame(b) == stands and print_of(b, "#picture") == shown, "a game that is paused goes on"

        b.click("#pause")
        b.until(PLAYS, LONG)

        # Speed: a hundred frames take seven seconds at first, half a second in the end.
        slide(b, "speed", 100)
        b.until("document.querySelector('#speed-value').textContent === '240/s'", LONG)
        start, first = time.monotonic(), frame(b)
        wait(lambda: frame(b) > first + 100, what="a hundred frames")
        fast = time.monotonic() - start
        slide(b, "speed", 0)
        b.until("document.querySelector('#speed-value').textContent === '1/s'", LONG)
        wait(lambda: stands_still(b, 0.4), what="the new speed")
        start, first = time.monotonic(), frame(b)
        wait(lambda: frame(b) >= first + 2, what="two frames")
        slow = time.monotonic() - start
        assert slow / 2 > 4 * fast / 100, f"{slow / 2} s and {fast / 100} s a frame"
        assert slow > 0.9, f"two frames at one a second after {slow} s"

        # Restart, in the middle of a game and while it is paused: the score is gone, and the frames stay.
        slide(b, "speed", 100)
        b.until("/^[−\\d]+$/.test(document.querySelector('#score').textContent) && document.querySelector('#score').textContent !== '0'", LONG)
        b.click("#pause")
        b.until(PAUSED, LONG)
        first, shown = frame(b), print_of(b, "#picture")
        b.click("#restart")
        b.until("document.querySelector('#score').textContent === '0'", LONG)
        assert frame(b) == first and print_of(b, "#picture") != shown, "a new episode is not played while paused"
        b.click("#pause")
        b.until(PLAYS, LONG)

        # Chance: with ε at 1 nothing is the agent's choice, with 0 all is.
        slide(b, "speed", 60)
        slide(b, "epsilon", 100)
        b.until("document.querySelector('#epsilon-value').textContent === '1'", LONG)
        b.until("document.querySelector('#bars .cell.chosen')?.dataset.by === 'chance'", LONG)
        slide(b, "epsilon", 0)
        b.until("document.querySelector('#epsilon-value').textContent === '0'", LONG)
        b.until("document.querySelector('#bars .cell.chosen')?.dataset.by === 'agent'", LONG)
        b.until("document.querySelector('#bars .cell.chosen.best') !== null", LONG, "the best action is played")

        # Another agent plays, and the film is of what was played.
        choose(b, 1)
        b.until(f"{DATA}.agent === 'categorical-s1' && document.querySelector('#spectrum-title').textContent === 'Distribution'", LONG)
        moves(b, "#picture", "#bars .cell canvas")
        assert gif_size(film(b, "exponential-pong-mini-categorical-s1.gif")) == (336, 272)
        assert watched.end() == 0, watched.said
        b.until("document.querySelector('#connection').dataset.state === 'ended'", LONG)
        assert "spectral watch" in text(b, "#notice")


def test_playing_2048(b):
    with watch("2048", "--speed", "30") as watched, page(b, watched.link):
        names = b.eval("[...document.querySelectorAll('#bars .cell b')].map((e) => e.textContent)")
        assert sorted(names) == ["down", "left", "right", "up"], names
        shows(b, "#picture", "#curves-canvas")
        moves(b, "#picture")
        b.until("document.querySelector('#bars .cell.illegal') !== null", LONG, "a move that changes nothing")
        odd = b.eval("document.querySelectorAll('#bars .cell.illegal.chosen, #bars .cell.illegal.best').length")
        assert odd == 0, "a move that changes nothing is played, or best"
        # A person plays: the game waits, an illegal move does nothing, a legal one is one frame.
        b.click("#human")
        b.until("!document.querySelector('#pad-box').hidden", LONG)
        assert "The game waits for you." in text(b, "#keys-help")
        codes = {"up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight"}
        legal = "[...document.querySelectorAll('#bars .cell:not(.illegal) b')].map((e) => e.textContent)"
        seen = number(b, f"{DATA}.frames")
        b.until(f"Number({DATA}.frames) > {seen} || document.querySelector('#stage.mine') !== null", LONG)
        tried = set()
        for _ in range(60):
            able = b.eval(legal)
            if not able:
                break
            before = frame(b)
            for name in set(codes) - set(able):
                b.key(codes[name])
                tried.add(name)
            b.key(codes[able[0]])
            b.until(f"document.querySelector('#frame').textContent === '{before + 1:,}'", LONG)
            if tried:
                break
        assert tried, "no position with an illegal move was met"
        shot(b, "live-2048")


# The middle of the paddle on the right, in rows of the picture; -1 without one.
PADDLE = """(() => { const c = document.querySelector('#picture'); const copy = document.createElement('canvas');
    copy.width = c.width; copy.height = c.height; const context = copy.getContext('2d', {willReadFrequently: true});
    context.drawImage(c, 0, 0); const d = context.getImageData(c.width - 3, 0, 1, c.height).data; let [sum, rows] = [0, 0];
    for (let y = 16; y < c.height; y++) {
        const [r, g, b] = [d[4 * y], d[4 * y + 1], d[4 * y + 2]];
        if (g > 180 && g > r + 60 && g > b + 60) { sum += y; rows++; }
    } return rows > 0 ? sum / rows : -1; })()"""


def test_take_over(b):
    with watch("pong-mini", "--speed", "20") as watched, page(b, watched.link):
        b.click("#human")
        b.until("!document.querySelector('#pad-box').hidden && !document.querySelector('#human-flag').hidden", LONG)
        assert text(b, "#human") == "Give back" and "Esc gives the game back" in text(b, "#keys-help")
        b.until("document.querySelector('#bars .cell.chosen[data-by=human] b')?.textContent === 'stay'", LONG)

        # Held keys move the paddle as far as it goes; a held key keeps it there.
        for round_ in range(2):
            for code, name, reached in (("ArrowUp", "up", f"{PADDLE} >= 0 && {PADDLE} < 40"), ("ArrowDown", "down", f"{PADDLE} > 112")):
                before = b.eval(PADDLE)
                b.key(code, up=False)
                b.until(f"document.querySelector('#bars .cell.chosen[data-by=human] b')?.textContent === '{name}'", LONG)
                b.until(reached, LONG, f"the paddle moves {name} from {before}, and is at {b.eval(PADDLE)}")
                moves(b, "#bars .cell canvas")
                assert drawn(b, "#bars .cell canvas") > 3, "what the agent expects is shown meanwhile"
                if round_ == 0:
                    assert b.eval(f"document.querySelector('#pad button.held')?.textContent.includes('{name}')")
                b.key(code, down=False)
                b.until("document.querySelector('#bars .cell.chosen[data-by=human] b')?.textContent === 'stay'", LONG)
        # Nothing held: the paddle rests where it is. (A new rally would begin in the middle.)
        for _ in range(20):
            rests, first, points = b.eval(PADDLE), frame(b), text(b, "#score")
            wait(lambda: frame(b) > first + 5, what="frames")
            moved = b.eval(PADDLE) != rests
            if not moved or text(b, "#score") == points:
                break
        assert not moved, "the paddle moves by itself"
        # Letters do as arrows do, and so do the buttons.
        b.key("KeyW", up=False)
        b.until(f"{PADDLE} >= 0 && {PADDLE} < 40", LONG)
        b.key("KeyW", down=False)
        x, y = b.place("#pad button[data-action='2']")
        b.mouse("mousePressed", x, y, "left")
        b.until(f"{PADDLE} > 112", LONG)
        shot(b, "live-take-over")
        b.mouse("mouseReleased", x, y, "left")
        b.key("Escape")
        b.until("document.querySelector('#pad-box').hidden && document.querySelector('#human').textContent === 'Take over'", LONG)
        b.until("['agent', 'chance'].includes(document.querySelector('#bars .cell.chosen')?.dataset.by)", LONG, "the agent plays again")
        first = frame(b)
        b.key("ArrowUp")
        wait(lambda: frame(b) > first + 5, what="frames")
        assert b.eval("document.querySelector('#bars .cell.chosen')?.dataset.by") != "human", "keys play after the game was given back"


def test_process_killed_and_resumed(b):
    run = ["--task", "exponential-pong-mini", "--agents", "spectral", "--frames", NEVER, "--out", "killed"]
    with Spectral("train", *run, "--live", *settings()) as train:
        link = train.link
        # The browser itself notes requests that fail.
        with page(b, link, quiet=False):
            b.until("/ ago$/.test(document.querySelector('#checkpoint').textContent)", LONG, "a checkpoint")
            shows(b, "#picture", "#curves-canvas")
            train.process.kill()
            train.process.wait()
            b.until("document.querySelector('#connection').dataset.state === 'lost'", LONG)
            assert "connection is lost" in text(b, "#notice") and text(b, "#health-word") == "Not known"
            # What was there stays readable, and can still be looked at.
            assert not b.eval("document.querySelector('#picture').hidden") and drawn(b, "#picture") > 3
            assert drawn(b, "#curves-canvas") > 3 and "–" not in text(b, "#frame")
            b.eval("document.querySelector('#curves-figure').focus()")
            b.key("ArrowLeft")
            b.until("document.querySelector('#curves-readout').textContent.includes('frames: spectral')", LONG)
            b.click("#film")
            b.until("document.querySelector('#control-message').textContent === 'No film came.'", LONG)
            shot(b, "live-lost")
            assert all("net::ERR" in line for line in b.console), b.console
    # Nobody works on the run now, and `watch` says so.
    with Spectral("watch", "killed") as watched, page(b, watched.link):
        b.until("document.querySelector('#status').textContent === 'no process'", LONG)
        told = b.eval("document.querySelector('#health').dataset.level") + ": " + text(b, "#health-text")
        assert told.startswith("bad: ") and "spectral resume" in told, told
        moves(b, "#picture")
    with Spectral("resume", "killed", "--live") as train:
        assert train.link.split("#")[1] != link.split("#")[1], "an old key opens a new page"
        with page(b, train.link):
            b.until("document.querySelector('#health-text').textContent === 'The agent is running.'", LONG)
            # The curves begin before the death and go on after it.
            shows(b, "#picture", "#bars .cell canvas", "#curves-canvas", "#td-canvas")
            first = rows(b)
            assert first > 0, "the rows from before are gone"
            wait(lambda: rows(b) > first, what="new rows")
            moves(b, "#picture", "#bars .cell canvas")


def test_process_of_another_is_watched(b):
    with Spectral("train", "--task", "exponential-pong-mini", "--agents", "spectral,clipped", "--frames", NEVER,
                  "--out", "another", *settings()) as train:
        # A model is there after the first checkpoint.
        wait(lambda: glob.glob(os.path.join(FOLDER, "another", "checkpoints", "*.checkpoint")), what="a checkpoint")
        with Spectral("watch", "another") as watched, page(b, watched.link):
            b.until("document.querySelector('#status').textContent === 'running'", LONG)
            assert "A frozen model plays" in text(b, "#mode") and not b.eval("document.querySelector('#controls').hidden")
            shows(b, "#picture", "#bars .cell canvas", "#curves-canvas")
            first = rows(b)
            wait(lambda: rows(b) > first, what="rows that the other process writes")
            b.until("/frames\\/s$/.test(document.querySelector('#rate').textContent)", LONG)
            moves(b, "#picture", "#bars .cell canvas")
            b.click("#pause")
            b.until(PAUSED, LONG)
            # The trainer goes: the page of the run says so.
            train.process.kill()
            train.process.wait()
            b.until("document.querySelector('#status').textContent === 'no process'", LONG)


def test_key_is_needed(b):
    with watch("pong-mini") as watched:
        link = watched.link
        bare = link.split("#")[0]
        # A tab that never had the right key.
        for address in (bare, bare + "#" + "f" * 32, bare + "#nonsense", bare + "?agent=x"):
            b.send("Page.navigate", {"url": bare})
            b.until("document.readyState === 'complete' && location.protocol === 'http:'", LONG)
            b.eval("sessionStorage.clear()")
            with page(b, address, ready=False, quiet=False):
                b.until("document.querySelector('#connection')?.dataset.state === 'refused'", LONG)
                assert "Open the link that the command printed" in text(b, "#notice"), address
                assert text(b, "#no-picture") == "No picture without the key." and b.eval("document.querySelector('#picture').hidden")
                assert count(b, "#bars .cell") == 0 and count(b, "#agent option") == 0
                assert text(b, "#task") == "Spectral" and text(b, "#path") == "" and text(b, "#command") == ""
                assert "pong" not in b.eval("document.documentElement.outerHTML"), "the page tells what is run"
                # The browser notes the answer 401; nothing else may complain.
                assert all("401" in line for line in b.console), b.console
                shot(b, "live-refused")
        # The same tab with the right link.
        with page(b, link):
            assert state(b) == "open"
            # The key is kept for this tab: the page can be loaded again without it.
            b.send("Page.reload")
            b.until(f"performance.now() < 20000 && Number({DATA}.frames ?? 0) > 2", LONG)
            assert state(b) == "open" and "#" not in b.eval("location.href")


# Every place that can be reached by Tab, in order.
CONTROLS = """[...document.querySelectorAll('a[href], button, select, input, [tabindex="0"]')].filter((e) =>
    !e.disabled && e.getClientRects().length > 0 && !e.closest('[hidden]'))"""


def test_reading_with_assistive_technology(b):
    with watch("exponential-pong-mini") as watched, page(b, watched.link):
        b.send("Accessibility.enable")
        b.click("#human")
        b.until("!document.querySelector('#pad-box').hidden", LONG)
        roles = ("button", "combobox", "slider", "link", "checkbox", "progressbar", "image", "group", "heading", "figure")
        found = {}
        for node in b.send("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value", "")
            if node.get("ignored") or role not in roles:
                continue
            name = node.get("name", {}).get("value", "").strip()
            found.setdefault(role, []).append(name)
            # Figures of the trio are named by their captions' text, which is enough.
            assert name or role in ("figure", "group"), f"a {role} without a name: {node}"
        controls = {"Pause", "Step", "Restart", "Give back", "Save film of the last minute", "outputs", "weighted",
                    "spectral", "categorical", "clipped"}
        assert controls <= set(found["button"]), controls - set(found["button"])
        assert sum("stay" in name or "up" in name or "down" in name for name in found["button"]) >= 3, found["button"]
        assert len(found["slider"]) == 2 and len(found["combobox"]) == 1 and len(found["progressbar"]) == 1, found
        groups = " ".join(found["group"])
        for part in ("Game picture", "Values of the actions", "Score by frames", "TD error", "Activity"):
            assert part in groups, groups
        b.click("#human")
        b.until("document.querySelector('#pad-box').hidden", LONG)

        # Tab reaches every control, and it shows.
        b.send("Page.bringToFront")
        b.eval("document.activeElement?.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
        b.send("Page.reload")
        b.until(f"Number({DATA}.frames ?? 0) > 2 && Number({DATA}.events ?? 0) > 3", LONG)
        expected = b.eval(f"{CONTROLS}.map((e) => e.id || e.textContent.trim())")
        seen, hidden = [], []
        for _ in range(len(expected) + 3):
            b.key("Tab")
            name, visible = b.eval("""(() => { const e = document.activeElement; if (e === document.body) return ['', true];
                const style = getComputedStyle(e); const box = e.getBoundingClientRect();
                return [e.id || e.textContent.trim(), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1
                    && box.left >= 0 && box.right > 0]; })()""")
            if name and name not in seen:
                seen.append(name)
                if not visible:
                    hidden.append(name)
        assert seen == expected, f"Tab reaches {seen}, and there are {expected}"
        assert not hidden, f"no focus is seen on {hidden}"
        # Charts are read with the keyboard alone.
        for figure, readout, word in (("#curves-figure", "#curves-readout", "frames:"), ("#td-figure", "#td-readout", "frame"),
                                      ("#trio", "#frequencies-readout", "frequency")):
            b.eval(f"document.querySelector('{figure}').focus()")
            b.key("ArrowLeft")
            b.key("ArrowRight")
            b.until(f"document.querySelector('{readout}').textContent.toLowerCase().includes('{word}')", LONG, f"{readout} says something")
        b.send("Accessibility.disable")


OUTSIDE = """[...document.querySelectorAll('body *')].filter((e) => e.getClientRects().length > 0 && !e.closest('.hidden, .skip')
    && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.id || e.tagName + '.' + e.className)"""


def test_reading_on_every_screen(b):
    with watch("exponential-pong-mini") as watched, page(b, watched.link):
        shows(b, "#picture", "#bars .cell canvas", "#curves-canvas", "#td-canvas", "#activity")
        colours = {}
        for width in (400, 1280):
            for dark in (False, True):
                b.size(width, 800)
                b.media(dark)
                for place, agent in ((1, "categorical-s1"), (2, "clipped-s1"), (0, "spectral-s1")):
                    choose(b, place)
                    b.until(f"{DATA}.agent === '{agent}'", LONG)
                    moves(b, "#picture", "#bars .cell canvas")
                    wide = b.eval("document.documentElement.scrollWidth")
                    assert wide <= width, f"{agent} at {width}: the page is {wide} wide"
                    assert b.eval(OUTSIDE) == [], f"{agent} at {width}: outside the window are {b.eval(OUTSIDE)}"
                shows(b, "#curves-canvas", "#td-canvas", "#activity", "#sigma", "#loss-share")
                colours[width, dark] = b.eval("getComputedStyle(document.body).backgroundColor")
                shot(b, f"live-{width}-{'dark' if dark else 'light'}")
        assert colours[400, False] == colours[1280, False] == "rgb(255, 255, 255)", colours
        assert colours[400, True] == colours[1280, True] == "rgb(20, 22, 26)", colours


def main():
    global BINARY, ROMS, SHOTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the `spectral` command")
    parser.add_argument("--shots", help="a folder for screenshots")
    parser.add_argument("--roms", help="a folder of Atari ROMs")
    parser.add_argument("names", nargs="*", help="parts of the names of tests to run")
    options = parser.parse_intermixed_args()
    BINARY = os.path.abspath(options.binary)
    ROMS, SHOTS = options.roms and os.path.abspath(options.roms), options.shots
    if SHOTS:
        os.makedirs(SHOTS, exist_ok=True)
    if not (os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")):
        print("Chromium is not installed: nothing was tested.")
        return 77
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")
             and (not options.names or any(part in name for part in options.names))]
    with tempfile.TemporaryDirectory(prefix="spectral-live-") as folder:

        def fresh():
            global FOLDER
            FOLDER = tempfile.mkdtemp(dir=folder)

        return 0 if run(tests, fresh) else 1


if __name__ == "__main__":
    sys.exit(main())
