//! The TIA: its registers, when they take effect, and the lazy drawing of the picture.
//!
//! Nothing is drawn as time passes. A write to a register, or a read of a collision, first draws the picture up to that
//! moment with the old registers ([`Tia::catch_up`]). What the picture shows between two moments is in `span`, what each
//! write does in `write`, and what HMOVE moves in `motion`.

mod layers;
mod masks;
mod motion;
mod paddles;
mod span;
mod state;
mod write;

use super::input::{Charge, Pins};
use layers::{BLANKED, Masks, repeat_line};
use std::mem::offset_of;
use std::sync::Arc;
pub(super) use write::Effect;

/// Colour clocks of a line, and of its invisible part at the left.
const LINE: i32 = 228;
const HBLANK: i32 = 68;
/// Pixels in a line.
pub(super) const WIDTH: usize = 160;
/// The most lines a picture can have.
pub(super) const MAX_HEIGHT: usize = 250;

/// Bits for the six objects, in [`Tia::enabled`] and the collision tables.
const P0: u8 = 1;
const M0: u8 = 2;
const P1: u8 = 4;
const M1: u8 = 8;
const BL: u8 = 16;
const PF: u8 = 32;

/// Which part of a frame is shown, and how long a frame may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) first_line: i32,
    pub(super) height: usize,
    pub(super) max_lines: i32,
    /// Whether HMOVE blanks the first eight pixels of a line.
    pub(super) hmove_blanks: bool,
    /// PAL televisions lose colour when frames have an odd number of lines.
    pub(super) colour_loss: bool,
}

/// What happens to missile 0 on each line once the "Cosmic Ark" quirk has been set off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missile0 {
    Normal,
    Wide,
    Hidden,
}

/// One picture, shared between a console and its clones until one of them draws again; absent while the rest
/// of the chip is copied.
type Picture = Option<Arc<Pixels>>;
type Pixels = [u8; WIDTH * MAX_HEIGHT];
/// The two pictures that are drawn in turn.
pub(super) type Pictures = [Picture; 2];

#[derive(Clone, Debug)]
pub(super) struct Tia {
    // Time, in colour clocks since the frame began.
    drawn_to: i32,
    /// Up to where a read has asked for nothing that depends on it.
    looked_at: i32,
    line_end: i32,
    display_start: i32,
    display_stop: i32,
    vsync_ends: i32,
    last_hmove: i32,

    /// The cycle from which on a write ends the frame.
    overlong_from: i32,

    // What each register holds.
    nusiz: [u8; 2],
    /// Colours of player 0, player 1, playfield, background.
    colours: [u8; 4],
    ctrlpf: u8,
    reflected: [bool; 2],
    /// PF0 (its upper half counts), PF1 and PF2.
    playfield: [u8; 3],
    grp: [u8; 2],
    grp_old: [u8; 2],
    /// Missile 0, missile 1, ball.
    switched_on: [bool; 3],
    ball_on_old: bool,
    /// Motion of player 0, player 1, missile 0, missile 1, ball.
    motion: [u8; 5],
    delay_player: [bool; 2],
    delay_ball: bool,
    missile_locked: [bool; 2],
    vsync: u8,
    vblank: u8,

    // What follows from them.
    /// Positions in the order of `motion`.
    position: [u8; 5],
    shown_grp: [u8; 2],
    skip_first: [bool; 2],
    mirrored: bool,
    enabled: u8,
    collisions: u16,
    hmove_blank: bool,
    cosmic: bool,
    cosmic_counter: u8,
    missile0: Missile0,

    // Paddles.
    dumping: bool,
    dump_ended: i32,
    paddles: [Charge; 4],
    /// The cycle after which each of them reads as charged, if nothing happens until then.
    charged_after: [i32; 4],

    // Colour loss.
    colour_lost: bool,
    last_frame_lines: i32,

    // Masks of the six objects and of what follows from them, and a bit for each object that is out of date.
    masks: Masks,
    stale: u8,

    draw: bool,
    pictures: Pictures,
    current: usize,
    geometry: Geometry,
}

impl Tia {
    // Where translated programs find what they look at themselves.
    pub(super) const MOTION_OFFSET: usize = offset_of!(Tia, motion);
    pub(super) const OVERLONG_OFFSET: usize = offset_of!(Tia, overlong_from);
    pub(super) const PLAYFIELD_OFFSET: usize = offset_of!(Tia, playfield);
    pub(super) const GRP_OFFSET: usize = offset_of!(Tia, grp);
    pub(super) const GRP_OLD_OFFSET: usize = offset_of!(Tia, grp_old);
    pub(super) const SWITCHED_ON_OFFSET: usize = offset_of!(Tia, switched_on);
    pub(super) const BALL_ON_OLD_OFFSET: usize = offset_of!(Tia, ball_on_old);
    pub(super) const LOOKED_AT_OFFSET: usize = offset_of!(Tia, looked_at);
    pub(super) const CHARGED_AFTER_OFFSET: usize = offset_of!(Tia, charged_after);

    pub(super) fn new(geometry: Geometry) -> Tia {
        let picture = Some(Arc::new([0; WIDTH * MAX_HEIGHT]));
        let mut tia = Tia {
            drawn_to: 0,
            looked_at: 0,
            line_end: 0,
            display_start: 0,
            display_stop: 0,
            vsync_ends: 0,
            last_hmove: 0,
            overlong_from: (geometry.max_lines + 1) * LINE / 3,
            nusiz: [0; 2],
            colours: [0; 4],
            ctrlpf: 0,
            reflected: [false; 2],
            playfield: [0; 3],
            grp: [0; 2],
            grp_old: [0; 2],
            switched_on: [false; 3],
            ball_on_old: false,
            motion: [0; 5],
            delay_player: [false; 2],
            delay_ball: false,
            missile_locked: [false; 2],
            vsync: 0,
            vblank: 0,
            position: [0; 5],
            shown_grp: [0; 2],
            skip_first: [false; 2],
            mirrored: false,
            enabled: 0,
            collisions: 0,
            hmove_blank: false,
            cosmic: false,
            cosmic_counter: 0,
            missile0: Missile0::Normal,
            dumping: false,
            dump_ended: 0,
            paddles: [Charge::Never; 4],
            charged_after: [i32::MAX; 4],
            colour_lost: false,
            last_frame_lines: 0,
            masks: [[0; 3]; 8],
            stale: 0x3F,
            draw: true,
            pictures: [picture.clone(), picture],
            current: 0,
            geometry,
        };
        tia.masks[BLANKED] = masks::window(0, 8);
        tia.reset();
        tia
    }

    /// A system reset: all registers cleared; the pictures stay.
    pub(super) fn reset(&mut self) {
        let fresh_times = (0, i32::MAX, 0);
        (self.drawn_to, self.vsync_ends, self.last_hmove) = fresh_times;
        self.nusiz = [0; 2];
        self.colours = [0; 4];
        self.ctrlpf = 0;
        self.reflected = [false; 2];
        self.playfield = [0; 3];
        self.grp = [0; 2];
        self.grp_old = [0; 2];
        self.switched_on = [false; 3];
        self.ball_on_old = false;
        self.motion = [0; 5];
        self.delay_player = [false; 2];
        self.delay_ball = false;
        self.missile_locked = [false; 2];
        (self.vsync, self.vblank) = (0, 0);
        self.position = [0; 5];
        self.shown_grp = [0; 2];
        self.skip_first = [false; 2];
        self.mirrored = false;
        self.enabled = 0;
        self.collisions = 0;
        self.hmove_blank = false;
        (self.cosmic, self.cosmic_counter, self.missile0) = (false, 0, Missile0::Normal);
        (self.dumping, self.dump_ended) = (false, 0);
        (self.colour_lost, self.last_frame_lines) = (false, 0);
        self.stale = 0x3F;
        self.set_window();
    }

    /// The lines shown and the catching-up point, for a frame that begins at clock 0.
    fn set_window(&mut self) {
        self.display_start = LINE * self.geometry.first_line;
        self.display_stop = self.display_start + LINE * self.geometry.height as i32;
        self.drawn_to = self.display_start;
        self.looked_at = 0;
        self.line_end = self.display_start + LINE;
    }

    /// Starts a frame, `cycles` having passed since the last one started (whole lines are taken off all
    /// clocks).
    pub(super) fn begin_frame(&mut self, cycles: i32) {
        let clocks = cycles * 3;
        self.vsync_ends = self.vsync_ends.saturating_sub(clocks);
        self.last_hmove = self.last_hmove.saturating_sub(clocks);
        self.dump_ended = self.dump_ended.saturating_sub(cycles);
        self.set_window();
        self.current ^= 1;
        if self.geometry.colour_loss {
            self.colour_lost = self.last_frame_lines & 1 != 0;
            let lost = u8::from(self.colour_lost);
            self.colours = self.colours.map(|colour| colour & 0xFE | lost);
        }
    }

    /// Remembers how long the frame was.
    pub(super) fn end_frame(&mut self, cycle: i32) {
        self.last_frame_lines = cycle * 3 / LINE;
    }

    /// Whether pixels are wanted from here on; collisions are found either way.
    pub(super) fn set_draw(&mut self, draw: bool) {
        self.draw = draw;
    }

    pub(super) fn picture(&self) -> &[u8] {
        self.picture_in(self.current)
    }

    /// One of the two pictures.
    pub(super) fn picture_in(&self, which: usize) -> &[u8] {
        let size = WIDTH * self.geometry.height;
        self.pictures[which].as_ref().map_or(&[], |picture| &picture[..size])
    }

    /// Which of the two pictures is this frame's.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    pub(super) fn take_pictures(&mut self) -> Pictures {
        std::mem::take(&mut self.pictures)
    }

    pub(super) fn put_pictures(&mut self, pictures: Pictures) {
        self.pictures = pictures;
    }

    pub(super) fn share_pictures(&self) -> Pictures {
        self.pictures.clone()
    }

    /// Takes one of another chip's two pictures.
    pub(super) fn take_picture_of(&mut self, other: &Tia, which: usize) {
        self.pictures[which] = other.pictures[which].clone();
    }

    /// How many pixels of the picture this frame has reached.
    pub(super) fn painted(&self) -> usize {
        let line_start = self.line_end - LINE;
        let line = (line_start - self.display_start) / LINE;
        let x = (self.drawn_to - line_start - HBLANK).clamp(0, WIDTH as i32);
        ((line * WIDTH as i32 + x) as usize).min(WIDTH * self.geometry.height)
    }

    /// Whether this frame has reached the end of the picture.
    pub(super) fn is_full(&self) -> bool {
        self.drawn_to >= self.display_stop
    }

    /// Takes another chip's picture from pixel `from` on.
    pub(super) fn complete_from(&mut self, other: &Tia, from: usize) {
        if let Some(picture) = &mut self.pictures[self.current] {
            let other = other.picture();
            Arc::make_mut(picture)[from..other.len()].copy_from_slice(&other[from..]);
        }
    }

    pub(super) fn height(&self) -> usize {
        self.geometry.height
    }

    /// Brings the picture and the collisions up to `clock`.
    #[inline]
    fn catch_up(&mut self, clock: i32) {
        if clock < self.display_start || self.drawn_to >= self.display_stop || self.drawn_to >= clock {
            return;
        }
        self.catch_up_inside(clock.min(self.display_stop));
    }

    /// Draws what reads have deferred, before the picture is used or the state is saved: the real chip has drawn it.
    pub(super) fn catch_up_deferred(&mut self) {
        self.catch_up(self.looked_at);
    }

    fn catch_up_inside(&mut self, clock: i32) {
        if clock <= self.line_end - LINE + HBLANK {
            // Nothing is shown there.
            self.drawn_to = clock;
            return;
        }
        if !self.draw {
            return self.catch_up_drawing(clock, None);
        }
        // Made the chip's own once, for all that is drawn here.
        let mut picture = self.pictures[self.current].take();
        self.catch_up_drawing(clock, picture.as_mut().map(Arc::make_mut));
        self.pictures[self.current] = picture;
    }

    fn catch_up_drawing(&mut self, clock: i32, mut pixels: Option<&mut Pixels>) {
        loop {
            let line_start = self.line_end - LINE;
            let ends_line = clock > self.line_end;
            let to = if ends_line { self.line_end } else { clock };
            let (from_x, to_x) = (self.drawn_to - line_start, to - line_start);
            let blanked = self.hmove_blank;
            if to_x > HBLANK && to > self.drawn_to {
                let (from, to) = (from_x.max(HBLANK) - HBLANK, to_x - HBLANK);
                self.span(pixels.as_deref_mut(), line_start, from as usize, to as usize);
            }
            if self.hmove_blank && from_x < HBLANK + 8 && to_x >= HBLANK + 8 {
                self.hmove_blank = false;
            }
            self.drawn_to = to;
            if ends_line {
                self.line_end += LINE;
                self.end_line();
                let same = if pixels.is_none() && !self.may_collide() {
                    !self.hmove_blank
                } else {
                    from_x <= HBLANK && self.stale & self.enabled == 0 && !(pixels.is_some() && blanked)
                };
                if same && !self.cosmic {
                    // Nothing has changed: the other whole lines will look and collide as this one did.
                    let same = (clock - 1 - self.drawn_to) / LINE;
                    if let Some(pixels) = pixels.as_deref_mut() {
                        repeat_line(pixels, self.line_number(line_start), same as usize);
                    }
                    self.drawn_to += same * LINE;
                    self.line_end += same * LINE;
                }
            }
            if to >= clock {
                return;
            }
        }
    }

    /// What changes when a shown line ends.
    fn end_line(&mut self) {
        let mirrored = self.ctrlpf & 1 != 0;
        if mirrored != self.mirrored {
            self.mirrored = mirrored;
            self.stale |= PF;
        }
        for (player, bit) in [P0, P1].into_iter().enumerate() {
            if self.skip_first[player] {
                self.skip_first[player] = false;
                self.stale |= bit;
            }
        }
        if self.cosmic {
            self.cosmic_step();
        }
    }

    /// Missile 0 jumps to and fro, line by line, until the next HMOVE.
    fn cosmic_step(&mut self) {
        self.cosmic_counter = (self.cosmic_counter + 1) & 3;
        let back = [18, 33, 0, 17][usize::from(self.cosmic_counter)];
        self.position[2] = ((i32::from(self.position[2]) - back + 160) % 160) as u8;
        self.missile0 = match self.cosmic_counter {
            1 => Missile0::Wide,
            2 => Missile0::Hidden,
            _ => Missile0::Normal,
        };
        self.stale |= M0;
    }

    /// A read at `cycle`; bits that the chip does not drive keep what was on the bus.
    pub(super) fn read(&mut self, addr: u16, cycle: i32, bus: u8, pins: &Pins) -> u8 {
        // Only collisions depend on what has been drawn. Paddle games ask for their paddles on every line.
        if addr & 0x0F < 8 {
            self.catch_up(cycle * 3);
        } else {
            self.looked_at = cycle * 3;
        }
        let noise = bus & 0x3F;
        let pair = |high: u16, low: u16| -> u8 {
            let bit = |mask: u16, value: u8| if self.collisions & mask != 0 { value } else { 0 };
            noise | bit(high, 0x80) | bit(low, 0x40)
        };
        match addr & 0x0F {
            register @ 0..=7 => pair(1 << (2 * register), 2 << (2 * register)),
            paddle @ 0x08..=0x0B => {
                if cycle > self.charged_after[usize::from(paddle - 8)] {
                    noise | 0x80
                } else {
                    noise
                }
            }
            button @ 0x0C..=0x0D => {
                if pins.button_up[usize::from(button - 0x0C)] {
                    noise | 0x80
                } else {
                    noise
                }
            }
            _ => noise,
        }
    }
}
