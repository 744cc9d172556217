//! Pictures on disk: an animated GIF or a folder of PNG files, whole or not there at all.

use crate::failure::{DATA, Failure};
use spectral_env::Picture;
use spectral_live::gif::GifWriter;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

/// What people might expect to be written because of a name's ending, and is not.
const OTHER_FORMATS: [&str; 8] = ["png", "jpg", "jpeg", "apng", "webp", "mp4", "webm", "avi"];

/// A film in the making. Nothing is at its path before [`finish`](Film::finish); dropped before, it leaves nothing.
pub struct Film {
    path: PathBuf,
    temporary: Temporary,
    kind: Kind,
    pictures: u64,
}

enum Kind {
    Gif(Gif),
    Folder,
}

impl Film {
    /// Begins a film: a GIF if the name ends so, else a folder of PNG files. What exists is never written over.
    pub fn begin(path: &Path, fps: u32) -> Result<Self, Failure> {
        let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
        if OTHER_FORMATS.contains(&ending.as_str()) || path.file_name().is_none() {
            return Err(Failure::usage(format!(
                "--out {}: give a name that ends in .gif, or a new folder for PNG files",
                path.display()
            )));
        }
        refuse_existing(path)?;
        let failed = |e| failure(path, &e);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let temporary = Temporary::beside(path);
        let kind = if ending == "gif" {
            Kind::Gif(Gif::new(File::create_new(&temporary.0).map_err(failed)?, fps))
        } else {
            fs::create_dir(&temporary.0).map_err(failed)?;
            Kind::Folder
        };
        Ok(Film { path: path.into(), temporary, kind, pictures: 0 })
    }

    /// Adds a picture.
    pub fn add(&mut self, picture: &Picture) -> Result<(), Failure> {
        let written = match &mut self.kind {
            Kind::Gif(gif) => gif.add(picture),
            Kind::Folder => {
                write_png(&self.temporary.0.join(format!("frame-{:05}.png", self.pictures)), picture)
            }
        };
        self.pictures += 1;
        written.map_err(|e| failure(&self.path, &e))
    }

    /// Puts the film at its path and says how many pictures it has.
    pub fn finish(self) -> Result<u64, Failure> {
        let failed = |e| failure(&self.path, &e);
        if let Kind::Gif(gif) = self.kind {
            gif.finish().map_err(failed)?;
        }
        // Somebody may have written there in the meantime.
        refuse_existing(&self.path)?;
        fs::rename(&self.temporary.0, &self.path).map_err(failed)?;
        Ok(self.pictures)
    }
}

fn refuse_existing(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(Failure::usage(format!(
            "{} exists already and is left as it is; give another --out",
            path.display()
        ))),
        Err(_) => Ok(()),
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure { text: format!("cannot write {}: {error}", path.display()), exit_code: DATA }
}

/// A file or folder that goes when it is not renamed.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(path: &Path) -> Self {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".spectral-tmp-{}", std::process::id()));
        Temporary(path.with_file_name(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename nothing is there, and whatever else fails here has no one to be told.
        let _ = if self.0.is_dir() { fs::remove_dir_all(&self.0) } else { fs::remove_file(&self.0) };
    }
}

fn write_png(path: &Path, picture: &Picture) -> io::Result<()> {
    let side = |n: usize| u32::try_from(n).map_err(|e| io::Error::new(ErrorKind::InvalidInput, e));
    let file = BufWriter::new(File::create_new(path)?);
    let mut encoder = png::Encoder::new(file, side(picture.width)?, side(picture.height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&picture.rgb)?;
    Ok(writer.finish()?)
}

/// An animated GIF at a steady pace.
struct Gif {
    writer: GifWriter<File>,
    fps: u64,
    count: u64,
}

impl Gif {
    fn new(file: File, fps: u32) -> Self {
        Gif { writer: GifWriter::new(file), fps: fps.max(1).into(), count: 0 }
    }

    fn add(&mut self, picture: &Picture) -> io::Result<()> {
        let delay = self.delay();
        self.count += 1;
        self.writer.add(picture, delay)
    }

    /// How long the next picture is shown, in hundredths of a second, so that all together keep the pace.
    fn delay(&self) -> u16 {
        let time = |n: u64| (n * 100 + self.fps / 2) / self.fps;
        (time(self.count + 1) - time(self.count)) as u16
    }

    fn finish(self) -> io::Result<()> {
        self.writer.finish()?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_up_to_the_pace() {
        let folder = tempfile::tempdir().unwrap();
        let mut gif = Gif::new(File::create_new(folder.path().join("x.gif")).unwrap(), 15);
        let mut sum = 0;
        for _ in 0..150 {
            sum += u64::from(gif.delay());
            gif.count += 1;
        }
        assert_eq!(sum, 1000, "150 pictures at 15 a second take ten seconds");
    }
}
