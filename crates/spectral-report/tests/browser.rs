//! The page in a real browser: it must load from disk without an error and without the network, show every figure, and
//! its interactions must work.
//!
//! Needs `chromium` on the PATH. Skipped loudly without it, unless SPECTRAL_ORACLES=1 demands it.

mod synthetic;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use spectral_report::{Claim, ReportOptions, read_runs, write_report};

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

fn open(browser: &str, page: &Path, width: u32, dark: bool) -> Output {
    let profile = tempfile::tempdir().unwrap();
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
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
const singles = () => svg.querySelectorAll("g[data-one]").length;
const press = (seed) => document.querySelector(`.single button[data-seed="${seed}"]`).click();
const counts = [singles()];
for (const seed of ["1000", "all", "all"]) { press(seed); counts.push(singles()); }
say("singles", counts.join(" "));
const key = (name) => svg.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
const tip = () => figure.querySelector(".tip");
key("Home"); key("ArrowRight");
const second = tip().innerText;
key("End");
say("keys", [svg.tabIndex, second !== tip().innerText, tip().style.visibility].join(" "));
key("Escape");
say("escape", tip().style.visibility);
say("labels", ["spectral", "clipped"].every((name) =>
  [...svg.querySelectorAll("text")].some((text) => text.textContent.trim() === name && visible(text))));
say("narrowest", Math.min(...[...svg.querySelectorAll("text")].map((text) => {
  const size = parseFloat(text.getAttribute("font-size"));
  return size * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
})).toFixed(1));
const panel = document.querySelector("figure[data-figure=td-error]");
const at = panel.querySelector("svg").getBoundingClientRect();
panel.querySelector("svg").dispatchEvent(new PointerEvent("pointermove",
  { clientX: at.left + 0.7 * at.width, clientY: at.top + 0.5 * at.height }));
say("td", panel.querySelector(".tip").innerText.replace(/\s+/g, " "));
say("overflow", document.documentElement.scrollWidth - document.documentElement.clientWidth);
const timed = document.querySelector("figure[data-figure=curves-time]");
say("time-before", visible(timed));
document.querySelector("button[data-view=time]").click();
say("time-after", visible(timed) && !visible(figure));
const clock = [...timed.querySelectorAll("svg")].find(visible);
const there = clock.getBoundingClientRect();
clock.dispatchEvent(new PointerEvent("pointermove",
  { clientX: there.left + 0.5 * there.width, clientY: there.top + 0.5 * there.height }));
say("time-tip", timed.querySelector(".tip").innerText.replace(/\s+/g, " "));
document.querySelector("button[data-view=frames]").click();
say("frames-again", visible(figure) && !visible(timed));
const hover = (kind) => {
  const panel = document.querySelector(`figure[data-figure=${kind}]`);
  const svg = panel.querySelector("svg");
  const at = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove",
    { clientX: at.left + 0.6 * at.width, clientY: at.top + 0.4 * at.height }));
  return panel.querySelector(".tip").innerText.replace(/\s+/g, " ");
};
say("inside", hover("inside-loss_share"));
say("profile", hover("profile"));
const count = (kind) => [...document.querySelectorAll(`figure[data-figure=${kind}]`)].filter(visible).length;
say("figures", ["curves", "profile", "improvement", "td-error", "inside-activity", "inside-sigma",
  "inside-loss_share", "inside-popart", "clip"].map((kind) => kind + ":" + count(kind)).join(" "));
say("requests", performance.getEntriesByType("resource").filter((e) => !e.name.startsWith("data:")).length);
say("background", getComputedStyle(document.body).backgroundColor);
const films = [...document.querySelectorAll(".clip img")];
say("films", films.length + " " + films.every((film) => film.complete && film.naturalWidth > 0));
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
    let claim = "[[claim]]\ntext = \"Clipping loses.\"\ntask = \"exponential-pong-mini\"\nkind = \"higher_final\"\n\
                 better = \"spectral\"\nworse = [\"clipped\"]\n";
    let claims = Claim::from_toml(claim, "claims").unwrap();
    let options = ReportOptions { out: root.path().join("report"), claims, ..Default::default() };
    let page = write_report(&runs, &options).unwrap().html;
    let text = fs::read_to_string(&page).unwrap();
    let handled = root.path().join("handled.html");
    fs::write(&handled, text.replace("</body>", &format!("{HAND}</body>"))).unwrap();

    // The page may not fetch anything, and this test would see it: the browser refuses, and says so in the console.
    let tampered = root.path().join("tampered.html");
    fs::write(&tampered, text.replace("</body>", "<img src=\"https://example.invalid/x.png\"></body>"))
        .unwrap();
    let log = open(browser, &tampered, 800, false).stderr;
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains(":CONSOLE") && log.contains("Content Security Policy"), "{log}");

    for (width, dark) in [(1280, false), (500, true)] {
        let output = open(browser, &handled, width, dark);
        let dom = String::from_utf8_lossy(&output.stdout);
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(!log.contains(":CONSOLE"), "the console has messages:\n{log}");
        assert!(!dom.contains("data-error="), "script error: {}", attribute(&dom, "data-error"));
        assert_eq!(attribute(&dom, "data-ready"), "true");
        assert_eq!(dom.matches("data-figure=\"curves\"").count(), 2, "one figure of curves per task");
        assert_eq!(dom.matches("data-figure=\"td-error\"").count(), 4, "one panel per agent");
        assert_eq!(dom.matches("class=\"final\"").count(), 2, "one table per task");
        let tip = attribute(&dom, "data-seen-tip");
        for part in ["frames", "spectral", "popart", "2 seeds", "3 seeds", " to "] {
            assert!(tip.contains(part), "{part} is missing in the tooltip: {tip}");
        }
        assert!(!attribute(&dom, "data-seen-tip-without").contains("popart"));
        assert_eq!(attribute(&dom, "data-seen-hidden"), "true");
        assert_eq!(attribute(&dom, "data-seen-shown"), "true");
        // One seed of each agent, then all that have finished, then none.
        assert_eq!(attribute(&dom, "data-seen-singles"), "0 4 11 0");
        assert_eq!(attribute(&dom, "data-seen-keys"), "0 true visible", "values can be read by the keyboard");
        assert_eq!(attribute(&dom, "data-seen-escape"), "hidden");
        assert_eq!(attribute(&dom, "data-seen-labels"), "true", "lines are named at {width}");
        let smallest: f64 = attribute(&dom, "data-seen-narrowest").parse().unwrap();
        assert!(smallest > 9.0, "letters of {smallest} pixels at {width}");
        let td = attribute(&dom, "data-seen-td");
        assert!(td.contains("score") && td.contains('%'), "{td}");
        assert_eq!(attribute(&dom, "data-seen-overflow"), "0", "the page is wider than a window of {width}");
        assert_eq!(attribute(&dom, "data-seen-time-before"), "false");
        assert_eq!(attribute(&dom, "data-seen-time-after"), "true", "the switch shows the other axis");
        assert_eq!(attribute(&dom, "data-seen-frames-again"), "true");
        let tip = attribute(&dom, "data-seen-time-tip");
        assert!(tip.contains("minutes of training") && tip.contains("spectral"), "{tip}");
        let inside = attribute(&dom, "data-seen-inside");
        assert!(inside.contains("frequency") && inside.contains("25%"), "{inside}");
        assert!(attribute(&dom, "data-seen-profile").contains("above"));
        assert_eq!(
            attribute(&dom, "data-seen-figures"),
            "curves:2 profile:2 improvement:2 td-error:4 inside-activity:2 inside-sigma:2 inside-loss_share:2 \
             inside-popart:2 clip:2"
        );
        assert_eq!(attribute(&dom, "data-seen-requests"), "0", "nothing is fetched");
        assert_eq!(attribute(&dom, "data-seen-films"), "2 true");
        let surface = if dark { "rgb(20, 22, 26)" } else { "rgb(255, 255, 255)" };
        assert_eq!(attribute(&dom, "data-seen-background"), surface);
        assert_eq!(dom.matches("data-verdict=\"differ\"").count(), 1, "the verdict is in the page");
    }
}

/// Appended to a copy of the page: how wide the panels are.
const RULER: &str = r#"<script>
const wide = (kind) => Math.round(document.querySelector(`figure[data-figure=${kind}] svg`).getBoundingClientRect().width);
document.documentElement.setAttribute("data-seen-widths", ["curves", "profile", "td-error"].map(wide).join(" "));
</script>"#;

#[test]
fn a_panel_that_is_alone_is_no_larger_than_one_of_two() {
    let Some(browser) = browser() else { return };
    let root = tempfile::tempdir().unwrap();
    let population = [1, 2].map(|seed| synthetic::member("spectral", seed, (0.0, 9.0, 9e3), 1.0, 20_000));
    synthetic::write_run(&root.path().join("run"), "exponential-pong-mini", 20_000, true, &population);
    let runs = read_runs(&[root.path().join("run")]).unwrap();
    let options = ReportOptions { out: root.path().join("report"), ..Default::default() };
    let page = write_report(&runs, &options).unwrap().html;
    let text = fs::read_to_string(&page).unwrap();
    fs::write(&page, text.replace("</body>", &format!("{RULER}</body>"))).unwrap();
    let output = open(browser, &page, 1280, false);
    let dom = String::from_utf8_lossy(&output.stdout);
    let widths: Vec<f64> =
        attribute(&dom, "data-seen-widths").split(' ').map(|width| width.parse().unwrap()).collect();
    assert!(widths[1] > 300.0 && widths[2] > 300.0, "{widths:?}");
    assert!(widths[1] < 0.6 * widths[0] && widths[2] < 0.6 * widths[0], "{widths:?}");
}
