//! Running a program of Slurm for its answer.

use spectral_train::error::TrainError;
use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a program is looked after that has yet to end.
const LOOK: Duration = Duration::from_millis(20);
/// How long the last words of a program that has ended may take.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

/// What a program prints. One that does not end within `patience` is killed.
pub(super) fn output(command: &mut Command, patience: Option<Duration>) -> Result<String, TrainError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let unable = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => TrainError::Usage(format!("'{name}' was not found: {}", elsewhere(&name))),
        _ => TrainError::Usage(format!("cannot run {name}: {e}")),
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(unable)?;
    let (said, complained) = (Said::by(child.stdout.take()), Said::by(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(unable)? {
            break status;
        }
        if let Some(patience) = patience.filter(|&patience| begun.elapsed() >= patience) {
            end(&mut child);
            return Err(TrainError::Device(format!("{name} did not answer in {} s", patience.as_secs_f64())));
        }
        std::thread::sleep(LOOK);
    };
    let (said, complained) = (said.text(), complained.text());
    if status.success() {
        return Ok(said);
    }
    let why = match complained.trim() {
        "" => format!("without a word ({status})"),
        why => why.to_string(),
    };
    Err(TrainError::Usage(format!("{name} refused: {why}")))
}

/// What to do without a program of Slurm.
fn elsewhere(program: &str) -> &'static str {
    match program {
        "sbatch" => "submit on a machine of a Slurm cluster, or write the plan only (--no-submit)",
        "squeue" => "what waits is known on machines of the Slurm cluster only, so ask there",
        _ => "it is on machines of a Slurm cluster only",
    }
}

/// What a program says. It is read on a thread of its own, so that one that says much is not kept waiting.
struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    all: Receiver<()>,
}

impl Said {
    fn by(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (done, all) = channel();
        let kept = bytes.clone();
        std::thread::spawn(move || {
            let (mut pipe, mut part) = (pipe, [0; 1 << 13]);
            // What came before an error is all there is.
            while let Some(Ok(read @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut part)) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..read]);
            }
            // Nobody may be waiting any more.
            let _ = done.send(());
        });
        Said { bytes, all }
    }

    /// All of it, once the program has ended. One that it has left behind may hold the other end of the pipe for ever.
    fn text(self) -> String {
        let _ = self.all.recv_timeout(LEFT_BEHIND);
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself just now.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Option<Duration>) -> Result<String, TrainError> {
        output(Command::new("sh").args(["-c", script]), patience)
    }

    #[test]
    fn answers_come_whole_and_refusals_say_why() {
        let much =
            shell("head -c 3000000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero >&2", None).unwrap();
        assert_eq!(much.len(), 3_000_000);
        let said = |script: &str| shell(script, Some(Duration::from_secs(60))).unwrap_err().to_string();
        assert_eq!(said("echo no such account >&2; exit 1"), "sh refused: no such account");
        assert!(said("exit 3").contains("without a word") && said("kill -9 $$").contains("without a word"));
        let none = output(&mut Command::new("/no/such/squeue"), None).unwrap_err().to_string();
        assert!(none.contains("was not found"), "{none}");
    }

    #[test]
    fn a_program_that_hangs_is_not_waited_for() {
        let begun = Instant::now();
        let error = shell("exec sleep 600", Some(Duration::from_millis(50))).unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
        // Nor is one that has left another behind, which still has its output.
        assert_eq!(shell("sleep 60 & echo 17", None).unwrap(), "17\n");
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}
