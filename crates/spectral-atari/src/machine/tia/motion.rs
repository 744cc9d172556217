//! How far HMOVE moves an object, by the cycle of the line at which it is written.
//!
//! HMOVE sends each object up to 15 extra clocks, one in four colour clocks, and lengthens the invisible
//! part of the line by eight: an object that gets none falls back eight pixels. Written late in the
//! invisible part, HMOVE loses the clocks that would come after it; written near the end of a line, the
//! invisible part of the next is not lengthened, and the first clocks are lost to the visible part.

/// Whether HMOVE at this cycle blanks the first eight pixels of a line.
pub(super) fn blanks(cycle: i32) -> bool {
    cycle < 21 || cycle == 75
}

/// Pixels to the right that an object moves whose motion register holds `motion` (0 to 15).
pub(super) fn distance(cycle: i32, motion: u8) -> i32 {
    let clocks = i32::from(motion ^ 8);
    // Extra clocks that fall into `cycles` processor cycles.
    let clocks_in = |cycles: i32| (3 * cycles + 2) / 4;
    match cycle {
        0..=3 | 75 => 8 - clocks,
        4..=20 => 8 - clocks.min(15 - clocks_in(cycle - 3)),
        21..=54 => 0,
        _ => -(clocks - 14 + clocks_in(cycle - 55)).max(0),
    }
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_are_those_observed() {
        let row = |cycle: i32| -> Vec<i32> { (0..16).map(|motion| distance(cycle, motion)).collect() };
        assert_eq!(row(3), [0, -1, -2, -3, -4, -5, -6, -7, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(row(9), [0, -1, -2, -2, -2, -2, -2, -2, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(row(20), [6, 6, 6, 6, 6, 6, 6, 6, 8, 7, 6, 6, 6, 6, 6, 6]);
        assert_eq!(row(40), [0; 16]);
        assert_eq!(row(60), [0, 0, 0, -1, -2, -3, -4, -5, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(row(73), [-8, -9, -10, -11, -12, -13, -14, -15, 0, -1, -2, -3, -4, -5, -6, -7]);
        assert_eq!(row(75), row(0));
    }
}
