//! ROMs are found by their sums, wherever they come from, and what is wrong is said.

use spectral_atari::games;
use spectral_atari::roms::{self, Presence, RomsError, Source};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, process};

/// A fresh folder that the test removes when it succeeds.
fn folder(name: &str) -> PathBuf {
    let path = env::temp_dir().join(format!("spectral-games-roms-{}-{name}", process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn errors_name_the_file_the_sums_and_the_remedy() {
    let here = folder("errors");
    let pong = games::find("pong").unwrap();
    let text = roms::find_in(&here, pong).unwrap_err().to_string();
    let file = here.join("pong.bin");
    for part in [file.to_str().unwrap(), pong.md5, "spectral roms install"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    fs::write(&file, b"not a game").unwrap();
    let text = roms::find_in(&here, pong).unwrap_err().to_string();
    for part in [file.to_str().unwrap(), pong.md5, &roms::md5(b"not a game"), "spectral roms install"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let listed = roms::list(&here);
    assert_eq!(listed.len(), games::all().count());
    for (game, presence) in listed {
        let wrong = Presence::Wrong { found: roms::md5(b"not a game") };
        assert_eq!(presence, if game.name == "pong" { wrong } else { Presence::Missing });
    }
    let nothing = roms::install(&Source::Path(here.clone()), &here.join("new")).unwrap_err();
    assert!(matches!(nothing, RomsError::NothingFound { .. }), "{nothing}");
    assert!(!here.join("new").exists(), "a failed installation leaves nothing");
    fs::write(here.join("broken.zip"), b"PK").unwrap();
    let broken = roms::install(&Source::Path(here.clone()), &here.join("new")).unwrap_err();
    assert!(broken.to_string().contains("broken.zip"), "{broken}");
    let absent = roms::install(&Source::Path(here.join("absent")), &here.join("new")).unwrap_err();
    assert!(absent.to_string().contains("absent"), "{absent}");
    fs::remove_dir_all(here).unwrap();
}

/// The real set, from a folder, from an archive of it and from one file.
#[test]
fn the_set_of_ale_py_is_installed() {
    if env::var("SPECTRAL_ORACLES").map_or(true, |value| value != "1") {
        let why = "SKIPPED: installation of ale-py's ROMs; set SPECTRAL_ORACLES=1 to run it";
        let _ = writeln!(std::io::stderr(), "{why}");
        return;
    }
    let here = folder("real");
    let zip = here.join("roms.zip");
    let program = "import sys, zipfile, pathlib, ale_py.roms as r; d = pathlib.Path(r.__file__).parent; \
                   z = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED); \
                   [z.write(f, 'some/where/' + f.name) for f in d.iterdir() if f.is_file()]; z.close(); print(d)";
    let python = env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(&python).args(["-c", program]).arg(&zip).output().unwrap();
    assert!(output.status.success(), "{python}: {}", String::from_utf8_lossy(&output.stderr));
    let source = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());

    let count = games::all().count();
    for (name, from) in [("folder", source.clone()), ("zip", zip)] {
        let to = here.join(name);
        let installed = roms::install(&Source::Path(from.clone()), &to).unwrap();
        assert_eq!((installed.written.len(), installed.kept.len(), installed.absent.len()), (count, 0, 0));
        let again = roms::install(&Source::Path(from), &to).unwrap();
        assert_eq!((again.written.len(), again.kept.len(), again.absent.len()), (0, count, 0));
        assert_eq!(fs::read_dir(&to).unwrap().count(), count, "no temporary files stay behind");
        assert!(roms::list(&to).iter().all(|(_, presence)| *presence == Presence::Good));
    }
    // A wrong file is replaced; what is in a single file is known by its contents, not by its name.
    let to = here.join("zip");
    fs::write(to.join("pong.bin"), b"damaged").unwrap();
    fs::copy(source.join("pong.bin"), here.join("holiday.jpg")).unwrap();
    let mended = roms::install(&Source::Path(here.join("holiday.jpg")), &to).unwrap();
    assert_eq!(mended.written, ["pong"]);
    assert!(roms::find_in(&to, games::find("pong").unwrap()).is_ok());
    fs::remove_dir_all(here).unwrap();
}
