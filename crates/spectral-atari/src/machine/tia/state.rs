//! Saving and restoring the TIA.

use super::{MAX_HEIGHT, Missile0, Tia, WIDTH};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::sync::Arc;

impl Tia {
    pub(in super::super) fn save(&self, out: &mut StateWriter) {
        let times = [
            self.drawn_to,
            self.line_end,
            self.display_start,
            self.display_stop,
            self.vsync_ends,
            self.last_hmove,
            self.dump_ended,
            self.last_frame_lines,
        ];
        times.iter().for_each(|time| out.i32(*time));
        out.u32(self.playfield_bits());
        let bytes = [self.ctrlpf, self.vsync, self.vblank, self.cosmic_counter, self.current as u8];
        let groups: [&[u8]; 8] = [
            &self.nusiz,
            &self.colours,
            &self.grp,
            &self.grp_old,
            &self.motion,
            &self.position,
            &self.shown_grp,
            &bytes,
        ];
        groups.iter().for_each(|group| group.iter().for_each(|byte| out.u8(*byte)));
        for flag in self.flags() {
            out.bool(flag);
        }
        out.u8(match self.missile0 {
            Missile0::Normal => 0,
            Missile0::Wide => 1,
            Missile0::Hidden => 2,
        });
        out.u8(self.enabled);
        out.u16(self.collisions);
        for picture in self.pictures.iter().flatten() {
            save_picture(&picture[..], out);
        }
    }

    fn flags(&self) -> [bool; 19] {
        [
            self.reflected[0],
            self.reflected[1],
            self.switched_on[0],
            self.switched_on[1],
            self.switched_on[2],
            self.ball_on_old,
            self.delay_player[0],
            self.delay_player[1],
            self.delay_ball,
            self.missile_locked[0],
            self.missile_locked[1],
            self.skip_first[0],
            self.skip_first[1],
            self.mirrored,
            self.hmove_blank,
            self.cosmic,
            self.dumping,
            self.colour_lost,
            self.draw,
        ]
    }

    pub(in super::super) fn restore(&mut self, from: &mut StateReader) -> Result<(), StateError> {
        let times: [&mut i32; 8] = [
            &mut self.drawn_to,
            &mut self.line_end,
            &mut self.display_start,
            &mut self.display_stop,
            &mut self.vsync_ends,
            &mut self.last_hmove,
            &mut self.dump_ended,
            &mut self.last_frame_lines,
        ];
        for time in times {
            *time = from.i32()?;
        }
        // Before a state is saved, all deferred drawing has been done.
        self.looked_at = 0;
        let line_start = self.line_end.wrapping_sub(super::LINE);
        let window = (self.geometry.first_line, self.geometry.height as i32);
        let expected = (super::LINE * window.0, super::LINE * (window.0 + window.1));
        let whole = line_start.wrapping_sub(self.display_start) % super::LINE == 0;
        let inside = self.display_start <= line_start
            && line_start < self.display_stop
            && (line_start..=self.line_end).contains(&self.drawn_to);
        if (self.display_start, self.display_stop) != expected || !whole || !inside {
            return Err(StateError("the picture's progress does not fit this game".into()));
        }
        let playfield = from.u32()?;
        self.playfield =
            [(playfield << 4) as u8, ((playfield >> 4) as u8).reverse_bits(), (playfield >> 12) as u8];
        let mut bytes = [0; 5];
        let groups: [&mut [u8]; 8] = [
            &mut self.nusiz,
            &mut self.colours,
            &mut self.grp,
            &mut self.grp_old,
            &mut self.motion,
            &mut self.position,
            &mut self.shown_grp,
            &mut bytes,
        ];
        for group in groups {
            for byte in group {
                *byte = from.u8()?;
            }
        }
        let current;
        [self.ctrlpf, self.vsync, self.vblank, self.cosmic_counter, current] = bytes;
        self.cosmic_counter &= 3;
        self.current = usize::from(current & 1);
        if self.position.iter().any(|x| *x >= 160) || self.motion.iter().any(|m| *m >= 16) {
            return Err(StateError("an object lies outside the line".into()));
        }
        let mut flags = [false; 19];
        for flag in &mut flags {
            *flag = from.bool()?;
        }
        self.reflected = [flags[0], flags[1]];
        self.switched_on = [flags[2], flags[3], flags[4]];
        self.ball_on_old = flags[5];
        self.delay_player = [flags[6], flags[7]];
        self.delay_ball = flags[8];
        self.missile_locked = [flags[9], flags[10]];
        self.skip_first = [flags[11], flags[12]];
        (self.mirrored, self.hmove_blank) = (flags[13], flags[14]);
        (self.cosmic, self.dumping, self.colour_lost, self.draw) =
            (flags[15], flags[16], flags[17], flags[18]);
        self.missile0 = match from.u8()? {
            0 => Missile0::Normal,
            1 => Missile0::Wide,
            _ => Missile0::Hidden,
        };
        self.enabled = from.u8()? & 0x3F;
        self.collisions = from.u16()?;
        for picture in self.pictures.iter_mut().flatten() {
            restore_picture(&mut Arc::make_mut(picture)[..], from)?;
        }
        self.stale = 0x3F;
        Ok(())
    }
}

/// Pictures are mostly runs of one colour: pairs of length and colour, lengths up to 255.
fn save_picture(pixels: &[u8], out: &mut StateWriter) {
    let mut runs = Vec::with_capacity(4096);
    let mut rest = pixels;
    while let Some(colour) = rest.first() {
        let run = rest.iter().take(255).take_while(|pixel| *pixel == colour).count();
        runs.extend([run as u8, *colour]);
        rest = &rest[run..];
    }
    out.blob(&runs);
}

fn restore_picture(pixels: &mut [u8], from: &mut StateReader) -> Result<(), StateError> {
    let mut at = 0;
    for run in from.blob()?.chunks(2) {
        let [length, colour] = run else { return Err(StateError("a picture breaks off".into())) };
        let end = at + usize::from(*length);
        pixels.get_mut(at..end).ok_or_else(|| StateError("a picture is too large".into()))?.fill(*colour);
        at = end;
    }
    if at == WIDTH * MAX_HEIGHT { Ok(()) } else { Err(StateError("a picture is too small".into())) }
}
