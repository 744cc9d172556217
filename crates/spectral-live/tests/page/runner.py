"""Runs browser tests one after another, each that fails once more in a fresh browser.

What these tests watch moves: a machine that stalls for a second makes a page late that is not wrong. A page that is wrong is
wrong every time.
"""

import sys
import time
import traceback

from chromium import Chromium

TRIES = 3


class Skipped(Exception):
    """What a test needs is not here."""


def run(tests, fresh=lambda: None):
    """Runs `(name, function)` pairs, after `fresh` each; true if all passed, and at least one was there."""
    failed = skipped = again = 0
    browser = None
    for name, test in tests:
        for number in range(1, TRIES + 1):
            start = time.monotonic()
            try:
                browser = browser or Chromium()
                fresh()
                test(browser)
                print(f"ok      {name} ({time.monotonic() - start:.1f} s)", flush=True)
                again += number > 1
                break
            except Skipped as why:
                skipped += 1
                print(f"SKIPPED: {name}: {why}", file=sys.stderr, flush=True)
                break
            except Exception:
                last = number == TRIES
                failed += last
                print(f"{'FAILED ' if last else 'again  '} {name}\n{traceback.format_exc()}", flush=True)
                if browser:
                    browser.close()
                browser = None
    if browser:
        browser.close()
    late = f", {again} of them not at once" if again else ""
    print(f"{len(tests) - failed - skipped} of {len(tests)} passed{late}")
    return not failed and bool(tests)
