"""Shrinks pictures with OpenCV, for `preprocess_area.rs` to compare.

Reads pictures from standard input (height as four bytes, then rows of 160) and writes their 84 × 84 results. Then writes
a count, and for each of that many screens of games: height, two successive screens of palette indices, the grey of each
index, and what OpenCV makes of the brighter of the two.
"""

import struct
import sys

import cv2
import numpy as np


def shrink(picture):
    return cv2.resize(np.ascontiguousarray(picture), (84, 84), interpolation=cv2.INTER_AREA)


def from_input():
    source, out = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(4):
        height = struct.unpack("<I", header)[0]
        picture = np.frombuffer(source.read(height * 160), np.uint8).reshape(height, 160)
        out.write(shrink(picture).tobytes())


def screens():
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    out = sys.stdout.buffer
    games = ["pong", "ms_pacman", "atlantis", "video_pinball", "air_raid"]
    out.write(struct.pack("<I", 6 * len(games)))
    for game in games:
        ale = ALEInterface()
        ale.setInt("random_seed", 1)
        ale.loadROM(roms.get_rom_path(game))
        actions = ale.getLegalActionSet()
        greys = np.zeros(256, np.uint8)
        shown = []
        for frame in range(600):
            ale.act(actions[(frame // 7) % len(actions)])
            greys[ale.getScreen().ravel()] = ale.getScreenGrayscale().ravel()
            if frame % 100 in (98, 99):
                shown.append((ale.getScreen().copy(), ale.getScreenGrayscale().copy()))
        for (first, first_grey), (second, second_grey) in zip(shown[::2], shown[1::2]):
            out.write(struct.pack("<I", first.shape[0]) + first.tobytes() + second.tobytes() + greys.tobytes())
            out.write(shrink(np.maximum(first_grey, second_grey)).tobytes())


from_input()
screens()
