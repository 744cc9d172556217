"""Drives the live page in a headless Chromium against the mock server.

    python3 test_page.py [--shots FOLDER] [NAME ...]

Every function `test_*` gets a browser. The exit code is 1 if one fails, three times; without Chromium it is 77.
"""

import argparse
import os
import shutil
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlparse

from mock_server import HOSTILE, Mock, serve
from runner import run

DATA = "document.documentElement.dataset"
SHOTS = None


@contextmanager
def page(browser, mock, width=1280, height=800, dark=False, calm=False, ready=True):
    server, link = serve(mock)
    browser.size(width, height)
    browser.media(dark, calm)
    browser.console.clear()
    browser.urls.clear()
    try:
        browser.go(link)
        if ready:
            browser.until(f"Number({DATA}.frames ?? 0) > 2 && Number({DATA}.events ?? 0) > 3", what="pictures and numbers")
        yield link
        assert browser.eval(f"{DATA}.error ?? null") is None, browser.eval(f"{DATA}.error")
        host = urlparse(link).netloc
        for url in browser.urls:
            parts = urlparse(url)
            assert parts.scheme in ("data", "blob", "about") or parts.netloc == host, f"a request off the machine: {url}"
            assert mock.token not in url, f"the token is in an address: {url}"
    finally:
        mock.down = True
        mock.generation += 1
        server.shutdown()
        server.server_close()
        browser.send("Page.navigate", {"url": "about:blank"})


def no_complaints(browser):
    assert not browser.console, browser.console


def text(browser, selector):
    return browser.eval(f"document.querySelector('{selector}').textContent")


# A copy is read: reading the page's own canvases would make the browser warn, and slow them down.
PIXELS = """const pixels = (c) => { const copy = document.createElement('canvas'); copy.width = c.width; copy.height = c.height;
    const context = copy.getContext('2d', {willReadFrequently: true}); context.drawImage(c, 0, 0);
    return context.getImageData(0, 0, c.width, c.height).data; };"""


def drawn(browser, selector):
    """How many different colours a canvas shows."""
    return browser.eval(f"""(() => {{ {PIXELS} const c = document.querySelector('{selector}'); if (!c.width) return 0;
        const d = pixels(c); const seen = new Set();
        for (let k = 0; k < d.length; k += 4) seen.add(d[k] + ',' + d[k+1] + ',' + d[k+2] + ',' + d[k+3]); return seen.size; }})()""")


def print_of(browser, selector):
    """A number that changes when a canvas does."""
    return browser.eval(f"""(() => {{ {PIXELS} const d = pixels(document.querySelector('{selector}')); let h = 7;
        for (let k = 0; k < d.length; k++) h = (h * 31 + d[k]) | 0; return h; }})()""")


def shot(browser, name):
    if SHOTS:
        time.sleep(0.7)
        browser.screenshot(os.path.join(SHOTS, name + ".png"), full=True)


def wait(check, seconds=6, what="a condition"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return
        time.sleep(0.03)
    raise AssertionError(f"not within {seconds} s: {what}")


def test_training_shows_every_part(b):
    mock = Mock()
    with page(b, mock):
        assert b.eval("location.hash") == "" and b.eval("sessionStorage.getItem('spectral-token')") == mock.token
        assert text(b, "#task") == "exponential-pong-mini" and text(b, "#path") == "runs/pong"
        assert b.eval("document.querySelector('#health').dataset.level") == "well" and text(b, "#health-word") == "Well"
        assert text(b, "#status") == "running" and "frames/s" in text(b, "#rate") and text(b, "#left") == "2 min"
        assert text(b, "#connection") == "connected" and "ago" in text(b, "#checkpoint")
        assert int(b.eval("document.querySelector('#progress').getAttribute('aria-valuenow')")) > 10
        assert b.eval("document.querySelectorAll('#bars .cell').length") == 3
        b.until(f"Number({DATA}.curves ?? 0) > 0 && Number({DATA}.heat ?? 0) > 0")
        time.sleep(1.2)
        for canvas in ("#picture", "#bars .cell canvas", "#curves-canvas", "#td-canvas", "#activity", "#sigma", "#loss-share"):
            assert drawn(b, canvas) > 3, f"{canvas} is empty"
        before = {c: print_of(b, c) for c in ("#picture", "#bars .cell canvas", "#curves-canvas", "#td-canvas")}
        b.until(f"Number({DATA}.curves) > 3", 8)
        time.sleep(1.6)
        for canvas, old in before.items():
            assert print_of(b, canvas) != old, f"{canvas} stands still"
        for table in ("#bars-table", "#curves-table", "#td-table", "#frequencies-table"):
            assert b.eval(f"document.querySelectorAll('{table} tbody tr').length") > 0, f"{table} is empty"
        assert b.eval("document.querySelectorAll('#bars .cell.chosen').length") == 1
        assert b.eval("document.querySelector('#bars .cell.best .tag').textContent").endswith("best")
        assert b.eval("document.querySelector('#controls').hidden")
        assert text(b, "#rate-name") == "Rate, all agents" and text(b, "#health-text") == "All agents are running."
        assert text(b, "#chance") == "0.1" and b.eval("document.querySelector('#chance').offsetWidth") > 0
        assert int(text(b, "#episode")) >= 15, "episodes count from 1"
        assert "Below each frequency: its weight in the value." in text(b, "#frequencies-note")
        assert text(b, "#weights-age") == "Values of the weights that play."
        top = b.eval("document.querySelector('#curves-canvas').getBoundingClientRect().top")
        assert top <= 700, f"the curves begin at {top}"
        assert len(text(b, "#announcer")) > 10
        b.eval("document.querySelector('[data-view=weighted]').click()")
        assert "logarithmic" in text(b, "#spectrum-note")
        shot(b, "training")
        no_complaints(b)


def test_pictures_come_often_and_not_too_often(b):
    with page(b, Mock()):
        first = int(b.eval(f"{DATA}.frames"))
        time.sleep(2)
        rate = (int(b.eval(f"{DATA}.frames")) - first) / 2
        assert 8 <= rate <= 34, f"{rate} pictures a second"


def test_less_motion(b):
    with page(b, Mock(), calm=True, ready=False):
        b.until(f"Number({DATA}.frames ?? 0) > 0")
        first = int(b.eval(f"{DATA}.frames"))
        time.sleep(2.5)
        assert int(b.eval(f"{DATA}.frames")) - first <= 4
        b.eval("document.querySelector('#motion').click()")
        b.until(f"Number({DATA}.frames) > {first} + 20", 6)


def test_choice_of_agent(b):
    mock = Mock()
    with page(b, mock):
        b.eval("(() => { const s = document.querySelector('#agent'); s.value = '2'; s.dispatchEvent(new Event('change')); })()")
        b.until(f"{DATA}.agent === 'categorical-s1' && document.querySelector('#bars').dataset.kind === 'distribution'")
        assert text(b, "#spectrum-title") == "Distribution"
        assert "the dashed line is the value that the agent reads out" in text(b, "#spectrum-note")
        wait(lambda: text(b, "#chance") == "0.2", what="the chance of the chosen agent")
        assert b.eval("document.querySelector('#frequencies').hidden") and b.eval("document.querySelector('#view').hidden")
        wait(lambda: "/pictures?agent=categorical-s1" in mock.requests and "/events?agent=categorical-s1" in mock.requests)
        time.sleep(0.5)
        assert drawn(b, "#bars .cell canvas") > 3
        shot(b, "categorical")
        b.eval("document.querySelector('#legend button[data-agent=clipped]').click()")
        b.until(f"{DATA}.agent === 'clipped-s1' && document.querySelector('#bars').dataset.kind === 'value'")
        shot(b, "clipped")
        # A click on a curve: the last point of one line.
        b.eval("document.querySelector('#legend button[data-agent=spectral]').click()")
        b.until(f"{DATA}.agent === 'spectral-s1'")
        time.sleep(1)
        b.place("#curves-canvas")
        spot = b.eval("""(() => { const c = spectralPage.curves; const p = c.lines().seeds[5].points; const [f, v] = p[p.length - 1];
            const r = document.querySelector('#curves-canvas').getBoundingClientRect(); return [r.x + c.x(f), r.y + c.y(v)]; })()""")
        b.mouse("mouseMoved", *spot)
        b.until("document.querySelector('#curves-readout').textContent.includes('frames')")
        b.mouse("mousePressed", *spot, "left")
        b.mouse("mouseReleased", *spot, "left")
        b.until(f"{DATA}.agent === 'clipped-s2'", what="a click on a curve chooses its agent")
        no_complaints(b)


def test_keyboard_reads_charts(b):
    with page(b, Mock()):
        time.sleep(1)
        for focus, readout, word in (("#curves-figure", "#curves-readout", "frames"), ("#td-figure", "#td-readout", "score"),
                                     ("#trio", "#frequencies-readout", "Frequency"), ("#bars", "#bars-readout", "frequency")):
            b.eval(f"document.querySelector('{focus}').focus()")
            b.key("ArrowLeft")
            b.key("ArrowRight")
            b.until(f"document.querySelector('{readout}').textContent.includes('{word}')")


def test_many_actions(b):
    for width in (1280, 400):
        with page(b, Mock(actions=18, stopped=True, level="bad"), width=width, dark=width == 400):
            assert b.eval("document.querySelectorAll('#bars .cell').length") == 18
            assert b.eval("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
            assert b.eval("document.querySelector('#picture').getBoundingClientRect().width % 320") == 0
            messages = text(b, "#messages")
            assert "stopped: the loss is not finite" in messages and "1,234 rewards beyond the capacity" in messages
            assert text(b, "#health-word") == "Trouble"
            if width == 1280:
                bottom = b.eval("document.querySelector('#bars').getBoundingClientRect().bottom")
                assert bottom <= 800, f"the spectrum ends at {bottom}"
            shot(b, f"many-{width}")
            no_complaints(b)


def test_no_sideways_scroll(b):
    for agents in (("spectral",), ("categorical",), ("clipped",)):
        with page(b, Mock(mode="playing", agents=agents, hostile=True, stopped=True, level="look"), width=400):
            time.sleep(0.4)
            assert b.eval("document.documentElement.scrollWidth") <= 400


def test_without_scores(b):
    with page(b, Mock(mode="playing", actions=4, waits=True, legal=True, scores=False)):
        assert b.eval("document.querySelector('#td').dataset.kind") == "curve"
        time.sleep(0.8)
        assert drawn(b, "#td-canvas") > 3
        assert b.eval("document.querySelector('#bars .cell:nth-child(3)').classList.contains('illegal')")
        b.click("#human")
        b.until("!document.querySelector('#pad-box').hidden")
        assert "The game waits for you." in text(b, "#keys-help")
        no_complaints(b)


def test_hostile_text_stays_text(b):
    with page(b, Mock(hostile=True, stopped=True)):
        time.sleep(1)
        assert b.eval(f"{DATA}.hacked ?? null") is None
        assert b.eval("document.querySelectorAll('img').length") == 0
        assert text(b, "#task") == HOSTILE and text(b, "#path") == HOSTILE and HOSTILE in text(b, "#messages")
        assert text(b, "#bars .cell b") == HOSTILE
        assert b.eval("[...document.querySelectorAll('#agent option')].at(-1).textContent").startswith(HOSTILE)
        shot(b, "hostile")
        no_complaints(b)


def posts_after(mock, act, expected):
    mark = len(mock.posts)
    act()
    wait(lambda: len(mock.posts) >= mark + len(expected), what=f"{expected}, came {mock.posts[mark:]}")
    time.sleep(0.15)
    assert mock.posts[mark:] == expected, f"wanted {expected}, came {mock.posts[mark:]}"


def test_controls(b):
    mock = Mock(mode="playing")
    with page(b, mock):
        b.until("!document.querySelector('#controls').hidden && document.querySelector('#speed-value').textContent === '15/s'")
        posts_after(mock, lambda: b.click("#pause"), [{"paused": True}])
        b.until("document.querySelector('#pause').textContent === 'Resume'")
        posts_after(mock, lambda: b.click("#step"), [{"step": True}])
        posts_after(mock, lambda: b.click("#restart"), [{"restart": True}])
        posts_after(mock, lambda: b.click("#pause"), [{"paused": False}])
        change = "(() => {{ const e = document.querySelector('#{0}'); e.value = '{1}'; e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); }})()"
        posts_after(mock, lambda: b.eval(change.format("speed", 100)), [{"speed": 240}])
        posts_after(mock, lambda: b.eval(change.format("epsilon", 100)), [{"epsilon": 1}])
        b.until("document.querySelector('#speed-value').textContent === '240/s'")
        posts_after(mock, lambda: b.eval("document.querySelector('#legend button[data-agent=clipped]').click()"), [{"agent": "clipped-s1"}])
        b.until(f"{DATA}.agent === 'clipped-s1'")
        # Another page chose.
        mock.controls["agent"] = "categorical-s2"
        b.until(f"{DATA}.agent === 'categorical-s2'")
        mock.controls["paused"] = True
        b.until("document.querySelector('#pause').textContent === 'Resume'")
        no_complaints(b)


def test_take_over_by_keyboard(b):
    mock = Mock(mode="playing", actions=18)
    names = mock.names
    with page(b, mock):
        down = lambda code: b.key(code, up=False)
        up = lambda code: b.key(code, down=False)
        action = lambda name: {"action": None if name is None else names.index(name)}
        mark = len(mock.posts)
        b.key("ArrowUp")
        time.sleep(0.2)
        assert len(mock.posts) == mark, "keys do nothing before the take-over"
        posts_after(mock, lambda: b.click("#human"), [{"human": True}])
        b.until("!document.querySelector('#pad-box').hidden && !document.querySelector('#human-flag').hidden")
        assert "← or A left, → or D right, ↑ or W up, ↓ or S down, space fire, 1–9 the first nine actions" in text(b, "#keys-help")
        assert "also" not in text(b, "#keys-help")
        posts_after(mock, lambda: down("ArrowUp"), [action("up")])
        posts_after(mock, lambda: down("Space"), [action("up-fire")])
        posts_after(mock, lambda: down("KeyD"), [action("upright-fire")])
        posts_after(mock, lambda: down("ArrowLeft"), [action("upleft-fire")])
        posts_after(mock, lambda: (up("ArrowLeft"), up("Space")), [action("upright-fire"), action("upright")])
        posts_after(mock, lambda: up("ArrowUp"), [action("right")])
        posts_after(mock, lambda: up("KeyD"), [action(None)])
        posts_after(mock, lambda: (down("Digit5"), up("Digit5")), [{"action": 4}, {"action": None}])
        # Held keys repeat in the browser: nothing more is sent.
        posts_after(mock, lambda: (down("KeyA"), down("KeyA"), down("KeyA")), [action("left")])
        b.until("document.querySelector('#bars .cell[data-by=human] b')?.textContent === 'left'")
        posts_after(mock, lambda: b.eval("dispatchEvent(new Event('blur'))"), [{"action": None}])
        up("KeyA")
        shot(b, "take-over")
        # Buttons: with the pointer, and with the keyboard.
        x, y = b.place("#pad button[data-action='6']")
        posts_after(mock, lambda: b.mouse("mousePressed", x, y, "left"), [{"action": 6}])
        posts_after(mock, lambda: b.mouse("mouseReleased", x, y, "left"), [{"action": None}])
        b.eval("document.querySelector(\"#pad button[data-action='3']\").focus()")
        posts_after(mock, lambda: down("Space"), [{"action": 3}])
        posts_after(mock, lambda: up("Space"), [{"action": None}])
        posts_after(mock, lambda: b.key("Escape"), [{"human": False}])
        b.until("document.querySelector('#pad-box').hidden")
        no_complaints(b)


def test_names_of_the_small_tasks(b):
    mock = Mock(mode="playing", actions=3)
    with page(b, mock):
        posts_after(mock, lambda: b.click("#human"), [{"human": True}])
        b.until("!document.querySelector('#pad-box').hidden")
        posts_after(mock, lambda: b.key("KeyS"), [{"action": 2}, {"action": None}])
        assert text(b, "#keys-help") == ("Keys: ↑ or W up, ↓ or S down, → or D also up, ← or A also down, 1–3 the actions below, "
                                         "Esc gives the game back. No key plays “stay”."), text(b, "#keys-help")
        posts_after(mock, lambda: b.key("ArrowLeft"), [{"action": 2}, {"action": None}])
        posts_after(mock, lambda: b.key("KeyD"), [{"action": 1}, {"action": None}])
        mark = len(mock.posts)
        b.key("Space")
        b.key("Digit9")
        time.sleep(0.2)
        assert len(mock.posts) == mark, "there is no such action"


def test_key_names_and_numbers(b):
    with page(b, Mock()):
        played = b.eval("""import('/app/keys.js').then(({ Keys }) => {
            const play = (names, ...codes) => { const keys = new Keys(names); for (const code of codes) keys.press({code}); return keys.action(); };
            const ale = ['NOOP', 'FIRE', 'UP', 'RIGHTFIRE', 'Down_Left'];
            return [play(ale, 'Space'), play(ale, 'ArrowRight', 'Space'), play(ale, 'KeyS', 'KeyA'), play(ale, 'ArrowRight'),
                play(ale, 'KeyW', 'Space'), play(ale, 'Digit1'), play(['cash', 'steady'], 'Digit2'), play(['cash'], 'ArrowUp'),
                play(['left', 'stay', 'right'], 'ArrowLeft', 'ArrowRight'), play(['left', 'stay', 'right'], 'KeyW'),
                play(['noop', 'fire', 'right', 'left'], 'ArrowDown'), play(['noop', 'fire', 'right', 'left', 'rightfire'], 'ArrowUp', 'Space'),
                new Keys(['cash', 'steady']).help(['cash', 'steady'], null)]; })""")
        # Up and fire without "upfire": the key pressed last decides.
        assert played == [1, 3, 4, None, 1, 0, 1, None, 2, 2, 3, 4,
                          "Keys: 1 cash, 2 steady, Esc gives the game back. The game waits for you."], played
        texts = b.eval("""import('/app/format.js').then(({ compact, short, duration, percent }) => [
            compact(1234567), compact(-0.1234), compact(999.7), compact(null), compact(0), compact(45678), compact(2 ** 60),
            short(1e6), short(150000), short(0.25), duration(7500), duration(0.2), duration(null), percent(1e-6), percent(0.5)])""")
        assert texts == ["1.23M", "−0.123", "1.00k", "–", "0", "45.7k", "1.15e+18", "1M", "150k", "0.25", "2 h 05 min", "less than 1 s", "–",
                         "0.0001%", "50%"], texts


# What the spectrum shows, next to what the message it claims to show has: [sequence, what is wrong].
AGREES = """(async () => { const { compact } = await import('/app/format.js'); const s = spectralPage.spectrum; const wrong = [];
    const sequence = document.querySelector('#bars').dataset.sequence; const m = seenMessages.get(sequence);
    if (!m) return [sequence, ['no such message']];
    if (!m.values) return [sequence, ['a message without values']];
    const top = Math.max(...m.values);
    [...document.querySelectorAll('#bars .cell')].forEach((cell, k) => {
        const words = cell.querySelector('.tag').textContent;
        if (cell.querySelector('.decoded').textContent !== compact(m.values[k])) wrong.push('number ' + k);
        if (cell.classList.contains('chosen') !== (m.action === k)) wrong.push('chosen ' + k);
        if (cell.classList.contains('best') !== (m.values[k] === top)) wrong.push('best ' + k);
        if (words.includes('best') !== (m.values[k] === top)) wrong.push('tag ' + k);
        if ((cell.querySelector('.behind').textContent === '') !== (m.values[k] === top)) wrong.push('difference ' + k);
    });
    return [sequence, wrong]; })()"""
KEEP = """window.seenMessages = new Map();
    { const p = spectralPage; const take = p.picture.bind(p); p.picture = (m, b) => { seenMessages.set(String(m.sequence), m); take(m, b); };
      const s = p.spectrum; const measure = s.measure.bind(s); window.drawings = 0;
      s.measure = (m, now) => { drawings++; window.barsOf = String(m.sequence); return measure(m, now); };
      // A pointer that moves over the bars asks for drawings at any time, between two messages with values too.
      setInterval(() => s.redraw(), 7); }"""


def test_numbers_marks_and_bars_agree(b):
    for mode in ("training", "playing"):
        with page(b, Mock(mode=mode, gaps=True)):
            b.eval(KEEP)
            time.sleep(0.4)
            seen = set()
            start, begun = b.eval("drawings"), time.monotonic()
            for _ in range(30):
                sequence, wrong = b.eval(AGREES)
                assert wrong == [], f"{sequence}: {wrong}"
                assert b.eval("barsOf === document.querySelector('#bars').dataset.sequence"), "bars of another message"
                seen.add(sequence)
                time.sleep(0.04)
            rate = (b.eval("drawings") - start) / (time.monotonic() - begun)
            assert len(seen) > 4 and rate <= (13.5 if mode == "training" else 16.5), f"{len(seen)} messages, {rate} drawings a second"
            assert b.eval("!document.querySelector('#bars').classList.contains('stale')")


def test_messages_in_one_piece(b):
    with page(b, Mock()):
        given = b.eval("""import('/app/connection.js').then(({ pictureReader }) => { const out = [];
            const read = pictureReader((message, bytes) => out.push([message.sequence, bytes && bytes.length]));
            const one = (k) => { const json = new TextEncoder().encode(JSON.stringify({sequence: k})); const m = new Uint8Array(8 + json.length + 5);
                new DataView(m.buffer).setUint32(0, 4 + json.length + 5, true); new DataView(m.buffer).setUint32(4, json.length, true); m.set(json, 8); return m; };
            const all = new Uint8Array([...one(1), 0, 0, 0, 0, ...one(2), ...one(3)]);
            read(all.slice(0, all.length - 3)); read(all.slice(all.length - 3)); return out; })""")
        # None is lost, for it may have values or be a jump; the pixels of the newest are enough.
        assert given == [[1, None], [2, 5], [3, 5]], given


def test_values_that_stay_away_are_old(b):
    mock = Mock()
    with page(b, mock):
        mock.checkpoint = False
        b.until("document.querySelector('#bars').classList.contains('stale')", 4)
        assert text(b, "#bars .cell .decoded") != "–", "the last values stay"
        mock.checkpoint = True
        b.until("!document.querySelector('#bars').classList.contains('stale')", 4)


def test_values_of_older_weights(b):
    with page(b, Mock(older=True)):
        b.until("document.querySelector('#bars .cell[data-by=agent] .tag')?.textContent === 'chosen by newer weights'")
        assert b.eval("/^Values of the weights of frame [\\d,]+\\.$/.test(document.querySelector('#weights-age').textContent)")
        cut = b.eval("(() => { const t = document.querySelector('#bars .cell[data-by=agent] .tag'); return t ? t.scrollWidth - t.clientWidth : 0; })()")
        assert cut <= 0, "the tag is cut off"
    with page(b, Mock()):
        for _ in range(10):
            assert "newer" not in text(b, "#bars")
            time.sleep(0.05)


def test_no_checkpoint_yet(b):
    with page(b, Mock(mode="playing", checkpoint=False)):
        b.until("document.querySelector('#weights-age').textContent === 'No checkpoint yet: actions are drawn at random.'")
        assert text(b, "#bars .cell .decoded") == "–" and b.eval("document.querySelectorAll('#bars .cell.chosen').length") == 1
    with page(b, Mock(mode="playing")):
        assert text(b, "#weights-age") == "A frozen model, trained for 150,000 frames."
        assert b.eval("document.querySelector('#chance-box').hidden")


def choose(b, place):
    b.eval(f"(() => {{ const s = document.querySelector('#agent'); s.value = '{place}'; s.dispatchEvent(new Event('change')); }})()")


def test_stopped_agent(b):
    with page(b, Mock(stopped=True, level="bad")):
        choose(b, 5)
        b.until("document.querySelector('#no-picture').textContent.startsWith('This agent was stopped at frame 30,000') && !document.querySelector('#no-picture').hidden")
        assert b.eval("document.querySelector('#picture').hidden && !document.querySelector('#stopped-flag').hidden")
        assert text(b, "#score") == "–"
        b.until("[...document.querySelectorAll('#bars .decoded')].every((e) => e.textContent === '–')", what="no values of another agent")
        assert text(b, "#spectrum-title") == "Values"
        choose(b, 0)
        b.until("!document.querySelector('#picture').hidden && document.querySelector('#stopped-flag').hidden")
        b.until("document.querySelector('#bars .decoded').textContent !== '–'")


def test_jumps_are_marked_beside_the_picture(b):
    mock = Mock(mode="training")
    with page(b, mock):
        b.until("!document.querySelector('#jump-flag').hidden", 5)
        assert b.eval("/^[\\d,]+ frames? later$/.test(document.querySelector('#jump-flag').textContent)"), text(b, "#jump-flag")
        b.until("document.querySelector('#jump-flag').hidden", 2)
    mock = Mock(mode="playing")
    with page(b, mock):
        b.click("#human")
        b.until("!document.querySelector('#human-flag').hidden")
        b.eval("for (const flag of document.querySelectorAll('.flag')) flag.hidden = false")
        over = b.eval("""(() => { const p = document.querySelector('#picture').getBoundingClientRect();
            return [...document.querySelectorAll('.flag')].filter((f) => { const r = f.getBoundingClientRect();
                return r.left < p.right && r.right > p.left && r.top < p.bottom && r.bottom > p.top; }).map((f) => f.id); })()""")
        assert over == [], f"{over} cover the picture"


def test_game_of_turns_waits(b):
    mock = Mock(mode="playing", actions=4, waits=True, legal=True)
    with page(b, mock):
        b.click("#human")
        b.until("document.querySelectorAll('#bars .cell.chosen').length === 0", what="no action is chosen while the game waits")
        assert b.eval("document.querySelectorAll('#bars .cell.best').length") == 1


def test_references_and_axes_of_scores(b):
    pressed = "document.querySelector('#scale [aria-pressed=true]').dataset.scale"
    with page(b, Mock(references={"random": -9.8, "best": 21.0})):
        b.until(f"Number({DATA}.curves ?? 0) > 0")
        assert b.eval("document.querySelector('#curves-figure').dataset.references") == "best 21, random -9.8"
        assert b.eval(pressed) == "linear"
        inside = b.eval("[21, -9.8].every((v) => { const c = spectralPage.curves; return c.y(v) > 5 && c.y(v) < c.bottom; })")
        assert inside, "the references are out of sight"
        time.sleep(1.1)
        assert "best play" in text(b, "#curves-table")
        shot(b, "references")
    with page(b, Mock(huge=True, references={"random": -9.8, "best": None})):
        b.until(f"{pressed} === 'symlog'")
        assert b.eval("document.querySelector('#curves-figure').dataset.references") == "random -9.8"
        # The first phase is no flat line.
        tall = "Math.abs(spectralPage.curves.y(-20) - spectralPage.curves.y(0))"
        time.sleep(0.6)
        assert b.eval(tall) > 15, b.eval(tall)
        shot(b, "symlog")
        b.click("#scale [data-scale=linear]")
        b.until(f"{pressed} === 'linear' && {tall} < 15")
        b.eval("spectralPage.curves.update()")
        time.sleep(0.7)
        assert b.eval(pressed) == "linear", "the reader's choice stays"
        no_complaints(b)


def test_scales_forget(b):
    with page(b, Mock()):
        ranges = b.eval("""import('/app/scale.js').then(({ SlowRange }) => { const r = new SlowRange(0.1); const out = [];
            r.take(-0.4, 1e6, 1000); out.push(r.low, r.high);
            for (let t = 1100; t <= 2000; t += 80) r.take(0, 3, t); out.push(r.low, r.high);
            for (let t = 2080; t <= 4500; t += 80) r.take(0, 3, t); out.push(r.low, r.high); return out; })""")
        assert ranges[:4] == [-0.5, 1e6, -0.5, 1e6] and ranges[4] == 0 and ranges[5] <= 5, ranges


def test_layout_of_small_things(b):
    cut = """[...document.querySelectorAll('.scores dd, #facts dd, .flag, .switch button')].filter((e) => e.offsetWidth > 0
        && e.scrollWidth > e.clientWidth + 1).map((e) => e.id || e.textContent)"""
    for width in (1280, 400):
        with page(b, Mock(), width=width):
            b.until(f"Number({DATA}.curves ?? 0) > 0")
            b.eval("""document.querySelector('#score').textContent = '−1.15e+18'; document.querySelector('#reward').textContent = '+1.15e+18'""")
            assert b.eval(cut) == [], b.eval(cut)
            out = b.eval("""[...document.querySelectorAll('button, .legend, .flag')].filter((e) =>
                e.getBoundingClientRect().right > innerWidth - 10).map((e) => e.textContent)""")
            assert out == [], f"beyond the edge: {out}"
            assert b.eval("document.documentElement.scrollWidth") <= width
            if width == 400:
                tops = b.eval("[...document.querySelectorAll('#facts > div')].map((e) => e.getBoundingClientRect().top)")
                assert all(tops.count(top) > 1 for top in tops), "a fact stands alone in its line"
            shot(b, f"small-{width}")


def test_picture_fits_its_stage(b):
    for width in (1280, 1000, 400, 1920):
        with page(b, Mock(actions=18), width=width):
            over = b.eval("""(() => { const s = document.querySelector('#stage'); const p = document.querySelector('#picture').getBoundingClientRect();
                const r = s.getBoundingClientRect(); return p.left < r.left || p.right > r.right || p.bottom > r.bottom; })()""")
            assert not over, f"at {width}"
            size = b.eval("(() => { const p = document.querySelector('#picture').getBoundingClientRect(); return [p.width, p.height]; })()")
            assert size[0] % 320 == 0 and size[1] % 210 == 0, size


def test_film(b):
    for mode in ("training", "playing"):
        with page(b, Mock(mode=mode)):
            for name in os.listdir(b.downloads):
                os.remove(os.path.join(b.downloads, name))
            b.click("#film")
            b.until("document.querySelector('#control-message').textContent.startsWith('Film saved')")
            assert any(url.endswith("/film?agent=spectral-s1") for url in b.urls), "the film is of the agent that is shown"
            wait(lambda: any(n.endswith(".gif") for n in os.listdir(b.downloads)), what="a file")
            name = next(n for n in os.listdir(b.downloads) if n.endswith(".gif"))
            assert name == "exponential-pong-mini-spectral-s1.gif", name
            with open(os.path.join(b.downloads, name), "rb") as file:
                assert file.read(6) == b"GIF89a"
            no_complaints(b)


def test_lost_connection_comes_back(b):
    mock = Mock()
    with page(b, mock):
        mock.down = True
        b.until("document.querySelector('#connection').dataset.state === 'lost'")
        assert "connection is lost" in text(b, "#notice") and text(b, "#health-word") == "Not known"
        assert b.eval("!document.querySelector('#picture').hidden"), "the last picture stays"
        shot(b, "lost")
        mock.down = False
        b.until("document.querySelector('#connection').dataset.state === 'open'", 20)
        frames = int(b.eval(f"{DATA}.frames"))
        b.until(f"Number({DATA}.frames) > {frames} + 5", 20)
        assert b.eval("document.querySelector('#notice').hidden") and text(b, "#health-word") == "Well"
        # The browser itself notes requests that fail; nothing else may complain.
        assert all("net::ERR" in line for line in b.console), b.console


def test_wrong_token(b):
    mock = Mock()
    with page(b, mock, ready=False) as link:
        b.go(link.split("#")[0] + "#" + "f" * 32)
        b.until("document.querySelector('#connection').dataset.state === 'refused'")
        assert "Open the link that the command printed" in text(b, "#notice")
        time.sleep(1)
        assert mock.requests.count("/run") <= 2, "it must not ask again"


def test_ended(b):
    mock = Mock()
    with page(b, mock):
        b.until(f"Number({DATA}.curves ?? 0) > 0")
        mock.ended = True
        b.until("document.querySelector('#connection').dataset.state === 'ended'")
        assert text(b, "#notice") == "The run has ended: spectral watch runs/pong shows it."
        # The last state stays.
        assert text(b, "#status") == "finished" and text(b, "#health-word") == "Well"
        assert b.eval("document.querySelector('#progress').getAttribute('aria-valuenow')") == "100"
        assert b.eval("!document.querySelector('#picture').hidden && document.querySelector('#picture-flag').hidden")
        assert b.eval("!document.body.classList.contains('stale')")
        count = len(mock.requests)
        b.eval("window.sameDocument = true")
        wait(lambda: "/run" in mock.requests[count:], 5, "the page looks whether another run is served")
        time.sleep(0.5)
        assert set(mock.requests[count:]) == {"/run"} and len(mock.requests) - count <= 2, mock.requests[count:]
        assert b.eval("window.sameDocument === true"), "the same run is no reason to load the page again"
        no_complaints(b)


def test_next_run_is_followed(b):
    mock = Mock()
    with page(b, mock):
        mock.ended = True
        b.until("document.querySelector('#connection').dataset.state === 'ended'")
        hide = "Object.defineProperty(document, 'hidden', {{value: {0}, configurable: true}})"
        b.eval(hide.format("true"))
        count = len(mock.requests)
        mock.run["path"], mock.run["task"] = "runs/next", "ponglantis-mini"
        mock.ended = False
        time.sleep(4)
        assert len(mock.requests) == count, "a hidden page must not ask"
        b.eval(hide.format("false") + "; document.dispatchEvent(new Event('visibilitychange'))")
        b.until("document.querySelector('#task').textContent === 'ponglantis-mini'", 6)
        b.until(f"Number({DATA}.frames ?? 0) > 2 && document.querySelector('#connection').dataset.state === 'open'")
        # The connection may also break without a word.
        mock.down = True
        b.until("document.querySelector('#connection').dataset.state === 'lost'")
        mock.run["path"] = "runs/third"
        mock.down = False
        b.until("document.querySelector('#path').textContent === 'runs/third'", 15)
        mock.ended = True
        b.until("document.querySelector('#connection').dataset.state === 'ended'")
        mock.run["mode"], mock.mode = "playing", "playing"
        mock.ended = False
        b.until("document.body.dataset.mode === 'playing'", 8)


def test_hidden_page_closes_its_streams(b):
    mock = Mock()
    with page(b, mock):
        hide = "Object.defineProperty(document, 'hidden', {{value: {0}, configurable: true}}); document.dispatchEvent(new Event('visibilitychange'))"
        b.eval(hide.format("true"))
        wait(lambda: "/pictures" in mock.closing, what="the picture stream closes")
        wait(lambda: "/events" in mock.closing, 8, "the numbers too, a little later")
        frames = int(b.eval(f"{DATA}.frames"))
        b.eval(hide.format("false"))
        b.until(f"Number({DATA}.frames) > {frames} + 5")
        b.until("document.querySelector('#connection').dataset.state === 'open'")
        no_complaints(b)


def test_names_and_labels(b):
    with page(b, Mock(mode="playing")):
        bare = b.eval("""[...document.querySelectorAll('button, select, input, [tabindex]')].filter((e) => !(
            e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map((e) => e.id || e.outerHTML)""")
        assert bare == [], bare
        assert b.eval("document.querySelectorAll('main, header, footer').length") == 3
        assert b.eval("document.querySelectorAll('h1').length") == 1
        ids = b.eval("[...document.querySelectorAll('[id]')].map((e) => e.id)")
        assert len(ids) == len(set(ids))
        broken = b.eval("""[...document.querySelectorAll('[aria-labelledby]')].filter((e) =>
            !document.getElementById(e.getAttribute('aria-labelledby'))).length""")
        assert broken == 0
        b.key("Tab")
        assert b.eval("document.activeElement !== document.body")
        shot(b, "playing")


def main():
    global SHOTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shots", help="a folder for screenshots")
    parser.add_argument("names", nargs="*", help="parts of the names of tests to run")
    options = parser.parse_intermixed_args()
    SHOTS = options.shots
    if SHOTS:
        os.makedirs(SHOTS, exist_ok=True)
    if not (os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")):
        print("Chromium is not installed: nothing was tested.")
        return 77
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")
             and (not options.names or any(part in name for part in options.names))]
    return 0 if run(tests) else 1


if __name__ == "__main__":
    sys.exit(main())
