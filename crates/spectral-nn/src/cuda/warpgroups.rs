//! How convolutions by warpgroups are tiled: by an estimate of the time that each way takes.

use super::device::Shape;
use crate::layout::Affine;

/// Bytes of shared memory of a multiprocessor.
const PROCESSOR_SHARED: usize = 227 * 1024;
/// Bytes that a multiprocessor gets from the caches in a cycle, and cycles until the first of them come.
const BYTES_A_CYCLE: usize = 40;
const LATENCY: usize = 1500;
/// Cycles of a block before it multiplies, besides what it brings.
const START: usize = 3000;

/// Template arguments and launch of a kernel; the shapes in `warpgroup.cuh` and `warpgroup_gradients.cuh` have the same
/// arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Warpgroups {
    /// Images of a work tile, warpgroups, stages; for weight gradients warpgroups, splits, stages.
    arguments: [usize; 3],
    /// Warpgroups of a block.
    groups: usize,
    /// Blocks of a network.
    grid: [usize; 2],
    /// Bytes of dynamic shared memory.
    shared: usize,
    /// Blocks for which a multiprocessor should have registers.
    resident: usize,
}

/// A layer after space-to-depth: see `warpgroup.cuh`.
struct SpaceToDepth {
    /// Pixels of an image, of one of its rows, and taps of the kernel along it.
    pixels: usize,
    width: usize,
    taps: usize,
    /// Lines of 128 bytes of a pixel.
    slabs: usize,
    /// Lines of an image up to the last one that an output begins with.
    outputs: usize,
}

impl SpaceToDepth {
    fn of(a: &Affine, bytes: bool) -> Option<SpaceToDepth> {
        let run = a.stride * a.channels;
        let whole = |n: usize| n.is_multiple_of(a.stride);
        let suits = !a.is_linear()
            && whole(a.kernel)
            && whole(a.height)
            && whole(a.width)
            && (if bytes { run == 16 && a.channels == 4 } else { run == 64 })
            && (a.filters == 32 || a.filters == 64)
            && (a.fan_in() * a.filters).is_multiple_of(512)
            && a.weights_at.is_multiple_of(8);
        let width = a.width / a.stride;
        suits.then(|| SpaceToDepth {
            pixels: a.height / a.stride * width,
            width,
            taps: a.kernel / a.stride,
            slabs: a.stride * run / 64,
            outputs: (a.out_height() - 1) * width + a.out_width(),
        })
    }

    /// Lines that the taps of a kernel reach on.
    fn reach(&self) -> usize {
        (self.taps - 1) * (self.width + 1)
    }
}

/// Cycles of 64 rows times 16 numbers times so many columns: tensor cores wait for shared memory where columns are few.
fn product(columns: usize) -> usize {
    (columns / 2).max(24)
}

/// Bytes of shared memory that a block takes besides its own: the device's, and a table of planes.
fn besides(a: &Affine, bytes: bool, batch: usize) -> usize {
    1024 + if bytes { 8 * a.channels * batch } else { 16 }
}

/// The way that takes least.
fn best(ways: impl Iterator<Item = (usize, Warpgroups)>) -> Option<Warpgroups> {
    ways.min_by_key(|(time, _)| *time).map(|(_, way)| way)
}

/// How blocks share a batch's work tiles: blocks of a network, and cycles if a work tile takes so many.
fn share(work_tiles: usize, cycles: usize, start: usize, networks: usize, places: usize) -> (usize, usize) {
    let shares = (places / networks).clamp(1, work_tiles);
    let waves = (shares * networks).div_ceil(places);
    (shares, waves * (start + work_tiles.div_ceil(shares) * cycles))
}

impl Warpgroups {
    fn threads(&self) -> usize {
        128 * self.groups
    }

    /// The argument of the kernel's `__launch_bounds__`, and its text: a call of a function with a shape's arguments and the
    /// batch. The compiler compares the shape's arithmetic with this one.
    pub fn call(
        &self,
        function: &str,
        shape: &str,
        first: &str,
        batch: usize,
        rest: &str,
    ) -> (String, String) {
        let [a, b, c] = self.arguments;
        let arguments = format!("{first}, {a}, {b}, {c}");
        let text = format!(
            "static_assert({shape}<{arguments}>::BYTES == {}, \"shared memory as planned\"); \
             {function}<{arguments}, {batch}>({rest})",
            self.shared
        );
        (format!("{}, {}", self.threads(), self.resident), text)
    }

    /// The launch for one network.
    pub fn launch(&self) -> Shape {
        let [x, y] = self.grid;
        Shape { grid: [x, y, 1], threads: self.threads(), shared: self.shared }
    }

    /// The forward pass of a layer, whose input are planes of bytes or bf16, unless its shape does not suit.
    pub fn forward(
        a: &Affine,
        bytes: bool,
        batch: usize,
        networks: usize,
        processors: usize,
    ) -> Option<Warpgroups> {
        let of = SpaceToDepth::of(a, bytes)?;
        best([1, 2, 4].into_iter().filter_map(|images| {
            let (of_one, of_all) =
                (of.outputs.div_ceil(64), ((images - 1) * of.pixels + of.outputs).div_ceil(64));
            let apart = of_one * images <= of_all;
            let tiles = if apart { of_one * images } else { of_all };
            let last = if apart { (images - 1) * of.pixels + of_one * 64 } else { of_all * 64 };
            let lines = (last + of.reach()).max(images * of.pixels).next_multiple_of(8);
            let all = of.slabs * lines * 128;
            let stages = if bytes { 1 } else { 2 };
            let brought = if bytes { all + images * a.height * a.width * a.channels } else { stages * all };
            let weights = 2 * a.fan_in() * a.filters;
            let shared = 1024 + weights + brought;
            let groups = tiles.min(if bytes { 2 } else { 4 });
            // Each thread may have 128 registers.
            let resident = (PROCESSOR_SHARED / (shared + besides(a, bytes, batch))).min(4 / groups).min(2);
            if resident == 0 {
                return None;
            }
            let cycles = resident * tiles * a.fan_in() / 16 * product(a.filters) + 800;
            // Every thread brings eight times sixteen bytes of weights at once.
            let start = START + weights.div_ceil(16 * 8 * 128 * groups) * LATENCY / 2;
            let (shares, time) =
                share(batch.div_ceil(images), cycles, start, networks, processors * resident);
            Some((
                time,
                Warpgroups {
                    arguments: [images, groups, stages],
                    groups,
                    grid: [shares, 1],
                    shared,
                    resident,
                },
            ))
        }))
    }

    /// The gradient of a layer's input, in blocks with up to `room` bytes of shared memory, unless its shape does not suit.
    pub fn input_gradient(
        a: &Affine,
        batch: usize,
        agents: usize,
        processors: usize,
        room: usize,
    ) -> Option<Warpgroups> {
        let of = SpaceToDepth::of(a, false)?;
        let columns = a.stride * a.stride * a.channels;
        if a.filters != 64 || !a.channels.is_multiple_of(32) || (columns != 64 && columns != 128) {
            return None;
        }
        let ways = [1, 2, 3, 4].into_iter().flat_map(|images| [1, 2].map(|stages| (images, stages)));
        best(ways.filter_map(|(images, stages)| {
            let tiles = (images * of.pixels).div_ceil(64);
            let lines = (tiles * 64 + of.reach()).next_multiple_of(8);
            let weights = of.taps * of.taps * columns * 128;
            let shared = 1024 + weights + stages * lines * 128;
            let groups = tiles.min(2);
            if shared + besides(a, false, batch) > room {
                return None;
            }
            let products = tiles * of.taps * of.taps * 4 * product(columns);
            let alone = if stages == 1 {
                LATENCY + images * a.out_height() * a.out_width() * 128 / BYTES_A_CYCLE
            } else {
                0
            };
            let start = START + weights / BYTES_A_CYCLE;
            let (shares, time) =
                share(batch.div_ceil(images), products + alone + 800, start, agents, processors);
            Some((
                time,
                Warpgroups {
                    arguments: [images, groups, stages],
                    groups,
                    grid: [shares, 1],
                    shared,
                    resident: 2,
                },
            ))
        }))
    }

    /// The gradient of a layer's weights, likewise.
    pub fn weights(
        a: &Affine,
        bytes: bool,
        batch: usize,
        agents: usize,
        processors: usize,
        room: usize,
    ) -> Option<Warpgroups> {
        let of = SpaceToDepth::of(a, bytes)?;
        let tiles = of.taps * of.taps * of.slabs;
        let steps = of.outputs.div_ceil(16);
        let lines = (steps * 16 + of.reach()).max(of.pixels).next_multiple_of(8);
        let image = of.slabs * lines * 128;
        let deltas = (steps * 16 * 2 * a.filters).next_multiple_of(1024);
        let raw = a.height * a.width * a.channels;
        let ways = (1..=tiles).flat_map(|splits| (1..=3).map(move |groups| (splits, groups)));
        best(ways.filter_map(|(splits, groups)| {
            let stages = if bytes { 1 } else { 2 };
            let own = tiles.div_ceil(splits);
            let each = own.div_ceil(groups);
            let shared = 1024 + if bytes { image + deltas + raw } else { stages * (image + deltas) };
            // Half of the registers, of which a thread needs some for other things than sums.
            let registers = 32768 / (128 * groups) - 48;
            if shared + besides(a, bytes, batch) > room
                || each * a.filters / 2 > registers.min(64)
                || groups > own
                || (splits - 1) * own >= tiles
            {
                return None;
            }
            let brought = (a.out_height() * a.out_width() * 2 * a.filters + raw * if bytes { 1 } else { 2 })
                / BYTES_A_CYCLE;
            let products = groups * each * steps * product(a.filters);
            // Bytes become numbers before they are multiplied.
            let cycles = if bytes { products + 3000 / groups } else { products.max(brought) } + 400;
            let places = (processors / splits).max(1);
            let (shares, time) = share(batch, cycles, START, agents, places);
            let arguments = [groups, splits, stages];
            Some((time, Warpgroups { arguments, groups, grid: [splits, shares], shared, resident: 2 }))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::{PROCESSOR_SHARED, Warpgroups};
    use crate::cuda::shapes::Trunk;
    use crate::{Architecture, Head, Input};

    #[test]
    fn blocks_of_the_nature_network_find_room_and_fill_the_device() {
        let input = Input::Planes { channels: 4, height: 84, width: 84 };
        let trunk = Trunk::new(&Architecture::nature(input, Head::new(6, 21))).unwrap();
        let shared_room = PROCESSOR_SHARED - 105 * 1024;
        for networks in [1, 2, 5, 8, 10, 20, 64] {
            for l in 0..4 {
                let (a, bytes) = (trunk.layer(l), l == 0);
                let forward = Warpgroups::forward(a, bytes, 32, networks, 132);
                let down = Warpgroups::input_gradient(a, 32, networks, 132, shared_room);
                let weights = Warpgroups::weights(a, bytes, 32, networks, 132, shared_room);
                assert_eq!((forward.is_some(), down.is_some()), (l < 3, l == 1 || l == 2), "layer {l}");
                assert_eq!(weights.is_some(), l < 3, "layer {l}");
                for (way, room) in [(forward, PROCESSOR_SHARED), (down, shared_room), (weights, shared_room)]
                {
                    let Some(way) = way else { continue };
                    assert!(way.shared + 2048 <= room);
                    let blocks = way.grid[0] * way.grid[1] * networks;
                    assert!(2 * blocks > 132.min(16 * networks), "{networks} networks, layer {l}: {way:?}");
                }
            }
        }
    }
}
