"""Agents on Gymnasium tasks: learning, exactness, faults."""

import hashlib
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import spectral_rl
from own_tasks import Glow, Trouble, Unseeded, Walk
from run_fixtures import PATIENCE, unsealed, wait_for_metrics

QUICK = {"learning_starts": 200, "epsilon_frames": 800, "hidden": "32", "target_period": 200}


def files(run_dir):
    """Every table and model of a run, by its path, as a fingerprint."""
    found = {}
    for path in sorted(Path(run_dir).glob("agents/*/*")):
        if path.suffix in (".csv", ".safetensors"):
            found[f"{path.parent.name}/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found, run_dir
    return found


@pytest.mark.parametrize("cls", [spectral_rl.SpectralDQN, spectral_rl.PopArtDQN, spectral_rl.CompressedDQN])
def test_agents_learn_a_walk(cls):
    agent = cls(Walk, **QUICK)
    agent.learn(6_000)
    assert agent.evaluate(20).mean() > 990
    assert agent.num_timesteps == 6_000


def test_images_in_every_layout():
    for shape in [(12, 12), (3, 12, 12), (12, 12, 3)]:
        agent = spectral_rl.DQN(lambda: Glow(shape), **QUICK, learning_rate=1e-3, update_period=1)
        agent.learn(1_500)
        assert agent.evaluate(20).mean() > 9, shape
    stacked = spectral_rl.DQN(lambda: Glow((12, 12)), stack=3, **QUICK, learning_rate=1e-3, update_period=1)
    stacked.learn(1_500)
    assert stacked.evaluate(20).mean() > 9
    assert stacked.policy.native.observation_shape[0] == 3


def test_discrete_observations_and_actions_that_do_not_start_at_0():
    # Its reward is far away: exploration has to last.
    keywords = {**QUICK, "epsilon_frames": 9_000, "env_kwargs": {"is_slippery": False}}
    agent = spectral_rl.DQN("FrozenLake-v1", **keywords).learn(10_000)
    assert agent.evaluate(5).mean() == 1.0
    agent = spectral_rl.DQN(Walk, env_kwargs={"start": 5}, **QUICK).learn(5_000)
    assert agent.evaluate(10).mean() > 990
    observation, _ = Walk(start=5).reset(seed=1)
    assert agent.predict(observation, deterministic=True)[0] == 6


def test_only_legal_actions_are_played():
    # The task itself asserts that it gets no illegal action.
    agent = spectral_rl.SpectralDQN(Walk, env_kwargs={"mask": True}, **QUICK)
    agent.learn(4_000)
    assert agent.evaluate(20).mean() > 990
    q = agent.q_values(np.eye(6, dtype=np.float32))
    masks = np.array([[True, False]] * 6)
    actions, _ = agent.predict(np.eye(6, dtype=np.float32), deterministic=True, action_masks=masks)
    assert (actions == 0).all() and q.shape == (6, 2)


def test_population_of_twelve_has_the_bits_of_agents_alone(tmp_path):
    names = ["spectral", "popart", "compressed", "clipped"]
    population = spectral_rl.Population(
        "CartPole-v1", agents=names, seeds=3, run_dir=tmp_path / "all", **QUICK
    )
    population.learn(1_500)
    together = files(tmp_path / "all")
    assert len(population.agents) == 12
    for name in names:
        for seed in (1, 2, 3):
            folder = tmp_path / f"{name}-{seed}"
            spectral_rl.Agent(name, "CartPole-v1", seed=seed, run_dir=folder, **QUICK).learn(1_500)
            for path, fingerprint in files(folder).items():
                assert together[path] == fingerprint, path


KILLED = """
import sys
sys.path.insert(0, {tests!r})
import spectral_rl
from own_tasks import Walk
spectral_rl.Population(
    {env}, agents=["spectral", "popart"], seeds=6, run_dir=sys.argv[1], checkpoint_seconds=0.3,
    learning_starts=200, epsilon_frames=800, hidden="32", target_period=200, reproducible=True,
).learn(3_000)
"""


def saved(run):
    """The names of a run's checkpoints."""
    return {path.name for path in (run / "checkpoints").glob("*.checkpoint")}


@pytest.mark.parametrize("env", ["'CartPole-v1'", "Walk"])
def test_killed_and_started_again_it_comes_to_the_same_bits(tmp_path, env):
    script = tmp_path / "train.py"
    script.write_text(KILLED.format(tests=os.path.dirname(__file__), env=env))
    subprocess.run([sys.executable, script, tmp_path / "whole"], check=True, timeout=PATIENCE)
    # Killed three times, each time as soon as it has saved once more: whatever the machine's pace, it was on its way.
    kills = 0
    while True:
        seen = saved(tmp_path / "killed")
        process = subprocess.Popen([sys.executable, script, tmp_path / "killed"])
        while process.poll() is None and (kills == 3 or saved(tmp_path / "killed") <= seen):
            time.sleep(0.005)
        if process.poll() is not None:
            assert process.returncode == 0
            break
        process.kill()
        process.wait()
        kills += 1
    assert kills >= 1
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_learning_in_pieces_is_learning_in_one_piece(tmp_path):
    whole = spectral_rl.DQN(Walk, run_dir=tmp_path / "whole", log_frames=500, **QUICK).learn(3_000)
    pieces = spectral_rl.DQN(Walk, run_dir=tmp_path / "pieces", log_frames=500, **QUICK)
    pieces.learn(1_000).learn(500)
    pieces.close()
    # Another program: it finds the agent as it was, goes through the same calls and only trains what is missing.
    again = spectral_rl.DQN(Walk, run_dir=tmp_path / "pieces", log_frames=500, **QUICK)
    assert again.num_timesteps == 1_500 and (again.q_values(np.eye(6)) != 0).any()
    again.learn(1_000)
    assert again.num_timesteps == 1_500
    again.learn(2_000)
    assert files(tmp_path / "pieces") == files(tmp_path / "whole")
    assert (again.q_values(np.eye(6)) == whole.q_values(np.eye(6))).all()
    whole.close()
    with pytest.raises(ValueError, match="holds another run"):
        spectral_rl.DQN(Walk, run_dir=tmp_path / "whole", seed=2, log_frames=500, **QUICK)


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
@pytest.mark.parametrize("cls", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
def test_vector_environments(mode, cls, tmp_path):
    mode = gymnasium.vector.AutoresetMode[mode]
    vector = cls([Walk] * 4, autoreset_mode=mode)
    population = spectral_rl.Population(
        vector, agents=["spectral", "clipped"], seeds=2, run_dir=tmp_path / "run", **QUICK
    )
    population.learn(4_000)
    vector.close()
    assert [agent.num_timesteps for agent in population.agents] == [4_000] * 4
    for agent in population.agents:
        assert agent.evaluate(10, Walk()).mean() > 990, agent
    for agent in population.run.agents:
        lengths = agent.episodes()["length"]
        # Steps of a reset are not the agent's: every episode is as long as the task makes it.
        assert lengths.max() <= 40 and lengths.min() >= 4
        assert abs(lengths.sum() - 4_000) <= 40


def test_a_vector_environment_without_autoreset_gives_the_bits_of_single_ones(tmp_path):
    for name in ["sync", "async"]:
        spectral_rl.Population(
            Walk, agents=["spectral"], seeds=3, vectorize=name, run_dir=tmp_path / name, **QUICK
        ).learn(1_200)
    spectral_rl.Population(Walk, agents=["spectral"], seeds=3, run_dir=tmp_path / "own", **QUICK).learn(1_200)
    assert files(tmp_path / "own") == files(tmp_path / "sync") == files(tmp_path / "async")


def test_an_environment_may_be_given_ready_made():
    env = gymnasium.make("CartPole-v1")
    agent = spectral_rl.SpectralDQN(env, **QUICK).learn(1_000)
    assert agent.num_timesteps == 1_000
    with pytest.raises(ValueError, match="function that makes one"):
        spectral_rl.Population(env, agents=["spectral", "popart"], **QUICK).learn(100)


TROUBLES = {
    "raise": (ZeroDivisionError, "the task is broken"),
    "interrupt": (KeyboardInterrupt, None),
    "nan reward": (spectral_rl.AgentStopped, "NaN"),
    "text reward": (TypeError, "not a number"),
    "nan observation": (ValueError, "finite"),
    "shape": (ValueError, "shape"),
    "four values": (TypeError, "terminated, truncated"),
    "text observation": (TypeError, "array of numbers"),
}


@pytest.mark.parametrize("what", TROUBLES)
def test_trouble_is_an_exception_and_the_last_checkpoint_stays(what, tmp_path):
    kind, text = TROUBLES[what]
    settings = {**QUICK, "run_dir": tmp_path / "run", "reproducible": True, "log_frames": 100}
    agent = spectral_rl.DQN(lambda: Trouble(what, at=10**9), **settings)
    agent.learn(300)
    agent.close()
    broken = spectral_rl.DQN(lambda: Trouble(what), **settings)
    with pytest.raises(kind, match=text):
        broken.learn(1_000)
    broken.close()
    if what == "nan reward":
        return  # The agent is stopped for good, and the run says why.
    mended = spectral_rl.DQN(lambda: Trouble(what, at=10**9), **settings).learn(1_000)
    whole = spectral_rl.DQN(
        lambda: Trouble(what, at=10**9), **{**settings, "run_dir": tmp_path / "whole"}
    ).learn(1_000)
    assert (mended.q_values(np.eye(6)) == whole.q_values(np.eye(6))).all()


def test_tasks_that_nobody_seeds_are_noticed(tmp_path):
    with pytest.warns(UserWarning, match="different episodes"):
        agent = spectral_rl.DQN(Unseeded, run_dir=tmp_path / "run", **QUICK)
    agent.learn(500)
    agent.close()
    # It goes on all the same, at the start of an episode.
    with pytest.warns(UserWarning, match="different episodes"):
        agent = spectral_rl.DQN(Unseeded, run_dir=tmp_path / "run", **QUICK)
    agent.learn(800)
    assert agent.num_timesteps == 800
    assert any("new episode" in note for note in agent.notes)
    # Whoever insists is told when it turns out to be untrue.
    with pytest.raises((ValueError, RuntimeError, OSError), match="same state|restore"):
        insisting = spectral_rl.DQN(Unseeded, run_dir=tmp_path / "insisting", reproducible=True, **QUICK)
        insisting.learn(500)
        insisting.close()
        spectral_rl.DQN(Unseeded, run_dir=tmp_path / "insisting", reproducible=True, **QUICK).learn(900)


def test_ctrl_c_ends_with_a_checkpoint(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, spectral_rl\n"
        "agent = spectral_rl.SpectralDQN('CartPole-v1', run_dir=sys.argv[1], learning_starts=100, log_frames=200)\n"
        "try:\n"
        "    agent.learn(50_000_000)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', agent.num_timesteps > 0, agent.run.status)\n"
    )
    process = subprocess.Popen(
        [sys.executable, script, tmp_path / "run"],
        stdout=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has them ignore it, and Python keeps to that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for_metrics(tmp_path / "run", process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "interrupted True" in out
    assert list((tmp_path / "run" / "checkpoints").iterdir())


def test_what_cannot_be_learned_is_refused():
    class Bad(Walk):
        def __init__(self, observation, action=None):
            super().__init__()
            self.observation_space = observation
            self.action_space = action or self.action_space

    box, dictionary = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)})
    image = gymnasium.spaces.Box(0, 255, (4, 84, 84, 3), np.uint8)
    for make, text in [
        (lambda: Bad(dictionary), "FlattenObservation"),
        (lambda: Bad(image), "Grayscale"),
        (lambda: Bad(box, box), "Discrete"),
        (lambda: Bad(box, gymnasium.spaces.Discrete(1000)), "256"),
        (lambda: 3, "no Gymnasium environment"),
        (7, "no environment"),
    ]:
        with pytest.raises(ValueError, match=text):
            spectral_rl.DQN(make)
    for keywords, text in [
        ({"gamma": 0.9}, "discount"),
        ({"buffer_size": 10}, "replay"),
        ({"learning_rat": 1}, "learning_rate"),
        ({"learning_rate": -1}, "above 0"),
    ]:
        with pytest.raises((TypeError, ValueError), match=text):
            spectral_rl.DQN(Walk, **keywords)
    with pytest.raises(ValueError, match="spectral"):
        spectral_rl.Agent("spectrel", Walk)
    class Forgets(Walk):
        def step(self, action):
            return *super().step(action)[:4], {}

    with pytest.raises(ValueError, match="in both"):
        spectral_rl.DQN(Forgets, env_kwargs={"mask": True})
    with pytest.raises(TypeError, match="the task alone"):
        spectral_rl.DQN("MlpPolicy", "CartPole-v1")
    for reserved in ["task", "agents", "seeds", "frames"]:
        with pytest.raises(TypeError, match="what you look for"):
            spectral_rl.DQN(Walk, **{reserved: 3})
    for steps in [-1, 1.5]:
        with pytest.raises(ValueError, match="whole number"):
            spectral_rl.DQN(Walk, **QUICK).learn(steps)


def test_short_runs_are_told(tmp_path):
    with pytest.warns(UserWarning, match="learning_starts"):
        spectral_rl.DQN(Walk).learn(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spectral_rl.DQN(Walk, **QUICK).learn(1_500)


def test_callbacks_see_everything_and_can_stop(tmp_path):
    from spectral_rl.callbacks import Callback

    class Watch(Callback):
        def __init__(self):
            self.seen = {"start": 0, "step": [], "episode": [], "log": [], "checkpoint": 0, "end": 0}

        def on_training_start(self, agent):
            self.seen["start"] += 1

        def on_step(self, info):
            self.seen["step"].append(info["frame"])
            return len(self.seen["step"]) < 1_234

        def on_episode(self, info):
            self.seen["episode"].append(info["return"])

        def on_log(self, row):
            self.seen["log"].append(row["frame"])

        def on_checkpoint(self, info):
            self.seen["checkpoint"] += 1

        def on_training_end(self):
            self.seen["end"] += 1

    for env in [Walk, "catch-scale"]:
        watch = Watch()
        agent = spectral_rl.SpectralDQN(env, log_frames=100, **QUICK)
        agent.learn(5_000, callback=watch)
        assert agent.num_timesteps == 1_234
        assert watch.seen["step"] == list(range(1, 1_235))
        assert watch.seen["log"][:3] == [100, 200, 300]
        assert len(watch.seen["episode"]) > 20 and watch.seen["start"] == watch.seen["end"] == 1
        # What a callback has ended is whole: it has a model like any other run.
        assert agent.run.status == "finished"
        policy = spectral_rl.load_policy(agent.run_dir)
        seen = np.zeros(policy.observation_shape, np.float32)
        assert (policy.q_values(seen) == agent.policy.q_values(seen)).all() and policy.frames == 1_234
        agent.learn(66)
        assert agent.num_timesteps == 1_300
    with pytest.raises(ZeroDivisionError):
        spectral_rl.DQN(Walk, **QUICK).learn(1_500, callback=lambda info: 1 / (info["frame"] - 700))


def test_spectral_tasks_need_no_python(tmp_path):
    for name in ["pong-mini", "Spectral/PongMini-v0"]:
        agent = spectral_rl.SpectralDQN(name, run_dir=tmp_path / name.replace("/", "-"), **QUICK)
        agent.learn(2_000)
        assert len(agent.evaluate(3)) == 3
    one, other = [files(folder) for folder in sorted(tmp_path.iterdir())]
    assert one == other


def test_the_command_reads_the_run(tmp_path):
    spectral_rl.Population(Walk, agents=["spectral"], seeds=2, run_dir=tmp_path / "run", **QUICK).learn(1_500)
    command = Path(sys.executable).parent / "spectral"
    report = [command, "report", tmp_path / "run", "--out", tmp_path / "report"]
    subprocess.run(report, check=True, capture_output=True, timeout=PATIENCE)
    assert (tmp_path / "report" / "report.html").exists() or list((tmp_path / "report").glob("*.html"))
    refused = subprocess.run([command, "resume", tmp_path / "run"], capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 2 and "gymnasium/" in refused.stderr


def test_a_run_is_loaded_and_goes_on(tmp_path):
    settings = {**QUICK, "log_frames": 500}
    whole = spectral_rl.SpectralDQN(Walk, run_dir=tmp_path / "whole", **settings).learn(2_000)
    first = spectral_rl.SpectralDQN(Walk, run_dir=tmp_path / "run", **settings).learn(1_200)
    with pytest.raises((RuntimeError, ValueError, OSError), match="another|use"):
        spectral_rl.SpectralDQN.load(tmp_path / "run", env=Walk)  # Its folder is in use.
    first.close()
    again = spectral_rl.SpectralDQN.load(tmp_path / "run", env=Walk)
    assert again.num_timesteps == 1_200
    again.learn(800)
    assert files(tmp_path / "run") == files(tmp_path / "whole")
    assert (again.q_values(np.eye(6)) == whole.q_values(np.eye(6))).all()
    with pytest.raises(ValueError, match="pass the task again"):
        spectral_rl.Agent.load(tmp_path / "run")


def test_a_saved_agent_acts_as_the_agent_does(tmp_path):
    agent = spectral_rl.SpectralDQN(Walk, **QUICK).learn(1_500)
    agent.save(tmp_path / "walk.safetensors")
    policy = spectral_rl.SpectralDQN.load(tmp_path / "walk.safetensors")
    seen = np.eye(6, dtype=np.float32)
    assert (policy.q_values(seen) == agent.q_values(seen)).all()
    assert policy.predict(seen[0], deterministic=True)[0] == agent.predict(seen[0], deterministic=True)[0]
    with_task = spectral_rl.load_policy(tmp_path / "walk.safetensors", env=Walk)
    assert with_task.predict(seen[0], deterministic=True) == policy.predict(seen[0], deterministic=True)
    with pytest.raises(ValueError, match="was trained on gymnasium/Walk"):
        spectral_rl.load_policy(tmp_path / "walk.safetensors", env="CartPole-v1")
    spectrum = agent.spectrum(seen)
    assert spectrum.shape == (6, 2, 21)
    assert np.allclose(spectrum @ agent.policy.weights, agent.q_values(seen), rtol=1e-5)
    with pytest.raises(ValueError, match="no spectrum"):
        spectral_rl.DQN(Walk, **QUICK).spectrum(seen)
    with pytest.raises(ValueError, match="shape"):
        agent.predict(np.zeros(5))


def test_agents_that_step_by_themselves_have_the_same_bits(tmp_path):
    # A device's population steps each task alone; this one has its pipeline and no device.
    for device in ["cpu", "cpu-lockstep"]:
        spectral_rl.Population(
            Walk, agents=["spectral", "popart"], seeds=2, device=device, run_dir=tmp_path / device, **QUICK
        ).learn(1_200)
    assert files(tmp_path / "cpu") == files(tmp_path / "cpu-lockstep")
    with pytest.raises(ZeroDivisionError):
        spectral_rl.Population(lambda: Trouble("raise"), seeds=2, device="cpu-lockstep", **QUICK).learn(1_500)
    vector = gymnasium.vector.SyncVectorEnv([Walk] * 2)
    with pytest.raises(ValueError, match="vector environment"):
        spectral_rl.Population(vector, seeds=2, device="cpu-lockstep", **QUICK)


def test_settings_of_tasks_and_of_single_agents():
    agent = spectral_rl.SpectralDQN("catch-scale", reward_scale=1e3, **QUICK).learn(1_100)
    assert set(np.abs(agent.evaluate(4))) == {1e3}
    both = {"spectral": {}, "popart": {"learning_rate": 1e-4}}
    population = spectral_rl.Population(Walk, agents=both, seeds=[7], **QUICK)
    assert [agent.seed for agent in population] == [7, 7] and len(population) == 2
    assert population._session.settings(1)["learning_rate"] == "0.0001"
    with pytest.warns(UserWarning, match="max_frequency"):
        spectral_rl.SpectralDQN("catch-scale", reward_scale=1e9, **QUICK).learn(1_100)


def test_an_agent_that_failed_is_what_it_was_at_its_last_checkpoint(tmp_path):
    class Breaks(Walk):
        broken = False

        def step(self, action):
            if Breaks.broken:
                raise ZeroDivisionError("the task is broken")
            return super().step(action)

    for run_dir in [None, tmp_path / "run"]:
        Breaks.broken = False
        agent = spectral_rl.SpectralDQN(Breaks, run_dir=run_dir, **QUICK).learn(1_100)
        before = agent.q_values(np.eye(6))
        assert (before != 0).any()
        Breaks.broken = True
        with pytest.raises(ZeroDivisionError):
            agent.learn(300)
        Breaks.broken = False
        assert agent.num_timesteps == 1_100 and (agent.q_values(np.eye(6)) == before).all()
        agent.close()
        assert agent.num_timesteps == 1_100 and (agent.policy.q_values(np.eye(6)) == before).all()
        agent.learn(300)
        assert agent.num_timesteps == 1_400
    # One that fails before its first checkpoint begins anew.
    Breaks.broken = False
    agent = spectral_rl.SpectralDQN(Breaks, **QUICK)
    Breaks.broken = True
    with pytest.raises(ZeroDivisionError):
        agent.learn(300)
    Breaks.broken = False
    assert agent.learn(300).num_timesteps == 300


def test_episodes_are_told_at_once():
    from spectral_rl.callbacks import Callback

    class Stop(Callback):
        def __init__(self):
            self.ends = []

        def on_episode(self, info):
            self.ends.append(info["frame"])
            return len(self.ends) < 5

    for env in [Walk, "catch-scale"]:
        stop = Stop()
        agent = spectral_rl.DQN(env, **QUICK).learn(20_000, callback=stop)
        assert agent.num_timesteps == stop.ends[-1] and len(stop.ends) == 5


def test_what_attacks_found_is_refused(tmp_path):
    for count in [2**40, 2**62]:

        class Large(Walk):
            def __init__(self):
                super().__init__()
                self.observation_space = gymnasium.spaces.Discrete(count)

        with pytest.raises(ValueError, match="elements"):
            spectral_rl.DQN(Large)

    class Late(Walk):
        """Says which actions are legal from its second episode on."""

        episodes = 0

        def reset(self, **keywords):
            observation, _ = super().reset(**keywords)
            self.episodes += 1
            return observation, {"action_mask": np.array([True, True])} if self.episodes > 4 else {}

    with pytest.raises(ValueError, match="every reset and step"):
        spectral_rl.DQN(Late, **QUICK).learn(1_500)
    for keywords in [{"run_dir": ""}, {"seed": -1}, {"seed": 2**63}]:
        with pytest.raises(ValueError):
            spectral_rl.DQN(Walk, **keywords)
    with pytest.raises(TypeError):
        spectral_rl.DQN(Walk, seed=1.5)
    agent = spectral_rl.DQN(Walk, **QUICK)
    assert agent.q_values(np.zeros((0, 6))).shape == (0, 2)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match="not a file"):
        agent.save(tmp_path / "fifo")
    with pytest.raises(FileNotFoundError, match="make it first"):
        agent.save(tmp_path / "no" / "such.safetensors")
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "run.toml")
    with pytest.raises(ValueError, match="not a file"):
        spectral_rl.DQN(Walk, run_dir=tmp_path / "run")
    with pytest.raises(ValueError, match="axes"):
        spectral_rl.decompose(np.ones((1,) * 32))
    with pytest.raises(ValueError, match="too many"):
        gymnasium.make_vec("Spectral/CatchScale-v0", num_envs=10**9)


def test_a_forked_copy_harms_nobody():
    agent = spectral_rl.DQN(Walk, **QUICK).learn(1_100)
    child = os.fork()
    if child == 0:
        try:
            agent.learn(10)
        except RuntimeError as error:
            os._exit(7 if "another process" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    script = (
        "import os, sys, spectral_rl\n"
        "agent = spectral_rl.DQN('catch-scale', learning_starts=100, epsilon_frames=100).learn(300)\n"
        "if os.fork() == 0:\n    sys.exit(0)\n"
        "os.wait()\nagent.learn(100)\nprint(agent.num_timesteps)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "400\n", done.stderr


def test_a_run_killed_just_before_its_end_is_finished(tmp_path):
    agent = spectral_rl.DQN(Walk, run_dir=tmp_path / "run", **QUICK).learn(1_100)
    agent.close()
    whole = files(tmp_path / "run")
    # As a kill leaves it between the last checkpoint and the models.
    state, model = tmp_path / "run" / "state.toml", tmp_path / "run" / "agents" / "clipped-s1" / "model.safetensors"
    state.write_text(unsealed(state.read_text()).replace('"finished"', '"running"').replace("finished = true", "finished = false"))
    model.unlink()
    spectral_rl.DQN(Walk, run_dir=tmp_path / "run", **QUICK).learn(1_100)
    assert files(tmp_path / "run") == whole
