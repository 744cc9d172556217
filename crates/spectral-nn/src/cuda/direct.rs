//! How direct convolutions are tiled over blocks and warps: by an estimate of the time that each way takes.

use super::device::Shape;
use super::shapes::Precision;
use crate::layout::Affine;

/// Bytes of shared memory that a block may have on every device since 2020.
pub(super) const BLOCK_SHARED: usize = 99 * 1024;
/// Bytes of shared memory of a multiprocessor, and its registers.
const PROCESSOR_SHARED: usize = 227 * 1024;
const PROCESSOR_REGISTERS: usize = 65536;
/// Bytes of shared memory that every block takes besides its own.
const RESERVED: usize = 1024;

/// What a multiprocessor has left for the blocks of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    shared: usize,
    registers: usize,
}

impl Room {
    /// All of it.
    pub const ALL: Room = Room { shared: PROCESSOR_SHARED, registers: PROCESSOR_REGISTERS };

    /// Half of the registers, and what a block with so many bytes of shared memory leaves on the same multiprocessor.
    pub fn sharing(shared: usize) -> Room {
        Room { shared: PROCESSOR_SHARED - shared - RESERVED, registers: PROCESSOR_REGISTERS / 2 }
    }

    /// How many blocks find room.
    fn blocks(&self, shared: usize, registers: usize) -> usize {
        if shared > BLOCK_SHARED {
            return 0;
        }
        (self.shared / (shared + RESERVED)).min(self.registers / registers).min(8)
    }

    /// Blocks for which the compiler should leave registers, if so many are to find room here.
    fn bounds(&self, resident: usize) -> usize {
        resident * PROCESSOR_REGISTERS / self.registers
    }
}

/// A direct convolution's template arguments and launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Direct {
    /// Warps along positions, columns and the reduction; tiles of a warp along positions and columns.
    warps: [usize; 5],
    /// Images of a work tile.
    images: usize,
    /// Rows of outputs of a work tile.
    rows: usize,
    /// Stages: work tiles of a block in shared memory at a time.
    stages: usize,
    /// Blocks of a network: those that share its work tiles, and slices of its columns.
    grid: [usize; 2],
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// Blocks for which a multiprocessor should have registers.
    resident: usize,
}

impl Direct {
    fn threads(&self) -> usize {
        32 * self.warps[0] * self.warps[1] * self.warps[2]
    }

    /// The launch for one network.
    pub fn launch(&self) -> Shape {
        let [shares, slices] = self.grid;
        Shape { grid: [shares, slices, 1], threads: self.threads(), shared: self.shared }
    }

    /// As the argument of `__launch_bounds__`.
    pub fn bounds(&self) -> String {
        format!("{}, {}", self.threads(), self.resident)
    }

    fn warps(&self) -> String {
        let [wm, wn, wk, mt, nt] = self.warps;
        format!("Warps<{wm}, {wn}, {wk}, {mt}, {nt}>")
    }

    /// The arguments of `ForwardShape` in `direct.cuh` after the layer and the kind of its input.
    pub fn forward_arguments(&self) -> String {
        format!("{}, {}, {}, {}", self.warps(), self.images, self.rows, self.stages)
    }

    /// The arguments of `GradientShape` after the layer.
    pub fn gradient_arguments(&self) -> String {
        format!("{}, {}, {}", self.warps(), self.images, self.stages)
    }

    /// Has the compiler compare this arithmetic with the kernels' own.
    pub fn assertion(&self, shape: &str) -> String {
        format!("static_assert({shape}::BYTES == {}, \"shared memory as planned\");", self.shared)
    }

    /// The forward pass of a layer whose input numbers have `bytes` bytes, unless its shape does not suit.
    pub fn forward(
        layer: &Affine,
        bytes: usize,
        batch: usize,
        networks: usize,
        processors: usize,
        precision: Precision,
    ) -> Option<Direct> {
        let a = layer;
        let view = |rows| forward_view(a, rows);
        let work = Work {
            view: &view,
            rows: a.out_height(),
            bands: true,
            columns: a.filters,
            steps: a.fan_in() / 16,
            along: false,
            bytes: bytes == 1,
            batch,
            room: Room::ALL,
        };
        if suits_patches(a, bytes, precision) { work.best(networks, processors) } else { None }
    }

    /// The gradient of a layer's input, unless its shape does not suit.
    pub fn input_gradient(
        layer: &Affine,
        batch: usize,
        agents: usize,
        processors: usize,
        precision: Precision,
        room: Room,
    ) -> Option<Direct> {
        let a = layer;
        let suits = precision == Precision::Bf16
            && !a.is_linear()
            && a.kernel.is_multiple_of(a.stride)
            && a.channels.is_multiple_of(16)
            && a.filters > 0
            && a.filters.is_multiple_of(16)
            && a.weights_at.is_multiple_of(8);
        if !suits {
            return None;
        }
        let taps = a.kernel / a.stride;
        let (height, width) = (a.height.div_ceil(a.stride), a.width.div_ceil(a.stride));
        let view = |_: usize| Picture {
            rows: height + taps - 1,
            columns: width + taps - 1,
            step: 1,
            channels: a.filters,
            patches: (height, width),
        };
        let work = Work {
            view: &view,
            rows: height,
            bands: false,
            columns: a.stride * a.stride * a.channels,
            steps: taps * taps * a.filters / 16,
            along: true,
            bytes: false,
            batch,
            room,
        };
        work.best(agents, processors)
    }
}

/// The launch of a direct gradient of weights; `WeightsShape` in `direct_weights.cuh` has the same arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectWeights {
    warps: [usize; 5],
    /// Rows of outputs of a work tile.
    rows: usize,
    /// Stages: work tiles in shared memory at a time.
    stages: usize,
    /// Tiles of the layer's weights, and blocks that share the work tiles.
    tiles: usize,
    shares: usize,
    pub shared: usize,
    resident: usize,
}

impl DirectWeights {
    fn threads(&self) -> usize {
        32 * self.warps[0] * self.warps[1] * self.warps[2]
    }

    /// The launch for one network.
    pub fn launch(&self) -> Shape {
        Shape { grid: [self.tiles, self.shares, 1], threads: self.threads(), shared: self.shared }
    }

    /// As the argument of `__launch_bounds__`.
    pub fn bounds(&self) -> String {
        format!("{}, {}", self.threads(), self.resident)
    }

    /// The arguments of `WeightsShape` after the layer and the kind of its input.
    pub fn arguments(&self) -> String {
        let [wm, wn, wk, mt, nt] = self.warps;
        format!("Warps<{wm}, {wn}, {wk}, {mt}, {nt}>, {}, {}", self.rows, self.stages)
    }

    /// Has the compiler compare this arithmetic with the kernels' own.
    pub fn assertion(&self, shape: &str) -> String {
        format!("static_assert({shape}::BYTES == {}, \"shared memory as planned\");", self.shared)
    }

    /// The gradient of a layer whose input numbers have `bytes` bytes, unless its shape does not suit.
    pub fn new(
        layer: &Affine,
        bytes: usize,
        batch: usize,
        agents: usize,
        processors: usize,
        precision: Precision,
        room: Room,
    ) -> Option<DirectWeights> {
        if !suits_patches(layer, bytes, precision) {
            return None;
        }
        let mut best: Option<(f64, DirectWeights)> = None;
        let (elements, filters) = (layer.fan_in() / 16, layer.filters / 8);
        for rows in (1..=layer.out_height()).filter(|&rows| layer.out_height().is_multiple_of(rows)) {
            for (wm, wn, wk) in warps(12, &[1, 2], &[1, 2, 4]) {
                for mt in (1..=6).filter(|&mt| elements.is_multiple_of(wm * mt)) {
                    for nt in (2..=8).step_by(2).filter(|&nt| filters.is_multiple_of(wn * nt)) {
                        for stages in [1, 2] {
                            let of = (batch, bytes, agents, processors, room);
                            let tried =
                                DirectWeights::estimate(layer, of, rows, stages, [wm, wn, wk, mt, nt]);
                            if let Some((time, way)) = tried
                                && best.is_none_or(|(least, _)| time < least)
                            {
                                best = Some((time, way));
                            }
                        }
                    }
                }
            }
        }
        best.map(|(_, way)| way)
    }

    /// The best number of shares for these blocks, and roughly how many cycles they take.
    fn estimate(
        layer: &Affine,
        (batch, bytes, agents, processors, room): (usize, usize, usize, usize, Room),
        rows: usize,
        stages: usize,
        warps: [usize; 5],
    ) -> Option<(f64, DirectWeights)> {
        let [wm, wn, wk, mt, nt] = warps;
        let (patches, words) = forward_view(layer, rows).size();
        let steps = patches.div_ceil(16);
        let deltas = steps * 16 * (4 * wn * nt + 4);
        let work_words = words + deltas;
        let spare = (wk - 1) * wm * wn * mt * nt * 128;
        let raw = forward_view(layer, rows).bytes() / 4;
        let all = if bytes == 1 { words + stages * deltas + raw } else { stages * work_words };
        let shared = 4 * (steps * 16 + spare.max(all));
        let count = wm * wn * wk;
        let registers = (mt * nt * 4 + 5 * mt + 2 * nt + 60).next_multiple_of(8);
        // Registers are handed out to four warps at a time.
        let resident = room.blocks(shared, 32 * count.next_multiple_of(4) * registers);
        if resident == 0 || registers > 248 || wk > steps || 32 * count < 4 * wn * nt {
            return None;
        }
        let tiles = layer.fan_in() / (16 * wm * mt) * (layer.filters / (8 * wn * nt));
        let products = (wm * mt * wn * nt * steps.next_multiple_of(wk)) as f64;
        let reads = (4 * mt + 2 * nt) as f64 / (mt * nt) as f64;
        let cycles = products * reads.max(1.7) + 1.5 * work_words as f64 / 32.0;
        // Bytes take instructions to become numbers.
        let cycles = cycles + if bytes == 1 { words as f64 * 0.1 } else { 0.0 };
        let slow = |warps: f64| (5.0 / warps).max(1.0);
        let waiting = if stages > 1 { 200.0 } else { 1200.0 };
        let alone = waiting + cycles * slow(count as f64);
        let work_tiles = batch * layer.out_height() / rows;
        let mut best: Option<(f64, DirectWeights)> = None;
        for each in 1..=work_tiles {
            let shares = work_tiles.div_ceil(each);
            let each = work_tiles.div_ceil(shares) as f64;
            let blocks = agents * tiles * shares;
            let waves = blocks.div_ceil(processors * resident) as f64;
            let neighbours = resident.min(blocks.div_ceil(processors)) as f64;
            let together = neighbours * cycles * slow(neighbours * count as f64);
            // Shares are written here and read by the step.
            let all = (agents * shares * layer.fan_in() * layer.filters) as f64 / processors as f64;
            let time = waves * (2500.0 + each * alone.max(together)) + all / 3.0;
            if shares <= 64 && best.is_none_or(|(least, _)| time < least) {
                let resident = room.bounds(resident);
                best = Some((time, DirectWeights { warps, rows, stages, tiles, shares, shared, resident }));
            }
        }
        best
    }
}

/// Whether a layer's patches can be read 16 numbers at a time.
fn suits_patches(a: &Affine, bytes: usize, precision: Precision) -> bool {
    precision == Precision::Bf16
        && !a.is_linear()
        && (a.stride * a.channels).is_multiple_of(16)
        && (a.kernel * a.channels).is_multiple_of(16)
        && (a.width * a.channels).is_multiple_of(16 / bytes)
        && a.filters > 0
        && a.filters.is_multiple_of(16)
        && a.weights_at.is_multiple_of(8)
}

/// What so many rows of outputs need of an image.
fn forward_view(a: &Affine, rows: usize) -> Picture {
    Picture {
        rows: (rows - 1) * a.stride + a.kernel,
        columns: a.width,
        step: a.stride,
        channels: a.channels,
        patches: (rows, a.out_width()),
    }
}

/// Ways to arrange at least four and at most `most` warps along rows, columns and the reduction.
fn warps(most: usize, wn: &[usize], wk: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut ways = Vec::new();
    for &wn in wn {
        for &wk in wk {
            ways.extend((1..=most).map(|wm| (wm, wn, wk)));
        }
    }
    ways.retain(|(wm, wn, wk)| (4..=most).contains(&(wm * wn * wk)));
    ways
}

/// An image in shared memory; the same arithmetic as `Picture` in `direct.cuh`.
#[derive(Clone, Copy, Debug)]
struct Picture {
    rows: usize,
    columns: usize,
    step: usize,
    channels: usize,
    patches: (usize, usize),
}

impl Picture {
    /// Bytes of the same part of an image of bytes.
    fn bytes(&self) -> usize {
        self.rows * self.columns * self.channels
    }

    /// Patches, with those that only fill up rows, and words.
    fn size(&self) -> (usize, usize) {
        let pitch = self.step * self.channels / 2 + 4;
        let (y, x) = self.patches;
        let wide = if self.step <= 4 { x.next_multiple_of(self.step) } else { x };
        let row = self.columns.div_ceil(self.step) * pitch;
        let row = row + padding(row, self.step, wide * pitch);
        let all = self.rows * row;
        (y * wide, all + padding(all, 1, y * wide * pitch))
    }
}

fn padding(size: usize, times: usize, wanted: usize) -> usize {
    (0..32).step_by(4).find(|pad| (times * (size + pad)) % 32 == wanted % 32).unwrap_or(0)
}

/// What the images of one network need.
struct Work<'a> {
    /// The part of an image that so many rows of patches need.
    view: &'a dyn Fn(usize) -> Picture,
    rows: usize,
    /// Whether an image may be cut into bands of rows.
    bands: bool,
    columns: usize,
    /// Steps of 16 numbers of the reduction.
    steps: usize,
    /// Whether weights lie along the reduction.
    along: bool,
    /// Whether images come as bytes.
    bytes: bool,
    batch: usize,
    room: Room,
}

impl Work<'_> {
    fn best(&self, networks: usize, processors: usize) -> Option<Direct> {
        let mut best: Option<(f64, Direct)> = None;
        let whole = (1..=self.batch.min(4)).map(|images| (images, self.rows));
        let most = if self.bands { self.rows.min(8) } else { 1 };
        let cut = (2..=most).map(|bands| (1, self.rows.div_ceil(bands)));
        for (images, rows) in whole.chain(cut) {
            for slices in [1, 2, 4, 8] {
                for (wm, wn, wk) in warps(8, &[1, 2, 4], &[1, 2, 4]) {
                    for stages in [1, 2] {
                        let way = (images, rows, slices, stages);
                        let tried = self.estimate(way, [wm, wn, wk], networks, processors);
                        if let Some((time, direct)) = tried
                            && best.is_none_or(|(least, _)| time < least)
                        {
                            best = Some((time, direct));
                        }
                    }
                }
            }
        }
        best.map(|(_, direct)| direct)
    }

    /// The best number of shares for these blocks, and roughly how many cycles they take.
    fn estimate(
        &self,
        (images, rows, slices, stages): (usize, usize, usize, usize),
        [wm, wn, wk]: [usize; 3],
        networks: usize,
        processors: usize,
    ) -> Option<(f64, Direct)> {
        let width = self.columns / slices;
        let warps = wm * wn * wk;
        let fits = self.columns.is_multiple_of(16 * slices * wn)
            && self.steps.is_multiple_of(wk)
            && (4..=8).contains(&warps);
        let (patches, words) = (self.view)(rows).size();
        let (mt, nt) = ((images * patches).div_ceil(16 * wm), width / 8 / wn);
        if !fits || mt > 5 || mt * nt > 20 || (wm - 1) * mt * 16 >= images * patches {
            return None;
        }
        let weights =
            if self.along { width * (8 * self.steps + 4) } else { 16 * self.steps * (width / 2 + 4) };
        let spare = (wk - 1) * wm * wn * mt * nt * 128;
        let picture = spare.max(images * words);
        let shared = 4
            * (weights
                + if self.bytes {
                    picture + images * (self.view)(rows).bytes() / 4
                } else {
                    stages * picture
                });
        let registers = (mt * nt * 4 + 5 * mt + 2 * nt + 50).next_multiple_of(8);
        let resident = self.room.blocks(shared, 32 * warps * registers);
        if resident == 0 {
            return None;
        }
        // Cycles of shared memory and tensor cores per work tile; sums of the warps along the reduction are written and read.
        let products = (wm * mt * wn * nt * self.steps) as f64;
        let reads = (4 * mt + 2 * nt) as f64 / (mt * nt) as f64;
        let cycles = products * reads.max(1.7) + (2 * spare + 2 * images * words) as f64 / 32.0;
        let cycles = cycles + (4 * wm * mt * wn * nt) as f64;
        // Sums of warps overwrite the border around a gradient, which has to be cleared again.
        let cycles = cycles + if self.along && wk > 1 { 800.0 } else { 0.0 };
        // Large tiles leave no registers for what a gradient's rectifiers say: it is waited for.
        let cycles = cycles + if self.along && mt * nt > 8 { 1200.0 } else { 0.0 };
        // Bytes have to become numbers while nothing is multiplied.
        let turning = if self.bytes { 200.0 + images as f64 * words as f64 / 16.0 } else { 150.0 };
        let alone = turning + cycles * (12.0 / warps as f64).max(1.0);
        let work_tiles = self.batch.div_ceil(images) * self.rows.div_ceil(rows);
        let mut best: Option<(f64, Direct)> = None;
        for each in 1..=work_tiles.min(32) {
            let shares = work_tiles.div_ceil(each);
            // One work tile needs no stage for a next one; several do.
            if (stages == 1) != (shares == work_tiles) {
                continue;
            }
            let each = work_tiles.div_ceil(shares) as f64;
            let blocks = networks * slices * shares;
            let waves = blocks.div_ceil(processors * resident) as f64;
            let neighbours = resident.min(blocks.div_ceil(processors)) as f64;
            let together = neighbours * cycles * (12.0 / (neighbours * warps as f64)).max(1.0);
            let staging = 2700.0 + neighbours * (16 * self.steps * width) as f64 / 12.0;
            let time = waves * (staging + each * alone.max(together));
            if best.is_none_or(|(least, _)| time < least) {
                let warps = [wm, wn, wk, mt, nt];
                let (grid, resident) = ([shares, slices], self.room.bounds(resident));
                best = Some((time, Direct { warps, images, rows, stages, grid, shared, resident }));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::{Architecture, Head, Input};
    use crate::cuda::Trunk;

    fn nature() -> Trunk {
        let input = Input::Planes { channels: 4, height: 84, width: 84 };
        Trunk::new(&Architecture::nature(input, Head::new(6, 1))).unwrap()
    }

    #[test]
    fn the_nature_networks_convolutions_keep_a_large_device_busy() {
        let trunk = nature();
        for agents in [1, 5, 20, 64] {
            for (l, layer) in trunk.layers[..3].iter().enumerate() {
                let bytes = if l == 0 { 1 } else { 2 };
                let bf16 = Precision::Bf16;
                let forward = Direct::forward(layer, bytes, 32, 2 * agents, 132, bf16).unwrap();
                let down = Direct::input_gradient(layer, 32, agents, 132, bf16, Room::ALL);
                let weights = DirectWeights::new(layer, bytes, 32, agents, 132, bf16, Room::ALL).unwrap();
                assert!(2 * agents * forward.grid[0] * forward.grid[1] >= 100, "{agents} {l} {forward:?}");
                assert!(agents * weights.tiles * weights.shares >= 60, "{agents} {l} {weights:?}");
                assert_eq!(down.is_some(), l > 0, "the pixels' gradient would need more channels");
            }
        }
    }

    #[test]
    fn shapes_that_do_not_suit_are_left_alone() {
        let trunk = nature();
        assert_eq!(Direct::forward(&trunk.layers[1], 2, 32, 2, 132, Precision::Tf32), None);
        assert_eq!(Direct::forward(&trunk.layers[3], 2, 32, 2, 132, Precision::Bf16), None);
        let odd = Affine { channels: 3, ..trunk.layers[0].clone() };
        assert_eq!(Direct::forward(&odd, 1, 32, 2, 132, Precision::Bf16), None);
        assert_eq!(DirectWeights::new(&odd, 1, 32, 1, 132, Precision::Bf16, Room::ALL), None);
        let uneven = Affine { kernel: 3, ..trunk.layers[1].clone() };
        assert_eq!(Direct::input_gradient(&uneven, 32, 1, 132, Precision::Bf16, Room::ALL), None);
    }
}
