//! The game 2048: slide and merge tiles on a board of 4 × 4; the reward is the value of the tiles that merge.

use crate::action_mask::ActionMask;
use crate::env::Step;
use crate::game::{Game, PlaneShape, check_tag, checked, fill_rectangle};
use crate::picture::{Colour, Picture};
use crate::registry::{ObservationKind, TaskOptions};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

spectral_core::settings! {
    /// What can be set about `2048`.
    ///
    /// ```
    /// assert!(spectral_env::Twenty48Options::default().legal_actions);
    /// ```
    Twenty48Options {
        /// How the task is seen.
        observation: ObservationKind = ObservationKind::Auto,
        /// The factor on every reward of `catch-scale`; other tasks allow 1 only.
        reward_scale: f64 = 1.0,
        /// Frames that one step plays with the same action, 1 to 60. Rewards and scores are summed.
        frame_skip: u32 = 1,
        /// Whether moves of `2048` that change nothing are illegal, so that no agent plays or values them.
        legal_actions: bool = true,
    }
}

impl Twenty48Options {
    /// Those that all built-in tasks have.
    pub(crate) fn shared(&self) -> TaskOptions {
        let &Twenty48Options { observation, reward_scale, frame_skip, .. } = self;
        TaskOptions { observation, reward_scale, frame_skip }
    }
}

/// What the actions are called.
pub(crate) const ACTIONS: [&str; 4] = ["up", "right", "down", "left"];
/// The largest exponent that the rules can reach: 2¹⁷ = 131072.
const MAX_EXPONENT: u8 = 17;
/// Levels told apart in observations: empty, 2, 4, … 16384, and 32768 or more.
const LEVELS: usize = 16;
/// Steps after which an episode is cut off; a game of this length would have passed 131072.
const STEP_LIMIT: u32 = 100_000;
/// Moves in a row that change nothing, after which an episode is cut off.
const IDLE_LIMIT: u16 = 1_000;
const TAG: u8 = 3;

/// The tiles, row by row: 0 for empty, k for 2ᵏ.
pub(crate) type Board = [u8; 16];

/// The four cells of line `line`, in the order in which they are pushed together by `action`.
#[inline]
fn line_cells(action: usize, line: usize) -> [usize; 4] {
    match action {
        0 => [0, 1, 2, 3].map(|i| i * 4 + line),
        1 => [3, 2, 1, 0].map(|i| line * 4 + i),
        2 => [3, 2, 1, 0].map(|i| i * 4 + line),
        _ => [0, 1, 2, 3].map(|i| line * 4 + i),
    }
}

/// Slides and merges; gives the sum of the merged tiles' values, or `None` if nothing can move that way.
#[inline]
pub(crate) fn slide(board: &mut Board, action: usize) -> Option<u32> {
    let before = *board;
    let mut reward = 0;
    for line in 0..4 {
        let cells = line_cells(action, line);
        let mut filled = 0;
        // The last tile placed, while it may still merge: a tile merges once a move.
        let mut open = 0;
        for cell in cells {
            let tile = std::mem::take(&mut board[cell]);
            if tile == 0 {
                continue;
            }
            if tile == open {
                board[cells[filled - 1]] = tile + 1;
                reward += 1 << (tile + 1);
                open = 0;
            } else {
                board[cells[filled]] = tile;
                open = tile;
                filled += 1;
            }
        }
    }
    (*board != before).then_some(reward)
}

/// True if this move changes the board: some tile has an empty cell or its equal before it.
#[inline]
pub(crate) fn moves(board: &Board, action: usize) -> bool {
    (0..4).any(|line| {
        let [a, b, c, d] = line_cells(action, line).map(|cell| board[cell]);
        let pushed = |before: u8, tile: u8| tile != 0 && (before == 0 || before == tile);
        pushed(a, b) || pushed(b, c) || pushed(c, d)
    })
}

/// True if some move changes the board.
#[inline]
pub(crate) fn can_move(board: &Board) -> bool {
    if board.contains(&0) {
        return true;
    }
    (0..16).any(|i| (i % 4 < 3 && board[i] == board[i + 1]) || (i < 12 && board[i] == board[i + 4]))
}

/// Puts a new tile, 2 (9 times in 10) or 4, on a random empty cell; a full board stays as it is.
#[inline]
fn spawn(board: &mut Board, rng: &mut Stream) {
    let empty = board.iter().filter(|&&tile| tile == 0).count();
    if empty == 0 {
        return;
    }
    let chosen = rng.below(empty);
    let tile = if rng.chance(0.9) { 1 } else { 2 };
    if let Some(cell) = board.iter_mut().filter(|tile| **tile == 0).nth(chosen) {
        *cell = tile;
    }
}

/// Colours of empty cells and of the tiles 2, 4, …; the last one serves all that are larger.
const TILE_COLOURS: [Colour; 13] = [
    [116, 106, 96],
    [236, 228, 216],
    [232, 214, 180],
    [240, 172, 112],
    [244, 142, 92],
    [244, 116, 88],
    [240, 84, 56],
    [226, 190, 70],
    [204, 168, 40],
    [150, 170, 50],
    [70, 160, 90],
    [40, 130, 160],
    [90, 70, 170],
];

fn tile_colour(tile: u8) -> Colour {
    TILE_COLOURS[usize::from(tile).min(TILE_COLOURS.len() - 1)]
}

/// A game of 2048.
#[derive(Default)]
pub(crate) struct Twenty48 {
    board: Board,
    idle: u16,
    steps: u32,
    /// Whether moves that change nothing are illegal. Played all the same, they change nothing.
    masks: bool,
}

impl Twenty48 {
    pub(crate) fn new(masks: bool) -> Self {
        Twenty48 { masks, ..Self::default() }
    }
}

impl Game for Twenty48 {
    const VECTOR: usize = 16 * LEVELS;
    const PLANES: Option<PlaneShape> = Some((LEVELS, 4, 4));

    fn reset(&mut self, rng: &mut Stream) {
        *self = Twenty48::new(self.masks);
        spawn(&mut self.board, rng);
        spawn(&mut self.board, rng);
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        self.steps += 1;
        let mut reward = 0.0;
        match slide(&mut self.board, action) {
            Some(merged) => {
                reward = f64::from(merged);
                self.idle = 0;
                spawn(&mut self.board, rng);
            }
            None => self.idle += 1,
        }
        let terminated = !can_move(&self.board);
        let cut_off = self.steps >= STEP_LIMIT || self.idle >= IDLE_LIMIT;
        Step { reward, score: reward, terminated, truncated: cut_off && !terminated, ..Step::default() }
    }

    fn masks_actions(&self) -> bool {
        self.masks
    }

    fn legal_actions(&self, legal: &mut ActionMask) {
        for action in 0..ACTIONS.len() {
            if !moves(&self.board, action) {
                legal.forbid(action);
            }
        }
    }

    fn features(&self, out: &mut [f32]) {
        for (cell, &tile) in self.board.iter().enumerate() {
            out[cell * LEVELS + (tile as usize).min(LEVELS - 1)] = 1.0;
        }
    }

    fn planes(&self, out: &mut [u8]) {
        for (cell, &tile) in self.board.iter().enumerate() {
            out[(tile as usize).min(LEVELS - 1) * 16 + cell] = 255;
        }
    }

    fn pixels(&self, out: &mut [u8]) {
        for (cell, &tile) in self.board.iter().enumerate() {
            fill_rectangle(
                out,
                cell / 4 * 21 + 1,
                cell % 4 * 21 + 1,
                19,
                19,
                tile.min(MAX_EXPONENT) * (255 / MAX_EXPONENT),
            );
        }
    }

    fn picture(&self, out: &mut Picture) {
        const SIDE: usize = 40;
        const GAP: usize = 4;
        const PITCH: usize = SIDE + GAP;
        out.start(4 * PITCH + GAP, 4 * PITCH + GAP, [88, 80, 72]);
        for (cell, &tile) in self.board.iter().enumerate() {
            let (left, top) = (GAP + cell % 4 * PITCH, GAP + cell / 4 * PITCH);
            out.rectangle(left, top, SIDE, SIDE, tile_colour(tile));
            if tile > 0 {
                let ink = if tile < 3 { [88, 80, 72] } else { [255, 252, 245] };
                out.centred_number((left, top, SIDE, SIDE), 1 << tile, ink);
            }
        }
    }

    fn highlight(&self) -> Option<(&'static str, f64)> {
        let best = self.board.iter().copied().max().unwrap_or(0);
        Some(("best_tile", f64::from(1u32 << best)))
    }

    fn save(&self, out: &mut StateWriter) {
        out.u8(TAG);
        for &tile in &self.board {
            out.u8(tile);
        }
        out.u16(self.idle);
        out.u32(self.steps);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        check_tag(from, TAG, "2048")?;
        let mut board = [0; 16];
        for tile in &mut board {
            *tile = checked("a tile's exponent", from.u8()?, 0..=MAX_EXPONENT)?;
        }
        let idle = checked("the count of idle moves", from.u16()?, 0..=IDLE_LIMIT)?;
        let steps = checked("the step count", from.u32()?, 0..=STEP_LIMIT)?;
        *self = Twenty48 { board, idle, steps, masks: self.masks };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pushes one line to the left the slow way: squeeze, merge from the wall, squeeze.
    fn reference_line(line: [u8; 4]) -> ([u8; 4], u32) {
        let mut tiles: Vec<u8> = line.into_iter().filter(|&t| t != 0).collect();
        let mut reward = 0;
        let mut i = 0;
        while i + 1 < tiles.len() {
            if tiles[i] == tiles[i + 1] {
                tiles[i] += 1;
                reward += 2u32.pow(tiles[i].into());
                tiles.remove(i + 1);
            }
            i += 1;
        }
        tiles.resize(4, 0);
        (tiles.try_into().unwrap(), reward)
    }

    fn rotated_left(board: &Board) -> Board {
        std::array::from_fn(|i| board[(i % 4) * 4 + 3 - i / 4])
    }

    /// Any move is a move to the left on a turned board.
    fn reference(board: &Board, action: usize) -> (Board, u32) {
        let turns = [1, 2, 3, 0][action];
        let mut turned = *board;
        for _ in 0..turns {
            turned = rotated_left(&turned);
        }
        let mut reward = 0;
        for row in turned.chunks_exact_mut(4) {
            let (line, merged) = reference_line((&*row).try_into().unwrap());
            row.copy_from_slice(&line);
            reward += merged;
        }
        for _ in 0..(4 - turns) % 4 {
            turned = rotated_left(&turned);
        }
        (turned, reward)
    }

    fn value(board: &Board) -> u64 {
        board.iter().filter(|&&t| t > 0).map(|&t| 1u64 << t).sum()
    }

    proptest! {
        #[test]
        fn slides_as_the_reference(board in prop::array::uniform16(0u8..5), action in 0usize..4) {
            let (expected, reward) = reference(&board, action);
            let mut slid = board;
            let result = slide(&mut slid, action);
            prop_assert_eq!(slid, expected);
            prop_assert_eq!(result, (board != expected).then_some(reward));
            prop_assert_eq!(value(&slid), value(&board), "merging keeps the sum of the tiles");
        }

        #[test]
        fn a_move_exists_exactly_if_one_changes_the_board(board in prop::array::uniform16(0u8..9)) {
            let some = (0..4).any(|action| slide(&mut board.clone(), action).is_some());
            prop_assert_eq!(can_move(&board), some);
            for action in 0..4 {
                prop_assert_eq!(moves(&board, action), slide(&mut board.clone(), action).is_some());
            }
        }

        #[test]
        fn a_tile_is_spawned_on_an_empty_cell(board in prop::array::uniform16(0u8..2), seed: u64) {
            let mut after = board;
            spawn(&mut after, &mut Stream::new(seed, spectral_core::rng::Purpose::Other, 0));
            let changed: Vec<_> = (0..16).filter(|&i| board[i] != after[i]).collect();
            prop_assert_eq!(changed.len(), usize::from(board.contains(&0)));
            prop_assert!(changed.iter().all(|&i| board[i] == 0 && (after[i] == 1 || after[i] == 2)));
        }
    }

    #[test]
    fn the_best_tile_is_the_largest() {
        let mut game = Twenty48::new(true);
        game.board = [1, 2, 11, 0, 3, 3, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(game.highlight(), Some(("best_tile", 2048.0)));
    }

    /// The example of a board where only up and down are left.
    #[test]
    fn illegal_moves_are_those_that_change_nothing() {
        let mut game = Twenty48::new(true);
        game.board = [1, 2, 3, 4, 2, 3, 4, 5, 2, 4, 5, 6, 1, 2, 6, 7];
        let mut legal = ActionMask::all(4);
        game.legal_actions(&mut legal);
        assert_eq!(legal.iter().collect::<Vec<_>>(), [0, 2]);
        game.reset(&mut Stream::new(1, spectral_core::rng::Purpose::Other, 0));
        assert!(game.masks_actions());
    }

    #[test]
    fn textbook_moves() {
        let mut board = [1, 1, 1, 1, 2, 1, 1, 0, 1, 1, 2, 0, 0, 0, 0, 3];
        assert_eq!(slide(&mut board, 3), Some(4 + 4 + 4 + 4));
        assert_eq!(board, [2, 2, 0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 3, 0, 0, 0]);
        assert_eq!(slide(&mut board, 3), Some(8 * 3));
        assert_eq!(slide(&mut board, 3), None);
        assert_eq!(slide(&mut board, 0), Some(16 * 2), "a tile merges once a move");
    }

    #[test]
    fn idle_moves_change_nothing_and_are_cut_off() {
        let mut game = Twenty48::default();
        game.board[0] = 1;
        for n in 1..=IDLE_LIMIT {
            let mut rng = Stream::new(1, spectral_core::rng::Purpose::Other, n.into());
            let step = game.step(3, &mut rng);
            assert_eq!((step.reward, step.terminated, step.truncated), (0.0, false, n == IDLE_LIMIT));
            assert_eq!(value(&game.board), 2);
        }
    }
}
