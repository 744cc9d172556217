"""The training step that the GPU benchmarks time: sizes, inputs, a float64 reference, and the checks of the self-tests.

The step is the one of the spectral agent with the Nature network, replay sampling included:

  draw 32 indices per agent on the device; gather the stacks of 4 frames of s and s', rewards, actions and flags;
  target network on s' -> clamp -> greedy action by the summed value -> 3-step targets of all 21 frequencies -> clamp;
  online network on s -> error of the action taken -> running variance of the targets, this minibatch included ->
  weights 1/sigma^2 on the gradient that enters the hidden layers, none on the last layer's own -> backward -> Adam.

What the peers are given for free, because a user of them would do the same: rewards are stored decomposed, and for each
transition the replay holds, from the time it was written, the slots of its stack's frames (a blank slot stands for frames
before the episode's start) and its discount factors (0 after a terminal). Frames may lie in any order of pixels. The
126 outputs are padded to 128, and 1/255 is folded into the first layer's weights.
"""

import numpy as np

ACTIONS, HEADS, BATCH, STACK, SIDE, STEPS = 6, 21, 32, 4, 84, 3
OUTPUTS, PADDED = ACTIONS * HEADS, 128
DISCOUNT = 0.99 ** (1 / 3)
BOUND = 1.0 / (1.0 - DISCOUNT)
RATE, SIGMA_FLOOR_SQUARED = 3e-4, 1e-3
# In the self-test parameters move far enough for their movement to be compared in single precision.
TEST_LEARNING_RATE, TOLERANCE = 2e-4, 1e-4
LEARNING_RATE, BETA1, BETA2, EPSILON = 2.5e-5, 0.9, 0.999, 0.005 / 32
# Columns of the replay's table of numbers: three discount factors, bootstrap factor, whether learned from, action.
BOOTSTRAP, LIVE, ACTION, META = 3, 4, 5, 6
CONVOLUTIONS = [(4, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)]  # inputs, outputs, kernel, stride
SHAPES = {
    "w1": (32, 4, 8, 8), "b1": (32,), "w2": (64, 32, 4, 4), "b2": (64,), "w3": (64, 64, 3, 3), "b3": (64,),
    "w4": (512, 64, 7, 7), "b4": (512,), "w5": (PADDED, 512), "b5": (PADDED,),
}  # fmt: skip
TRUNK = ["w1", "b1", "w2", "b2", "w3", "b3", "w4", "b4"]


def parameters(agents, seed):
    """Random parameters in the plain layout, [agents, outputs, inputs, ...]; the padding outputs are 0."""
    random, values = np.random.default_rng(seed), {}
    for name, shape in SHAPES.items():
        bound = 1.0 / np.sqrt(np.prod(shape[1:])) if name[0] == "w" else 0.01
        values[name] = random.uniform(-bound, bound, (agents, *shape)).astype(np.float32)
    values["w5"][:, OUTPUTS:] = 0.0
    values["b5"][:, OUTPUTS:] = 0.0
    return values


def decompose(rewards):
    """The thermometer code to base 2: element i is the share of bucket i that |r| fills, with the sign of r."""
    widths = 2.0 ** np.arange(HEADS)
    filled = (np.abs(rewards)[..., None] - (widths - 1.0)) / widths
    return (np.sign(rewards)[..., None] * np.clip(filled, 0.0, 1.0)).astype(np.float32)


def tables(capacity, seed, terminal_rate=0.005, truncated_rate=0.0005):
    """One agent's replay without its frames: slots of each stack, decomposed rewards, table of numbers."""
    random = np.random.default_rng(seed)
    terminal = random.random(capacity) < terminal_rate
    truncated = random.random(capacity) < truncated_rate
    sizes = 2.0 ** random.uniform(0, 20, capacity) * random.choice([-1.0, 1.0], capacity)
    rewards = np.where(random.random(capacity) < 0.3, sizes, 0.0)
    at = np.arange(capacity)
    ended = np.concatenate([[True], (terminal | truncated)[:-1]])
    start = np.maximum.accumulate(np.where(ended, at, 0))
    slots = at[:, None] - np.arange(STACK - 1, -1, -1)
    slots = np.where(slots >= start[:, None], slots, capacity).astype(np.int32)
    meta = np.zeros((capacity, META), np.float32)
    alive, live = np.ones(capacity), np.ones(capacity, bool)
    for k in range(STEPS):
        later = np.minimum(at + k, capacity - 1)
        meta[:, k] = alive * DISCOUNT**k
        live &= ~(truncated[later] & (alive > 0))
        alive = alive * ~terminal[later]
    meta[:, BOOTSTRAP], meta[:, LIVE] = alive * DISCOUNT**STEPS, live
    meta[:, ACTION] = random.integers(0, ACTIONS, capacity)
    return {"slots": slots, "rewards": decompose(rewards), "meta": meta}


def small_problem(agents):
    """Everything that one update of `agents` agents depends on, small, for the self-tests. Agent k is the same in each."""
    capacity = 128
    random = [np.random.default_rng(100 + agent) for agent in range(agents)]
    frames = np.stack([r.integers(0, 256, (capacity + 1, SIDE, SIDE), dtype=np.uint8) for r in random])
    frames[:, capacity] = 0
    each = [tables(capacity, 200 + agent, 0.1, 0.03) for agent in range(agents)]
    stacked = {key: np.stack([table[key] for table in each]) for key in each[0]}
    indices = np.stack([r.integers(STACK - 1, capacity - STEPS, (2, BATCH)) for r in random], axis=1)
    nets = [[parameters(1, 300 + 10 * agent + kind) for agent in range(agents)] for kind in range(2)]
    online, target = ({k: np.concatenate([n[k] for n in net]) for k in SHAPES} for net in nets)
    return {"frames": frames, **stacked, "indices": indices, "online": online, "target": target}


def blocked(frames):
    """The pixels of frames [..., 84, 84] in order of 4x4 blocks: [..., 441, 16]."""
    lead = frames.shape[:-2]
    split = frames.reshape(*lead, 21, 4, 21, 4)
    return np.ascontiguousarray(np.swapaxes(split, -3, -2)).reshape(*lead, 441, 16)


def to_blocks(values):
    """Parameters as matrices for space-to-depth convolutions, rows by (block, place in block), pixels last in layer 1."""
    result = dict(values)
    for layer, (inputs, outputs, kernel, stride) in enumerate(CONVOLUTIONS, 1):
        blocks = kernel // stride
        split = values[f"w{layer}"].reshape(-1, outputs, inputs, blocks, stride, blocks, stride)
        order = (0, 3, 5, 2, 4, 6, 1) if layer == 1 else (0, 3, 5, 4, 6, 2, 1)
        result[f"w{layer}"] = split.transpose(order).reshape(-1, inputs * kernel * kernel, outputs)
    return _to_matrices(result)


def to_hwio(values):
    """Parameters with convolution kernels as [agents, height, width, inputs, outputs]."""
    kernels = {f"w{layer}": values[f"w{layer}"].transpose(0, 3, 4, 2, 1) for layer in (1, 2, 3)}
    return _to_matrices({**values, **kernels})


def _to_matrices(values):
    first = values["w4"].transpose(0, 3, 4, 2, 1).reshape(-1, 3136, 512)
    made = {**values, "w4": first, "w5": values["w5"].transpose(0, 2, 1)}
    return {key: np.ascontiguousarray(value) for key, value in made.items()}


def from_blocks(values):
    """The inverse of to_blocks."""
    result = dict(values)
    for layer, (inputs, outputs, kernel, stride) in enumerate(CONVOLUTIONS, 1):
        blocks = kernel // stride
        inner = (inputs, stride, stride) if layer == 1 else (stride, stride, inputs)
        split = values[f"w{layer}"].reshape(-1, blocks, blocks, *inner, outputs)
        order = (0, 6, 3, 1, 4, 2, 5) if layer == 1 else (0, 6, 5, 1, 3, 2, 4)
        result[f"w{layer}"] = split.transpose(order).reshape(-1, outputs, inputs, kernel, kernel)
    return _from_matrices(result)


def from_hwio(values):
    """The inverse of to_hwio."""
    kernels = {f"w{layer}": values[f"w{layer}"].transpose(0, 4, 3, 1, 2) for layer in (1, 2, 3)}
    return _from_matrices({**values, **kernels})


def _from_matrices(values):
    first = values["w4"].reshape(-1, 7, 7, 64, 512).transpose(0, 4, 3, 1, 2)
    return {**values, "w4": first, "w5": values["w5"].transpose(0, 2, 1)}


def _windows(x, kernel, stride):
    view = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return view[:, :, ::stride, ::stride]  # [batch, channel, y, x, ky, kx]


def _forward(net, stacks):
    """Activations of one agent's network in float64, for the backward pass: inputs of each layer, and the outputs."""
    kept, x = [], stacks / 255.0
    for layer, (_, _, kernel, stride) in enumerate(CONVOLUTIONS, 1):
        windows = _windows(x, kernel, stride)
        kept.append((x, windows))
        y = np.einsum("bcyxij,ocij->boyx", windows, net[f"w{layer}"], optimize=True)
        x = np.maximum(y + net[f"b{layer}"][:, None, None], 0.0)
    flat = x.reshape(len(x), -1)
    hidden = np.maximum(flat @ net["w4"].reshape(512, -1).T + net["b4"], 0.0)
    return kept, flat, hidden, hidden @ net["w5"].T + net["b5"]


def reference(problem, agent, updates=2):
    """Agent `agent` after some updates at the self-test's learning rate: parameters, moments, statistics; in float64."""
    net, frozen = ({k: v[agent].astype(np.float64) for k, v in problem[n].items()} for n in ("online", "target"))
    first, second = ({k: np.zeros_like(v) for k, v in net.items()} for _ in range(2))
    mean, square, count = (np.zeros(HEADS) for _ in range(3))
    rows = np.arange(BATCH)
    for update in range(updates):
        at = problem["indices"][update, agent]
        stacks = lambda t: problem["frames"][agent][problem["slots"][agent][t]].astype(np.float64)
        meta = problem["meta"][agent][at].astype(np.float64)
        action, live = meta[:, ACTION].astype(int), meta[:, LIVE] > 0
        returns = sum(meta[:, [k]] * problem["rewards"][agent][at + k] for k in range(STEPS))
        following = np.clip(_forward(frozen, stacks(at + STEPS))[3][:, :OUTPUTS], -BOUND, BOUND)
        following = following.reshape(BATCH, ACTIONS, HEADS)
        greedy = (following @ 2.0 ** np.arange(HEADS)).argmax(1)
        target = np.clip(returns + meta[:, [BOOTSTRAP]] * following[rows, greedy], -BOUND, BOUND)
        kept, flat, hidden, y = _forward(net, stacks(at))
        taken = y[:, :OUTPUTS].reshape(BATCH, ACTIONS, HEADS)[rows, action]
        target = np.where(live[:, None], target, taken)
        mean += RATE * (target.mean(0) - mean)
        square += RATE * ((target**2).mean(0) - square)
        fired = ((returns != 0) & live[:, None]).any(0) | (count > 0)
        count += fired | (np.arange(HEADS) == 0)
        correction = -np.expm1(np.maximum(count, 1.0) * np.log1p(-RATE))
        variance = square / correction - (mean / correction) ** 2
        weights = 1.0 / np.maximum(variance, SIGMA_FLOOR_SQUARED)
        error = np.zeros((2, BATCH, PADDED))
        places = action[:, None] * HEADS + np.arange(HEADS)
        error[0][rows[:, None], places] = (taken - target) / BATCH
        error[1][rows[:, None], places] = (taken - target) / BATCH * weights
        grads = {"w5": error[0].T @ hidden, "b5": error[0].sum(0)}
        upstream = (error[1] @ net["w5"]) * (hidden > 0)
        grads["w4"], grads["b4"] = (upstream.T @ flat).reshape(SHAPES["w4"]), upstream.sum(0)
        upstream = ((upstream @ net["w4"].reshape(512, -1)) * (flat > 0)).reshape(BATCH, 64, 7, 7)
        for layer in (3, 2, 1):
            _, _, kernel, stride = CONVOLUTIONS[layer - 1]
            x, windows = kept[layer - 1]
            grads[f"w{layer}"] = np.einsum("boyx,bcyxij->ocij", upstream, windows, optimize=True)
            grads[f"b{layer}"] = upstream.sum((0, 2, 3))
            back, (height, width) = np.zeros_like(x), upstream.shape[2:]
            for i in range(kernel):
                for j in range(kernel):
                    part = np.einsum("boyx,oc->bcyx", upstream, net[f"w{layer}"][:, :, i, j], optimize=True)
                    back[:, :, i : i + stride * height : stride, j : j + stride * width : stride] += part
            upstream = back * (x > 0)
        for name, gradient in grads.items():
            first[name] += (1 - BETA1) * (gradient - first[name])
            second[name] += (1 - BETA2) * (gradient**2 - second[name])
            root = np.sqrt(second[name] / (1 - BETA2 ** (update + 1)))
            net[name] -= TEST_LEARNING_RATE * first[name] / (1 - BETA1 ** (update + 1)) / (root + EPSILON)
    return {"net": net, "first": first, "second": second, "mean": mean, "square": square, "count": count}


def difference(state, wanted, before):
    """The largest relative error of any tensor: of an agent's movement, Adam's moments, and statistics."""
    relative = lambda a, b: float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30))
    errors = {key: relative(state[key], wanted[key]) for key in ("mean", "square", "count")}
    for name in SHAPES:
        moved = (np.asarray(s["net"][name], np.float64) - before[name] for s in (state, wanted))
        errors[f"moved {name}"] = relative(*moved)
        for moment in ("first", "second"):
            errors[f"{moment} {name}"] = relative(state[moment][name], wanted[moment][name])
    return max(errors.items(), key=lambda item: item[1])


def check(name, state, wanted, before, failures):
    """Prints one line of a self-test, and notes a failure."""
    what, error = difference(state, wanted, before)
    passed = error <= TOLERANCE
    print(f"  {'ok  ' if passed else 'FAIL'} {name}: largest relative difference {error:.1e} ({what})", flush=True)
    if not passed:
        failures.append(name)


def agent_of(state, agent):
    """One agent's part of a population's state in plain layout."""
    pick = lambda part: {k: pick(v) for k, v in part.items()} if isinstance(part, dict) else part[agent]
    return pick(state)


def save_state(path, state):
    """Writes a state in plain layout, for the comparison of one peer with the other."""
    nested = {f"{k}.{n}": v for k, part in state.items() if isinstance(part, dict) for n, v in part.items()}
    np.savez(path, **nested, **{k: v for k, v in state.items() if not isinstance(v, dict)})


def load_state(path):
    """Reads what save_state wrote."""
    state = {}
    for key, value in np.load(path).items():
        part, _, name = key.partition(".")
        if name:
            state.setdefault(part, {})[name] = value
        else:
            state[part] = value
    return state


def finish_selftest(args, state, failures):
    """Saves the state of two agents, or compares it with the other peer's; gives the exit code."""
    if args.save:
        save_state(args.save, state)
    if args.against:
        other = load_state(args.against)
        for agent in range(2):
            before = {k: v[agent] for k, v in small_problem(2)["online"].items()}
            name = f"agent {agent} of 2 against {args.against}"
            check(name, agent_of(state, agent), agent_of(other, agent), before, failures)
    print(f"self-test {'failed: ' + ', '.join(failures) if failures else 'passed'}")
    return 1 if failures else 0
