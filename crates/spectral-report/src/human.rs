//! Human and random scores of the 57 Atari games, by which scores of unlike games are made comparable.
//!
//! The numbers are facts of the literature: averages over episodes of a professional games tester and of uniformly
//! random play, with 1 to 30 no-op actions at the start and at most 108,000 frames an episode, as tabled by Wang and
//! others (2016, "Dueling network architectures for deep reinforcement learning") and by DeepMind's DQN Zoo, with
//! whose table these were compared.

/// Scores of a human and of random play on one game.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HumanScore {
    /// The game, as in the task's name after `atari/`.
    pub game: &'static str,
    /// Mean score of random play.
    pub random: f64,
    /// Mean score of a professional human tester.
    pub human: f64,
}

impl HumanScore {
    /// The scores for a task, if it is one of the 57 games: `atari/<game>`.
    ///
    /// ```
    /// use spectral_report::HumanScore;
    /// assert_eq!(HumanScore::of_task("atari/pong").unwrap().human, 14.6);
    /// assert!(HumanScore::of_task("exponential-pong").is_none());
    /// ```
    pub fn of_task(task: &str) -> Option<&'static Self> {
        let game = task.strip_prefix("atari/")?;
        ATARI_57.iter().find(|entry| entry.game == game)
    }

    /// A score as a share of the way from random play (0) to the human (1).
    pub fn normalise(&self, score: f64) -> f64 {
        (score - self.random) / (self.human - self.random)
    }
}

const fn entry(game: &'static str, random: f64, human: f64) -> HumanScore {
    HumanScore { game, random, human }
}

/// The table.
pub const ATARI_57: [HumanScore; 57] = [
    entry("alien", 227.8, 7127.7),
    entry("amidar", 5.8, 1719.5),
    entry("assault", 222.4, 742.0),
    entry("asterix", 210.0, 8503.3),
    entry("asteroids", 719.1, 47388.7),
    entry("atlantis", 12850.0, 29028.1),
    entry("bank_heist", 14.2, 753.1),
    entry("battle_zone", 2360.0, 37187.5),
    entry("beam_rider", 363.9, 16926.5),
    entry("berzerk", 123.7, 2630.4),
    entry("bowling", 23.1, 160.7),
    entry("boxing", 0.1, 12.1),
    entry("breakout", 1.7, 30.5),
    entry("centipede", 2090.9, 12017.0),
    entry("chopper_command", 811.0, 7387.8),
    entry("crazy_climber", 10780.5, 35829.4),
    entry("defender", 2874.5, 18688.9),
    entry("demon_attack", 152.1, 1971.0),
    entry("double_dunk", -18.6, -16.4),
    entry("enduro", 0.0, 860.5),
    entry("fishing_derby", -91.7, -38.7),
    entry("freeway", 0.0, 29.6),
    entry("frostbite", 65.2, 4334.7),
    entry("gopher", 257.6, 2412.5),
    entry("gravitar", 173.0, 3351.4),
    entry("hero", 1027.0, 30826.4),
    entry("ice_hockey", -11.2, 0.9),
    entry("jamesbond", 29.0, 302.8),
    entry("kangaroo", 52.0, 3035.0),
    entry("krull", 1598.0, 2665.5),
    entry("kung_fu_master", 258.5, 22736.3),
    entry("montezuma_revenge", 0.0, 4753.3),
    entry("ms_pacman", 307.3, 6951.6),
    entry("name_this_game", 2292.3, 8049.0),
    entry("phoenix", 761.4, 7242.6),
    entry("pitfall", -229.4, 6463.7),
    entry("pong", -20.7, 14.6),
    entry("private_eye", 24.9, 69571.3),
    entry("qbert", 163.9, 13455.0),
    entry("riverraid", 1338.5, 17118.0),
    entry("road_runner", 11.5, 7845.0),
    entry("robotank", 2.2, 11.9),
    entry("seaquest", 68.4, 42054.7),
    entry("skiing", -17098.1, -4336.9),
    entry("solaris", 1236.3, 12326.7),
    entry("space_invaders", 148.0, 1668.7),
    entry("star_gunner", 664.0, 10250.0),
    entry("surround", -10.0, 6.5),
    entry("tennis", -23.8, -8.3),
    entry("time_pilot", 3568.0, 5229.2),
    entry("tutankham", 11.4, 167.6),
    entry("up_n_down", 533.4, 11693.2),
    entry("venture", 0.0, 1187.5),
    entry("video_pinball", 16256.9, 17667.9),
    entry("wizard_of_wor", 563.5, 4756.5),
    entry("yars_revenge", 3092.9, 54576.9),
    entry("zaxxon", 32.5, 9173.3),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_ordered() {
        assert!(ATARI_57.windows(2).all(|pair| pair[0].game < pair[1].game));
        assert!(ATARI_57.iter().all(|entry| entry.human > entry.random));
        let pong = HumanScore::of_task("atari/pong").unwrap();
        assert_eq!((pong.normalise(-20.7), pong.normalise(14.6)), (0.0, 1.0));
        assert!(HumanScore::of_task("pong").is_none() && HumanScore::of_task("atari/pong-mini").is_none());
    }
}
