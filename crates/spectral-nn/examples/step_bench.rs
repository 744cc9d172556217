//! Prints the time of a training step of each standard network.
//!
//! ```text
//! cargo run --release -p spectral-rl-nn --example step_bench -- [--json] [--net NAME] [--threads N] [--seconds S] [--gemm]
//! ```

use spectral_nn::bench::{gemm_gflops, standard, time_step};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut json, mut gemm, mut net, mut threads, mut seconds) = (false, false, None, None, 3.0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--json" => json = true,
            "--gemm" => gemm = true,
            "--net" => net = Some(value()?),
            "--threads" => threads = Some(value()?.parse::<usize>()?),
            "--seconds" => seconds = value()?.parse()?,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let mut steps = Vec::new();
    for (name, architecture, own_threads) in standard() {
        if net.as_ref().is_some_and(|net| net != name) {
            continue;
        }
        let timing = time_step(architecture, 32, threads.unwrap_or(own_threads), seconds)?;
        if json {
            steps.push(format!(
                r#""{name}": {{"threads": {}, "median_ms": {:.5}, "min_ms": {:.5}, "gflops": {:.2}}}"#,
                timing.threads,
                timing.median_ms,
                timing.min_ms,
                timing.gflops()
            ));
        } else {
            println!(
                "{name:>8}: {:.4} ms (minimum {:.4}), {:.1} GFLOP/s, {} threads, {:?}",
                timing.median_ms,
                timing.min_ms,
                timing.gflops(),
                timing.threads,
                timing.instructions
            );
        }
    }
    let rates = if gemm { vec![(1, gemm_gflops(1)?), (2, gemm_gflops(2)?)] } else { Vec::new() };
    if json {
        let rates: Vec<_> = rates.iter().map(|(n, rate)| format!(r#""{n}": {rate:.2}"#)).collect();
        println!(r#"{{"steps": {{{}}}, "gemm_gflops": {{{}}}}}"#, steps.join(", "), rates.join(", "));
    } else {
        for (n, rate) in rates {
            println!("large matrix product, {n} threads: {rate:.1} GFLOP/s");
        }
    }
    Ok(())
}
