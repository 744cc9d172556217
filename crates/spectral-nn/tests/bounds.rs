//! Anybody may call the operations of a [`Backend`] with anything: what does not fit together is refused before a pointer is
//! formed, not written past the end of a buffer.

use spectral_nn::layout::Affine;
use spectral_nn::{AdamBuffers, AdamSettings, Backend, Cpu, Input, Pass, Samples};
use std::panic::{AssertUnwindSafe, catch_unwind};

const PASS: Pass = Pass { agents: 2, batch: 3, stride: 64 };

fn linear() -> Affine {
    Affine {
        height: 1,
        width: 1,
        channels: 5,
        kernel: 1,
        stride: 1,
        filters: 7,
        relu: true,
        rectified: true,
        input_at: 0,
        input_pitch: 5,
        output_at: 0,
        output_pitch: 7,
        weights_at: 0,
    }
}

fn convolution() -> Affine {
    Affine {
        height: 4,
        width: 4,
        channels: 2,
        kernel: 2,
        stride: 2,
        input_pitch: 32,
        output_pitch: 28,
        ..linear()
    }
}

/// Buffers' lengths: parameters, inputs, outputs, gradients of inputs.
type Lengths = [usize; 4];

fn lengths(layer: &Affine) -> Lengths {
    let samples = PASS.agents * PASS.batch;
    let (input, output) = (samples * layer.input_pitch, samples * layer.output_pitch);
    [PASS.agents * PASS.stride, input, output, input]
}

/// Which of the three operations on a layer refuse these buffers.
fn refused(pass: Pass, layer: &Affine, lengths: Lengths) -> [bool; 3] {
    let mut cpu = Cpu::new();
    let sound = if layer.is_linear() { linear() } else { convolution() };
    cpu.prepare(&[sound], PASS.agents, PASS.batch);
    let [parameters, input, output, below] = lengths.map(|len| cpu.zeros(len));
    let (mut gradients, mut to, mut below) = (parameters.clone(), output.clone(), below);
    let mut panics =
        |run: &mut dyn FnMut(&mut Cpu)| catch_unwind(AssertUnwindSafe(|| run(&mut cpu))).is_err();
    [
        panics(&mut |cpu| cpu.forward(pass, layer, &parameters, &input, &mut to)),
        panics(&mut |cpu| cpu.weight_gradient(pass, layer, &input, &output, &mut gradients)),
        panics(&mut |cpu| cpu.input_gradient(pass, layer, &parameters, &output, &input, &mut below)),
    ]
}

#[test]
fn buffers_that_are_too_short_are_refused() {
    for layer in [linear(), convolution()] {
        let enough = lengths(&layer);
        assert_eq!(refused(PASS, &layer, enough), [false; 3], "{layer:?}");
        for buffer in 0..4 {
            // A single float: without the check it would go to the slack behind the buffer, and do no harm here.
            let mut short = enough;
            short[buffer] -= 1;
            let last_only = [false, false, true];
            let expected = if buffer == 3 { last_only } else { [true; 3] };
            assert_eq!(refused(PASS, &layer, short), expected, "buffer {buffer} of {layer:?}");
        }
        let all = [true; 3];
        assert_eq!(
            refused(Pass { agents: 1, ..PASS }, &layer, enough),
            all,
            "fewer agents than were prepared for"
        );
        assert_eq!(
            refused(Pass { batch: usize::MAX / 2, ..PASS }, &layer, enough),
            all,
            "a product that overflows"
        );
    }
}

#[test]
fn layers_that_lie_outside_of_their_activations_are_refused() {
    let (flat, image) = (linear(), convolution());
    for layer in [
        Affine { input_at: 1, ..flat.clone() },
        Affine { output_at: 1, ..flat.clone() },
        Affine { output_pitch: 6, ..flat.clone() },
        Affine { weights_at: 64, ..flat.clone() },
        Affine { filters: 0, ..flat },
        Affine { kernel: 5, ..image.clone() },
        Affine { stride: 0, ..image.clone() },
        Affine { channels: usize::MAX / 3, ..image.clone() },
        Affine { input_pitch: 33, ..image },
    ] {
        assert_eq!(refused(PASS, &layer, [4_096; 4]), [true; 3], "{layer:?}");
    }
}

#[test]
fn samples_and_steps_that_do_not_fit_are_refused() {
    let mut cpu = Cpu::new();
    let bytes = [1u8; 30];
    let mut short = cpu.zeros(29);
    let load = catch_unwind(AssertUnwindSafe(|| {
        cpu.load(PASS, &Input::Vector { len: 5 }, Samples::Bytes(&bytes), &mut short);
    }));
    assert!(load.is_err(), "30 bytes do not fit into 29 floats");
    for buffer in 0..4 {
        let mut lens = [PASS.agents * PASS.stride; 4];
        lens[buffer] -= 1;
        let [mut parameters, mut adam_m, mut adam_v, gradients] = lens.map(|len| cpu.zeros(len));
        let buffers = AdamBuffers {
            parameters: &mut parameters,
            adam_m: &mut adam_m,
            adam_v: &mut adam_v,
            gradients: &gradients,
        };
        let settings = [AdamSettings::default(); 2];
        let step = catch_unwind(AssertUnwindSafe(|| cpu.adam(PASS, &settings, &[true; 2], &[1; 2], buffers)));
        assert!(step.is_err(), "buffer {buffer} is a float short");
    }
}
