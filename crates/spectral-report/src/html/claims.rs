//! The paper's claims beside our data.

use std::fmt::Write as _;

use crate::canvas::escape;
use crate::claims::{Judgement, judged_and_not_run, missing, tally};

/// One card per claim, with the verdict first; claims that were not run are one line.
pub(super) fn section(claims: &[Judgement]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut text =
        String::from("<section class=\"claims\" id=\"claims\">\n<h2>The paper beside our data</h2>\n");
    writeln!(text, "<p class=\"sub\">{}</p>", tally(claims)).ok();
    let (judged, not_run) = judged_and_not_run(claims);
    for judged in judged {
        let word = judged.verdict.word();
        writeln!(
            text,
            "<article class=\"claim {word}\" data-verdict=\"{word}\">\n<p class=\"verdict\">{word}</p>\n\
             <div class=\"theirs\"><h4>The paper</h4><p>{}</p><p class=\"source\">{}</p></div>\n\
             <div class=\"ours\"><h4>Our data</h4><p>{}</p></div>\n<p class=\"why\">{}</p>\n{}</article>",
            escape(&judged.claim.text),
            source(judged),
            escape(&judged.ours),
            escape(&judged.reason),
            judged
                .explanation()
                .map_or_else(String::new, |words| format!("<p class=\"caption\">{}</p>\n", escape(words)))
        )
        .ok();
    }
    if !not_run.is_empty() {
        writeln!(text, "<details class=\"not-run\"><summary>{}</summary>\n<ul>", escape(&missing(&not_run)))
            .ok();
        for judged in not_run {
            writeln!(
                text,
                "<li>{} <span class=\"source\">({})</span></li>",
                escape(&judged.claim.text),
                source(judged)
            )
            .ok();
        }
        text.push_str("</ul></details>\n");
    }
    text.push_str("</section>\n");
    text
}

/// The task and the place in the paper.
fn source(judged: &Judgement) -> String {
    match judged.claim.source.trim() {
        "" => escape(&judged.claim.task),
        source => format!("{}; {}", escape(&judged.claim.task), escape(source)),
    }
}
