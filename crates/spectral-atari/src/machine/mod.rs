//! The machine: 6507, RIOT, TIA, cartridges and console.
//!
//! [`Console`] is the whole machine. Its frames equal those of the Arcade Learning Environment's emulator.

#![deny(unsafe_code)]

mod bus;
mod cartridge;
mod console;
mod cpu;
mod decode;
mod deferred_frame;
mod execute;
mod input;
mod noise;
mod palette;
mod recompile;
mod riot;
mod rom;
mod rom_quirks;
mod tia;

#[doc(hidden)]
pub use console::Registers;
pub use console::{Console, Engine, Format, PowerOn};
pub use input::{Controllers, Input, PADDLE_DEFAULT, PADDLE_MAX, PADDLE_MIN, PADDLE_STEP};
pub use palette::{grey_palette, rgb_palette};
pub use rom::{Rom, RomError, Scheme};
