"""Times JAX on the training step of gpu_problem.py: jit of vmap over the agents, state donated from step to step.

    python jax_gpu.py [--budget-seconds S] [--populations 20,1,5,64] [--quick]
    python jax_gpu.py --selftest [--save FILE | --against FILE]

Variants: `blocks` is convolution by space-to-depth, slices and one matrix product, frames stored in blocks; `patches` by
strided slices and one product; `conv` the plain convolution. `+scan` runs several steps inside one call (lax.scan), so that
the host's time to start a step does not count. Without a GPU the steps are timed plainly, which only shows that they run.
Needs jax and numpy; nothing of this project.
"""

import functools
import sys
import time

import gpu_problem as problem
import gpu_report as report
import jax
import jax.numpy as jnp
import numpy as np
from gpu_problem import ACTION, ACTIONS, BATCH, BOOTSTRAP, BOUND, HEADS, LIVE, OUTPUTS, PADDED, SIDE, STACK, STEPS

SCANNED = 16
POOL = 64
MATMUL = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "tensorfloat32"}


def versions():
    return {"jax": jax.__version__, "device": jax.devices()[0].device_kind}


def make_product(compute):
    """x @ w with both operands in the type `compute`, in the backward pass as well, accumulated in float32."""

    def dot(a, b, contracted):
        a, b = a.astype(compute), b.astype(compute)
        return jax.lax.dot_general(a, b, (contracted, ((), ())), preferred_element_type=jnp.float32)

    @jax.custom_vjp
    def product(x, w):
        return dot(x, w, ((1,), (0,)))

    def forward(x, w):
        return product(x, w), (x, w)

    def backward(kept, g):
        x, w = kept
        return dot(g, w, ((1,), (1,))).astype(x.dtype), dot(x, g, ((0,), (0,)))

    product.defvjp(forward, backward)
    return product


class Network:
    """One form of the Nature network, for one agent: vmap makes the population of it."""

    def __init__(self, form, precision):
        self.form = form
        self.compute = jnp.bfloat16 if precision == "bf16" else jnp.float32
        self.product = make_product(self.compute)

    def load(self, plain, copies=1):
        made = problem.to_blocks(plain) if self.form == "blocks" else problem.to_hwio(plain)
        return {key: jnp.repeat(jnp.asarray(value), copies, axis=0) for key, value in made.items()}

    def plain(self, values):
        values = {key: np.asarray(value, np.float64) for key, value in values.items()}
        return problem.from_blocks(values) if self.form == "blocks" else problem.from_hwio(values)

    def enter(self, frames):
        """Gathered bytes [batch, 4, 7056] as [batch, height, width, channels]."""
        if self.form == "blocks":
            split = frames.reshape(-1, STACK, 21, 21, 16)
            return split.transpose(0, 2, 3, 1, 4).reshape(-1, 21, 21, 64).astype(self.compute)
        return frames.reshape(-1, STACK, SIDE, SIDE).transpose(0, 2, 3, 1).astype(self.compute)

    def convolve(self, x, w, kernel, stride, entered):
        """A convolution; `entered`: the input already lies in blocks of stride x stride."""
        if self.form == "conv":
            dimensions = ("NHWC", "HWIO", "NHWC")
            w = w.astype(self.compute)
            return jax.lax.conv_general_dilated(x, w, (stride, stride), "VALID", dimension_numbers=dimensions)
        if self.form == "blocks":
            if stride > 1 and not entered:
                batch, side, _, channels = x.shape
                split = x.reshape(batch, side // stride, stride, side // stride, stride, channels)
                x = split.transpose(0, 1, 3, 2, 4, 5).reshape(batch, side // stride, side // stride, -1)
            kernel, stride = kernel // stride, 1
        out = (x.shape[1] - kernel) // stride + 1
        reach = stride * (out - 1) + 1
        places = [(i, j) for i in range(kernel) for j in range(kernel)]
        parts = [x[:, i : i + reach : stride, j : j + reach : stride] for i, j in places]
        rows = jnp.concatenate(parts, axis=3)
        made = self.product(rows.reshape(-1, rows.shape[3]), w.reshape(rows.shape[3], -1))
        return made.reshape(-1, out, out, made.shape[1])

    def trunk(self, p, x):
        """The hidden layers: [batch, 512]."""
        first = p["w1"] * (1.0 / 255.0)
        for w, layer, kernel, stride in ((first, "1", 8, 4), (p["w2"], "2", 4, 2), (p["w3"], "3", 3, 1)):
            y = self.convolve(x, w, kernel, stride, layer == "1")
            x = jax.nn.relu(y + p["b" + layer]).astype(self.compute)
        x = x.reshape(-1, 3136)
        return jax.nn.relu(self.product(x, p["w4"]) + p["b4"]).astype(self.compute)

    def heads(self, p, hidden):
        return self.product(hidden, p["w5"]) + p["b5"]

    def values(self, p, frames):
        """Bounded action-values of each frequency, and the greedy action by their weighted sum."""
        y = self.heads(p, self.trunk(p, self.enter(frames)))[:, :OUTPUTS]
        y = jnp.clip(y.reshape(-1, ACTIONS, HEADS), -BOUND, BOUND)
        return y, (y * 2.0 ** jnp.arange(HEADS)).sum(2).argmax(1)


def take(table, rows):
    """Rows of a table that are known to exist: without this promise JAX masks what it gathers."""
    return table.at[rows].get(mode="promise_in_bounds")


def one_agent(network, learning_rate, state, target, replay, at):
    """One update of one agent from the transitions `at`."""
    p, first, second, statistics = state["net"], state["first"], state["second"], state
    meta = take(replay["meta"], at)
    following, greedy = network.values(target, take(replay["frames"], take(replay["slots"], at + STEPS)))
    following = jnp.take_along_axis(following, greedy[:, None, None], 1, mode="promise_in_bounds")[:, 0]
    rewards = take(replay["rewards"], at[:, None] + jnp.arange(STEPS))
    returns = (rewards * meta[:, :STEPS, None]).sum(1)
    x = network.enter(take(replay["frames"], take(replay["slots"], at)))
    hidden, pull = jax.vjp(lambda q: network.trunk(q, x), {name: p[name] for name in problem.TRUNK})
    y = network.heads(p, hidden)[:, :OUTPUTS].reshape(-1, ACTIONS, HEADS)
    chosen = (meta[:, ACTION, None] == jnp.arange(ACTIONS))[:, :, None]
    taken = (y * chosen).sum(1)
    live = meta[:, LIVE, None] > 0
    bounded = jnp.clip(returns + meta[:, BOOTSTRAP, None] * following, -BOUND, BOUND)
    wanted = jnp.where(live, bounded, taken)
    mean = statistics["mean"] + problem.RATE * (wanted.mean(0) - statistics["mean"])
    square = statistics["square"] + problem.RATE * ((wanted**2).mean(0) - statistics["square"])
    fired = ((returns != 0) & live).any(0) | (statistics["count"] > 0) | (jnp.arange(HEADS) == 0)
    count = statistics["count"] + fired
    correction = -jnp.expm1(jnp.maximum(count, 1.0) * float(np.log1p(-problem.RATE)))
    variance = square / correction - (mean / correction) ** 2
    weights = 1.0 / jnp.maximum(variance, problem.SIGMA_FLOOR_SQUARED)
    spread = lambda error: jnp.pad((error[:, None] * chosen).reshape(-1, OUTPUTS), ((0, 0), (0, PADDED - OUTPUTS)))
    error = (taken - wanted) / BATCH
    plain, weighted = spread(error), spread(error * weights)
    # The last layer's own gradient is not weighted; what enters the hidden layers is.
    gradients = {"w5": network.product(hidden.T, plain), "b5": plain.sum(0)}
    gradients |= pull(network.product(weighted, p["w5"].T).astype(hidden.dtype))[0]
    updates = state["updates"] + 1
    correction1, correction2 = (-jnp.expm1(updates * float(np.log(b))) for b in (problem.BETA1, problem.BETA2))
    made = {"net": {}, "first": {}, "second": {}}
    for name, g in gradients.items():
        m = first[name] + (1 - problem.BETA1) * (g - first[name])
        v = second[name] + (1 - problem.BETA2) * (g * g - second[name])
        step = learning_rate * (m / correction1) / (jnp.sqrt(v / correction2) + problem.EPSILON)
        made["net"][name], made["first"][name], made["second"][name] = p[name] - step, m, v
    return made | {"mean": mean, "square": square, "count": count, "updates": updates}


def start(net):
    zeros = lambda: {key: jnp.zeros_like(value) for key, value in net.items()}
    statistics = {key: jnp.zeros((len(net["w5"]), HEADS)) for key in ("mean", "square", "count")}
    return {"net": net, "first": zeros(), "second": zeros(), **statistics, "updates": jnp.zeros(len(net["w5"]))}


def make_update(network, agents, capacity, scanned):
    """A jitted function of (state, key, target, replay) that makes one update, or several, of all agents."""
    population = jax.vmap(functools.partial(one_agent, network, problem.LEARNING_RATE))

    def update(state, key, target, replay):
        key, drawing = jax.random.split(key)
        at = jax.random.randint(drawing, (agents, BATCH), STACK - 1, capacity - STEPS)
        return population(state, target, replay, at), key

    def several(state, key, target, replay):
        body = lambda carry, _: (update(*carry, target, replay), None)
        return jax.lax.scan(body, (state, key), None, length=SCANNED)[0]

    return jax.jit(several if scanned else update, donate_argnums=(0, 1))


def make_act(network, scanned):
    """A jitted function of (net, observations, turn): greedy actions for one observation per agent, or POOL times that."""
    greedy = jax.vmap(lambda p, frames: network.values(p, frames[None])[1][0])
    if not scanned:
        return jax.jit(lambda p, pool, turn: greedy(p, pool[turn]))
    return jax.jit(lambda p, pool, turn: jax.lax.map(lambda seen: greedy(p, seen), pool))


def random_replay(agents, capacity):
    """Random bytes as frames, one agent after the other, so that no more than one agent's worth is made in between."""

    @jax.jit
    def make(keys):
        one = lambda key: jax.random.bits(key, (capacity + 1, SIDE * SIDE), jnp.uint8)
        return jax.lax.map(lambda key: one(key).at[capacity].set(0), keys)

    one = problem.tables(capacity, 1)
    replay = {key: jnp.asarray(np.broadcast_to(value, (agents, *value.shape))) for key, value in one.items()}
    replay["frames"] = jax.block_until_ready(make(jax.random.split(jax.random.key(1), agents)))
    return replay


def measure(run, steps, seconds):
    """Milliseconds of one step, one figure per repetition of several chained calls; `run(n)` makes n calls and waits."""
    started, rough = time.monotonic(), run(1)
    while time.monotonic() - started < seconds * 0.3:
        rough = run(5) / 5
    count, times, started = max(1, int(20.0 / rough)), [], time.monotonic()
    while len(times) < 5 or time.monotonic() - started < seconds:
        times.append(run(count) / count / steps)
    return times


def time_update(args, agents, replay, form, precision, scanned):
    network = Network(form, precision)
    target = network.load(problem.parameters(1, 2), agents)
    held = [start(network.load(problem.parameters(1, 1), agents)), jax.random.key(2)]
    update = make_update(network, agents, args.capacity, scanned)
    update = update.lower(*held, target, replay).compile()
    held[:] = jax.block_until_ready(update(*held, target, replay))

    def run(calls):
        begin = time.perf_counter()
        for _ in range(calls):
            held[:] = update(*held, target, replay)
        jax.block_until_ready(held)
        return (time.perf_counter() - begin) * 1e3

    times = measure(run, SCANNED if scanned else 1, 0.2 if args.quick else 0.8)
    if not all(bool(jnp.isfinite(value).all()) for value in held[0]["net"].values()):
        raise RuntimeError("the parameters are no longer finite: this figure is not valid")
    return times


def time_act(args, agents, form, precision, scanned):
    network = Network(form, precision)
    net = network.load(problem.parameters(1, 1), agents)
    pool = jax.random.bits(jax.random.key(3), (POOL, agents, STACK, SIDE * SIDE), jnp.uint8)
    act = make_act(network, scanned).lower(net, pool, 0).compile()
    jax.block_until_ready(act(net, pool, 0))

    def run(calls):
        begin = time.perf_counter()
        for turn in range(calls):
            last = act(net, pool, turn % POOL)
        jax.block_until_ready(last)
        return (time.perf_counter() - begin) * 1e3

    return measure(run, POOL if scanned else 1, 0.2 if args.quick else 0.4)


def time_case(args, agents, replay, form, precision, scanned, what):
    """Times one variant; says why where it cannot."""
    name, started = form + ("+scan" if scanned else ""), time.monotonic()
    if args.variants and name not in args.variants:
        return
    try:
        with jax.default_matmul_precision(MATMUL[precision]):
            if what == "update":
                times = time_update(args, agents, replay, form, precision, scanned)
            else:
                times = time_act(args, agents, form, precision, scanned)
        report.emit("jax", name, precision, agents, what, times, versions())
    except Exception as error:  # a variant that fails must not end the others
        report.skipped(name, precision, agents, what, f"{type(error).__name__}: {error}")
    print(f"# {what} {name} {precision} P = {agents}: {time.monotonic() - started:.1f} s", flush=True)


def rounds(args):
    """What to measure in the order of its weight, since compiling takes most of the time.

    First the form that was the fastest so far, for all populations; then its relatives, and last the slow ones.
    """
    both = args.precisions
    acting = [p for p in args.populations if p in (1, 20)]
    yield [(p, "blocks", q, p == 1, "update") for p in args.populations if p in (1, 20) for q in both]
    yield [(p, "blocks", both[0], True, "act") for p in acting]
    yield [(p, "blocks", q, False, "update") for p in args.populations if p not in (1, 20) for q in both]
    yield [(p, "patches", both[0], p == 1, "update") for p in args.populations if p in (1, 20)]
    yield [(p, "blocks", both[0], p != 1, "update") for p in args.populations if p in (1, 20)]
    yield [(p, "conv", both[0], p == 1, "update") for p in args.populations if p in (1, 20)]
    yield [(p, "blocks", q, s, "act") for p in acting for q in both for s in (False, True) if (q, s) != (both[0], True)]
    yield [(p, "patches", q, p == 1, "update") for p in args.populations for q in both if q != both[0] or p not in (1, 20)]
    yield [(p, "conv", q, p == 1, "update") for p in args.populations for q in both if q != both[0] or p not in (1, 20)]
    yield [(p, "conv", q, True, "act") for p in acting for q in both]


def work(args):
    for cases in rounds(args):
        for agents in dict.fromkeys(case[0] for case in cases):
            mine = [case for case in cases if case[0] == agents]
            names = {form + ("+scan" if scanned else "") for _, form, _, scanned, _ in mine}
            if args.variants and not names & set(args.variants):
                continue
            replay = None
            try:
                if any(case[4] == "update" for case in mine):
                    replay = random_replay(agents, args.capacity)
            except Exception as error:
                report.skipped("any", "", agents, "update", error)
                continue
            for _, form, precision, scanned, what in mine:
                time_case(args, agents, replay, form, precision, scanned, what)


def selftest(args):
    """Two updates in fp32 from the same inputs: each form, alone and as one of two agents, against float64."""
    failures, saved, pair = [], None, {}
    wanted = [problem.reference(problem.small_problem(2), agent) for agent in range(2)]
    for agents in (2, 1):
        small = problem.small_problem(agents)
        for form in ("blocks", "patches", "conv"):
            network = Network(form, "fp32")
            population = jax.jit(jax.vmap(functools.partial(one_agent, network, problem.TEST_LEARNING_RATE)))
            frames = problem.blocked(small["frames"]) if form == "blocks" else small["frames"]
            replay = {key: jnp.asarray(small[key]) for key in ("slots", "rewards", "meta")}
            replay["frames"] = jnp.asarray(frames.reshape(*frames.shape[:2], -1))
            state, target = start(network.load(small["online"])), network.load(small["target"])
            with jax.default_matmul_precision("highest"):
                for indices in small["indices"]:
                    state = population(state, target, replay, jnp.asarray(indices))
            made = {key: network.plain(state[key]) for key in ("net", "first", "second")}
            made |= {key: np.asarray(state[key], np.float64) for key in ("mean", "square", "count")}
            for agent in range(agents):
                before = {k: v[agent] for k, v in small["online"].items()}
                label = f"jax {form}, agent {agent} of {agents}"
                problem.check(label + " against float64", problem.agent_of(made, agent), wanted[agent], before, failures)
                if agents == 1:
                    alone = problem.agent_of(pair[form], 0)
                    problem.check(label + " against the same of 2", problem.agent_of(made, 0), alone, before, failures)
            if agents == 2:
                pair[form], saved = made, saved or made
    return problem.finish_selftest(args, saved, failures)


def main():
    args = report.arguments(__doc__)
    if args.selftest:
        return selftest(args)
    if args.worker:
        return work(args)
    return report.supervise(__file__, args.budget_seconds, "JAX " + jax.__version__)


if __name__ == "__main__":
    sys.exit(main())
