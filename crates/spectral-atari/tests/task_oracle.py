"""Plays a task of the Atari crate with ale-py and OpenCV, for `task_oracle.rs` to compare.

usage: task_oracle.py TASK PROTOCOL MODE DIFFICULTY STEPS

Standard input has three bytes a step: the action's place in the task's list, the no-op frames if an episode begins here,
and a bit for each of the step's frames that says whether a sticky action is repeated. Written per step: the CRC-32 of the
observation and of the stack of four before the action, then reward and plain score (doubles), and 1 for an end, 2 for a
time-out, 4 for a life lost.
"""

import struct
import sys
import zlib
from collections import deque

import cv2
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

LIMIT, SKIP = 108_000, 4
PARTS = {"exponential-pong": ["pong"], "reverse-ponglantis": ["atlantis", "pong"]}
OWN_POINTS = 0x0E  # of Pong's RAM


class Game:
    """One console."""

    def __init__(self, name, mode, difficulty):
        self.name = name
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", 1)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(name))
        if mode is not None:
            self.ale.setMode(mode)
            self.ale.setDifficulty(difficulty)

    def begin(self):
        self.ale.reset_game()
        self.grey = [self.ale.getScreenGrayscale().copy()]

    def act(self, action):
        """Reward, life lost, over."""
        lives = self.ale.lives()
        reward = self.ale.act(action)
        if reward < 0 and self.name in ("video_pinball", "asterix"):
            reward += 1_000_000
        over = self.ale.game_over(with_truncation=False)
        if self.name in ("breakout", "chopper_command") and self.ale.lives() == 0:
            over = True
        self.grey = [self.grey[-1], self.ale.getScreenGrayscale().copy()]
        return reward, self.ale.lives() < lives, over

    def seen(self):
        brightest = np.maximum(self.grey[0], self.grey[-1])
        return cv2.resize(brightest, (84, 84), interpolation=cv2.INTER_AREA)


def main():
    task, protocol, mode, difficulty, steps = sys.argv[1:6]
    ALEInterface.setLoggerMode(LoggerMode.Error)
    chosen = (int(mode), int(difficulty)) if mode else (None, None)
    games = [Game(name, *chosen) for name in PARTS.get(task, [task.removeprefix("atari/")])]
    minimal = games[-1].ale.getMinimalActionSet()
    actions = minimal if protocol == "paper" else games[0].ale.getLegalActionSet()
    out = sys.stdout.buffer
    fresh, stack = True, deque(maxlen=4)
    for _ in range(int(steps)):
        action, no_ops, sticky = sys.stdin.buffer.read(3)
        if fresh:
            current, frames, last = games[0], 0, 0
            current.begin()
            for _ in range(no_ops if protocol == "paper" else 0):
                frames += 1
                if current.act(0)[2]:
                    frames = 0
                    current.begin()
                    break
            seen = current.seen()
            fresh, start = False, True
        if start:
            stack.extend([np.zeros((84, 84), np.uint8)] * 4)
        stack.append(seen)
        crc = zlib.crc32(seen), zlib.crc32(np.stack(stack))
        reward = score = 0.0
        ended = life_lost = switched = False
        for frame in range(min(SKIP, LIMIT - frames)):
            if protocol == "paper" or not sticky >> frame & 1:
                last = actions[action]
            points = int(current.ale.getRAM()[OWN_POINTS])
            paid, lost, over = current.act(last)
            frames += 1
            score += paid
            reward += paid * 2.0**points if task == "exponential-pong" else paid
            if task == "reverse-ponglantis" and current is games[0]:
                switched = lost or over
            else:
                ended = over
                life_lost |= lost and len(games) == 1
            if switched or ended:
                break
        if switched:
            current, last = games[1], 0
            current.begin()
        if not ended:
            seen = current.seen()
        timeout = not ended and frames >= LIMIT
        life_lost = life_lost and not ended and protocol == "paper"
        fresh = ended or timeout
        start = fresh or life_lost
        out.write(struct.pack("<IIddB", *crc, reward, score, ended | timeout << 1 | life_lost << 2))
        out.flush()


main()
