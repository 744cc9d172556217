//! What each write to a TIA register does.

use super::{BL, HBLANK, LINE, M0, M1, Missile0, P0, P1, PF, Tia, masks, motion};

/// What a write asks of the rest of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Effect {
    None,
    /// The processor sleeps until the line ends.
    WaitForLine,
    /// The frame is complete.
    EndFrame,
    /// The frame has grown too long and ends here, and the processor sleeps until the line ends.
    EndFrameAndWait,
}

const PLAYER: [u8; 2] = [P0, P1];
const MISSILE: [u8; 2] = [M0, M1];

impl Tia {
    /// A write to register `addr` (0 to 63) at `cycle` of the frame.
    #[inline(always)]
    pub(in super::super) fn write(&mut self, addr: u8, value: u8, cycle: i32) -> Effect {
        let clock = cycle * 3;
        let overlong = cycle >= self.overlong_from;
        let mut effect = Effect::None;
        match addr {
            0x00 => {
                self.catch_up(clock);
                effect = self.write_vsync(value, clock);
            }
            0x01 => {
                self.catch_up(clock + 1);
                self.ground_paddles(value & 0x80 != 0, cycle);
                self.vblank = value;
            }
            0x02 => effect = Effect::WaitForLine,
            0x04 | 0x05 => self.write_nusiz(usize::from(addr - 0x04), value, clock),
            0x06..=0x09 => {
                let value = value & 0xFE | u8::from(self.colour_lost);
                let register = usize::from(addr - 0x06);
                if self.colours[register] != value {
                    if self.draw {
                        self.catch_up(clock);
                    }
                    self.colours[register] = value;
                }
            }
            0x0A => self.write_ctrlpf(value, clock, clock % LINE),
            0x0B | 0x0C => {
                let player = usize::from(addr - 0x0B);
                let reflected = value & 0x08 != 0;
                if reflected != self.reflected[player] {
                    self.catch_up(clock + 1);
                    self.reflected[player] = reflected;
                    self.show_player(player);
                }
            }
            0x0D..=0x0F => {
                let value = if addr == 0x0D { value & 0xF0 } else { value };
                let register = usize::from(addr - 0x0D);
                if value != self.playfield[register] {
                    // The playfield is latched every fourth clock, so a write waits for its turn.
                    self.catch_up(clock + [4, 5, 2, 3][((clock % LINE / 3) & 3) as usize]);
                    self.playfield[register] = value;
                    self.stale |= PF;
                    // Byte by byte: a wider load would wait for the store.
                    self.enable(PF, self.playfield.iter().any(|byte| *byte != 0));
                }
            }
            0x10 | 0x11 => self.reset_player(usize::from(addr - 0x10), clock, clock % LINE),
            0x12 | 0x13 => self.reset_missile(usize::from(addr - 0x12), clock, clock % LINE),
            0x14 => self.reset_ball(clock, clock % LINE),
            0x1B | 0x1C => self.write_grp(usize::from(addr - 0x1B), value, clock),
            0x1D | 0x1E => {
                let missile = usize::from(addr - 0x1D);
                let on = value & 0x02 != 0;
                if on != self.switched_on[missile] {
                    self.catch_up(clock);
                    self.switched_on[missile] = on;
                    self.enable_missile(missile);
                }
            }
            0x1F => {
                let on = value & 0x02 != 0;
                if on != self.switched_on[2] {
                    self.catch_up(clock);
                    self.switched_on[2] = on;
                    self.enable_ball();
                }
            }
            0x20 | 0x21 | 0x23 | 0x24 => self.motion[usize::from(addr - 0x20)] = value >> 4,
            0x22 => {
                if clock == self.last_hmove + 21 * 3 && self.motion[2] == 7 && value >> 4 == 6 {
                    self.catch_up(clock);
                    self.cosmic = true;
                    self.cosmic_counter = 0;
                }
                self.motion[2] = value >> 4;
            }
            0x25 | 0x26 => {
                let player = usize::from(addr - 0x25);
                let delay = value & 0x01 != 0;
                if delay != self.delay_player[player] {
                    self.catch_up(clock);
                    self.delay_player[player] = delay;
                    self.show_player(player);
                }
            }
            0x27 => {
                let delay = value & 0x01 != 0;
                if delay != self.delay_ball {
                    self.catch_up(clock);
                    self.delay_ball = delay;
                    self.enable_ball();
                }
            }
            0x28 | 0x29 => self.lock_missile(usize::from(addr - 0x28), value, clock),
            0x2A => self.hmove(clock, clock % LINE),
            0x2B => self.motion = [0; 5],
            0x2C => {
                self.catch_up(clock);
                self.collisions = 0;
            }
            _ => {}
        }
        match effect {
            Effect::WaitForLine if overlong => Effect::EndFrameAndWait,
            _ if overlong => Effect::EndFrame,
            _ => effect,
        }
    }

    fn write_vsync(&mut self, value: u8, clock: i32) -> Effect {
        self.vsync = value;
        if value & 0x02 != 0 {
            // One line is enough: some programs give less than the three that they should.
            self.vsync_ends = clock + LINE;
        } else if clock >= self.vsync_ends {
            self.vsync_ends = i32::MAX;
            return Effect::EndFrame;
        }
        Effect::None
    }

    fn write_nusiz(&mut self, player: usize, value: u8, clock: i32) {
        if value == self.nusiz[player] && !self.skip_first[player] && self.missile0 == Missile0::Normal {
            return;
        }
        self.catch_up(clock + 8);
        self.nusiz[player] = value;
        self.skip_first[player] = false;
        if player == 0 {
            self.missile0 = Missile0::Normal;
        }
        self.stale |= PLAYER[player] | MISSILE[player];
    }

    fn write_ctrlpf(&mut self, value: u8, clock: i32, x: i32) {
        let mirrored = value & 0x01 != 0;
        if value == self.ctrlpf && mirrored == self.mirrored {
            return;
        }
        self.catch_up(clock);
        self.ctrlpf = value;
        // Too late for this line once the left half is over.
        if x < HBLANK + 79 {
            self.mirrored = mirrored;
        }
        self.stale |= BL | PF;
    }

    fn write_grp(&mut self, player: usize, value: u8, clock: i32) {
        let other = 1 - player;
        let ball_changes = player == 1 && self.ball_on_old != self.switched_on[2];
        if value == self.grp[player] && self.grp_old[other] == self.grp[other] && !ball_changes {
            return;
        }
        self.catch_up(clock + 1);
        self.grp[player] = value;
        self.grp_old[other] = self.grp[other];
        if player == 1 {
            self.ball_on_old = self.switched_on[2];
            self.enable_ball();
        }
        self.show_player(0);
        self.show_player(1);
    }

    #[inline]
    fn enable(&mut self, object: u8, on: bool) {
        self.enabled = if on { self.enabled | object } else { self.enabled & !object };
    }

    fn enable_missile(&mut self, missile: usize) {
        self.enable(MISSILE[missile], self.switched_on[missile] && !self.missile_locked[missile]);
    }

    fn enable_ball(&mut self) {
        self.enable(BL, if self.delay_ball { self.ball_on_old } else { self.switched_on[2] });
    }

    /// Finds the graphics that a player shows now.
    fn show_player(&mut self, player: usize) {
        let bits = if self.delay_player[player] { self.grp_old[player] } else { self.grp[player] };
        let bits = if self.reflected[player] { bits.reverse_bits() } else { bits };
        if bits != self.shown_grp[player] {
            self.shown_grp[player] = bits;
            self.stale |= PLAYER[player];
            self.enable(PLAYER[player], bits != 0);
        }
    }

    fn reset_player(&mut self, player: usize, clock: i32, x: i32) {
        self.catch_up(clock);
        let position = if x < HBLANK { 3 } else { (x - HBLANK + 5) % 160 };
        match reset_moment(self.nusiz[player], self.position[player], position) {
            Moment::Starting => self.skip_first[player] = false,
            Moment::Showing => {
                self.catch_up(clock + 11);
                self.skip_first[player] = true;
            }
            Moment::Elsewhere => self.skip_first[player] = true,
        }
        self.position[player] = position as u8;
        self.stale |= PLAYER[player];
    }

    fn reset_missile(&mut self, missile: usize, clock: i32, x: i32) {
        self.catch_up(clock + 8);
        let since_hmove = clock - self.last_hmove;
        let position = match (missile, since_hmove, x) {
            (0, 60, 69) => 8,
            (1, 9, 18) => 3,
            _ if x < HBLANK => 2,
            _ => (x - HBLANK + 4) % 160,
        };
        self.position[2 + missile] = position as u8;
        if missile == 0 {
            self.missile0 = Missile0::Normal;
        }
        self.stale |= MISSILE[missile];
    }

    fn reset_ball(&mut self, clock: i32, x: i32) {
        self.catch_up(clock);
        let position = match (clock - self.last_hmove, x) {
            (54, 60 | 69) => 10,
            (9, 18) => 3,
            (21, 30) => 6,
            (18, 27) => 5,
            _ if x < HBLANK => 2,
            _ => (x - HBLANK + 4) % 160,
        };
        self.position[4] = position as u8;
        self.stale |= BL;
    }

    /// A missile locked to its player is hidden; let go, it starts from the player's middle.
    fn lock_missile(&mut self, missile: usize, value: u8, clock: i32) {
        let locked = value & 0x02 != 0;
        if locked == self.missile_locked[missile] {
            return;
        }
        self.catch_up(clock);
        if !locked {
            let middle = match self.nusiz[missile] & 7 {
                5 => 8,
                7 => 16,
                _ => 4,
            };
            self.position[2 + missile] = (self.position[missile] + middle) % 160;
            if missile == 0 {
                self.missile0 = Missile0::Normal;
            }
            self.stale |= MISSILE[missile];
        }
        self.missile_locked[missile] = locked;
        self.enable_missile(missile);
    }

    fn hmove(&mut self, clock: i32, x: i32) {
        self.catch_up(clock + 3);
        let cycle = x / 3;
        if self.geometry.hmove_blanks && motion::blanks(cycle) {
            self.hmove_blank = true;
        }
        for object in 0..5 {
            let moved = i32::from(self.position[object]) + motion::distance(cycle, self.motion[object]);
            self.position[object] = moved.rem_euclid(160) as u8;
        }
        self.skip_first = [false; 2];
        self.missile0 = Missile0::Normal;
        self.cosmic = false;
        self.stale |= P0 | P1 | M0 | M1 | BL;
        self.last_hmove = clock;
    }
}

/// Where a player's counter stands when the player is given a new position.
enum Moment {
    /// In the four clocks before one of its copies shows.
    Starting,
    /// While one of its copies shows.
    Showing,
    Elsewhere,
}

fn reset_moment(nusiz: u8, old: u8, new: i32) -> Moment {
    let width = match nusiz & 7 {
        5 => 16,
        7 => 32,
        _ => 8,
    };
    let [second, third] = masks::COPIES[usize::from(nusiz & 7)];
    let mut moment = Moment::Elsewhere;
    for (index, copy) in [0, second, third].into_iter().enumerate() {
        if index > 0 && copy == 0 {
            continue;
        }
        match (new - i32::from(old) - i32::from(copy)).rem_euclid(160) {
            0..4 => moment = Moment::Starting,
            after if after < 4 + width => moment = Moment::Showing,
            _ => {}
        }
    }
    moment
}
