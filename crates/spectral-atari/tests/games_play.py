"""Plays a game in ale-py and writes every frame, for `games_play.rs` to play it too.

usage: games_play.py GAME FRAMES SEED MODES

The first part, for each of the game's modes at its last difficulty, and each other difficulty in its first mode: mode (two
bytes), difficulty, then for two resets the state after the reset, whether ale-py takes the game for over at once, and if
not, 20 times: action, reward, lives (four bytes each), game over, state. The second part, in the default mode: for each
frame a byte 1, action, reward, lives, game over and state; where a game is over, a byte 0 and the state after the reset. A
state is the RAM and the CRC-32 of the screen's palette indices.
"""

import random
import struct
import sys
import zlib

from ale_py import ALEInterface, LoggerMode, roms


def main():
    game, frames, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ALEInterface.setLoggerMode(LoggerMode.Error)
    out = sys.stdout.buffer
    chance = random.Random(seed)

    def load():
        ale = ALEInterface()
        ale.setInt("random_seed", seed)
        ale.setFloat("repeat_action_probability", 0.0)
        ale.loadROM(roms.get_rom_path(game))
        return ale

    def state(ale):
        return ale.getRAM().tobytes() + struct.pack("<I", zlib.crc32(ale.getScreen()))

    def play(ale, action):
        reward = ale.act(action)
        over = ale.game_over(with_truncation=False)
        out.write(struct.pack("<BiiB", action, reward, ale.lives(), over) + state(ale))
        return over

    ale = load()
    modes = list(ale.getAvailableModes())[: int(sys.argv[4])]
    *others, last = list(ale.getAvailableDifficulties())
    choices = [(mode, last) for mode in modes] + [(modes[0], difficulty) for difficulty in others]
    out.write(struct.pack("<B", len(choices)))
    for mode, difficulty in choices:
        ale = load()
        ale.setMode(mode)
        ale.setDifficulty(difficulty)
        out.write(struct.pack("<HB", mode, difficulty))
        for _ in range(2):
            ale.reset_game()
            over = ale.game_over(with_truncation=False)
            out.write(state(ale) + struct.pack("<B", over))
            for _ in range(0 if over else 20):
                play(ale, chance.randrange(18))

    ale = load()
    out.write(b"\0" + state(ale))
    hold = 0
    for _ in range(frames):
        if hold == 0:
            action = chance.randrange(18)
            hold = chance.choice([1, 1, 2, 4, 4, 8, 16])
        hold -= 1
        out.write(b"\1")
        if play(ale, action):
            ale.reset_game()
            out.write(b"\0" + state(ale))


main()
