//! Frames whose drawing is deferred until their picture is needed.
//!
//! The console draws into two pictures alternately. A frame that ends before its picture is full shows, below, what the
//! frame two before it left there. If that frame was not drawn, the machine's state at its beginning is kept, and the
//! frame is run again with drawing on when a short frame needs it. Short frames are rare.

use super::bus::Bus;
use super::cpu::Cpu;
use super::tia::Pictures;

/// A frame that was not drawn: the machine at its beginning, without its pictures.
#[derive(Clone, Debug)]
pub(super) struct DeferredFrame {
    cpu: Cpu,
    bus: Bus,
}

impl DeferredFrame {
    pub(super) fn new(cpu: &Cpu, bus: &mut Bus) -> DeferredFrame {
        let pictures = bus.tia.take_pictures();
        let frame = DeferredFrame { cpu: *cpu, bus: bus.clone() };
        bus.tia.put_pictures(pictures);
        frame
    }

    /// Runs the frame again and draws it over `pictures`. Returns the machine at the frame's end.
    pub(super) fn draw(self, pictures: Pictures, run: impl FnOnce(&mut Cpu, &mut Bus)) -> (Cpu, Bus) {
        let DeferredFrame { mut cpu, mut bus } = self;
        bus.tia.put_pictures(pictures);
        bus.tia.set_draw(true);
        run(&mut cpu, &mut bus);
        (cpu, bus)
    }
}
