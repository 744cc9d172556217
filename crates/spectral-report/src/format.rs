//! Numbers, durations and lists as text.

/// A value with about three significant digits, thousands separators and a proper minus sign. Small values get four decimals, so
/// that the end of an interval just below zero does not read as zero.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "not finite".to_owned();
    }
    let size = value.abs();
    let text = if size >= 1e9 {
        format!("{size:.2e}")
    } else if size >= 1000.0 {
        thousands(size.round() as u64)
    } else if size >= 100.0 {
        format!("{size:.0}")
    } else if size >= 10.0 {
        format!("{size:.1}")
    } else if (5e-5..0.00995).contains(&size) {
        format!("{size:.4}")
    } else {
        format!("{size:.2}")
    };
    let zero = text.chars().all(|c| matches!(c, '0' | '.'));
    if value < 0.0 && !zero { format!("−{text}") } else { text }
}

/// A count in the short form of axis labels: 150k, 2.5M.
pub(crate) fn short_count(value: f64) -> String {
    let size = value.abs();
    let (scaled, unit) = if size >= 1e9 {
        (value / 1e9, "G")
    } else if size >= 1e6 {
        (value / 1e6, "M")
    } else if size >= 1e3 {
        (value / 1e3, "k")
    } else {
        (value, "")
    };
    let digits = format!("{:.3}", scaled.abs());
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if value < 0.0 && digits != "0" { "−" } else { "" };
    format!("{sign}{digits}{unit}")
}

/// A duration in seconds as text, such as `1 min 33 s`.
///
/// ```
/// assert_eq!(spectral_report::duration(7_325.0), "2 h 02 min");
/// ```
pub fn duration(seconds: f64) -> String {
    let total = seconds.round() as u64;
    match total {
        0..60 => format!("{total} s"),
        60..3600 => format!("{} min {:02} s", total / 60, total % 60),
        _ => format!("{} h {:02} min", total / 3600, total % 3600 / 60),
    }
}

/// The training time of a run, which may not be known: a run that was lost before its first checkpoint recorded none.
pub(crate) fn training_time(seconds: f64) -> String {
    if seconds > 0.0 { duration(seconds) } else { "not recorded".into() }
}

/// "a", "a and b", "a, b and c".
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// An interval as text, or a dash if there is none.
pub(crate) fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
        _ => "–".to_owned(),
    }
}

/// A count with commas as thousands separators.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        let cases = [
            (0.0, "not recorded"),
            (0.2, "0 s"),
            (59.4, "59 s"),
            (61.0, "1 min 01 s"),
            (7_325.0, "2 h 02 min"),
        ];
        for (seconds, text) in cases {
            assert_eq!(training_time(seconds), text);
        }
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        let cases = [
            (20_027.6, "20,028"),
            (-1_234_567.0, "−1,234,567"),
            (123.4, "123"),
            (20.15, "20.1"),
            (-7.084, "−7.08"),
            (-0.00004, "0.00"),
            (-0.0012, "−0.0012"),
            (0.00996, "0.01"),
            (0.0, "0.00"),
            (2.5e12, "2.50e12"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "not finite");
        let counts = [0.0, 950.0, 1000.0, 86_000.0, 2.5e6, 2e8, 3e9, -250_000.0].map(short_count);
        assert_eq!(counts, ["0", "950", "1k", "86k", "2.5M", "200M", "3G", "−250k"]);
        let times = [0.4, 59.0, 93.1, 3_599.0, 7_260.0].map(duration);
        assert_eq!(times, ["0 s", "59 s", "1 min 33 s", "59 min 59 s", "2 h 01 min"]);
    }

    #[test]
    fn lists_end_with_and() {
        let items: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(
            [list(&items[..0]), list(&items[..1]), list(&items[..2]), list(&items)],
            ["", "a", "a and b", "a, b and c"]
        );
    }
}
