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
    "/app/main.js" SCRIPT "app/main.js";
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
