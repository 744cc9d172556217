//! Per-game exceptions of the Arcade Learning Environment's emulator: which lines of the frame it shows, and how.

use super::console::Format;

/// How the emulator treats one game.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quirks {
    /// The first line of the frame that is shown.
    pub(super) first_line: i32,
    /// The number of lines that are shown.
    pub(super) height: usize,
    /// Whether HMOVE blanks the first eight pixels of a line.
    pub(super) hmove_blanks: bool,
    /// Whether the first player's joystick is in the right port.
    pub(super) swap_ports: bool,
    /// Whether the first player's paddle is the second of its pair.
    pub(super) swap_paddles: bool,
}

/// The quirks of a game, found by its ROM's fingerprint.
pub(super) fn quirks(fingerprint: u64, format: Format) -> Quirks {
    let height = if format == Format::Pal { 250 } else { 210 };
    let default = Quirks {
        first_line: 34,
        height,
        hmove_blanks: true,
        swap_ports: [SURROUND, WIZARD_OF_WOR].contains(&fingerprint),
        swap_paddles: fingerprint == PONG,
    };
    GAMES.iter().find(|game| game.0 == fingerprint).map_or(default, |game| Quirks {
        first_line: game.1,
        height: game.2,
        hmove_blanks: game.3,
        ..default
    })
}

const SURROUND: u64 = 0xbe8b_90d3_e5b3_9e62;
const WIZARD_OF_WOR: u64 = 0x202e_5313_83be_1b60;
const PONG: u64 = 0xe226_87f4_f777_e7d7;

/// Fingerprint, first line, height, whether HMOVE blanks.
const GAMES: &[(u64, i32, usize, bool)] = &[
    (0x6ee3_afd8_f24a_0d2f, 34, 210, false), // Asteroids
    (0xdef6_4c14_d11b_466c, 34, 210, false), // Battle Zone
    (0x14bb_b494_c5b3_6eb2, 34, 210, false), // Ms. Pac-Man
    (0xc37b_931e_21d3_86ba, 40, 210, true),  // Q*bert
    (0xaf43_d99f_3297_7685, 30, 210, true),  // Up'n Down
    (0x017a_f2ea_557f_d855, 26, 214, true),  // Carnival
    (0x5898_9cfc_d07a_b641, 34, 230, true),  // Journey Escape
    (0xd434_7ccf_db76_b633, 26, 220, true),  // Pooyan
];
