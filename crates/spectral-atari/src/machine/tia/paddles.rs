//! Paddles: capacitors that VBLANK grounds and that charge, sooner or later, once it lets go.

use super::super::input::Charge;
use super::Tia;

impl Tia {
    /// How the paddles charge from here on. To be told anew when a frame has begun, because its clocks start over.
    pub(in super::super) fn plug_paddles(&mut self, paddles: [Charge; 4]) {
        self.paddles = paddles;
        self.find_charging();
    }

    /// Grounds the paddles or lets them charge from `cycle` on, as bit 7 of VBLANK says.
    pub(super) fn ground_paddles(&mut self, ground: bool, cycle: i32) {
        if ground != self.dumping {
            self.dumping = ground;
            if !ground {
                self.dump_ended = cycle;
            }
            self.find_charging();
        }
    }

    /// Finds the cycles after which the paddles read as charged.
    fn find_charging(&mut self) {
        self.charged_after = self.paddles.map(|charge| match charge {
            Charge::Always => i32::MIN,
            Charge::After(needed) if !self.dumping => self.dump_ended.saturating_add(needed),
            Charge::After(_) | Charge::Never => i32::MAX,
        });
    }
}
