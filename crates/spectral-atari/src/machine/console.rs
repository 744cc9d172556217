//! The console: one Atari 2600 with a game in it, advanced frame by frame.

use super::bus::Bus;
use super::cartridge::Cartridge;
use super::cpu::Cpu;
use super::deferred_frame::DeferredFrame;
use super::execute;
use super::input::Input;
use super::noise::Noise;
use super::recompile;
use super::riot::Riot;
use super::rom::Rom;
use super::tia::{Geometry, Tia};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::sync::Arc;

/// The television standard that a game was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 262 lines, 60 frames a second.
    Ntsc,
    /// 312 lines, 50 frames a second, other colours.
    Pal,
}

/// What a console's memory and timer hold when it is switched on. On a real console this is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerOn {
    noise: Noise,
}

impl PowerOn {
    /// Everything drawn from a seed.
    ///
    /// ```
    /// use spectral_atari::machine::PowerOn;
    /// assert_eq!(PowerOn::seeded(7), PowerOn::seeded(7));
    /// assert_ne!(PowerOn::seeded(7), PowerOn::seeded(8));
    /// ```
    pub fn seeded(seed: u64) -> PowerOn {
        PowerOn { noise: Noise::Seeded(seed) }
    }

    /// What the Arcade Learning Environment's console holds, whatever the seed of its environment.
    pub fn ale() -> PowerOn {
        PowerOn { noise: Noise::Ale(0) }
    }
}

/// How a console runs its program. Both leave it in the same state after every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Translates the program to the host's own instructions as it runs, once for all consoles that share the [`Rom`], and
    /// interprets what cannot be translated.
    #[default]
    Translator,
    /// Interprets every instruction.
    Interpreter,
}

/// The most instructions that one frame may take. A program that never ends a frame is cut off here.
const MAX_INSTRUCTIONS: i32 = 25_000;

/// An Atari 2600 with a game in it.
///
/// ```
/// use spectral_atari::machine::{Console, Format, Input, PowerOn, Rom};
/// use std::sync::Arc;
/// // A program that jumps to itself forever.
/// let mut bytes = [0xEA; 4096];
/// bytes[..3].copy_from_slice(&[0x4C, 0x00, 0xF0]);
/// bytes[0xFFC..0xFFE].copy_from_slice(&[0x00, 0xF0]);
/// let rom = Arc::new(Rom::new(&bytes, None).unwrap());
/// let mut console = Console::new(rom, PowerOn::seeded(1), Format::Ntsc);
/// console.run_frame(&Input::default(), true);
/// assert_eq!(console.screen().len(), 160 * console.height());
/// ```
#[derive(Clone, Debug)]
pub struct Console {
    rom: Arc<Rom>,
    cpu: Cpu,
    bus: Bus,
    noise: Noise,
    format: Format,
    swap_ports: bool,
    swap_paddles: bool,
    /// Whether the last frame was completed, so that the next one begins at its start.
    frame_complete: bool,
    engine: Engine,
    /// For each of the two pictures, the frame that belongs there if it has not been drawn.
    deferred: [Option<DeferredFrame>; 2],
}

impl Console {
    /// Plugs in a game and switches on.
    pub fn new(rom: Arc<Rom>, power_on: PowerOn, format: Format) -> Console {
        let max_lines = match format {
            Format::Ntsc => 290,
            Format::Pal => 342,
        };
        let quirks = super::rom_quirks::quirks(rom.fingerprint(), format);
        let geometry = Geometry {
            first_line: quirks.first_line,
            height: quirks.height,
            max_lines,
            hmove_blanks: quirks.hmove_blanks,
            colour_loss: format == Format::Pal,
        };
        let mut noise = power_on.noise;
        let mut ram = [0; 128];
        ram.fill_with(|| noise.next() as u8);
        let cartridge = Cartridge::new(&rom, || noise.next() as u8);
        let mut console = Console {
            cpu: Cpu::after_reset(0),
            bus: Bus {
                ram,
                riot: Riot::after_reset(0),
                tia: Tia::new(geometry),
                cartridge,
                pins: Input::default().pins(false, false),
                frame_done: false,
            },
            rom,
            noise,
            format,
            swap_ports: quirks.swap_ports,
            swap_paddles: quirks.swap_paddles,
            frame_complete: true,
            engine: Engine::default(),
            deferred: [None, None],
        };
        console.system_reset();
        console
    }

    /// Chooses how the program runs from now on.
    pub fn set_engine(&mut self, engine: Engine) {
        self.engine = engine;
    }

    /// Resets every chip, as switching off and on would, except that memory is not cleared.
    pub fn system_reset(&mut self) {
        self.bus.riot = Riot::after_reset(25 + (self.noise.next() % 75) as u8);
        self.bus.tia.reset();
        self.bus.cartridge.reset(&self.rom);
        self.bus.frame_done = false;
        let low = self.bus.read(&self.rom, 0xFFFC, 0, 0);
        let high = self.bus.read(&self.rom, 0xFFFD, 0, low);
        self.cpu = Cpu::after_reset(u16::from_le_bytes([low, high]));
    }

    /// Runs until the program has completed a frame. `draw` says whether the picture will be used.
    pub fn run_frame(&mut self, input: &Input, draw: bool) {
        self.bus.pins = input.pins(self.swap_ports, self.swap_paddles);
        self.bus.tia.set_draw(draw);
        if self.frame_complete {
            // Clocks start over, but keep their place in the line.
            let elapsed = self.cpu.cycle - self.cpu.cycle % 76;
            self.cpu.cycle -= elapsed;
            self.bus.riot.rebase(elapsed);
            self.bus.tia.begin_frame(elapsed);
        } else if self.cpu.cycle > 1 << 26 {
            // A program that never accesses the TIA can run like this forever.
            let elapsed = 76 << 18;
            self.cpu.cycle -= elapsed;
            self.bus.riot.rebase(elapsed);
        }
        self.bus.tia.plug_paddles(self.bus.pins.paddles);
        self.bus.frame_done = false;
        let from_its_start = self.frame_complete;
        let undrawn = (!draw).then(|| DeferredFrame::new(&self.cpu, &mut self.bus));
        run(self.engine, &mut self.cpu, &mut self.bus, &self.rom);
        self.frame_complete = self.bus.frame_done;
        if from_its_start && self.frame_complete && self.bus.tia.is_full() {
            self.deferred[self.bus.tia.current()] = undrawn;
        } else {
            self.end_unfinished_picture(undrawn);
        }
        self.bus.tia.end_frame(self.cpu.cycle);
    }

    /// Completes the picture below the part that this frame has reached. If this frame was not drawn, it is run again.
    #[cold]
    fn end_unfinished_picture(&mut self, undrawn: Option<DeferredFrame>) {
        let current = self.bus.tia.current();
        let before = self.deferred[current].take().map(|deferred| self.draw(deferred));
        if let Some(undrawn) = undrawn {
            if let Some(before) = before {
                self.bus.tia.complete_from(&before.tia, 0);
            }
            let pictures = self.bus.tia.take_pictures();
            (self.cpu, self.bus) = undrawn.draw(pictures, |cpu, bus| run(self.engine, cpu, bus, &self.rom));
        } else if let Some(before) = before {
            let painted = self.bus.tia.painted();
            self.bus.tia.complete_from(&before.tia, painted);
        }
    }

    /// Runs a frame again to draw it.
    fn draw(&self, deferred: DeferredFrame) -> Bus {
        let pictures = self.bus.tia.share_pictures();
        deferred.draw(pictures, |cpu, bus| run(self.engine, cpu, bus, &self.rom)).1
    }

    /// The console's 128 bytes of memory.
    pub fn ram(&self) -> &[u8; 128] {
        &self.bus.ram
    }

    /// The console's memory, to change it.
    pub fn ram_mut(&mut self) -> &mut [u8; 128] {
        &mut self.bus.ram
    }

    /// The picture of the last frame that was drawn: palette indices, 160 to a line.
    pub fn screen(&self) -> &[u8] {
        self.bus.tia.picture()
    }

    /// Which of its two pictures, which are drawn alternately, it shows.
    pub fn screen_number(&self) -> usize {
        self.bus.tia.current()
    }

    /// One of its two pictures: the one that it shows, or the one shown before. The next frame does not change the one that
    /// it shows, unless [`Console::goes_on_drawing`].
    pub fn screen_of(&self, number: usize) -> &[u8] {
        self.bus.tia.picture_in(number & 1)
    }

    /// Whether the next frame goes on with the same picture, because the last one was cut off.
    pub fn goes_on_drawing(&self) -> bool {
        !self.frame_complete
    }

    /// The number of lines of the picture.
    pub fn height(&self) -> usize {
        self.bus.tia.height()
    }

    /// The television standard that it was made with.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The game.
    pub fn rom(&self) -> &Arc<Rom> {
        &self.rom
    }

    /// Writes everything that changes while a game is played.
    pub fn save(&self, out: &mut StateWriter) {
        if self.deferred.iter().any(Option::is_some) {
            // Deferred frames are drawn, so that a state holds only pictures.
            let mut copy = self.clone();
            for picture in 0..2 {
                if let Some(deferred) = copy.deferred[picture].take() {
                    let drawn = copy.draw(deferred);
                    copy.bus.tia.take_picture_of(&drawn.tia, picture);
                }
            }
            return copy.save(out);
        }
        out.u64(self.rom.fingerprint());
        let (kind, state) = match self.noise {
            Noise::Seeded(state) => (0, state),
            Noise::Ale(place) => (1, u64::from(place)),
        };
        out.u8(kind);
        out.u64(state);
        out.bool(self.frame_complete);
        out.blob(&self.bus.ram);
        self.cpu.save(out);
        self.bus.riot.save(out);
        self.bus.cartridge.save(out);
        self.bus.tia.save(out);
    }

    /// Restores what [`Console::save`] of a console with the same game wrote. After an error the console must be discarded or
    /// restored again.
    pub fn restore(&mut self, from: &mut StateReader) -> Result<(), StateError> {
        if from.u64()? != self.rom.fingerprint() {
            return Err(StateError("it was saved with another game's ROM".into()));
        }
        self.deferred = [None, None];
        self.noise = match (from.u8()?, from.u64()?) {
            (0, state) => Noise::Seeded(state),
            (_, place) => Noise::Ale(place as u32),
        };
        self.frame_complete = from.bool()?;
        self.bus.ram =
            from.blob()?.try_into().map_err(|_| StateError("console memory is not 128 bytes".into()))?;
        self.cpu.restore(from)?;
        self.bus.riot.restore(from)?;
        self.bus.cartridge.restore(&self.rom, from)?;
        self.bus.tia.restore(from)
    }
}

/// The processor's registers, for tests of single instructions.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub a: u8,
    pub x: u8,
    pub y: u8,
    pub sp: u8,
    pub status: u8,
    pub pc: u16,
    pub cycle: i32,
}

#[doc(hidden)]
impl Console {
    pub fn registers(&self) -> Registers {
        let Cpu { a, x, y, sp, pc, cycle, .. } = self.cpu;
        Registers { a, x, y, sp, status: self.cpu.status(), pc, cycle }
    }

    /// Also restarts a stopped processor.
    pub fn set_registers(&mut self, to: Registers) {
        let Registers { a, x, y, sp, status, pc, cycle } = to;
        self.cpu = Cpu { a, x, y, sp, cycle, ..Cpu::after_reset(pc) };
        self.cpu.set_status(status);
    }
}

fn run(engine: Engine, cpu: &mut Cpu, bus: &mut Bus, rom: &Rom) {
    match engine {
        Engine::Translator => recompile::run(cpu, bus, rom, MAX_INSTRUCTIONS),
        Engine::Interpreter => execute::run(cpu, bus, rom, MAX_INSTRUCTIONS),
    }
    bus.tia.catch_up_deferred();
}
