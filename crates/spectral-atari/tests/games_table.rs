//! The table of games is consistent in itself.

use spectral_atari::games::{self, Action, Pay, Reading, Tally, Term};
use std::collections::BTreeSet;

/// The 57 games of the DQN papers.
const ATARI_57: &str = "alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling \
    boxing breakout centipede chopper_command crazy_climber defender demon_attack double_dunk enduro fishing_derby freeway \
    frostbite gopher gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman \
    name_this_game phoenix pitfall pong private_eye qbert riverraid road_runner robotank seaquest skiing solaris \
    space_invaders star_gunner surround tennis time_pilot tutankham up_n_down venture video_pinball wizard_of_wor \
    yars_revenge zaxxon";

#[test]
fn the_57_games_are_there_and_each_is_well_formed() {
    let suite: Vec<_> = ATARI_57.split_whitespace().collect();
    assert_eq!(suite.len(), 57);
    for name in suite {
        assert!(games::find(name).is_some(), "{name}");
    }
    let names: Vec<_> = games::all().map(|game| game.name).collect();
    assert!(names.is_sorted());
    let sums: BTreeSet<_> = games::all().map(|game| game.md5).collect();
    assert_eq!(sums.len(), names.len(), "two games with one ROM");
    for game in games::all() {
        assert!(game.md5.len() == 32 && game.md5.bytes().all(|c| c.is_ascii_hexdigit()), "{}", game.name);
        assert!(!game.modes.is_empty() && !game.difficulties.is_empty(), "{}", game.name);
        assert!(game.minimal.contains(Action::Noop), "{}", game.name);
        assert!(game.reading.addresses().iter().all(|&at| at >= 0x80), "{}", game.name);
    }
}

/// One game of the set was made for European television, and none of the 57.
#[test]
fn air_raid_alone_is_european() {
    let european: Vec<_> =
        games::all().filter(|game| game.pal).map(|game| (game.name, game.height)).collect();
    assert_eq!(european, [("air_raid", 250)]);
    assert!(!ATARI_57.contains("air_raid"));
}

/// Hand-made RAM contents and what they mean.
#[test]
fn known_contents_give_known_scores() {
    let read = |name: &str, tally: &mut Tally, bytes: &[(u8, u8)]| {
        let mut ram = [0; 128];
        for &(at, value) in bytes {
            ram[usize::from(at - 0x80)] = value;
        }
        tally.read(&games::find(name).unwrap().reading, &ram)
    };
    let mut pong = games::find("pong").unwrap().begin();
    assert_eq!(read("pong", &mut pong, &[(0x8d, 3), (0x8e, 2)]), -1);
    assert_eq!(read("pong", &mut pong, &[(0x8d, 3), (0x8e, 3)]), 1);
    assert!(!pong.over);
    assert_eq!(read("pong", &mut pong, &[(0x8d, 21), (0x8e, 3)]), -18);
    assert!(pong.over);

    let mut pacman = games::find("ms_pacman").unwrap().begin();
    assert_eq!(
        read("ms_pacman", &mut pacman, &[(0xf8, 0x20), (0xf9, 0x34), (0xfa, 0x01), (0xfb, 2)]),
        13_420
    );
    assert_eq!((pacman.lives, pacman.over), (3, false));

    let mut invaders = games::find("space_invaders").unwrap().begin();
    assert_eq!(read("space_invaders", &mut invaders, &[(0xe6, 0x99), (0xe8, 0x95), (0xc9, 3)]), 9_995);
    assert_eq!(
        read("space_invaders", &mut invaders, &[(0xe6, 0x00), (0xe8, 0x10), (0xc9, 3)]),
        15,
        "the counter went round"
    );

    let mut enduro = games::find("enduro").unwrap().begin();
    assert_eq!(read("enduro", &mut enduro, &[(0xad, 1), (0xac, 0x01), (0xab, 0x50)]), 50);
    assert_eq!(read("enduro", &mut enduro, &[(0xad, 2), (0xac, 0x02), (0xab, 0x99)]), 151);
}

proptest::proptest! {
    /// A counter that goes round pays what was added to it.
    #[test]
    fn rounds_pay_what_was_added(start in 0..10_000_i32, gain in 0..10_000_i32) {
        const SCORE: Reading = Reading::Table {
            score: &[Term::Decimal(0x80, 1), Term::Decimal(0x81, 100)],
            pay: Pay::Round(10_000),
            lives: games::Lives::None,
            over: &[],
            ends_at_zero: false,
        };
        let ram = |score: i32| {
            let mut ram = [0; 128];
            for (at, pair) in [score % 100, score / 100].into_iter().enumerate() {
                ram[at] = (pair / 10 * 16 + pair % 10) as u8;
            }
            ram
        };
        let mut tally = Tally::default();
        proptest::prop_assert_eq!(tally.read(&SCORE, &ram(start)), start);
        proptest::prop_assert_eq!(tally.read(&SCORE, &ram((start + gain) % 10_000)), gain);
    }
}
