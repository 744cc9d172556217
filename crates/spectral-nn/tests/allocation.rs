//! Nothing is allocated after construction.

mod common;

use common::{Inputs, population, signed};
use spectral_nn::{AdamSettings, Architecture, Cpu, Head, Input, Which};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting each thread's calls.
struct Counting;

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `alloc` got the pointer from the same allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn training_allocates_nothing() {
    let planes = Input::Planes { channels: 4, height: 10, width: 10 };
    let dueling = Head { dueling: true, ..Head::new(3, 21) };
    for shape in [
        Architecture::mlp(Input::Vector { len: 32 }, &[128, 128], Head::new(3, 21)),
        Architecture::small_cnn(planes, dueling),
    ] {
        let inputs = Inputs::new(&shape.input, 1, 32);
        let gradient = signed(2, 32 * shape.outputs(), 1.0);
        let mut net = population(Cpu::new(), &shape, &[1], 32);
        // One thread: rayon's own bookkeeping is not the question.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let count = pool.install(|| {
            let before = ALLOCATIONS.with(Cell::get);
            for _ in 0..3 {
                net.forward(Which::Target, inputs.samples(), 32);
                net.forward_train(inputs.samples(), 32);
                net.backward(&gradient, &gradient);
                net.adam(&[AdamSettings::default()], &[true]);
                net.affine_outputs(0, &[1.5; 21], &[0.1; 21]);
                net.refresh_target(0);
            }
            ALLOCATIONS.with(Cell::get) - before
        });
        assert_eq!(count, 0, "{shape:?}");
    }
}
