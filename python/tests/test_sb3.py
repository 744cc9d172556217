"""Together with Stable-Baselines3: its tools on our agents, its agents on our tasks."""

import gymnasium
import numpy as np
import pytest
import spectral_rl
from own_tasks import Glow, Walk

try:
    import stable_baselines3
except ImportError:
    pytest.skip(
        "SKIPPED: Stable-Baselines3 is not installed (pip install stable-baselines3), so nothing is tested beside it",
        allow_module_level=True,
    )

import torch
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

# With more, PyTorch's threads wait for one another whenever the machine has something else to do.
torch.set_num_threads(1)

QUICK = {"learning_starts": 200, "epsilon_frames": 800, "hidden": "32", "target_period": 200}
IMAGES = {**QUICK, "learning_rate": 1e-3, "update_period": 1}


class FixedStarts(gymnasium.Wrapper):
    """Episode i begins from seed i, as in our own `evaluate`: SB3 seeds an environment once or not at all."""

    def __init__(self, env):
        super().__init__(env)
        self._next = 0

    def reset(self, *, seed=None, options=None):
        self._next += 1
        return self.env.reset(seed=self._next - 1, options=options)


class Remember(gymnasium.Env):
    """A light flashes in the first step only; saying in every step which it was takes a memory of one more step."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0, 255, (12, 12), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(2)

    def _seen(self):
        image = np.zeros((12, 12), np.uint8)
        if self.steps % 2 == 0:
            self.left = bool(self.np_random.integers(2))
            image[:, slice(0, 6) if self.left else slice(6, 12)] = 255
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action):
        reward = 1.0 if (action == 0) == self.left else 0.0
        self.steps += 1
        return self._seen(), reward, self.steps == 10, False, {}


def by_both(agent, make, episodes=12):
    """Returns of the same episodes, played by SB3 and by ourselves."""
    rewards, lengths = evaluate_policy(agent, Monitor(FixedStarts(make())), episodes, return_episode_rewards=True)
    assert len(rewards) == len(lengths) == episodes
    return rewards, lengths, agent.evaluate(episodes, make(), seed=0).tolist()


@pytest.fixture(scope="module")
def walker():
    return spectral_rl.SpectralDQN(Walk, **QUICK).learn(5_000)


def test_evaluate_policy_on_an_agent(walker):
    theirs, lengths, ours = by_both(walker, Walk)
    # Monitor rounds to six digits behind the point.
    assert theirs == pytest.approx(ours, abs=1e-6)
    assert len(set(theirs)) > 1 and np.mean(theirs) > 990
    assert min(lengths) >= 4
    mean, deviation = evaluate_policy(walker, Monitor(FixedStarts(Walk())), 12)
    assert (mean, deviation) == pytest.approx((np.mean(theirs), np.std(theirs)))
    # The bar that it can be given.
    evaluate_policy(walker, Monitor(Walk()), 3, reward_threshold=900)
    with pytest.raises(AssertionError, match="below threshold"):
        evaluate_policy(walker, Monitor(Walk()), 3, reward_threshold=2_000)


def test_evaluate_policy_explores_if_asked(walker):
    greedy, _ = evaluate_policy(walker, Monitor(Walk()), 5, return_episode_rewards=True)
    loose, _ = evaluate_policy(walker, Monitor(Walk()), 5, deterministic=False, return_episode_rewards=True)
    assert np.mean(greedy) > 990 and np.mean(loose) > 900


def test_evaluate_policy_in_several_environments(walker):
    envs = make_vec_env(Walk, n_envs=4, seed=7)
    rewards, lengths = evaluate_policy(walker, envs, 20, return_episode_rewards=True)
    assert len(rewards) == len(lengths) == 20 and np.mean(rewards) > 990
    seen = []
    evaluate_policy(walker, envs, 4, callback=lambda local, _: seen.append(local["actions"].shape))
    assert set(seen) == {(4,)}


def test_evaluate_policy_on_members_of_a_population():
    population = spectral_rl.Population(Walk, agents=["spectral", "clipped"], seeds=2, **QUICK).learn(5_000)
    for member in population.agents:
        theirs, _, ours = by_both(member, Walk)
        assert theirs == pytest.approx(ours, abs=1e-6), member
        assert np.mean(theirs) > 990, member


def test_evaluate_policy_on_a_policy_from_a_file(walker, tmp_path):
    walker.save(tmp_path / "walker.safetensors")
    _, _, ours = by_both(walker, Walk)
    for policy in [
        spectral_rl.load_policy(tmp_path / "walker.safetensors", Walk()),
        # A vector is the same, whether the task is known or not.
        spectral_rl.load_policy(tmp_path / "walker.safetensors"),
        walker.policy,
    ]:
        theirs, _ = evaluate_policy(policy, Monitor(FixedStarts(Walk())), 12, return_episode_rewards=True)
        assert theirs == pytest.approx(ours, abs=1e-6)


@pytest.mark.parametrize("shape", [(12, 12), (3, 12, 12), (12, 12, 3)])
def test_evaluate_policy_on_images(shape, tmp_path):
    agent = spectral_rl.DQN(lambda: Glow(shape), **IMAGES).learn(1_500)
    theirs, _, ours = by_both(agent, lambda: Glow(shape))
    assert theirs == ours and np.mean(theirs) > 9
    agent.save(tmp_path / "glow.safetensors")
    policy = spectral_rl.load_policy(tmp_path / "glow.safetensors", Glow(shape))
    again, _ = evaluate_policy(policy, Monitor(FixedStarts(Glow(shape))), 12, return_episode_rewards=True)
    assert again == ours


def test_evaluate_policy_hands_on_the_memory_of_an_agent_that_stacks(tmp_path):
    agent = spectral_rl.DQN(Remember, stack=2, **IMAGES).learn(3_000)
    theirs, _, ours = by_both(agent, Remember)
    # Without memory, half of the even steps and half of the odd ones: 7.5 on average.
    assert theirs == ours and np.mean(theirs) > 9.5
    rewards, _ = evaluate_policy(agent, make_vec_env(Remember, n_envs=3, seed=1), 12, return_episode_rewards=True)
    assert np.mean(rewards) > 9.5
    agent.save(tmp_path / "remember.safetensors")
    policy = spectral_rl.load_policy(tmp_path / "remember.safetensors", Remember())
    again, _ = evaluate_policy(policy, Monitor(FixedStarts(Remember())), 12, return_episode_rewards=True)
    assert again == ours


def test_evaluate_policy_on_our_own_tasks():
    def make():
        return gymnasium.make("spectral_rl:Spectral/CatchScale-v0")

    agent = spectral_rl.SpectralDQN("catch-scale", **QUICK).learn(12_000)
    theirs, _, ours = by_both(agent, make)
    assert theirs == pytest.approx(ours, abs=1e-6) and np.mean(theirs) > 0.5


IDS = [
    ("CatchScale", {}),
    ("CatchScale", {"observation": "planes"}),
    ("CatchScale", {"observation": "pixels"}),
    ("PongMini", {}),
    ("ExponentialPongMini", {"observation": "pixels"}),
    ("PonglantisMini", {}),
    ("2048", {}),
    ("2048", {"observation": "planes"}),
    ("Investor", {}),
]


@pytest.mark.filterwarnings("ignore:.*CnnPolicy.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*normalize.*:UserWarning")
@pytest.mark.parametrize("name, settings", IDS)
def test_sb3_finds_nothing_wrong_with_our_tasks(name, settings):
    check_env(gymnasium.make(f"spectral_rl:Spectral/{name}-v0", **settings), warn=True)


def catch(**settings):
    return gymnasium.make("spectral_rl:Spectral/CatchScale-v0", **settings)


def sb3_dqn(policy, env, steps, **keywords):
    """SB3's DQN, after this many steps, with settings for a small task."""
    keywords = {"learning_rate": 1e-3, "train_freq": 2, **keywords}
    model = stable_baselines3.DQN(
        policy,
        env,
        buffer_size=5_000,
        learning_starts=200,
        target_update_interval=200,
        exploration_fraction=0.5,
        seed=1,
        device="cpu",
        **keywords,
    )
    return model.learn(steps)


def test_sb3s_dqn_learns_our_task_from_vectors():
    before, _ = evaluate_policy(stable_baselines3.DQN("MlpPolicy", catch(), seed=1, device="cpu"), Monitor(catch()), 50)
    after, _ = evaluate_policy(sb3_dqn("MlpPolicy", catch(), 5_000), Monitor(catch()), 50)
    assert after > 0.7 and after > before + 0.5, (before, after)


def test_sb3s_dqn_runs_on_pixels_and_learns_from_planes():
    # SB3's CNN wants images of 36 pixels a side and more: `planes` are smaller. So few steps only show that it runs.
    model = sb3_dqn("CnnPolicy", catch(observation="pixels"), 500, learning_rate=3e-4, batch_size=16, train_freq=4)
    assert model.policy.q_net.features_extractor.cnn[0].in_channels == 4
    after, _ = evaluate_policy(model, Monitor(catch(observation="pixels")), 30)
    assert np.isfinite(after) and -1 <= after <= 1
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        stable_baselines3.DQN("CnnPolicy", catch(observation="planes"), device="cpu")
    # As a vector they will do.
    small = sb3_dqn("MlpPolicy", catch(observation="planes"), 5_000)
    assert evaluate_policy(small, Monitor(catch(observation="planes")), 50)[0] > 0.5


def test_sb3s_dqn_plays_our_vector_of_pongs():
    envs = make_vec_env("spectral_rl:Spectral/PongMini-v0", n_envs=2, seed=3)
    model = stable_baselines3.DQN("MlpPolicy", envs, learning_starts=100, buffer_size=2_000, device="cpu").learn(600)
    assert model.num_timesteps == 600


@pytest.mark.filterwarnings("ignore:.*CnnPolicy.*:UserWarning")
def test_sb3_on_atari():
    try:
        env = gymnasium.make("spectral_rl:SpectralAtari/Pong-v0")
    except Exception as error:
        if "ROM" not in str(error).upper():
            raise
        pytest.skip(f"SKIPPED: there are no Atari ROMs (pip install ale-py, or spectral roms install): {error}")
    check_env(env, warn=True)
    model = stable_baselines3.DQN(
        "CnnPolicy", env, buffer_size=500, learning_starts=100, train_freq=8, batch_size=8, device="cpu"
    ).learn(300)
    # It stops after a whole number of rollouts.
    assert model.num_timesteps >= 300
    short = gymnasium.wrappers.TimeLimit(gymnasium.make("spectral_rl:SpectralAtari/Pong-v0"), 100)
    assert -21 <= evaluate_policy(model, Monitor(short), 1)[0] <= 21
    agent = spectral_rl.DQN("atari/pong", learning_starts=100, replay=500, epsilon_frames=100, batch=8)
    agent.learn(400)
    theirs, _ = evaluate_policy(agent, Monitor(FixedStarts(short)), 2, return_episode_rewards=True)
    assert theirs == agent.evaluate(2, short).tolist()


def test_vector_environments_of_sb3_are_refused_with_advice():
    with pytest.raises(ValueError, match="Stable-Baselines3"):
        spectral_rl.DQN(make_vec_env("CartPole-v1", n_envs=2))


@pytest.mark.parametrize(
    "keyword, name",
    [
        ("gamma", "discount"),
        ("buffer_size", "replay"),
        ("batch_size", "batch"),
        ("train_freq", "update_period"),
        ("target_update_interval", "target_period"),
        ("exploration_fraction", "epsilon_frames"),
        ("policy_kwargs", "hidden"),
    ],
)
def test_sb3s_names_of_settings_are_answered_with_ours(keyword, name):
    with pytest.raises((TypeError, ValueError), match=name):
        spectral_rl.DQN(Walk, **{keyword: 1})
