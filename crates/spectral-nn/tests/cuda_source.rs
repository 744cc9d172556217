//! The kernels' text compiles for the architectures that people have, without a GPU.

use spectral_nn::cuda::{Precision, Target, Trunk, check, has_compiler, network_source};
use spectral_nn::{Architecture, Head, Input};
use std::io::Write as _;

/// An H200, an A100, and a card with little shared memory.
const TARGETS: [(&str, Target); 3] = [
    ("sm_90a", Target { processors: 132, hopper: true, warpgroups: true, shared: 232_448 }),
    ("sm_80", Target { processors: 108, hopper: false, warpgroups: false, shared: 166_912 }),
    ("sm_89", Target { processors: 128, hopper: false, warpgroups: false, shared: 101_376 }),
];

#[test]
fn every_network_compiles_in_every_precision() {
    if !has_compiler() {
        assert_ne!(std::env::var("SPECTRAL_ORACLES").as_deref(), Ok("1"), "libnvrtc must be found");
        writeln!(
            std::io::stderr(),
            "SKIPPED: CUDA kernels were not compiled, because libnvrtc was not found"
        )
        .unwrap();
        return;
    }
    let planes = |channels, side| Input::Planes { channels, height: side, width: side };
    let shapes = [
        ("nature", Architecture::nature(planes(4, 84), Head::new(6, 21)), vec![126, 6, 6, 774]),
        ("nature, many", Architecture::nature(planes(4, 84), Head::new(6, 21)), vec![126; 9]),
        (
            "dueling, many",
            Architecture::nature(planes(4, 84), Head { dueling: true, ..Head::new(6, 21) }),
            vec![147; 9],
        ),
        ("small", Architecture::small_cnn(planes(3, 10), Head::new(3, 21)), vec![63, 3]),
        ("mlp", Architecture::mlp(Input::Vector { len: 37 }, &[128, 128], Head::new(3, 1)), vec![3]),
        ("narrow", Architecture::mlp(Input::Vector { len: 8 }, &[64, 64, 192], Head::new(3, 1)), vec![3]),
        ("bare", Architecture::mlp(Input::Vector { len: 8 }, &[], Head::new(3, 1)), vec![3]),
    ];
    for (name, shape, outputs) in shapes {
        let trunk = Trunk::new(&shape).unwrap();
        // Large batches have other kernels; only those in bf16 depend on how batches divide.
        let precisions: [(Precision, &[usize]); 3] =
            [(Precision::Fp32, &[20]), (Precision::Tf32, &[32, 128]), (Precision::Bf16, &[32, 20, 128])];
        for (precision, batches) in precisions {
            for &batch in batches {
                for (architecture, target) in TARGETS {
                    // Where nothing but the forward pass differs, one architecture is enough.
                    if architecture != "sm_90a" && (precision == Precision::Fp32 || batch != 32) {
                        continue;
                    }
                    // Cuts depend on the population; those of warpgroups, in bf16 on Hopper, are compiled for many agents too.
                    if outputs.len() > 8 && (architecture != "sm_90a" || precision != Precision::Bf16) {
                        continue;
                    }
                    let text = network_source(&trunk, &outputs, batch, target, precision);
                    let image = check(name, &text, architecture);
                    let image = image.unwrap_or_else(|e| panic!("{name} {precision:?} {architecture}: {e}"));
                    assert!(image.starts_with(b"\x7fELF"), "{name}: no binary");
                }
            }
        }
    }
}
