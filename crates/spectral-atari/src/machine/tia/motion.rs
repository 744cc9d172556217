//! How far HMOVE moves an object, by the cycle of the line at which it is written.

/// Whether HMOVE at this cycle blanks the first eight pixels of the line.
pub(super) fn blanks(cycle: usize) -> bool {
    cycle < 21 || cycle == 75
}

/// Pixels to the right that an object moves whose motion register holds `motion` (0 to 15).
pub(super) fn distance(cycle: usize, motion: u8) -> i8 {
    if cycle < 21 { -(((motion << 4) as i8) >> 4) } else { 0 }
}
