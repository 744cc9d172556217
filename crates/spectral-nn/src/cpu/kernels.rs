//! The inner loops, compiled once per instruction set and chosen at run time.

/// Rows of a tile of outputs.
pub(crate) const ROWS: usize = 8;
/// Floats that kernels may read past the end of any buffer they are given: no load is ever shortened, only stores.
pub(crate) const SLACK: usize = 128;

/// The instruction set that the arithmetic uses. Results agree between sets to rounding, not to the last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Plain Rust.
    Scalar,
    /// AVX2 with fused multiply-add and the bit instructions of the same generation.
    Avx2,
    /// AVX-512 F.
    Avx512,
}

impl Instructions {
    /// The best set that this machine has.
    pub fn detect() -> Instructions {
        [Instructions::Avx512, Instructions::Avx2]
            .into_iter()
            .find(|i| i.available())
            .unwrap_or(Instructions::Scalar)
    }

    /// Whether this machine has the set.
    pub fn available(self) -> bool {
        match self {
            Instructions::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => is_x86_feature_detected!("avx512f") && Instructions::Avx2.available(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

/// Where a tile's sums start.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    Zero,
    /// From one value per column.
    Bias(*const f32),
    /// From what the outputs hold.
    Outputs,
}

/// What happens to a tile's sums.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Store,
    /// Stored, negative ones as 0.
    Relu,
    /// Added to what the outputs hold, row by row: rows may overlap.
    Add,
}

/// The index set that a tile sums over, as three nested loops over offsets from each row's start.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub outer: usize,
    pub outer_step: usize,
    pub middle: usize,
    pub middle_step: usize,
    pub inner: usize,
    pub inner_step: usize,
}

impl Sum {
    /// A single loop.
    pub fn line(inner: usize, inner_step: usize) -> Sum {
        Sum { outer: 1, outer_step: 0, middle: 1, middle_step: 0, inner, inner_step }
    }
}

/// Up to eight rows of a product: `out[r][c] = Σᵢ rows[r][offset(i)] · b[i · b_step + c]`.
///
/// This one shape serves every product of the crate: a convolution's patches, and their transposes, are row starts
/// plus offsets, so patches are never written out.
pub(crate) struct Tile {
    /// Where each row's factors start. Rows past `count` repeat a valid one.
    pub rows: [*const f32; ROWS],
    /// Where each row's outputs start.
    pub outs: [*mut f32; ROWS],
    /// Rows that are stored.
    pub count: usize,
    pub sum: Sum,
    pub b: *const f32,
    pub b_step: usize,
    /// Columns that are stored.
    pub columns: usize,
    pub start: Start,
    pub end: End,
}

/// Factors of a row of a [`Sparse`] product between two visits to its outputs: their rows of `b`, 128 columns wide,
/// fit into the first-level cache. At most 64.
pub(crate) const SPARSE_BLOCK: usize = 64;

/// A product `out[r][c] = Σᵢ factors[r][i] · b[i][c]` that skips factors of 0: rectifiers leave many. The sums have
/// the order of a [`Tile`]'s, so skipping changes no bit of them.
pub(crate) struct Sparse {
    pub rows: usize,
    pub factors: *const f32,
    pub factors_pitch: usize,
    /// Factors of a row.
    pub len: usize,
    pub b: *const f32,
    /// Floats from one row of `b` to the next.
    pub b_step: usize,
    /// Whether `b` is given transposed.
    pub b_turned: bool,
    pub out: *mut f32,
    pub out_pitch: usize,
    /// Where these, which lie as `out` does, are not above 0, the result is 0.
    pub gates: Option<*const f32>,
    pub columns: usize,
    pub start: Start,
    /// Anything but [`End::Add`].
    pub end: End,
}

/// A block's first float and the distance between its rows.
pub(crate) type Source = (*const f32, usize);
/// As [`Source`], to be written.
pub(crate) type Sink = (*mut f32, usize);

/// What Adam needs to know for one agent's step.
#[derive(Clone, Copy)]
pub(crate) struct AdamStep {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// Learning rate over the first moment's bias correction.
    pub rate: f32,
    /// One over the root of the second moment's bias correction.
    pub root: f32,
}

/// The kernels of one instruction set.
///
/// Whoever calls one vouches for the addresses that its arguments describe: what is read is valid for reads, up to [`SLACK`]
/// floats beyond the last column of the last row; what is written is valid for writes, nobody else uses it meanwhile, and
/// only the rows and columns that are named are written. The instructions are there: see [`Kernels::new`].
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    /// Columns whose sums are held in registers at a time, at most 32.
    pub width: usize,
    /// A tile of up to 8 rows.
    pub tile: unsafe fn(&Tile),
    /// Columns of a tile of one row.
    pub row_width: usize,
    /// A tile of one row and `row_width` columns.
    pub row: unsafe fn(&Tile),
    /// Adam on `len` parameters: parameters, first and second moments, gradients.
    pub adam: unsafe fn(&AdamStep, usize, *mut f32, *mut f32, *mut f32, *const f32),
    /// Sums of each of `columns` columns over `rows` rows that lie `pitch` apart.
    pub column_sums: unsafe fn(*const f32, usize, usize, usize, *mut f32),
    /// A product, without its zeros.
    pub sparse: unsafe fn(&Sparse),
    /// Transposes a block of so many rows and columns; the result is 0 where the gates, which lie as it does, are
    /// not above 0.
    pub turn: unsafe fn((usize, usize), Source, Sink, Option<*const f32>),
    /// How many of so many floats are not 0.
    pub count_nonzeros: unsafe fn(*const f32, usize) -> usize,
    /// `values[i] = 0` where `gates[i]` is not above 0.
    pub gate: unsafe fn(*const f32, *mut f32, usize),
}

impl Kernels {
    /// # Panics
    /// If the machine does not have the instructions; so whoever holds kernels may call them.
    pub fn new(instructions: Instructions) -> Kernels {
        assert!(instructions.available(), "{instructions:?} is not available on this machine");
        match instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => avx2::KERNELS,
            _ => scalar::KERNELS,
        }
    }
}

/// Instantiates every kernel for one instruction set. `$r` rows are held in registers at a time.
macro_rules! kernels {
    ($module:ident, $simd:ident, $r:literal, $(#[$feature:meta])?) => {
        mod $module {
            use super::{AdamStep, Kernels, ROWS, Sink, Source, Sparse, Tile};
            use crate::cpu::simd::{$simd, Simd};
            use crate::cpu::{elementwise, sparse as sparse_product, tile as tile_product};

            pub const KERNELS: Kernels = Kernels {
                width: 2 * $simd::LANES,
                tile,
                row_width: 8 * $simd::LANES,
                row,
                adam,
                column_sums,
                sparse,
                turn,
                count_nonzeros,
                gate,
            };

            $(#[$feature])?
            unsafe fn tile(tile: &Tile) {
                for first in (0..ROWS).step_by($r).take_while(|first| *first < tile.count) {
                    for column in (0..tile.columns).step_by(2 * $simd::LANES) {
                        // SAFETY: `Kernels`' contract, of which `first` and `column` name a block that begins within the
                        // tile; two vectors of columns where more than one is left, else one, so loads end within the slack.
                        unsafe {
                            if tile.columns - column > $simd::LANES {
                                tile_product::block::<$simd, $r, 2>(tile, first, column)
                            } else {
                                tile_product::block::<$simd, $r, 1>(tile, first, column)
                            }
                        }
                    }
                }
            }

            $(#[$feature])?
            unsafe fn row(tile: &Tile) {
                // SAFETY: the tile is `Kernels`' contract; eight vectors are `row_width` columns, at most the slack.
                unsafe { tile_product::block::<$simd, 1, 8>(tile, 0, 0) }
            }

            $(#[$feature])?
            unsafe fn adam(s: &AdamStep, len: usize, p: *mut f32, m: *mut f32, v: *mut f32, g: *const f32) {
                // SAFETY: the four vectors of `len` parameters are as `Kernels`' contract asks.
                unsafe { elementwise::adam::<$simd>(s, len, p, m, v, g) }
            }

            $(#[$feature])?
            unsafe fn column_sums(from: *const f32, rows: usize, pitch: usize, columns: usize, out: *mut f32) {
                // SAFETY: the rows and the sums are as `Kernels`' contract asks.
                unsafe { elementwise::column_sums::<$simd>(from, rows, pitch, columns, out) }
            }

            $(#[$feature])?
            unsafe fn sparse(product: &Sparse) {
                // SAFETY: the product's addresses are as `Kernels`' contract asks.
                unsafe { sparse_product::sparse::<$simd>(product) }
            }

            $(#[$feature])?
            unsafe fn turn(size: (usize, usize), from: Source, to: Sink, gates: Option<*const f32>) {
                // SAFETY: both blocks, and the gates, are as `Kernels`' contract asks.
                unsafe { elementwise::turn::<$simd>(size, from, to, gates) }
            }

            $(#[$feature])?
            unsafe fn count_nonzeros(from: *const f32, len: usize) -> usize {
                // SAFETY: `len` floats are as `Kernels`' contract asks.
                unsafe { elementwise::count_nonzeros::<$simd>(from, len) }
            }

            $(#[$feature])?
            unsafe fn gate(gates: *const f32, values: *mut f32, len: usize) {
                // SAFETY: `len` gates and values are as `Kernels`' contract asks.
                unsafe { elementwise::gate::<$simd>(gates, values, len) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels!(avx512, Avx512, 8, #[target_feature(enable = "avx512f,avx2,fma,popcnt,bmi1,bmi2")]);
#[cfg(target_arch = "x86_64")]
kernels!(avx2, Avx2, 4, #[target_feature(enable = "avx2,fma,popcnt,bmi1,bmi2")]);
kernels!(scalar, Scalar, 4,);
