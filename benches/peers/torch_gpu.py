"""Times PyTorch on the training step of gpu_problem.py for populations of agents, each step one CUDA graph.

    python torch_gpu.py [--budget-seconds S] [--populations 20,1,5,64] [--quick]
    python torch_gpu.py --selftest [--save FILE | --against FILE]

Variants: `conv` is (grouped) convolution in channels_last with batched products, `conv-nchw` the same in the default layout,
`blocks` convolution by space-to-depth and batched products, `compiled` the same through torch.compile. `+fork` runs the
target network in a second branch of the graph. Without a GPU the steps are timed plainly, which only shows that they run.
Needs torch and numpy; nothing of this project.
"""

import contextlib
import sys
import time

import gpu_problem as problem
import gpu_report as report
import numpy as np
import torch
import torch.nn.functional as F
from gpu_problem import ACTION, ACTIONS, BATCH, BOOTSTRAP, BOUND, HEADS, LIVE, OUTPUTS, PADDED, SIDE, STACK, STEPS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FRAME_WORDS = SIDE * SIDE // 8


def versions():
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "device": name}


def set_precision(precision):
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True


class Replay:
    """All agents' replay on the device, flat, so that one gather serves all agents.

    Pixels are held as 64-bit words: gathering bytes one by one would cost more.
    """

    def __init__(self, frames, tables, indices=None):
        agents, slots = frames.shape[:2]
        self.capacity = slots - 1
        self.words = frames.view(agents * slots, -1).view(torch.int64)
        first = torch.arange(agents).view(-1, 1, 1)
        rows = torch.from_numpy(np.ascontiguousarray(tables["slots"])) + first * slots
        self.slots = rows.view(-1, STACK).to(DEVICE)
        self.rewards = torch.from_numpy(tables["rewards"]).reshape(-1, HEADS).to(DEVICE)
        self.meta = torch.from_numpy(tables["meta"]).reshape(-1, problem.META).to(DEVICE)
        self.first = (first.view(-1, 1) * self.capacity).to(DEVICE)
        self.both = torch.tensor([0, STEPS], device=DEVICE).view(2, 1, 1)
        self.steps = torch.arange(STEPS, device=DEVICE)
        self.indices = indices

    @staticmethod
    def random(agents, capacity):
        frames = torch.empty(agents, capacity + 1, SIDE * SIDE, dtype=torch.uint8, device=DEVICE)
        for agent in frames:
            agent.view(torch.int64).random_(-(2**63), None)
        frames[:, capacity] = 0
        one = problem.tables(capacity, 1)
        return Replay(frames, {key: np.broadcast_to(v, (agents, *v.shape)).copy() for key, v in one.items()})

    def sample(self, batch_first):
        """Frames of s and s' [2, agents, batch, 4, bytes] (or batch before agents), 3-step returns, table of numbers."""
        agents = len(self.first)
        drawn = self.indices
        if drawn is None:
            drawn = torch.randint(STACK - 1, self.capacity - STEPS, (agents, BATCH), device=DEVICE)
        at = drawn + self.first
        slots = self.slots[self.both + at]
        if batch_first:
            slots = slots.transpose(1, 2)
        frames = self.words.index_select(0, slots.reshape(-1)).view(torch.uint8)
        meta = self.meta[at]
        returns = (self.rewards[at.unsqueeze(-1) + self.steps] * meta[..., :STEPS].unsqueeze(-1)).sum(2)
        return frames.view(*slots.shape, -1), returns, meta


class Network:
    """One form of the Nature network for a population: its layout of parameters, and its forward pass."""

    def __init__(self, form, agents, precision, slices=False):
        self.form, self.agents, self.slices = form, agents, slices
        self.compute = torch.bfloat16 if precision == "bf16" else torch.float32
        self.batch_first = form != "blocks"
        self.layout = torch.channels_last if form == "conv" else torch.contiguous_format

    def load(self, plain, copies=1):
        """Parameters on the device in this form's layout, from the plain one, that many times over."""
        if self.form == "blocks":
            made = problem.to_blocks(plain)
        else:
            made = {**plain, "w5": plain["w5"].transpose(0, 2, 1)}
            order = (0, 3, 4, 2, 1) if self.form == "conv" else (0, 2, 3, 4, 1)
            made["w4"] = plain["w4"].transpose(order).reshape(-1, 3136, 512)
            for layer in "123":
                for name in ("w" + layer, "b" + layer):
                    made[name] = plain[name].reshape(-1, *plain[name].shape[2:])
        tensors = {k: torch.tensor(np.ascontiguousarray(v), device=DEVICE) for k, v in made.items()}
        if copies > 1:
            tensors = {k: v.repeat(copies, *[1] * (v.dim() - 1)) for k, v in tensors.items()}
        if self.form == "conv":
            tensors |= {k: tensors[k].to(memory_format=torch.channels_last) for k in ("w1", "w2", "w3")}
        return tensors

    def plain(self, tensors):
        """The inverse of load, for the self-test."""
        values = {key: tensor.detach().cpu().double().numpy() for key, tensor in tensors.items()}
        if self.form == "blocks":
            return problem.from_blocks(values)
        made = {"w5": values["w5"].transpose(0, 2, 1)}
        if self.form == "conv":
            made["w4"] = values["w4"].reshape(-1, 7, 7, 64, 512).transpose(0, 4, 3, 1, 2)
        else:
            made["w4"] = values["w4"].reshape(-1, 64, 7, 7, 512).transpose(0, 4, 1, 2, 3)
        for layer in "123":
            for name in ("w" + layer, "b" + layer):
                made[name] = values[name].reshape(self.agents, *problem.SHAPES[name])
        return {**values, **made}

    def cast(self, tensor):
        return tensor.to(self.compute)

    def linear(self, x, w, b):
        """[agents, rows, inputs] times [agents, inputs, outputs], plus bias."""
        x, w, b = self.cast(x), self.cast(w), self.cast(b)
        if self.agents == 1:
            return torch.addmm(b[0], x[0], w[0]).unsqueeze(0)
        return torch.baddbmm(b.unsqueeze(1), x, w)

    def enter(self, frames):
        """Gathered bytes as the first layer takes them."""
        if self.form != "blocks":
            pixels = frames.view(-1, self.agents * STACK, SIDE, SIDE)
            return pixels.to(self.compute, memory_format=self.layout)
        blocks = frames.view(self.agents, -1, STACK, 21, 21, 16)
        if self.slices:
            parts = [blocks[:, :, :, i : i + 20, j : j + 20].permute(0, 1, 3, 4, 2, 5) for i in (0, 1) for j in (0, 1)]
            return self.cast(torch.stack(parts, 4)).reshape(self.agents, -1, 256)
        windows = blocks.unfold(3, 2, 1).unfold(4, 2, 1).permute(0, 1, 3, 4, 6, 7, 2, 5)
        return windows.to(self.compute, memory_format=torch.contiguous_format).view(self.agents, -1, 256)

    def patches(self, x, side, channels, kernel, stride):
        """Rows of one output place each, [agents, places, kernel * kernel * channels], by blocks of stride x stride."""
        across, blocks = side // stride, kernel // stride
        out = across - blocks + 1
        split = x.view(self.agents, -1, across, stride, across, stride, channels)
        if self.slices:
            places = [(i, j) for i in range(blocks) for j in range(blocks)]
            parts = [split[:, :, i : i + out, :, j : j + out].permute(0, 1, 2, 4, 3, 5, 6) for i, j in places]
            windows = torch.stack(parts, 4)
        else:
            windows = split.unfold(2, blocks, 1).unfold(4, blocks, 1).permute(0, 1, 2, 4, 7, 8, 3, 5, 6)
        return windows.reshape(self.agents, -1, kernel * kernel * channels)

    def trunk(self, p, x):
        """The hidden layers: [agents, batch, 512] from what `enter` made."""
        first = p["w1"] * (1.0 / 255.0)
        if self.form == "blocks":
            x = F.relu(self.linear(x, first, p["b1"]))
            x = F.relu(self.linear(self.patches(x, 20, 32, 4, 2), p["w2"], p["b2"]))
            x = F.relu(self.linear(self.patches(x, 9, 64, 3, 1), p["w3"], p["b3"]))
            x = x.reshape(self.agents, -1, 3136)
        else:
            for w, layer, stride in ((first, "1", 4), (p["w2"], "2", 2), (p["w3"], "3", 1)):
                w, b = self.cast(w), self.cast(p["b" + layer])
                x = F.relu(F.conv2d(x, w, b, stride, groups=self.agents))
            if self.form == "conv":
                rows = x.permute(0, 2, 3, 1).unflatten(3, (self.agents, 64))
                x = rows.permute(3, 0, 1, 2, 4).reshape(self.agents, -1, 3136)
            else:
                x = x.view(-1, self.agents, 3136).transpose(0, 1)
        return F.relu(self.linear(x, p["w4"], p["b4"]))

    def heads(self, p, hidden):
        return self.linear(hidden, p["w5"], p["b5"]).float()


class Learner:
    """A population in training: parameters, Adam, statistics, and one update of all agents."""

    def __init__(self, network, replay, online, target, learning_rate, compiled=False, fork=False):
        self.network, self.replay, self.compiled = network, replay, compiled
        self.online, self.target = online, target
        self.stream = torch.cuda.Stream() if fork else None
        agents, self.learning_rate = network.agents, learning_rate
        self.mean, self.square, self.count = (torch.zeros(agents, HEADS, device=DEVICE) for _ in range(3))
        self.sizes = 2.0 ** torch.arange(HEADS, device=DEVICE)
        self.actions = torch.arange(ACTIONS, device=DEVICE)
        self.always = torch.arange(HEADS, device=DEVICE) == 0
        if compiled:
            self.first, self.second = ({k: torch.zeros_like(v) for k, v in self.online.items()} for _ in range(2))
            self.updates = torch.zeros((), device=DEVICE)
        else:
            for name in problem.TRUNK:
                self.online[name].requires_grad_()
            betas = (problem.BETA1, problem.BETA2)
            options = {"lr": learning_rate, "betas": betas, "eps": problem.EPSILON, "fused": True}
            self.adam = torch.optim.Adam(self.online.values(), capturable=DEVICE == "cuda", **options)

    def next_values(self, frames):
        with torch.no_grad():
            y = self.network.heads(self.target, self.network.trunk(self.target, self.network.enter(frames)))
            y = y[..., :OUTPUTS].unflatten(2, (ACTIONS, HEADS)).clamp(-BOUND, BOUND)
            greedy = (y * self.sizes).sum(3).argmax(2)
            return y.gather(2, greedy[:, :, None, None].expand(-1, -1, 1, HEADS)).squeeze(2)

    @torch.no_grad()
    def errors(self, outputs, following, returns, meta):
        """Output gradients of the last layer and for the hidden layers; updates the running statistics."""
        y = outputs[..., :OUTPUTS].unflatten(2, (ACTIONS, HEADS))
        chosen = (meta[..., ACTION, None] == self.actions).unsqueeze(-1)
        taken = (y * chosen).sum(2)
        live = meta[..., LIVE, None] > 0
        target = (returns + meta[..., BOOTSTRAP, None] * following).clamp(-BOUND, BOUND)
        target = torch.where(live, target, taken)
        self.mean.lerp_(target.mean(1), problem.RATE)
        self.square.lerp_(target.square().mean(1), problem.RATE)
        fired = ((returns != 0) & live).any(1) | (self.count > 0) | self.always
        self.count.add_(fired)
        correction = -torch.expm1(self.count.clamp(min=1) * float(np.log1p(-problem.RATE)))
        variance = self.square / correction - (self.mean / correction).square()
        weights = 1.0 / variance.clamp(min=problem.SIGMA_FLOOR_SQUARED)
        error = (taken - target) / BATCH
        pair = torch.stack([error, error * weights.unsqueeze(1)])
        return F.pad((pair.unsqueeze(3) * chosen).flatten(3), (0, PADDED - OUTPUTS))

    def update(self):
        network, p = self.network, self.online
        with torch.no_grad():
            frames, returns, meta = self.replay.sample(network.batch_first)
            here = torch.cuda.current_stream() if self.stream else None
            if self.stream:
                self.stream.wait_stream(here)
            with torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext():
                following = self.next_values(frames[1])
            x = network.enter(frames[0])
        hidden_layers = {name: p[name] for name in problem.TRUNK}
        if self.compiled:
            hidden, pull = torch.func.vjp(lambda q: network.trunk(q, x), hidden_layers)
        else:
            hidden = network.trunk(p, x)
        with torch.no_grad():
            outputs = network.heads(p, hidden)
            if self.stream:
                here.wait_stream(self.stream)
            plain, weighted = self.errors(outputs, following, returns, meta)
            rows = network.cast(plain)
            gradients = {"w5": torch.bmm(hidden.transpose(1, 2), rows).float(), "b5": plain.sum(1)}
            back = torch.bmm(network.cast(weighted), network.cast(p["w5"]).transpose(1, 2))
        if self.compiled:
            gradients |= pull(back)[0]
            self.plain_adam(gradients)
        else:
            names = list(hidden_layers)
            gradients |= zip(names, torch.autograd.grad(hidden, list(hidden_layers.values()), back))
            for name, gradient in gradients.items():
                p[name].grad = gradient
            self.adam.step()

    @torch.no_grad()
    def plain_adam(self, gradients):
        """Adam written out, for the compiler to fuse."""
        self.updates.add_(1)
        betas = (problem.BETA1, problem.BETA2)
        correction1, correction2 = (-torch.expm1(self.updates * float(np.log(beta))) for beta in betas)
        for name, gradient in gradients.items():
            first, second = self.first[name], self.second[name]
            first.lerp_(gradient, 1 - problem.BETA1)
            second.lerp_(gradient.square(), 1 - problem.BETA2)
            root = (second / correction2).sqrt() + problem.EPSILON
            self.online[name].sub_(self.learning_rate * (first / correction1) / root)

    def act(self, observations):
        """Greedy actions of all agents for one observation each."""
        with torch.no_grad():
            network = self.network
            y = network.heads(self.online, network.trunk(self.online, network.enter(observations)))
            y = y[..., :OUTPUTS].unflatten(2, (ACTIONS, HEADS)).clamp(-BOUND, BOUND)
            return (y * self.sizes).sum(3).argmax(2)

    def state(self):
        """Everything that an update changes, in plain layout."""
        if self.compiled:
            first, second = self.first, self.second
        else:
            moments = {name: self.adam.state[tensor] for name, tensor in self.online.items()}
            first, second = ({n: m[key] for n, m in moments.items()} for key in ("exp_avg", "exp_avg_sq"))
        made = {"net": self.online, "first": first, "second": second}
        made = {key: self.network.plain(value) for key, value in made.items()}
        return made | {k: getattr(self, k).cpu().double().numpy() for k in ("mean", "square", "count")}


def repeatable(step):
    """The step as a CUDA graph; where there is no GPU, the step."""
    if DEVICE == "cpu":
        step()
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.kept = step
    return graph.replay


def measure(step, seconds):
    """Milliseconds of one step, one figure per repetition of several steps."""

    def once(count):
        if DEVICE == "cpu":
            begin = time.perf_counter()
            for _ in range(count):
                step()
            return (time.perf_counter() - begin) * 1e3
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            step()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    started = time.monotonic()
    rough = once(1)
    while time.monotonic() - started < seconds * 0.3:
        rough = once(5) / 5
    count, times, started = max(1, int(20.0 / rough)), [], time.monotonic()
    while len(times) < 5 or time.monotonic() - started < seconds:
        times.append(once(count) / count)
    return times


def cases(args, agents):
    """Variants in the order of their promise: (name, form, precision, fork)."""
    for precision in args.precisions:
        for form in ("conv", "blocks", "conv-nchw"):
            yield form, form, precision, False
    if DEVICE == "cuda" and agents <= 5:
        for precision in args.precisions:
            for form in ("conv", "blocks"):
                yield form + "+fork", form, precision, True


def time_case(args, replay, agents, name, form, precision, fork, compiled=False):
    """Times one variant's update, and where it is asked for its acting."""
    started, what = time.monotonic(), "update"
    try:
        set_precision(precision)
        torch.manual_seed(1)
        network = Network(form, agents, precision, slices=compiled)
        nets = (network.load(problem.parameters(1, seed), agents) for seed in (1, 2))
        learner = Learner(network, replay, *nets, problem.LEARNING_RATE, compiled, fork)
        seconds = 0.2 if args.quick else 0.8
        update = torch.compile(learner.update) if compiled else learner.update
        report.emit("torch", name, precision, agents, what, measure(repeatable(update), seconds), versions())
        if not all(torch.isfinite(tensor).all() for tensor in learner.online.values()):
            raise RuntimeError("the parameters are no longer finite: the figure above is not valid")
        if agents in (1, 20) and not fork:
            what = "act"
            observations = torch.randint(0, 256, (agents, STACK, SIDE * SIDE), dtype=torch.uint8, device=DEVICE)
            act = torch.compile(learner.act) if compiled else learner.act
            times = measure(repeatable(lambda: act(observations)), seconds / 2)
            report.emit("torch", name, precision, agents, what, times, versions())
    except Exception as error:  # a variant that fails must not end the others
        report.skipped(name, precision, agents, what, f"{type(error).__name__}: {error}")
    print(f"# {name} {precision} P = {agents}: {time.monotonic() - started:.1f} s", flush=True)


def work(args):
    wanted = lambda name: not args.variants or name in args.variants
    for compiled in (False, True):
        if compiled and not wanted("compiled"):
            return
        for agents in args.populations:
            try:
                replay = Replay.random(agents, args.capacity)
            except RuntimeError as error:
                report.skipped("any", "", agents, "update", error)
                continue
            if compiled:
                for precision in args.precisions:
                    time_case(args, replay, agents, "compiled", "blocks", precision, False, True)
            else:
                for name, form, precision, fork in cases(args, agents):
                    if wanted(name):
                        time_case(args, replay, agents, name, form, precision, fork)
            del replay
            if DEVICE == "cuda":
                torch.cuda.empty_cache()


def selftest(args):
    """Two updates in fp32 from the same inputs: each form, alone and as one of two agents, against float64."""
    set_precision("fp32")
    failures, saved, pair = [], None, {}
    wanted = [problem.reference(problem.small_problem(2), agent) for agent in range(2)]
    for agents in (2, 1):
        small = problem.small_problem(agents)
        for form, compiled in (("conv", False), ("conv-nchw", False), ("blocks", False), ("blocks", True)):
            frames = torch.from_numpy(problem.blocked(small["frames"]) if form == "blocks" else small["frames"])
            replay = Replay(frames.reshape(agents, -1, SIDE * SIDE).to(DEVICE), small)
            network = Network(form, agents, "fp32", slices=compiled)
            nets = (network.load(small[key]) for key in ("online", "target"))
            learner = Learner(network, replay, *nets, problem.TEST_LEARNING_RATE, compiled)
            backend = "inductor" if "compiled" in args.variants else "aot_eager"
            update = torch.compile(learner.update, backend=backend) if compiled else learner.update
            for indices in small["indices"]:
                replay.indices = torch.from_numpy(indices).to(DEVICE)
                update()
            state = learner.state()
            for agent in range(agents):
                before = {k: v[agent] for k, v in small["online"].items()}
                label = f"torch {'compiled ' if compiled else ''}{form}, agent {agent} of {agents}"
                problem.check(label + " against float64", problem.agent_of(state, agent), wanted[agent], before, failures)
                if agents == 1 and not compiled:
                    alone = problem.agent_of(pair[form], 0)
                    problem.check(label + " against the same of 2", problem.agent_of(state, 0), alone, before, failures)
            if agents == 2 and not compiled:
                pair[form], saved = state, saved or state
    return problem.finish_selftest(args, saved, failures)


def main():
    args = report.arguments(__doc__)
    if args.selftest:
        return selftest(args)
    if args.worker:
        return work(args)
    return report.supervise(__file__, args.budget_seconds, "PyTorch " + torch.__version__)


if __name__ == "__main__":
    sys.exit(main())
