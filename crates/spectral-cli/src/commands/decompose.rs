//! `spectral decompose`: the paper's figure 2 for any number.

use crate::args::DecomposeArgs;
use crate::failure::{Failure, SUCCESS};
use crate::output::print;
use crate::table::number;
use serde_json::{Value, json};
use spectral_core::decompose::{Encoding, Spectrum};

/// Cells of a full bucket.
const WIDTH: usize = 32;
/// More frequencies than any number of the terminal's interest needs.
const MOST: usize = 60;

/// Decomposes and draws each number.
pub fn run(args: &DecomposeArgs) -> Result<u8, Failure> {
    let encoding = if args.binary { Encoding::Binary } else { Encoding::Thermometer };
    let spectrum =
        |n: usize| Spectrum::new(args.base, n, encoding).map_err(|e| Failure::usage(e.to_string()));
    let mut results: Vec<Value> = Vec::new();
    let mut drawings: Vec<String> = Vec::new();
    for &x in &args.numbers {
        if !x.is_finite() {
            return Err(Failure::usage(format!("{x} is not a finite number")));
        }
        let spectrum = match args.max_frequency {
            Some(n) => spectrum(n)?,
            // One bucket more than the number fills, as in the paper's figure.
            None => {
                let mut n = 1;
                while n < MOST && spectrum(n)?.capacity() < x.abs() && spectrum(n + 1).is_ok() {
                    n += 1;
                }
                spectrum((n + 1).min(MOST)).or_else(|_| spectrum(n))?
            }
        };
        let mut parts = vec![0.0; spectrum.frequencies()];
        spectrum.decompose_f64(x, &mut parts);
        let recovered = spectrum.recompose_f64(&parts);
        if args.table.json {
            results.push(json!({
                "number": x, "base": args.base, "elements": parts, "weights": spectrum.weights_f64(),
                "recovered": recovered, "capacity": spectrum.capacity(), "saturated": spectrum.saturates(x),
            }));
        } else {
            drawings.push(draw(x, args.base, &spectrum, &parts, recovered));
        }
    }
    if args.table.json {
        drawings.push(serde_json::to_string_pretty(&results).expect("plain values"));
    }
    print(&drawings.join("\n"))?;
    Ok(SUCCESS)
}

/// A number and its buckets, as far as they are filled.
pub fn draw(x: f64, base: f64, spectrum: &Spectrum, parts: &[f64], recovered: f64) -> String {
    let mut lines = vec![format!("{x} to base {base}")];
    let mut low = 0.0;
    for (i, (part, weight)) in parts.iter().zip(spectrum.weights_f64()).enumerate() {
        let filled = (part.abs().min(1.0) * WIDTH as f64).round() as usize;
        let bar = "█".repeat(filled) + &"░".repeat(WIDTH - filled);
        let high = low + weight;
        lines.push(format!(
            "  {i:>2}  {bar}  {:>9}   bucket {} to {}",
            number_or_zero(*part),
            number(low),
            number(high)
        ));
        low = high;
    }
    lines.push(format!("  Σ bⁱ rᵢ = {recovered}"));
    if spectrum.saturates(x) {
        lines.push(format!("  beyond the capacity of {}: saturated", spectrum.capacity()));
    }
    lines.join("\n")
}

fn number_or_zero(x: f64) -> String {
    if x == 0.0 { "0".into() } else { number(x) }
}
