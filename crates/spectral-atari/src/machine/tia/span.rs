//! Pixels and collisions of a stretch of one line during which no register changes.

use super::layers::{self, BLANKED, LEFT, Layers};
use super::masks::{self, Mask};
use super::{BL, LINE, M0, M1, Missile0, P0, P1, PF, Pixels, Tia, WIDTH};

/// For each set of objects, the collisions that become possible when all of them are somewhere on the line.
static POSSIBLE: [u16; 64] = possible();

/// The pairs of objects and the bit of each pair, in the order of the collision registers.
const PAIRS: [(u8, u8, u16); 15] = [
    (M0, P1, 0x0001),
    (M0, P0, 0x0002),
    (M1, P0, 0x0004),
    (M1, P1, 0x0008),
    (P0, PF, 0x0010),
    (P0, BL, 0x0020),
    (P1, PF, 0x0040),
    (P1, BL, 0x0080),
    (M0, PF, 0x0100),
    (M0, BL, 0x0200),
    (M1, PF, 0x0400),
    (M1, BL, 0x0800),
    (BL, PF, 0x1000),
    (P0, P1, 0x4000),
    (M0, M1, 0x8000),
];

const fn possible() -> [u16; 64] {
    let mut table = [0; 64];
    let mut set = 0;
    while set < 64 {
        let mut i = 0;
        while i < PAIRS.len() {
            let both = PAIRS[i].0 | PAIRS[i].1;
            if set as u8 & both == both {
                table[set] |= PAIRS[i].2;
            }
            i += 1;
        }
        set += 1;
    }
    table
}

impl Tia {
    /// Handles pixels `from..to` of the line that began at `line_start`.
    #[inline]
    pub(super) fn span(&mut self, pixels: Option<&mut Pixels>, line_start: i32, from: usize, to: usize) {
        if self.may_collide() {
            self.collide(from, to);
        }
        if let Some(pixels) = pixels {
            self.paint(layers::row(pixels, self.line_number(line_start)), from, to);
        }
    }

    /// Whether there can be a collision that has not been noted.
    #[inline]
    pub(super) fn may_collide(&self) -> bool {
        self.vblank & 0x02 == 0 && POSSIBLE[usize::from(self.enabled)] & !self.collisions != 0
    }

    /// Which line of the picture began at this clock.
    pub(super) fn line_number(&self, line_start: i32) -> usize {
        ((line_start - self.display_start) / LINE) as usize
    }

    fn collide(&mut self, from: usize, to: usize) {
        self.refresh();
        let window = masks::window(from, to);
        // Where there are two objects or more; mostly nowhere, which settles all pairs at once.
        let (mut once, mut twice) = ([0; 3], [0; 3]);
        let mut on = self.enabled;
        while on != 0 {
            let mask = &self.masks[on.trailing_zeros() as usize];
            on &= on - 1;
            for word in 0..3 {
                twice[word] |= once[word] & mask[word];
                once[word] |= mask[word];
            }
        }
        let shared = [0, 1, 2].map(|word: usize| twice[word] & window[word]);
        if shared[0] | shared[1] | shared[2] == 0 {
            return;
        }
        let missing = POSSIBLE[usize::from(self.enabled)] & !self.collisions;
        for (first, second, bit) in PAIRS {
            if missing & bit != 0 {
                let (a, b) = (self.mask(first), self.mask(second));
                if (0..3).any(|word| a[word] & b[word] & window[word] != 0) {
                    self.collisions |= bit;
                }
            }
        }
    }

    fn mask(&self, object: u8) -> &Mask {
        &self.masks[object.trailing_zeros() as usize]
    }

    /// Recomputes the masks that are out of date, of the objects that are on.
    fn refresh(&mut self) {
        let due = self.stale & self.enabled;
        if due == 0 {
            return;
        }
        self.stale &= !due;
        for (index, object) in [P0, M0, P1, M1, BL, PF].into_iter().enumerate() {
            if due & object == 0 {
                continue;
            }
            let mask = match object {
                P0 => masks::player(self.shown_grp[0], self.position[0], self.nusiz[0], self.skip_first[0]),
                P1 => masks::player(self.shown_grp[1], self.position[1], self.nusiz[1], self.skip_first[1]),
                M0 if self.missile0 == Missile0::Hidden => [0; 3],
                M0 => masks::missile(self.position[2], self.nusiz[0], self.missile0 == Missile0::Wide),
                M1 => masks::missile(self.position[3], self.nusiz[1], false),
                BL => masks::ball(self.position[4], self.ctrlpf),
                _ => masks::playfield(self.playfield_bits(), self.mirrored),
            };
            self.masks[index] = mask;
            if object == PF {
                // Pixels 0 to 79.
                self.masks[LEFT] = [mask[0], mask[1] & 0xFFFF, 0];
            }
        }
    }

    /// The playfield's twenty bits, bit 0 leftmost.
    pub(super) fn playfield_bits(&self) -> u32 {
        let part = |n: usize| u32::from(self.playfield[n]);
        part(0) >> 4 | u32::from(self.playfield[1].reverse_bits()) << 4 | part(2) << 12
    }

    fn paint(&mut self, row: &mut [u8; WIDTH], from: usize, to: usize) {
        self.refresh();
        if self.vblank & 0x02 != 0 {
            return Layers::new(&self.masks, 0).paint(row, from, to);
        }
        let [p0, p1, pf, bk] = self.colours;
        let enabled = self.enabled;
        let mut layers = Layers::new(&self.masks, bk);
        let (front, in_players_colours) = (self.ctrlpf & 0x04 != 0, self.ctrlpf & 0x02 != 0);
        if !front {
            layers.put_if(enabled, BL, pf);
            layers.put_if(enabled, PF, if in_players_colours { p1 } else { pf });
            if in_players_colours && enabled & PF != 0 {
                layers.put(LEFT, p0);
            }
        }
        layers.put_if(enabled, P1, p1);
        layers.put_if(enabled, M1, p1);
        layers.put_if(enabled, P0, p0);
        layers.put_if(enabled, M0, p0);
        if front {
            layers.put_if(enabled, BL, pf);
            layers.put_if(enabled, PF, pf);
        }
        if self.hmove_blank {
            layers.put(BLANKED, 0);
        }
        layers.paint(row, from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Geometry, Tia};
    use crate::machine::input::Pins;
    use proptest::prelude::*;
    use spectral_core::bytes::{StateReader, StateWriter};

    const LINES: i32 = 30;
    /// Before the end of the picture, so that something could be drawn too many.
    const END: i32 = 31;

    fn tia() -> Tia {
        let geometry =
            Geometry { first_line: 4, height: 30, max_lines: 300, hmove_blanks: true, colour_loss: false };
        let mut tia = Tia::new(geometry);
        // Something to see: all objects on, of different colours.
        for (addr, value) in
            [(0x06, 0x10), (0x07, 0x20), (0x08, 0x30), (0x09, 0x40), (0x0D, 0xA0), (0x0E, 0x55), (0x0F, 0x0F)]
        {
            tia.write(addr, value, 0);
        }
        tia
    }

    proptest! {
        // Many lines at once, those that a paddle was read on among them, come out as they do piece by piece.
        #[test]
        fn it_does_not_matter_when_lines_are_drawn(
            writes in prop::collection::vec((0u8..0x2D, any::<u8>(), 0..76 * LINES), 0..40),
            looks in prop::collection::vec(0..76 * LINES, 0..60),
            drawn: bool,
        ) {
            let mut events: Vec<(i32, Option<(u8, u8)>)> =
                writes.iter().map(|&(addr, value, cycle)| (cycle, Some((addr, value)))).collect();
            // Neither the end of the frame nor collisions forgotten on the way.
            events.retain(|(_, write)| write.is_none_or(|(addr, _)| addr != 0x00 && addr != 0x2C));
            events.extend(looks.iter().map(|&cycle| (cycle, None)));
            events.sort_by_key(|&(cycle, _)| cycle);
            events.push((76 * END, None));
            let pins = Pins::default();
            let (mut late, mut soon) = (tia(), tia());
            late.set_draw(drawn);
            soon.set_draw(drawn);
            for &(cycle, write) in &events {
                match write {
                    Some((addr, value)) => {
                        prop_assert_eq!(late.write(addr, value, cycle), soon.write(addr, value, cycle));
                    }
                    None => {
                        late.read(0x08, cycle, 0, &pins);
                        soon.read(0x00, cycle, 0, &pins);
                    }
                }
            }
            late.catch_up_deferred();
            // Restored by one that has put off more, it is the same.
            let mut saved = StateWriter::default();
            late.save(&mut saved);
            let mut saved_soon = StateWriter::default();
            soon.save(&mut saved_soon);
            let saved = saved.into_bytes();
            prop_assert!(saved == saved_soon.into_bytes());
            let mut other = tia();
            other.read(0x08, 76 * (LINES + 2), 0, &pins);
            other.restore(&mut StateReader::new(&saved)).unwrap();
            other.catch_up_deferred();
            prop_assert_eq!((other.painted(), other.collisions), (late.painted(), late.collisions));
            prop_assert_eq!(late.painted(), soon.painted());
            prop_assert_eq!(late.collisions, soon.collisions);
            for (row, (late, soon)) in late.picture().chunks(160).zip(soon.picture().chunks(160)).enumerate() {
                prop_assert_eq!(late, soon, "line {}", row);
            }
        }
    }

    /// Brings a chip that does not draw to `cycle` of a line in one piece, and one that looks at every line, and gives the
    /// pictures that both draw from there on.
    fn drawn_after(writes: &[(u8, u8, i32)], cycle: i32) -> [Vec<u8>; 2] {
        let pins = Pins::default();
        [false, true].map(|looks| {
            let mut tia = tia();
            tia.set_draw(false);
            for &(addr, value, cycle) in writes {
                tia.write(addr, value, cycle);
            }
            if looks {
                (0..cycle).step_by(76).for_each(|cycle| _ = tia.read(0x00, cycle, 0, &pins));
            }
            tia.read(0x00, cycle, 0, &pins);
            tia.set_draw(true);
            tia.read(0x00, 76 * END, 0, &pins);
            tia.picture().to_vec()
        })
    }

    #[test]
    fn lines_that_are_not_drawn_pass_all_the_same() {
        // HMOVE at the end of line 9 blanks the next line and no other, though nothing is drawn before line 15.
        let [late, soon] = drawn_after(&[(0x2A, 0, 76 * 9 + 75)], 76 * 15 + 5);
        assert!(late == soon);
        assert!(late[160 * (15 - 4)..][..8].iter().all(|pixel| *pixel != 0), "nothing is blanked");
        // Missile 0, set jumping from line to line by an HMOVE and a motion too late for it, jumps on. It is switched on
        // later: nothing can collide before.
        let jumps = [(0x22, 0x70, 76 * 8), (0x2A, 0, 76 * 9 + 3), (0x22, 0x60, 76 * 9 + 24)];
        let shown =
            [(0x0D, 0, 76 * 9 + 40), (0x0E, 0, 76 * 9 + 43), (0x0F, 0, 76 * 9 + 46), (0x1D, 2, 76 * 9 + 50)];
        let [late, soon] = drawn_after(&[&jumps[..], &shown].concat(), 76 * 16);
        assert!(late == soon);
        let missile = |line: usize| late[160 * (line - 4)..][..160].iter().position(|pixel| *pixel == 0x10);
        assert!(missile(16).is_some() && missile(16) != missile(17), "{:?} {:?}", missile(16), missile(17));
    }
}
