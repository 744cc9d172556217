"""``python -m spectral_rl`` is the `spectral` command."""

from spectral_rl._command import main

main()
