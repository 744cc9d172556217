//! What a player holds: joysticks or paddles, and the switches of the console.

/// The lowest resistance that ALE's emulator gives a paddle (knob fully to the right).
pub const PADDLE_MIN: i32 = 27_450;
/// The highest resistance that ALE's emulator gives a paddle (knob fully to the left).
pub const PADDLE_MAX: i32 = 790_196;
/// The resistance at which every game starts.
pub const PADDLE_DEFAULT: i32 = (PADDLE_MAX - PADDLE_MIN) / 2 + PADDLE_MIN;
/// How far one frame of a discrete left or right action turns a paddle.
pub const PADDLE_STEP: i32 = 23_000;

/// What is plugged into the console's two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Controllers {
    /// A joystick in each port: directions and fire are read from [`Input::up`] and its fellows.
    Joysticks,
    /// Two paddles in each port: [`Input::paddles`] and [`Input::paddle_fire`] are read.
    Paddles,
}

/// The state of all controls during one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Joystick pushed up, by player.
    pub up: [bool; 2],
    /// Joystick pushed down, by player.
    pub down: [bool; 2],
    /// Joystick pushed left, by player.
    pub left: [bool; 2],
    /// Joystick pushed right, by player.
    pub right: [bool; 2],
    /// Joystick button, by player.
    pub fire: [bool; 2],
    /// What is plugged in.
    pub controllers: Controllers,
    /// Resistance of each paddle in ohms, [`PADDLE_MIN`] to [`PADDLE_MAX`]; 0 for the second pair, which
    /// ALE's emulator never turns.
    pub paddles: [i32; 4],
    /// Button of each paddle.
    pub paddle_fire: [bool; 4],
    /// Game select switch held.
    pub select: bool,
    /// Game reset switch held.
    pub reset: bool,
    /// Left difficulty switch at A (hard).
    pub difficulty_a: bool,
    /// Right difficulty switch at A (hard).
    pub difficulty_b: bool,
    /// Television type switch at colour.
    pub color: bool,
}

impl Default for Input {
    /// Nothing pressed, paddles in the middle, both difficulties at B, colour.
    fn default() -> Self {
        Input {
            up: [false; 2],
            down: [false; 2],
            left: [false; 2],
            right: [false; 2],
            fire: [false; 2],
            controllers: Controllers::Joysticks,
            paddles: [PADDLE_DEFAULT, PADDLE_DEFAULT, 0, 0],
            paddle_fire: [false; 4],
            select: false,
            reset: false,
            difficulty_a: false,
            difficulty_b: false,
            color: true,
        }
    }
}

/// How a paddle's capacitor charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Charge {
    /// Nothing is connected.
    #[default]
    Never,
    /// Nothing resists.
    Always,
    /// In so many processor cycles after it was last grounded.
    After(i32),
}

impl Charge {
    /// By way of a resistance; negative where nothing is connected.
    fn through(resistance: i32) -> Charge {
        // Farads times ohms, at 1.19 million cycles a second.
        let seconds = 1.6 * f64::from(resistance) * 0.01E-6;
        match resistance {
            ..0 => Charge::Never,
            0 => Charge::Always,
            _ => Charge::After((seconds * 1.19E6) as i32),
        }
    }
}

/// The levels that the console's pins take from an [`Input`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pins {
    /// RIOT port A: the two joysticks' directions.
    pub(super) swcha: u8,
    /// RIOT port B: the switches.
    pub(super) swchb: u8,
    /// The paddles at INPT0 to INPT3.
    pub(super) paddles: [Charge; 4],
    /// Buttons at INPT4 and INPT5: `true` when not pressed.
    pub(super) button_up: [bool; 2],
}

impl Input {
    pub(super) fn pins(&self, swap_ports: bool, swap_paddles: bool) -> Pins {
        let mut swcha = 0xFF;
        let (paddles, button_up) = match self.controllers {
            Controllers::Joysticks => {
                for player in 0..2 {
                    let held = u8::from(self.up[player])
                        | u8::from(self.down[player]) << 1
                        | u8::from(self.left[player]) << 2
                        | u8::from(self.right[player]) << 3;
                    swcha &= !(if (player == 0) != swap_ports { held << 4 } else { held });
                }
                let [first, second] = self.fire.map(|held| !held);
                ([Charge::Never; 4], if swap_ports { [second, first] } else { [first, second] })
            }
            Controllers::Paddles => {
                let order = if swap_paddles { [1, 0, 3, 2] } else { [0, 1, 2, 3] };
                for (paddle, bit) in order.into_iter().zip([0x80, 0x40, 0x08, 0x04]) {
                    if self.paddle_fire[paddle] {
                        swcha &= !bit;
                    }
                }
                (order.map(|paddle| Charge::through(self.paddles[paddle])), [true; 2])
            }
        };
        let swchb = u8::from(!self.reset)
            | u8::from(!self.select) << 1
            | 0x34
            | u8::from(self.color) << 3
            | u8::from(self.difficulty_a) << 6
            | u8::from(self.difficulty_b) << 7;
        Pins { swcha, swchb, paddles, button_up }
    }
}
