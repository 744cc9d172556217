//! Training steps and tasks on this machine's processor.

use crate::args::Arguments;
use crate::failure::Failure;
use crate::output::{Table, print};
use serde_json::json;
use spectral_env::TaskOptions;
use spectral_nn::bench::{gemm_gflops, standard, time_step};

/// Measures and prints.
pub fn run(args: &Arguments) -> Result<(), Failure> {
    if !(args.seconds > 0.0 && args.seconds < 1e4) {
        return Err(Failure::usage("--seconds must be a positive number"));
    }
    let mut table = Table::new(&["what", "threads", "value", "unit", "GFLOP/s"]);
    let wrong = |e: spectral_nn::ArchitectureError| Failure::usage(e.to_string());
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    for (name, architecture, threads) in standard() {
        let timing = time_step(architecture, 32, threads.min(cores), args.seconds).map_err(wrong)?;
        let what = format!("training step, {name}");
        table.row(vec![
            json!(what),
            json!(timing.threads),
            json!(timing.median_ms),
            json!("ms"),
            json!(timing.gflops()),
        ]);
    }
    for (name, ms, ratio) in crate::updates::measure(args.seconds).map_err(Failure::usage)? {
        let what = format!("update, {name}, MLP 128,128 ({ratio:.2} × spectral's)");
        table.row(vec![json!(what), json!(1), json!(ms), json!("ms"), json!(null)]);
    }
    for threads in [1, cores] {
        let rate = gemm_gflops(threads).map_err(wrong)?;
        table.row(vec![json!("large matrix product"), json!(threads), json!(null), json!(""), json!(rate)]);
    }
    for task in spectral_env::tasks() {
        let rate = spectral_env::bench::bench_steps(task.name, &TaskOptions::default(), args.seconds / 4.0)
            .map_err(|e| Failure::usage(e.to_string()))?;
        table.row(vec![
            json!(format!("task {}", task.name)),
            json!(1),
            json!(rate),
            json!("steps/s"),
            json!(null),
        ]);
    }
    print(&if args.json { format!("{:#}", table.json()) } else { table.text() })
}
