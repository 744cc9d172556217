"""Frames per CPU-second of the Arcade Learning Environment with OpenCV: of every four frames the last two as grey
pictures, their maximum, shrunk to 84 × 84. One thread, random actions held for four frames.

Usage: atari_preprocess.py FRAMES GAME...; one line per game: name, frames per second.
"""

import os
import random
import sys
import time

import ale_py
import cv2
import numpy as np
from ale_py import ALEInterface, LoggerMode


def measure(game, frames):
    ale = ALEInterface()
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(os.path.join(os.path.dirname(ale_py.__file__), "roms", game + ".bin"))
    actions = ale.getMinimalActionSet()
    choose = random.Random(1)
    first, second = ale.getScreenGrayscale(), ale.getScreenGrayscale()
    seen = np.zeros((84, 84), np.uint8)
    start = time.process_time()
    for _ in range(frames // 4):
        action = choose.choice(actions)
        ale.act(action)
        ale.act(action)
        ale.act(action)
        ale.getScreenGrayscale(first)
        ale.act(action)
        ale.getScreenGrayscale(second)
        np.maximum(first, second, out=first)
        cv2.resize(first, (84, 84), dst=seen, interpolation=cv2.INTER_AREA)
        if ale.game_over():
            ale.reset_game()
    return frames // 4 * 4 / (time.process_time() - start)


def main():
    ALEInterface.setLoggerMode(LoggerMode.Error)
    cv2.setNumThreads(1)
    frames = int(sys.argv[1])
    for game in sys.argv[2:]:
        print(game, round(max(measure(game, frames) for _ in range(3))))


main()
