"""Plays a game in ale-py and writes what it saw, for `games_oracle.rs` to compare with our own reading of the RAM.

usage: games_oracle.py GAME FRAMES SEED ADDRESSES

ADDRESSES is a comma-separated list of RAM addresses (hexadecimal, 80 to ff) that are worth changing.
The first line of the output says what ale-py knows of the game: minimal actions, modes, difficulties, lines.

Records after it: kind (0 reset, 1 frame, 2 probe), back, game over, lives, reward, 128 bytes of RAM. A probe is
a frame played with a few bytes of RAM changed, from the state `back` frames before the last frame written (0: from that
very state): it reaches scores and ends that random play does not. Probes leave no trace in the frames that follow.
"""

import random
import struct
import sys
from collections import deque

from ale_py import ALEInterface, LoggerMode, roms


def main():
    game, frames, seed, addresses = sys.argv[1:5]
    targets = [int(a, 16) - 0x80 for a in addresses.split(",") if a]
    chance = random.Random(int(seed))
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", int(seed))
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(game))
    actions = [a.value for a in ale.getLegalActionSet()]
    minimal = [a.value for a in ale.getMinimalActionSet()]
    out = sys.stdout.buffer
    modes, difficulties = list(ale.getAvailableModes()), list(ale.getAvailableDifficulties())
    out.write(f"{minimal} {modes} {difficulties} {ale.getScreenDims()[0]}\n".encode())

    def write(kind, reward, back=0):
        over = ale.game_over(with_truncation=False)
        out.write(struct.pack("<BBBii", kind, back, over, ale.lives(), reward) + ale.getRAM().tobytes())
        return over

    def probe(state, count, back=0):
        """Plays one frame from `state` with bytes changed, `count` times; the state is current again afterwards."""
        for _ in range(count):
            ale.restoreState(state)
            for _ in range(chance.choice([1, 1, 2, 3])):
                at = chance.choice(targets) if targets and chance.random() < 0.6 else chance.randrange(128)
                old = int(ale.getRAM()[at])
                value = chance.choice(
                    [
                        chance.randrange(256),
                        chance.randrange(10) * 16 + chance.randrange(10),
                        old ^ (1 << chance.randrange(8)),
                        chance.choice([0, 1, 255, 254, 128, old + 1 & 255, old - 1 & 255]),
                    ]
                )
                ale.setRAM(at, value)
            write(2, ale.act(0), back)
        ale.restoreState(state)

    ale.reset_game()
    write(0, 0)
    recent = deque(maxlen=8)
    hold, lives, full = 0, ale.lives(), True
    for _ in range(int(frames)):
        if hold == 0:
            action = chance.choice(actions if full else minimal)
            hold = chance.choice([1, 2, 3, 4, 8, 12, 20])
        hold -= 1
        recent.append(ale.cloneState(include_rng=True))
        reward = ale.act(action)
        if write(1, reward):
            for back, state in enumerate(reversed(recent), 1):
                probe(state, 24, back)
            ale.reset_game()
            write(0, 0)
            recent.clear()
            lives, full = ale.lives(), chance.random() < 0.5
        elif ale.lives() != lives or chance.random() < 0.01 or (reward and chance.random() < 0.1):
            lives = ale.lives()
            probe(ale.cloneState(include_rng=True), 6)


main()
