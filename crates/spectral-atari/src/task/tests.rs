//! The tasks' rules, tried on small programs of our own in place of the games.

use super::atari::AtariTask;
use super::protocol::{FRAME_LIMIT, Protocol};
use super::rules::Rules;
use crate::games::{self, Game};
use crate::machine::{Format, Rom, rgb_palette};
use spectral_env::{Env, Observation, Picture, Purpose, StateReader, StateWriter, Step, Stream};
use std::sync::Arc;

/// A program that runs frames for ever: `start` sets memory while the reset switch is held, `body` runs once a frame.
fn program(start: &[(u8, u8)], body: &[u8]) -> Arc<Rom> {
    let clear: Vec<u8> = start.iter().flat_map(|&(at, value)| [0xa9, value, 0x85, at]).collect();
    let mut code = vec![0xa9, 0x02, 0x85, 0x00]; // vertical blank on
    code.extend([0x85, 0x02, 0x85, 0x02, 0x85, 0x02]); // for three lines
    code.extend([0xa9, 0x00, 0x85, 0x00]);
    code.extend([0xad, 0x82, 0x02, 0x4a, 0xb0, clear.len() as u8]); // skip unless reset is held
    code.extend(clear);
    code.extend(body);
    code.extend([0xa5, 0x80, 0x85, 0x09]); // a background that changes with the frame counter
    code.extend([0xa2, 0x00, 0x85, 0x02, 0xca, 0xd0, 0xfb]); // 256 lines
    code.extend([0x4c, 0x00, 0xf0]);
    let mut image = [0xea; 4096];
    image[..code.len()].copy_from_slice(&code);
    image[0xffc..0xffe].copy_from_slice(&[0x00, 0xf0]);
    Arc::new(Rom::new(&image, None).unwrap())
}

/// Increments the frame counter, and each time it is a multiple of 8 the byte at `at`.
fn every_eighth(at: u8) -> [u8; 10] {
    [0xe6, 0x80, 0xa5, 0x80, 0x29, 0x07, 0xd0, 0x02, 0xe6, at]
}

/// Pong in which one side (0x8e: the player) scores every eighth frame.
fn pong(side: u8) -> (&'static Game, Arc<Rom>) {
    let start = [(0x80, 0), (0x8d, 0), (0x8e, 0)];
    (games::find("pong").unwrap(), program(&start, &every_eighth(side)))
}

/// Atlantis that pays 100 every eighth frame, and where a life is lost at frame `life`.
fn atlantis(life: u8) -> (&'static Game, Arc<Rom>) {
    let start = [(0x80, 0), (0xa1, 0), (0xa2, 0), (0xa3, 0), (0xf1, 6)];
    let mut body = every_eighth(0xa2).to_vec();
    body.extend([0xa5, 0x80, 0xc9, life, 0xd0, 0x02, 0xc6, 0xf1]);
    (games::find("atlantis").unwrap(), program(&start, &body))
}

fn task(rules: Rules, protocol: Protocol, parts: &[(&'static Game, Arc<Rom>)]) -> AtariTask {
    AtariTask::new("test", protocol, rules, parts, games::find("pong").unwrap())
}

fn stream(step: u64) -> Stream {
    Stream::new(5, Purpose::Other, step)
}

/// Steps to the end of an episode, or 30,000 of them.
fn episode(task: &mut AtariTask) -> Vec<Step> {
    task.reset(&mut stream(0));
    let mut steps = Vec::new();
    for n in 1..=30_000 {
        let step = task.step(n as usize % 6, &mut stream(n));
        steps.push(step);
        if step.terminated || step.truncated {
            break;
        }
    }
    steps
}

fn sums(steps: &[Step]) -> (f64, f64) {
    (steps.iter().map(|step| step.reward).sum(), steps.iter().map(|step| step.score).sum())
}

#[test]
fn exponential_pong_pays_powers_of_two() {
    let mut won = task(Rules::ExponentialPong, Protocol::Machado, &[pong(0x8e)]);
    let steps = episode(&mut won);
    let paid: Vec<f64> = steps.iter().map(|step| step.reward).filter(|&reward| reward != 0.0).collect();
    let powers: Vec<f64> = (0..21).map(|n| f64::from(1 << n)).collect();
    assert_eq!(paid, powers);
    assert!(steps.iter().all(|step| step.score == f64::from(u8::from(step.reward != 0.0))));
    let last = steps.last().unwrap();
    assert!(last.terminated && last.player_score == 21 && won.spec().max_player_score == 21);
    let mut points = 0;
    for step in &steps {
        points += u8::from(step.score > 0.0);
        assert_eq!(step.player_score, points, "the score in the state reached");
    }

    let mut lost = task(Rules::ExponentialPong, Protocol::Machado, &[pong(0x8d)]);
    assert_eq!(sums(&episode(&mut lost)), (-21.0, -21.0), "conceding costs 2⁰ while nothing was scored");
}

#[test]
fn pictures_show_the_last_frame_of_a_step() {
    let mut game = task(Rules::Plain, Protocol::Machado, &[pong(0x8e)]);
    game.reset(&mut stream(0));
    let mut picture = Picture::default();
    let colours = rgb_palette(Format::Ntsc);
    for n in 1..20 {
        game.step(0, &mut stream(n));
        assert!(game.picture(&mut picture));
        assert_eq!((picture.width, picture.height, picture.rgb.len()), (320, 210, 320 * 210 * 3));
        // The program's background is its frame counter, whose lowest bit has no colour.
        let console = game.current_game().console();
        assert_eq!(console.screen()[100 * 160 + 80], console.ram()[0] & 0xfe, "step {n}");
        for (x, y) in [(0, 0), (161, 100), (319, 209)] {
            let index = console.screen()[y * 160 + x / 2];
            assert_eq!(picture.pixel(x, y), Some(colours[usize::from(index)]), "step {n}, {x}, {y}");
        }
    }
}

#[test]
fn ponglantis_switches_at_ten_points_and_ends_with_a_life() {
    for (divisor, expected) in [(1.0, 1210.0), (10.0, 130.0), (100.0, 22.0)] {
        let rules = Rules::Ponglantis { divisor, reverse: false };
        let mut both = task(rules, Protocol::Machado, &[pong(0x8e), atlantis(100)]);
        let steps = episode(&mut both);
        let (reward, score) = sums(&steps);
        assert!((reward - expected).abs() < 1e-9, "{reward}, expected {expected}");
        assert_eq!(score, 1210.0, "the plain score is not divided");
        assert!(steps[..steps.len() - 1].iter().all(|step| !step.terminated && !step.life_lost));
        assert!(steps.last().unwrap().terminated);
        assert_eq!(steps.iter().map(|step| step.player_score).max(), Some(10));
        // 80 frames of Pong, the last step of which ends with the switch, and 100 of Atlantis.
        assert_eq!(steps.len(), 20 + 25);
        assert_eq!(both.spec().max_player_score, 10);
    }
    let lost = Rules::Ponglantis { divisor: 1.0, reverse: false };
    let steps = episode(&mut task(lost, Protocol::Machado, &[pong(0x8d), atlantis(100)]));
    assert_eq!((sums(&steps), steps.len()), ((-21.0, -21.0), 42), "without ten points there is no Atlantis");
}

#[test]
fn reverse_ponglantis_goes_on_after_the_life() {
    let rules = Rules::Ponglantis { divisor: 1.0, reverse: true };
    let steps = episode(&mut task(rules, Protocol::Paper, &[atlantis(100), pong(0x8e)]));
    assert!(steps.iter().all(|step| !step.life_lost), "the switch is no life lost");
    let (_, score) = sums(&steps);
    assert!((1000.0..=1221.0).contains(&score) && score % 100.0 == 21.0, "{score}");
    let last = steps.last().unwrap();
    assert!(last.terminated && last.player_score == 21);
}

#[test]
fn lives_and_overflows_and_limits() {
    // One life of Atlantis is lost at frame 200 of its 256-frame counter, again and again.
    let mut plain = task(Rules::Plain, Protocol::Paper, &[atlantis(200)]);
    let steps = episode(&mut plain);
    assert_eq!(steps.iter().filter(|step| step.life_lost).count(), 6, "the seventh loss is the end");
    assert!(steps.last().unwrap().terminated);
    let mut silent = task(Rules::Plain, Protocol::Machado, &[atlantis(200)]);
    assert!(episode(&mut silent).iter().all(|step| !step.life_lost));

    // Video Pinball's counter overflows from 990,000 to 0.
    let game = games::find("video_pinball").unwrap();
    let tick = [0xf8, 0xa5, 0xb4, 0x18, 0x69, 0x01, 0x85, 0xb4, 0xd8]; // decimal: 0xb4 += 1
    let mut pinball = task(
        Rules::Plain,
        Protocol::Machado,
        &[(game, program(&[(0xaf, 0), (0xb0, 0), (0xb2, 0), (0xb4, 0)], &tick))],
    );
    pinball.reset(&mut stream(0));
    pinball.step(0, &mut stream(1));
    for n in 2..60 {
        let step = pinball.step(0, &mut stream(n));
        assert_eq!((step.reward, step.score), (40_000.0, 40_000.0));
    }

    // Breakout without lives is over, whatever the game says; the no-ops count towards the limit.
    let breakout = games::find("breakout").unwrap();
    let steps =
        episode(&mut task(Rules::Plain, Protocol::Machado, &[(breakout, program(&[(0xb9, 0)], &[]))]));
    assert!(steps.len() == 1 && steps[0].terminated);
    let mut idle = task(Rules::Plain, Protocol::Paper, &[(breakout, program(&[(0xb9, 5)], &[]))]);
    let steps = episode(&mut idle);
    let last = steps.last().unwrap();
    assert!(last.truncated && !last.terminated);
    let steps = steps.len() as u32;
    assert!(((FRAME_LIMIT - 29) / 4..FRAME_LIMIT / 4).contains(&steps), "{steps} steps");
}

fn observed(task: &AtariTask) -> Vec<u8> {
    let mut out = vec![0; task.spec().observation.len()];
    task.observe(Observation::Planes(&mut out));
    out
}

fn saved(task: &AtariTask) -> Vec<u8> {
    let mut out = StateWriter::default();
    task.save(&mut out);
    out.into_bytes()
}

#[test]
fn a_restored_task_goes_on_bit_for_bit() {
    let rules = Rules::Ponglantis { divisor: 1.0, reverse: false };
    for protocol in Protocol::ALL {
        let fresh = || task(rules, protocol, &[pong(0x8e), atlantis(100)]);
        for length in [0, 1, 9, 19, 21, 30] {
            let mut one = fresh();
            one.reset(&mut stream(0));
            for n in 1..=length {
                one.step(n as usize % 6, &mut stream(n));
            }
            let bytes = saved(&one);
            let mut two = fresh();
            if length % 2 == 0 {
                two.reset(&mut stream(1000));
            }
            let mut reader = StateReader::new(&bytes);
            two.restore(&mut reader).unwrap();
            reader.finish().unwrap();
            assert_eq!(saved(&two), bytes);
            for n in 100..160 {
                assert_eq!(observed(&one), observed(&two), "after {length} and {n}");
                let (a, b) = (one.step(0, &mut stream(n)), two.step(0, &mut stream(n)));
                assert_eq!(a, b, "after {length} and {n}");
                if a.terminated {
                    one.reset(&mut stream(n + 500));
                    two.reset(&mut stream(n + 500));
                }
            }
            for cut in (0..bytes.len()).step_by(7) {
                assert!(two.restore(&mut StateReader::new(&bytes[..cut])).is_err(), "cut at {cut}");
            }
        }
    }
}

#[test]
fn the_actions_are_the_protocols() {
    let plain = task(Rules::Plain, Protocol::Paper, &[pong(0x8e)]);
    assert_eq!(plain.spec().actions, ["noop", "fire", "right", "left", "right-fire", "left-fire"]);
    assert_eq!(task(Rules::Plain, Protocol::Machado, &[pong(0x8e)]).spec().actions.len(), 18);
    assert_eq!((plain.spec().frames_per_step, plain.spec().observation.stack()), (4, 4));
}

/// The observation is the brighter of the last two frames: the programs' background is their frame counter.
#[test]
fn the_last_two_frames_are_seen() {
    let mut plain = task(Rules::Plain, Protocol::Machado, &[pong(0x8e)]);
    plain.reset(&mut stream(0));
    let mut changes = 0;
    let mut before = observed(&plain);
    for n in 1..20 {
        plain.step(0, &mut stream(n));
        let now = observed(&plain);
        changes += u32::from(now != before);
        before = now;
    }
    assert!(changes >= 15, "{changes} changes");
}
