"""Frames per second of the Arcade Learning Environment on many cores: whole steps, four frames each, the last two pooled
and shrunk to 84 × 84. Three ways: a process for each core (with OpenCV), a thread for each core in one process (with
OpenCV), and its own vector environment, with as many games as threads or, asynchronously, with three times as many.

Usage: atari_scaling.py SECONDS CORES GAME; one line per way: name, frames per second.
"""

import multiprocessing
import os
import queue
import random
import sys
import threading
import time

import ale_py
import cv2
import numpy as np
from ale_py import ALEInterface, LoggerMode
from ale_py._ale_py import ALEVectorInterface


def rom(game):
    return os.path.join(os.path.dirname(ale_py.__file__), "roms", game + ".bin")


def play(game, seconds, seed, barrier, rates):
    ALEInterface.setLoggerMode(LoggerMode.Error)
    cv2.setNumThreads(1)
    ale = ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(rom(game))
    actions = ale.getMinimalActionSet()
    choose = random.Random(seed)
    first, second = ale.getScreenGrayscale(), ale.getScreenGrayscale()
    seen = np.zeros((84, 84), np.uint8)
    barrier.wait()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(50):
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
            steps += 1
    rates.put(4 * steps / (time.perf_counter() - start))


def workers(game, seconds, cores, make, make_barrier, make_queue):
    barrier, rates = make_barrier(cores), make_queue()
    all_workers = [make(target=play, args=(game, seconds, 1 + n, barrier, rates)) for n in range(cores)]
    for worker in all_workers:
        worker.start()
    rate = sum(rates.get() for _ in all_workers)
    for worker in all_workers:
        worker.join()
    return rate


def vector(game, seconds, cores, games, batch):
    envs = ALEVectorInterface(rom(game), games, num_threads=cores, batch_size=batch, use_fire_reset=False)
    actions = len(envs.get_action_set())
    envs.reset(list(range(games)), list(range(games)))
    choose = np.random.default_rng(1)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        envs.send(choose.integers(actions, size=batch).tolist(), [1.0] * batch)
        steps += len(envs.recv()[0])
    return 4 * steps / (time.perf_counter() - start)


def main():
    ALEInterface.setLoggerMode(LoggerMode.Error)
    seconds, cores, game = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    spawn = multiprocessing.get_context("spawn")
    ways = {
        "processes": lambda: workers(game, seconds, cores, spawn.Process, spawn.Barrier, spawn.Queue),
        "threads": lambda: workers(game, seconds, cores, threading.Thread, threading.Barrier, queue.Queue),
        "vector": lambda: vector(game, seconds, cores, cores, cores),
        "vector_async": lambda: vector(game, seconds, cores, 3 * cores, cores),
    }
    for name, measure in ways.items():
        print(name, round(measure()), flush=True)


if __name__ == "__main__":
    main()
