//! Operations with little arithmetic: loading samples, dueling streams, Adam.

use super::kernels::{AdamStep, Kernels};
use super::{Floats, Samples, Shared, run_tasks};
use crate::architecture::Input;
use crate::backend::{AdamBuffers, AdamSettings, Pass};

/// Pixels that are interleaved at a time.
const PIXELS: usize = 64;

pub(crate) fn load(pass: Pass, input: &Input, samples: Samples<'_>, to: &mut Floats) {
    let len = input.len();
    let count = pass.agents * pass.batch;
    let given = match samples {
        Samples::Bytes(bytes) => bytes.len(),
        Samples::Floats(floats) => floats.len(),
    };
    assert_eq!(given, count * len, "{count} samples of {len} numbers are needed");
    let channels = match *input {
        Input::Planes { channels, .. } => channels,
        Input::Vector { .. } => 1,
    };
    match samples {
        Samples::Floats(floats) if channels == 1 => to[..floats.len()].copy_from_slice(floats),
        Samples::Floats(floats) => {
            for (sample, out) in floats.chunks_exact(len).zip(to.chunks_exact_mut(len)) {
                interleave(sample, out, channels, |x| x);
            }
        }
        Samples::Bytes(bytes) => {
            assert!(
                to.len() >= count * len,
                "{count} samples of {len} numbers do not fit into a buffer of {}",
                to.len()
            );
            let out = Shared(to.at_mut(0));
            run_tasks(count, 8 * count * len, |sample| {
                // SAFETY: every task has its own sample's part of the buffer, which is long enough, as was just checked.
                let out = unsafe { std::slice::from_raw_parts_mut(out.at(sample * len), len) };
                let sample = &bytes[sample * len..(sample + 1) * len];
                match channels {
                    1 => scale(sample, out),
                    4 => interleave_four(sample, out),
                    _ => interleave(sample, out, channels, |byte| f32::from(byte) * (1.0 / 255.0)),
                }
            });
        }
    }
}

fn scale(bytes: &[u8], out: &mut [f32]) {
    for (out, &byte) in out.iter_mut().zip(bytes) {
        *out = f32::from(byte) * (1.0 / 255.0);
    }
}

/// Channel after channel in, channels innermost out.
fn interleave<T: Copy>(sample: &[T], out: &mut [f32], channels: usize, convert: impl Fn(T) -> f32) {
    let pixels = sample.len() / channels;
    for (channel, plane) in sample.chunks_exact(pixels).enumerate() {
        for (out, &value) in out[channel..].iter_mut().step_by(channels).zip(plane) {
            *out = convert(value);
        }
    }
}

/// Four channels make one 32-bit word per pixel, a form in which compilers vectorise both steps.
fn interleave_four(sample: &[u8], out: &mut [f32]) {
    let pixels = sample.len() / 4;
    let (first, rest) = sample.split_at(pixels);
    let (second, rest) = rest.split_at(pixels);
    let (third, fourth) = rest.split_at(pixels);
    for (chunk, out) in out.chunks_mut(4 * PIXELS).enumerate() {
        let mut words = [[0u8; 4]; PIXELS];
        let range = chunk * PIXELS..chunk * PIXELS + out.len() / 4;
        let planes = first[range.clone()].iter().zip(&second[range.clone()]);
        let planes = planes.zip(third[range.clone()].iter().zip(&fourth[range]));
        for (word, ((&a, &b), (&c, &d))) in words.iter_mut().zip(planes) {
            let packed = u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16 | u32::from(d) << 24;
            *word = packed.to_le_bytes();
        }
        scale(words.as_flattened(), out);
    }
}

pub(crate) fn duel(pass: Pass, actions: usize, per_action: usize, raw: &Floats, q: &mut Floats) {
    let outputs = actions * per_action;
    let rows = raw.chunks_exact(per_action + outputs).zip(q.chunks_exact_mut(outputs));
    for (raw, q) in rows.take(pass.agents * pass.batch) {
        let (value, advantage) = raw.split_at(per_action);
        for k in 0..per_action {
            let mean = advantage[k..].iter().step_by(per_action).sum::<f32>() / actions as f32;
            for a in (k..outputs).step_by(per_action) {
                q[a] = value[k] + (advantage[a] - mean);
            }
        }
    }
}

pub(crate) fn duel_gradient(
    pass: Pass,
    actions: usize,
    per_action: usize,
    q_delta: &Floats,
    raw_delta: &mut Floats,
) {
    let outputs = actions * per_action;
    let rows = q_delta.chunks_exact(outputs).zip(raw_delta.chunks_exact_mut(per_action + outputs));
    for (q, raw) in rows.take(pass.agents * pass.batch) {
        let (value, advantage) = raw.split_at_mut(per_action);
        for k in 0..per_action {
            value[k] = q[k..].iter().step_by(per_action).sum::<f32>();
            let mean = value[k] / actions as f32;
            for a in (k..outputs).step_by(per_action) {
                advantage[a] = q[a] - mean;
            }
        }
    }
}

pub(crate) fn adam(
    kernels: &Kernels,
    pass: Pass,
    settings: &[AdamSettings],
    active: &[bool],
    steps: &[u64],
    buffers: AdamBuffers<'_, Floats>,
) {
    /// Parameters per task: whole cache lines, small enough to share one network among threads.
    const CHUNK: usize = 32 * 1024;
    let n = pass.stride;
    let chunks = n.div_ceil(CHUNK);
    let given =
        [&*buffers.parameters, &*buffers.adam_m, &*buffers.adam_v, buffers.gradients].map(|b| b.len());
    assert!(
        given.iter().all(|&len| len >= pass.agents * n),
        "Adam's buffers must hold {} agents",
        pass.agents
    );
    let (parameters, adam_m) = (Shared(buffers.parameters.at_mut(0)), Shared(buffers.adam_m.at_mut(0)));
    let (adam_v, gradients) = (Shared(buffers.adam_v.at_mut(0)), buffers.gradients);
    run_tasks(pass.agents * chunks, 32 * pass.agents * n, |task| {
        let (agent, from) = (task / chunks, task % chunks * CHUNK);
        if !active[agent] {
            return;
        }
        let step = adam_step(&settings[agent], steps[agent]);
        let at = agent * n + from;
        let len = CHUNK.min(n - from);
        // SAFETY: the chunks of different tasks are disjoint and lie within their buffers, as was checked.
        unsafe {
            (kernels.adam)(&step, len, parameters.at(at), adam_m.at(at), adam_v.at(at), gradients.at(at));
        }
    });
}

/// Bias corrections in double precision, as PyTorch computes them.
fn adam_step(settings: &AdamSettings, step: u64) -> AdamStep {
    let correction = |beta: f32| 1.0 - f64::from(beta).powf(step as f64);
    AdamStep {
        beta1: settings.beta1,
        beta2: settings.beta2,
        epsilon: settings.epsilon,
        rate: (f64::from(settings.learning_rate) / correction(settings.beta1)) as f32,
        root: (1.0 / correction(settings.beta2).sqrt()) as f32,
    }
}
