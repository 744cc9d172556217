//! `spectral report`.

use crate::args::ReportArgs;
use crate::failure::{DATA, Failure, SUCCESS};
use crate::output::print;
use spectral_report::{ReportOptions, ReportSummary, read_runs, text_table, write_report};

/// Draws run directories.
pub fn run(args: &ReportArgs) -> Result<u8, Failure> {
    let runs = read_runs(&args.runs)?;
    let options = ReportOptions {
        title: args.title.clone(),
        out: args.out.clone().unwrap_or_else(|| args.runs[0].join("report")),
        baseline: Some(args.baseline.clone()),
        ..ReportOptions::default()
    };
    print_summary(&write_report(&runs, &options)?, args.table.json)
}

/// The final table and where the report lies.
pub fn print_summary(summary: &ReportSummary, json: bool) -> Result<u8, Failure> {
    if json {
        let text = serde_json::to_string_pretty(summary)
            .map_err(|e| Failure { text: e.to_string(), exit_code: DATA })?;
        print(&text)?;
    } else {
        print(&format!("\n{}\nreport: {}", text_table(summary), summary.html.display()))?;
    }
    Ok(SUCCESS)
}
