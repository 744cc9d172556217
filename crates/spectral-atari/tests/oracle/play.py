"""Plays random actions in the Arcade Learning Environment and writes every frame to standard output.

Usage: play.py ROM FRAMES SEED [DIFFICULTY MODE]

Written first: u32 height. Then records: u8 kind (0: one frame, 1: after a reset), u8 action, i32 reward, i32 lives,
u8 game over, 128 bytes of memory, height * 160 palette indices. All little-endian.
"""

import random
import struct
import sys

from ale_py import ALEInterface, LoggerMode


def main():
    rom, frames, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("frame_skip", 1)
    ale.loadROM(rom)
    out = sys.stdout.buffer
    height, _ = ale.getScreenDims()
    out.write(struct.pack("<I", height))

    def record(kind, action, reward):
        head = struct.pack("<BBiiB", kind, action, reward, ale.lives(), ale.game_over())
        out.write(head + ale.getRAM().tobytes() + ale.getScreen().tobytes())

    record(1, 0, 0)
    choose = random.Random(seed)
    action, hold = 0, 0
    for _ in range(frames):
        if hold == 0:
            # Half of all actions are short, so that menus and reflexes are both exercised.
            action = choose.randrange(18)
            hold = choose.choice([1, 1, 2, 4, 4, 8, 16, 30])
        hold -= 1
        record(0, action, ale.act(action))
        if ale.game_over():
            ale.reset_game()
            record(1, 0, 0)


main()
