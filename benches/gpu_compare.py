"""Merges the JSON lines of `spectral-bench gpu --json` and of its peers, and prints their ratios beside the bars.

    python gpu_compare.py FILE...

A line that is no JSON object is passed over. Each measurement has the keys stack, variant, precision, P, what, ms_median and
ms_min. A ratio is the peer's time over ours: above 1 we are faster. Each of our rows is held against the best variant of the
peer in any precision (that is what the bars are judged by) and against the best in the same precision.
"""

import json
import pathlib
import sys

PEERS = ("torch", "jax")
# (what, P): the most milliseconds, and the least ratios.
BARS = {
    ("update", 1): {"ms": 0.15, "torch": 2.5, "jax": 1.3},
    ("update", 20): {"ms": 0.8, "jax": 2.2},
}


def read(paths):
    rows = []
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                if {"stack", "variant", "precision", "P", "what", "ms_median", "ms_min"} <= row.keys():
                    rows.append(row)
    return rows


def best(rows, **wanted):
    """The row with the least median among those with these values, or None."""
    fitting = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return min(fitting, key=lambda row: row["ms_median"], default=None)


def verdict(value, bar, at_most):
    if bar is None:
        return ""
    met = value <= bar if at_most else value >= bar
    return f" {'meets' if met else 'MISSES'} {'<=' if at_most else '>='} {bar:g}"


def cell(ours, peer, bar):
    """Ratio of medians (of minima), and the verdict."""
    if peer is None:
        return "not measured" + (f", bar >= {bar:g}" if bar else "")
    ratio = peer["ms_median"] / ours["ms_median"]
    text = f"{ratio:.2f} ({peer['ms_min'] / ours['ms_min']:.2f})"
    return text + verdict(ratio, bar, False)


def name(row):
    return f"{row['variant']} {row['precision']} {row['ms_median']:.4f}"


def main(paths):
    rows = read(paths)
    if not rows:
        print("no measurement in " + " ".join(paths))
        return 1
    table = [("what", "P", "ours ms (min)", "peer's best", "ratio of medians (minima)", "same precision")]
    for what, agents in sorted({(row["what"], row["P"]) for row in rows}, key=lambda key: (key[0] != "update", *key)):
        here = {"what": what, "P": agents}
        bars = BARS.get((what, agents), {})
        ours_here = [row for row in rows if (row["stack"], row["what"], row["P"]) == ("spectral", what, agents)]
        mine = {row["precision"] for row in ours_here}
        for precision in sorted(mine) or [None]:
            ours = best(rows, stack="spectral", precision=precision, **here) if precision else None
            for peer in PEERS:
                any_form = best(rows, stack=peer, **here)
                same = best(rows, stack=peer, precision=precision, **here) if precision else None
                label = f"{peer} {name(any_form)}" if any_form else f"{peer} -"
                if ours is None:
                    table.append((what, agents, "not measured", label, "", ""))
                    continue
                text = f"{name(ours)} ({ours['ms_min']:.4f})" + verdict(ours["ms_median"], bars.get("ms"), True)
                alike = f"{name(same)}: {cell(ours, same, None)}" if same else "-"
                table.append((what, agents, text, label, cell(ours, any_form, bars.get(peer)), alike))
    widths = [max(len(str(row[column])) for row in table) for column in range(len(table[0]))]
    for row in table:
        print("  ".join(str(text).ljust(width) for text, width in zip(row, widths)).rstrip())
    for stack in ("spectral", *PEERS):
        found = next((row.get("versions") for row in rows if row["stack"] == stack), None)
        print(f"{stack}: {json.dumps(found)}" if found else f"{stack}: no figures")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
