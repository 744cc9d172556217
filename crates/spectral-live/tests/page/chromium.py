"""Drives a headless Chromium over --remote-debugging-pipe. Only Python's standard library is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time


class Chromium:
    def __init__(self, program=None):
        self.profile = tempfile.mkdtemp(prefix="spectral-page-")
        self.downloads = os.path.join(self.profile, "downloads")
        os.mkdir(self.downloads)
        to_read, self.writer = os.pipe()
        self.reader, to_write = os.pipe()
        program = program or os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        arguments = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
            "--hide-scrollbars", "--force-device-scale-factor=1", f"--user-data-dir={self.profile}", "about:blank",
        ]

        def wire():
            # The browser reads from descriptor 3 and writes to descriptor 4; copies first, lest one overwrite the other.
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            arguments, preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number = 0
        self.answers = {}
        self.arrived = threading.Condition()
        self.console, self.urls, self.failed = [], [], []
        threading.Thread(target=self.listen, daemon=True).start()
        target = self.send("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        self.target = target
        self.session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")
        self.send("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.downloads}, session=None)

    def listen(self):
        held = b""
        while True:
            try:
                part = os.read(self.reader, 1 << 16)
            except OSError:
                return
            if not part:
                return
            *messages, held = (held + part).split(b"\0")
            for message in messages:
                self.take(json.loads(message))

    def take(self, message):
        if "id" in message:
            with self.arrived:
                self.answers[message["id"]] = message
                self.arrived.notify_all()
            return
        name, body = message.get("method"), message.get("params", {})
        if name == "Runtime.consoleAPICalled" and body["type"] in ("error", "warning", "assert"):
            self.console.append(body["type"] + ": " + " ".join(str(a.get("value", a.get("description"))) for a in body["args"]))
        elif name == "Runtime.exceptionThrown":
            details = body["exceptionDetails"]
            self.console.append("exception: " + details.get("exception", {}).get("description", details.get("text", "")))
        elif name == "Log.entryAdded" and body["entry"]["level"] in ("error", "warning"):
            self.console.append("log: " + body["entry"]["text"] + " " + body["entry"].get("url", ""))
        elif name == "Network.requestWillBeSent":
            self.urls.append(body["request"]["url"])

    def send(self, method, params=None, session=True, timeout=30):
        with self.arrived:
            self.number += 1
            number = self.number
        message = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        with self.arrived:
            while number not in self.answers:
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(method)
                self.arrived.wait(left)
            answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def size(self, width, height=800, ratio=1, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": mobile})

    def media(self, dark=False, calm=False):
        self.send("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]})

    def go(self, url):
        self.send("Page.navigate", {"url": "about:blank"})
        self.send("Page.navigate", {"url": url})

    def eval(self, code):
        result = self.send("Runtime.evaluate", {"expression": code, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", str(result)))
        return result["result"].get("value")

    def until(self, code, seconds=10, what=None):
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.eval(code):
                    return
            except RuntimeError:
                # Between two documents there may be nothing to ask.
                pass
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {what or code}")

    def key(self, code, key=None, down=True, up=True):
        key = key or {"Space": " "}.get(code, code.removeprefix("Key").lower() if code.startswith("Key") else code.removeprefix("Digit"))
        numbers = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Space": 32, "Escape": 27, "Tab": 9, "Enter": 13}
        body = {"code": code, "key": key, "windowsVirtualKeyCode": numbers.get(code, ord(key[0].upper()))}
        if down:
            self.send("Input.dispatchKeyEvent", {"type": "keyDown" if len(key) == 1 else "rawKeyDown", **({"text": key} if len(key) == 1 else {}), **body})
        if up:
            self.send("Input.dispatchKeyEvent", {"type": "keyUp", **body})

    def mouse(self, kind, x, y, button="none"):
        self.send("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": button, "clickCount": 1 if button != "none" else 0})

    def place(self, selector):
        """The middle of an element, scrolled into view."""
        return self.eval(f"""(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: "center"}});
            const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()""")

    def click(self, selector):
        x, y = self.place(selector)
        self.mouse("mousePressed", x, y, "left")
        self.mouse("mouseReleased", x, y, "left")

    def screenshot(self, path, full=False):
        clip = {}
        if full:
            size = self.eval("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
            clip = {"clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}, "captureBeyondViewport": True}
        data = self.send("Page.captureScreenshot", {"format": "png", **clip})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.send("Browser.close", session=None, timeout=5)
        except (OSError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
