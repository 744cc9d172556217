//! The page itself, compiled in: nothing is fetched from elsewhere, and users build nothing.

/// Declares the page's files: where a browser asks for them, their type, and the file.
macro_rules! assets {
    ($($path:literal $kind:ident $file:literal;)*) => {
        /// The type and the text of one of the page's files.
        pub(crate) fn find(path: &str) -> Option<(&'static str, &'static str)> {
            match path {
                $($path => Some(($kind, include_str!(concat!("../assets/", $file)))),)*
                _ => None,
            }
        }

        #[cfg(test)]
        const FILES: &[&str] = &[$($file),*];
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

assets! {
    "/" HTML "index.html";
    "/style.css" CSS "style.css";
    "/app/bars.js" SCRIPT "app/bars.js";
    "/app/connection.js" SCRIPT "app/connection.js";
    "/app/controls.js" SCRIPT "app/controls.js";
    "/app/curves.js" SCRIPT "app/curves.js";
    "/app/dom.js" SCRIPT "app/dom.js";
    "/app/format.js" SCRIPT "app/format.js";
    "/app/frequencies.js" SCRIPT "app/frequencies.js";
    "/app/game.js" SCRIPT "app/game.js";
    "/app/health.js" SCRIPT "app/health.js";
    "/app/heat.js" SCRIPT "app/heat.js";
    "/app/keys.js" SCRIPT "app/keys.js";
    "/app/main.js" SCRIPT "app/main.js";
    "/app/scale.js" SCRIPT "app/scale.js";
    "/app/series.js" SCRIPT "app/series.js";
    "/app/spectrum.js" SCRIPT "app/spectrum.js";
    "/app/surface.js" SCRIPT "app/surface.js";
    "/app/theme.js" SCRIPT "app/theme.js";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        for part in ["", "app"] {
            for entry in std::fs::read_dir(folder.join(part)).unwrap().flatten() {
                let name = std::path::Path::new(part).join(entry.file_name());
                let name = name.to_str().unwrap();
                assert!(entry.path().is_dir() || FILES.contains(&name), "{name} is not served");
            }
        }
    }
}
