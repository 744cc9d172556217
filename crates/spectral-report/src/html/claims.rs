//! The paper's claims beside our data.

use std::fmt::Write as _;

use crate::canvas::escape;
use crate::claims::{Judgement, Verdict};
use crate::format::list;

/// One card per claim, with the verdict first.
pub(super) fn section(claims: &[Judgement]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut counts = Vec::new();
    for verdict in [Verdict::Agree, Verdict::Differ, Verdict::Undecided] {
        let count = claims.iter().filter(|judged| judged.verdict == verdict).count();
        if count > 0 {
            counts.push(format!("{count} {}", verdict.word()));
        }
    }
    let mut text =
        String::from("<section class=\"claims\" id=\"claims\">\n<h2>The paper beside our data</h2>\n");
    let noun = if claims.len() == 1 { "claim" } else { "claims" };
    writeln!(text, "<p class=\"sub\">{} {noun}: {}</p>", claims.len(), list(&counts)).ok();
    for judged in claims {
        let word = judged.verdict.word();
        let claim = &judged.claim;
        let source = match claim.source.trim() {
            "" => escape(&claim.task),
            source => format!("{}; {}", escape(&claim.task), escape(source)),
        };
        writeln!(
            text,
            "<article class=\"claim {word}\" data-verdict=\"{word}\">\n<p class=\"verdict\">{word}</p>\n\
             <div class=\"theirs\"><h4>The paper</h4><p>{}</p><p class=\"source\">{source}</p></div>\n\
             <div class=\"ours\"><h4>Our data</h4><p>{}</p></div>\n<p class=\"why\">{}</p>\n</article>",
            escape(&claim.text),
            escape(&judged.ours),
            escape(&judged.reason)
        )
        .ok();
    }
    text.push_str("</section>\n");
    text
}
