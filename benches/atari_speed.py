"""Frames per CPU-second of the Arcade Learning Environment, one thread, random actions held for four frames.

Usage: atari_speed.py FRAMES GAME...; one line per game: name, frames per second of act, the same with getScreen.
"""

import os
import random
import sys
import time

import ale_py
from ale_py import ALEInterface, LoggerMode


def measure(game, frames, look):
    ale = ALEInterface()
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(os.path.join(os.path.dirname(ale_py.__file__), "roms", game + ".bin"))
    actions = ale.getMinimalActionSet()
    choose = random.Random(1)
    screen = ale.getScreen()
    resets = 0.0
    start = time.process_time()
    for frame in range(frames):
        if frame % 4 == 0:
            action = choose.choice(actions)
        ale.act(action)
        if look:
            ale.getScreen(screen)
        if ale.game_over():
            # The frames that a reset runs are not counted, so neither is their time.
            before = time.process_time()
            ale.reset_game()
            resets += time.process_time() - before
    return frames / (time.process_time() - start - resets)


def main():
    ALEInterface.setLoggerMode(LoggerMode.Error)
    frames = int(sys.argv[1])
    for game in sys.argv[2:]:
        rates = [max(measure(game, frames, look) for _ in range(3)) for look in (False, True)]
        print(game, *(round(rate) for rate in rates))


main()
