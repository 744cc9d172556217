"""Lets the native module find the ROMs that ale-py brings, without importing ale-py."""

import importlib.util
import os

from spectral_rl import _native

_looked = False


def find_roms():
    """Adds ale-py's folder to those in which ROMs are looked for. Call it before an Atari task is made."""
    global _looked
    if _looked:
        return
    try:
        found = importlib.util.find_spec("ale_py")
    except ValueError:  # Somebody has put something without a specification, or nothing, in its place.
        found = None
    for folder in (found.submodule_search_locations or ()) if found else ():
        _native.add_rom_folder(os.path.join(folder, "roms"))
    _looked = True
