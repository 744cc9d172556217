//! Games whose counters need more than a table can say.

use super::reading::{
    Pay, Ram, Tally,
    Term::{Decimal, LowOrBlank},
    decimal, peek, total,
};

/// The last frame pays nothing: the score is already being cleared.
pub(super) fn atlantis(ram: &Ram, tally: &mut Tally) -> i32 {
    tally.lives = peek(ram, 0xf1).into();
    tally.over = tally.lives == 0xff;
    if tally.over {
        tally.lives = 0;
        return 0;
    }
    tally.pay(total(ram, &[Decimal(0xa2, 100), Decimal(0xa3, 10_000), Decimal(0xa1, 1_000_000)]), Pay::Change)
}

/// The counter of lives blinks while the ship explodes; a loss counts once the explosion is over.
pub(super) fn beam_rider(ram: &Ram, tally: &mut Tally) -> i32 {
    let reward =
        tally.pay(total(ram, &[Decimal(0x89, 1), Decimal(0x8a, 100), Decimal(0x8b, 10_000)]), Pay::Change);
    let lives = i32::from(peek(ram, 0x85)) + 1;
    if lives != tally.lives - 1 || peek(ram, 0x8c) == 1 {
        tally.lives = lives;
    }
    tally.over = peek(ram, 0x85) == 255;
    if tally.over {
        tally.lives = 0;
    }
    reward
}

/// 0xc0 stands for 100 points, the knock-out. The clock ends the bout too.
pub(super) fn boxing(ram: &Ram, tally: &mut Tally) -> i32 {
    let points = |byte| if byte == 0xc0 { 100 } else { decimal(byte) };
    let (own, other) = (points(peek(ram, 0x92)), points(peek(ram, 0x93)));
    tally.over = own == 100 || other == 100 || (peek(ram, 0x90) >> 4 == 0 && peek(ram, 0x91) == 0);
    tally.pay(own - other, Pay::Change)
}

/// The counter of lives is 0 before the game has begun, too.
pub(super) fn breakout(ram: &Ram, tally: &mut Tally) -> i32 {
    let score = decimal(peek(ram, 0xcd)) + 100 * i32::from(peek(ram, 0xcc) & 15);
    tally.lives = peek(ram, 0xb9).into();
    if tally.lives == 5 {
        tally.memory = 1;
    }
    tally.over = tally.memory == 1 && tally.lives == 0;
    tally.pay(score, Pay::Change)
}

/// Before the first shot the score shows the maker's name.
pub(super) fn demon_attack(ram: &Ram, tally: &mut Tally) -> i32 {
    let digits = [0x85, 0x83, 0x81].map(|at| peek(ram, at));
    let score = if digits == [0xea, 0xcd, 0xab] {
        0
    } else {
        total(ram, &[Decimal(0x85, 1), Decimal(0x83, 100), Decimal(0x81, 10_000)])
    };
    tally.over = peek(ram, 0xf2) == 0 && peek(ram, 0xf1) == 0xbd;
    tally.lives = if tally.over { 0 } else { i32::from(peek(ram, 0xf2)) + 1 };
    tally.pay(score, Pay::Change)
}

/// Every car passed is a point: the screen shows how many are left to pass on this day, 200 on the first and 300
/// afterwards.
pub(super) fn enduro(ram: &Ram, tally: &mut Tally) -> i32 {
    let left = total(ram, &[Decimal(0xab, 1), Decimal(0xac, 100)]);
    let score = match i32::from(peek(ram, 0xad)) {
        0 => 0,
        1 => 200 - left,
        day => 200 + (day - 2) * 300 + 300 - left,
    };
    tally.over = peek(ram, 0xaf) == 255;
    tally.pay(score, Pay::Change)
}

/// The game starts at 50,000 dollars, which are no reward; the clock ends it.
pub(super) fn journey_escape(ram: &Ram, tally: &mut Tally) -> i32 {
    tally.over = peek(ram, 0x95) == 0 && peek(ram, 0x96) == 0;
    let score = total(ram, &[Decimal(0x92, 1), Decimal(0x91, 100), Decimal(0x90, 10_000)]);
    match tally.pay(score, Pay::Change) {
        50_000 => 0,
        reward => reward,
    }
}

/// The game starts at 2000 points, and the lives left are pictures.
pub(super) fn pitfall(ram: &Ram, tally: &mut Tally) -> i32 {
    let score = total(ram, &[Decimal(0xd7, 1), Decimal(0xd6, 100), Decimal(0xd5, 10_000)]) - 2000;
    tally.lives = match peek(ram, 0x80) >> 4 {
        0xa => 3,
        0x8 => 2,
        _ => 1,
    };
    tally.over = peek(ram, 0x9e) != 0 && peek(ram, 0x80) >> 4 == 0;
    if tally.over {
        tally.lives = 0;
    }
    tally.pay(score, Pay::Change)
}

/// The counter of lives goes 2, 1, 0, −1 and shows other things in between: a life is lost when it falls by one.
/// The score is cleared as the game ends.
pub(super) fn qbert(ram: &Ram, tally: &mut Tally) -> i32 {
    let counter = i32::from(peek(ram, 0x88) as i8);
    // The memory holds the counter less 2, so that a new tally stands at 2.
    if counter == tally.memory + 2 - 1 {
        tally.lives -= 1;
    }
    tally.over = counter == -2 || (counter == 2 && tally.memory + 2 == -1);
    tally.memory = counter - 2;
    if tally.over {
        tally.lives = 0;
        return 0;
    }
    tally.pay(total(ram, &[Decimal(0xdb, 1), Decimal(0xda, 100), Decimal(0xd9, 10_000)]), Pay::Change)
}

/// Between games, the counter of lives is not yet set.
pub(super) fn gravitar(ram: &Ram, tally: &mut Tally) -> i32 {
    let reward =
        tally.pay(total(ram, &[Decimal(0x89, 1), Decimal(0x88, 100), Decimal(0x87, 10_000)]), Pay::Change);
    let stage = peek(ram, 0x81);
    tally.over = stage == 1;
    tally.lives = match stage {
        0 => 6,
        1 => 0,
        _ => i32::from(peek(ram, 0x84)) + 1,
    };
    reward
}

/// Score and lives are pointers to the pictures of digits. Nothing but the step from 0x59 to 0x58, from a last life to a
/// full set, tells the end of a game from its beginning.
pub(super) fn riverraid(ram: &Ram, tally: &mut Tally) -> i32 {
    let score = [0xcd, 0xcf, 0xd1, 0xd3, 0xd5, 0xd7].iter().fold(0, |score, &at| {
        let pointer = peek(ram, at);
        let digit = if pointer.is_multiple_of(8) && pointer / 8 < 10 { pointer / 8 } else { 0 };
        score * 10 + i32::from(digit)
    });
    let byte = peek(ram, 0xc0);
    tally.over = byte == 0x58 && tally.memory == 0x59;
    tally.memory = byte.into();
    tally.lives = match byte {
        _ if tally.over => 0,
        0x58 => 4,
        0x59 => 1,
        _ => i32::from(byte / 8) + 1,
    };
    tally.pay(score, Pay::Change)
}

/// The title screen shows six ships.
pub(super) fn star_gunner(ram: &Ram, tally: &mut Tally) -> i32 {
    let score = total(
        ram,
        &[
            LowOrBlank(0x83, 100),
            LowOrBlank(0x84, 1_000),
            LowOrBlank(0x85, 10_000),
            LowOrBlank(0x86, 100_000),
        ],
    );
    let lives = i32::from(peek(ram, 0x87) & 15);
    if lives == 5 {
        tally.memory = 1;
    }
    tally.over = peek(ram, 0x87) == 0;
    if tally.memory == 1 || tally.over {
        tally.lives = lives;
    }
    tally.pay(score, Pay::Change)
}

/// The first to win ten rounds wins; there is one life while the game goes on.
pub(super) fn surround(ram: &Ram, tally: &mut Tally) -> i32 {
    let (own, other) = (decimal(peek(ram, 0xf7)), decimal(peek(ram, 0xf6)));
    tally.over = own == 10 || other == 10;
    tally.lives = i32::from(!tally.over);
    tally.pay(own - other, Pay::Change)
}

/// The first team with 24 points wins.
pub(super) fn double_dunk(ram: &Ram, tally: &mut Tally) -> i32 {
    let (own, other) = (decimal(peek(ram, 0xf6)), decimal(peek(ram, 0xf7)));
    tally.over = own.max(other) >= 24 && peek(ram, 0xfe) == 0xe7;
    tally.pay(own - other, Pay::Change)
}

/// A game won or lost pays, else a point won or lost: as a game ends, its points are cleared. The memory holds the
/// difference in games, the tally's score that in points.
pub(super) fn tennis(ram: &Ram, tally: &mut Tally) -> i32 {
    let [own_points, other_points, own, other] = [0xc5, 0xc6, 0xc7, 0xc8].map(|at| i32::from(peek(ram, at)));
    let games = own - other - tally.memory;
    let points = own_points - other_points - tally.score;
    tally.memory = own - other;
    tally.score = own_points - other_points;
    tally.over = (own >= 6 && own - other >= 2) || (other >= 6 && other - own >= 2) || own == 7 || other == 7;
    if games != 0 { games } else { points }
}

/// The counter of lives is valid while a stage is played.
pub(super) fn time_pilot(ram: &Ram, tally: &mut Tally) -> i32 {
    tally.over = peek(ram, 0xa0) != 0;
    if tally.over {
        tally.lives = 0;
    } else if peek(ram, 0x80) & 15 == 2 {
        tally.lives = i32::from(peek(ram, 0x8b) & 7) + 1;
    }
    tally.pay(total(ram, &[Decimal(0x8d, 100), Decimal(0x8f, 10_000)]), Pay::Change)
}

/// The table counts balls played; a flag grants one more.
pub(super) fn video_pinball(ram: &Ram, tally: &mut Tally) -> i32 {
    tally.over = peek(ram, 0xaf) & 1 == 1;
    let played = i32::from(peek(ram, 0x99) & 7);
    tally.lives = if tally.over { 0 } else { 4 + i32::from(peek(ram, 0xa8) & 1) - played };
    tally.pay(total(ram, &[Decimal(0xb0, 1), Decimal(0xb2, 100), Decimal(0xb4, 10_000)]), Pay::Change)
}

/// Lives are counted between rounds, while a new worrior waits to enter; the top bit of the score is no digit.
pub(super) fn wizard_of_wor(ram: &Ram, tally: &mut Tally) -> i32 {
    let shown = total(ram, &[Decimal(0x86, 1), Decimal(0x88, 100)]);
    let score = if shown >= 8_000 { shown - 8_000 } else { shown };
    let left = i32::from(peek(ram, 0x8d) & 15);
    if peek(ram, 0xd7) & 1 == 0 {
        tally.lives = left;
    }
    tally.over = left == 0 && peek(ram, 0xf4) == 0xf8;
    tally.pay(score * 100, Pay::Change)
}
