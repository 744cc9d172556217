//! Every frame of every game, against the Arcade Learning Environment.

mod machine_common;

use machine_common::{GAMES, Held, Oracle, Player, python, rom_folder};

/// The games of the paper's figures are compared for longer.
const PAPER: [&str; 8] = [
    "pong",
    "atlantis",
    "bowling",
    "centipede",
    "chopper_command",
    "fishing_derby",
    "ms_pacman",
    "video_pinball",
];

/// Games to compare: all of them, or those named in SPECTRAL_ATARI_GAMES (separated by commas).
fn games() -> Vec<String> {
    match std::env::var("SPECTRAL_ATARI_GAMES") {
        Ok(names) => names.split(',').map(str::to_owned).collect(),
        Err(_) => GAMES.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn memory_and_picture_equal_in_every_frame() {
    let Some(python) = python() else { return };
    let folder = rom_folder(&python);
    let asked = std::env::var("SPECTRAL_ATARI_FRAMES").ok().map(|text| text.parse().expect("a number"));
    let seed = std::env::var("SPECTRAL_ATARI_SEED").map_or(1, |text| text.parse().expect("a number"));
    let mut wrong = 0;
    for game in games() {
        let path = folder.join(format!("{game}.bin"));
        let frames = asked.unwrap_or(if PAPER.contains(&game.as_str()) { 10_000 } else { 3000 });
        let mut oracle = Oracle::start(&python, &path, frames, seed);
        let mut player = Player::new(&game, &std::fs::read(&path).expect("the ROM"));
        match compare(&mut oracle, &mut player) {
            Ok((frames, resets)) => eprintln!("{game:20} equal: {frames} frames, {resets} resets"),
            Err(report) => {
                wrong += 1;
                eprintln!("{game:20} {report}");
            }
        }
    }
    assert_eq!(wrong, 0, "{wrong} games differ");
}

fn compare(oracle: &mut Oracle, player: &mut Player) -> Result<(usize, usize), String> {
    let (mut frames, mut resets) = (0, 0);
    if oracle.height != player.console.height() {
        return Err(format!("height {} expected, {} found", oracle.height, player.console.height()));
    }
    // Asks for pixels of two frames in four only, as players do.
    let mut sparing = player.clone();
    while let Some(record) = oracle.next() {
        if record.is_reset {
            player.reset();
            sparing.draw = true;
            sparing.reset();
            resets += 1;
        } else {
            player.act(record.action, Held::Nothing);
            sparing.draw = frames % 4 >= 2;
            sparing.act(record.action, Held::Nothing);
            frames += 1;
        }
        let at = format!("after {frames} frames, {resets} resets");
        let bytes = player.console.ram().iter().zip(&record.ram).enumerate();
        let different: Vec<_> = bytes.filter(|(_, (ours, theirs))| ours != theirs).collect();
        if let Some((index, (ours, theirs))) = different.first() {
            let count = different.len();
            return Err(format!(
                "{at}: memory ${:02X} is {ours:02X}, expected {theirs:02X} ({count} bytes differ)",
                0x80 + index
            ));
        }
        let pixels = player.console.screen().iter().zip(&record.screen).enumerate();
        let different: Vec<_> = pixels.filter(|(_, (ours, theirs))| ours != theirs).collect();
        if let Some((index, (ours, theirs))) = different.first() {
            let (x, y, count) = (index % 160, index / 160, different.len());
            return Err(format!(
                "{at}: pixel ({x}, {y}) is {ours:02X}, expected {theirs:02X} ({count} pixels differ)"
            ));
        }
        if sparing.console.ram() != player.console.ram() {
            return Err(format!("{at}: memory depends on which frames are drawn"));
        }
        if sparing.draw && sparing.console.screen() != player.console.screen() {
            return Err(format!("{at}: the picture depends on which other frames are drawn"));
        }
    }
    Ok((frames, resets))
}
