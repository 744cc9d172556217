//! The eighteen things that a joystick with one button can do.

use std::fmt;

/// What the first player does during a frame. The numbers are those of the Arcade Learning Environment.
///
/// ```
/// use spectral_atari::games::Action;
/// assert_eq!(Action::ALL.len(), 18);
/// assert_eq!(Action::UpRightFire.name(), "upright-fire");
/// assert!(Action::UpRightFire.right() && !Action::UpRightFire.left());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Action {
    Noop = 0,
    Fire = 1,
    Up = 2,
    Right = 3,
    Left = 4,
    Down = 5,
    UpRight = 6,
    UpLeft = 7,
    DownRight = 8,
    DownLeft = 9,
    UpFire = 10,
    RightFire = 11,
    LeftFire = 12,
    DownFire = 13,
    UpRightFire = 14,
    UpLeftFire = 15,
    DownRightFire = 16,
    DownLeftFire = 17,
}

impl Action {
    /// All actions, in order: the full action set.
    pub const ALL: [Action; 18] = [
        Action::Noop,
        Action::Fire,
        Action::Up,
        Action::Right,
        Action::Left,
        Action::Down,
        Action::UpRight,
        Action::UpLeft,
        Action::DownRight,
        Action::DownLeft,
        Action::UpFire,
        Action::RightFire,
        Action::LeftFire,
        Action::DownFire,
        Action::UpRightFire,
        Action::UpLeftFire,
        Action::DownRightFire,
        Action::DownLeftFire,
    ];

    /// The action of this number.
    pub fn from_number(number: u8) -> Option<Action> {
        Action::ALL.get(usize::from(number)).copied()
    }

    /// The word for it in task specifications.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 18] = [
            "noop",
            "fire",
            "up",
            "right",
            "left",
            "down",
            "upright",
            "upleft",
            "downright",
            "downleft",
            "up-fire",
            "right-fire",
            "left-fire",
            "down-fire",
            "upright-fire",
            "upleft-fire",
            "downright-fire",
            "downleft-fire",
        ];
        NAMES[self as usize]
    }

    /// True if the stick is pushed up.
    pub fn up(self) -> bool {
        self.within(0b00_1100_0100_1100_0100)
    }

    /// True if the stick is pushed right.
    pub fn right(self) -> bool {
        self.within(0b01_0100_1001_0100_1000)
    }

    /// True if the stick is pushed left.
    pub fn left(self) -> bool {
        self.within(0b10_1001_0010_1001_0000)
    }

    /// True if the stick is pushed down.
    pub fn down(self) -> bool {
        self.within(0b11_0010_0011_0010_0000)
    }

    /// True if the button is pressed.
    pub fn fire(self) -> bool {
        self.within(0b11_1111_1100_0000_0010)
    }

    fn within(self, set: u32) -> bool {
        set >> self as u32 & 1 == 1
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Some of the eighteen actions, in order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionSet(u32);

impl ActionSet {
    /// All eighteen.
    pub const FULL: ActionSet = ActionSet((1 << 18) - 1);

    /// The set of these action numbers.
    pub const fn of(numbers: &[u8]) -> ActionSet {
        let (mut bits, mut i) = (0, 0);
        while i < numbers.len() {
            assert!(numbers[i] < 18, "there are eighteen actions");
            bits |= 1 << numbers[i];
            i += 1;
        }
        ActionSet(bits)
    }

    /// The actions, by rising number.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.into_iter().filter(move |&action| self.contains(action))
    }

    /// True if `action` is one of them.
    pub fn contains(self, action: Action) -> bool {
        action.within(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_the_stick_does() {
        for (number, action) in Action::ALL.into_iter().enumerate() {
            assert_eq!(action as usize, number);
            assert_eq!(Action::from_number(number as u8), Some(action));
            let name = action.name();
            assert_eq!(action.up(), name.contains("up"), "{name}");
            assert_eq!(action.down(), name.contains("down"), "{name}");
            assert_eq!(action.left(), name.contains("left"), "{name}");
            assert_eq!(action.right(), name.contains("right"), "{name}");
            assert_eq!(action.fire(), name.contains("fire"), "{name}");
        }
        assert_eq!(Action::from_number(18), None);
        assert_eq!(ActionSet::FULL.iter().count(), 18);
        let few: Vec<_> = ActionSet::of(&[12, 0, 3]).iter().collect();
        assert_eq!(few, [Action::Noop, Action::Right, Action::LeftFire]);
    }
}
