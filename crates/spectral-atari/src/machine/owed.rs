//! Pictures that were not drawn but can still be asked for.
//!
//! A frame that ends before its picture is full shows, below, what the frame two before it left there (the
//! console draws into two pictures in turn). If that one was not drawn, it is owed: it is kept as the state in
//! which it began, and run again, drawn this time, when a short frame asks for it. Frames are rarely short.

use super::bus::Bus;
use super::cpu::Cpu;
use super::tia::Pictures;

/// The machine at the beginning of a frame, without its pictures.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    cpu: Cpu,
    bus: Bus,
}

impl Beginning {
    pub(super) fn new(cpu: &Cpu, bus: &mut Bus) -> Beginning {
        let pictures = bus.tia.take_pictures();
        let beginning = Beginning { cpu: *cpu, bus: bus.clone() };
        bus.tia.put_pictures(pictures);
        beginning
    }

    /// Runs the frame again, drawing it over `pictures`; gives the machine as it is then.
    pub(super) fn draw(self, pictures: Pictures, run: impl FnOnce(&mut Cpu, &mut Bus)) -> (Cpu, Bus) {
        let Beginning { mut cpu, mut bus } = self;
        bus.tia.put_pictures(pictures);
        bus.tia.set_draw(true);
        run(&mut cpu, &mut bus);
        (cpu, bus)
    }
}
