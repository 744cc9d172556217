//! Times the passes of the Nature network on a GPU: `cargo run --release -p spectral-rl-nn --example gpu_passes -- [P…]`. With
//! `fp32`, `tf32` or `bf16` among the words, only in that precision; with `once`, each pass runs once, for a profiler.

use spectral_nn::cuda::{
    CudaError, Device, Graph, Member, Networks, Pass, Precision, Stream, Trunk, Weights,
};
use spectral_nn::{Architecture, Head, Input};

const BATCH: usize = 32;

fn main() -> Result<(), CudaError> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut populations: Vec<usize> = words.iter().filter_map(|a| a.parse().ok()).collect();
    let named = |name: &str| words.iter().any(|w| w == name);
    let all = [Precision::Fp32, Precision::Tf32, Precision::Bf16];
    let any = all.iter().any(|p| named(p.name()));
    if populations.is_empty() {
        populations = vec![1, 5, 20, 64];
    }
    println!(
        "{:>4} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9}  (ms)",
        "P", "", "acting", "hidden", "heads", "backward", "all"
    );
    for &agents in &populations {
        for precision in all.into_iter().filter(|p| !any || named(p.name())) {
            time(&device, agents, precision, named("once"))?;
        }
    }
    Ok(())
}

fn time(device: &Device, agents: usize, precision: Precision, once: bool) -> Result<(), CudaError> {
    let input = Input::Planes { channels: 4, height: 84, width: 84 };
    let trunk = Trunk::new(&Architecture::nature(input, Head::new(6, 21))).expect("a valid network");
    let nets = Networks::new(device, trunk, &vec![126; agents], BATCH, precision)?;
    let control = device.zeros(24)?;
    control.write(0, &[1u32])?;
    control.write(8, &[2.5e-5f64, 1.0])?;
    let member = Member {
        learns: control.at(),
        step_size: control.offset(8),
        root_correction: control.offset(16),
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 0.005 / 32.0,
    };
    nets.connect(&vec![member; agents])?;
    // Random numbers everywhere: zeros run faster than real data.
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    let noise: Vec<f32> =
        (0..nets.parameters(0)).map(|_| (next() as f32 / (1u32 << 30) as f32 - 1.0) * 0.03).collect();
    let pixels: Vec<u8> = (0..BATCH * 4 * 84 * 84).map(|_| next() as u8).collect();
    let gradient: Vec<f32> = (0..BATCH * nets.pitch()).map(|i| if i % 6 == 0 { 1e-3 } else { 0.0 }).collect();
    for agent in 0..agents {
        nets.write(Weights::Online, agent, &noise)?;
        nets.write(Weights::Target, agent, &noise)?;
        for set in 0..2 {
            nets.input().write((set * agents + agent) * pixels.len(), &pixels)?;
        }
        nets.acting_input().write(agent * 4 * 84 * 84, &pixels[..4 * 84 * 84])?;
        for memory in [nets.gradients().0, nets.gradients().1] {
            memory.write(4 * agent * gradient.len(), &gradient)?;
        }
    }
    let stream = device.stream()?;
    let acting = stream.capture(|| nets.queue_acting(&stream))?;
    let hidden = stream.capture(|| nets.queue_hidden(&stream))?;
    let heads = stream.capture(|| {
        nets.queue_head(&stream, Pass::Target)?;
        nets.queue_head(&stream, Pass::Online)
    })?;
    let backward = stream.capture(|| nets.queue_backward(&stream))?;
    let all = stream.capture(|| {
        nets.queue_until_targets(&stream, |_| Ok(()))?;
        nets.queue_head(&stream, Pass::Online)?;
        nets.queue_backward(&stream)
    })?;
    if once {
        acting.launch()?;
        all.launch()?;
        return stream.synchronise();
    }
    let mut line = format!("{agents:>4} {:>5}", precision.name());
    for graph in [&acting, &hidden, &heads, &backward, &all] {
        line += &format!(" {:>9.4}", median(device, &stream, graph)?);
    }
    println!("{line}");
    Ok(())
}

/// The median over batches of launches of one graph, in milliseconds a launch.
fn median(device: &Device, stream: &Stream, graph: &Graph) -> Result<f32, CudaError> {
    const LAUNCHES: usize = 10;
    let mut times = Vec::new();
    let (start, end) = (device.event()?, device.event()?);
    for round in 0..23 {
        stream.record(&start)?;
        for _ in 0..LAUNCHES {
            graph.launch()?;
        }
        stream.record(&end)?;
        stream.synchronise()?;
        if round >= 3 {
            times.push(start.milliseconds_until(&end)? / LAUNCHES as f32);
        }
    }
    times.sort_by(f32::total_cmp);
    Ok(times[times.len() / 2])
}
