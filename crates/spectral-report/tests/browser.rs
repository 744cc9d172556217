//! The page in a real browser: it must load from disk without an error, and its two interactions must work.
//!
//! Needs `chromium` on the PATH. Skipped loudly without it, unless SPECTRAL_ORACLES=1 demands it.

mod synthetic;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use spectral_report::{ReportOptions, read_runs, write_report};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<&'static str> {
    let works = |name: &&&str| {
        Command::new(**name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let found = BROWSERS.iter().find(works).copied();
    if found.is_none() {
        let required = std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1");
        assert!(!required, "SPECTRAL_ORACLES=1 needs a Chromium: none of {BROWSERS:?} is on the PATH");
        // Not eprintln!, whose words libtest swallows when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no Chromium on the PATH, so the report was not opened in a browser"
        );
    }
    found
}

fn open(browser: &str, page: &Path, width: u32) -> Output {
    let profile = tempfile::tempdir().unwrap();
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--window-size={width},2400"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}

/// Appended to a copy of the page: does what a reader's hand would do, and writes down what happened.
const HAND: &str = r#"<script>
const say = (name, value) => document.documentElement.setAttribute("data-seen-" + name, value);
const visible = (node) => node.getBoundingClientRect().width > 0;
const figure = document.querySelector("figure[data-figure=curves]");
const svg = [...figure.querySelectorAll("svg")].find(visible);
const box = svg.getBoundingClientRect();
const move = () => svg.dispatchEvent(new PointerEvent("pointermove",
  { clientX: box.left + 0.6 * box.width, clientY: box.top + 0.5 * box.height }));
move();
say("tip", figure.querySelector(".tip").innerText.replace(/\s+/g, " "));
document.querySelector("button[data-agent=popart]").click();
move();
say("tip-without", figure.querySelector(".tip").innerText.replace(/\s+/g, " "));
say("hidden", [...svg.querySelectorAll("g[data-agent=popart]")].every((g) => !visible(g)));
say("shown", [...svg.querySelectorAll("g[data-agent=clipped]")].some(visible));
const panel = document.querySelector("figure[data-figure=td-error]");
const at = panel.querySelector("svg").getBoundingClientRect();
panel.querySelector("svg").dispatchEvent(new PointerEvent("pointermove",
  { clientX: at.left + 0.7 * at.width, clientY: at.top + 0.5 * at.height }));
say("td", panel.querySelector(".tip").innerText.replace(/\s+/g, " "));
say("overflow", document.documentElement.scrollWidth - document.documentElement.clientWidth);
</script>"#;

fn attribute<'d>(dom: &'d str, name: &str) -> &'d str {
    let start =
        dom.find(&format!("{name}=\"")).unwrap_or_else(|| panic!("no {name} in the page")) + name.len() + 2;
    &dom[start..start + dom[start..].find('"').unwrap()]
}

#[test]
fn the_page_opens_from_disk_without_an_error_and_answers_the_hand() {
    let Some(browser) = browser() else { return };
    let root = tempfile::tempdir().unwrap();
    synthetic::demo(&root.path().join("runs"));
    let runs = read_runs(&[root.path().join("runs")]).unwrap();
    let options = ReportOptions { out: root.path().join("report"), ..Default::default() };
    let page = write_report(&runs, &options).unwrap().html;
    let text = fs::read_to_string(&page).unwrap();
    let handled = root.path().join("handled.html");
    fs::write(&handled, text.replace("</body>", &format!("{HAND}</body>"))).unwrap();

    for width in [1280, 500] {
        let output = open(browser, &handled, width);
        let dom = String::from_utf8_lossy(&output.stdout);
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(!log.contains(":CONSOLE"), "the console has messages:\n{log}");
        assert!(!dom.contains("data-error="), "script error: {}", attribute(&dom, "data-error"));
        assert_eq!(attribute(&dom, "data-ready"), "true");
        assert_eq!(dom.matches("data-figure=\"curves\"").count(), 2, "one figure of curves per task");
        assert_eq!(dom.matches("data-figure=\"td-error\"").count(), 4, "one panel per agent");
        assert_eq!(dom.matches("class=\"final\"").count(), 2, "one table per task");
        let tip = attribute(&dom, "data-seen-tip");
        for part in ["frames", "spectral", "popart", "2 seeds", "3 seeds", "±"] {
            assert!(tip.contains(part), "{part} is missing in the tooltip: {tip}");
        }
        assert!(!attribute(&dom, "data-seen-tip-without").contains("popart"));
        assert_eq!(attribute(&dom, "data-seen-hidden"), "true");
        assert_eq!(attribute(&dom, "data-seen-shown"), "true");
        let td = attribute(&dom, "data-seen-td");
        assert!(td.contains("score") && td.contains('%'), "{td}");
        assert_eq!(attribute(&dom, "data-seen-overflow"), "0", "the page is wider than a window of {width}");
    }
}
