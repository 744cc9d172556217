"""Reads scores as JSON (agent -> task -> seeds) from standard input, writes rliable's and SciPy's statistics of them."""

import json
import sys

import numpy as np
import scipy.stats
from rliable import library, metrics

data = json.load(sys.stdin)
thresholds = np.array(data["thresholds"])
# rliable wants a matrix of seeds by tasks.
scores = {agent: np.array(tasks).T for agent, tasks in data["scores"].items()}
pairs = {f"{a},{b}": (scores[a], scores[b]) for a, b in data["pairs"]}
np.random.seed(20240501)

single = {
    "mean": metrics.aggregate_mean,
    "median": metrics.aggregate_median,
    "iqm": metrics.aggregate_iqm,
    "gap": metrics.aggregate_optimality_gap,
}
points, intervals = library.get_interval_estimates(
    scores, lambda x: np.array([statistic(x) for statistic in single.values()]), reps=3000)
out = {}
for k, name in enumerate(single):
    out[name] = {a: [float(points[a][k]), float(intervals[a][0, k]), float(intervals[a][1, k])] for a in scores}
out["improvement"] = {k: float(metrics.probability_of_improvement(x, y)) for k, (x, y) in pairs.items()}
profiles, bands = library.create_performance_profile(scores, thresholds, reps=2000)
out["profile"] = {k: [profiles[k].tolist(), bands[k][0].tolist(), bands[k][1].tolist()] for k in scores}
welch = {k: scipy.stats.ttest_ind(x[:, 0], y[:, 0], equal_var=False).confidence_interval(0.95) for k, (x, y) in pairs.items()}
out["welch"] = {k: [float(v.low), float(v.high)] for k, v in welch.items()}
student = {k: scipy.stats.ttest_1samp(x[:, 0], 0).confidence_interval(0.95) for k, x in scores.items()}
out["student"] = {k: [float(v.low), float(v.high)] for k, v in student.items()}
json.dump(out, sys.stdout)
