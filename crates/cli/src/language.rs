//! Compiles source files of the Garble language to circuits, in a process with limits.
//!
//! The compiler is a library. A short source file can make it use any amount of memory and time, or
//! overflow its stack. The same process could not stop it. So this program starts itself as a child
//! process, which may be killed.

use std::{
    fs::File,
    io::Read,
    path::Path,
    process::{ChildStderr, Command, ExitStatus, Stdio},
    thread,
};

use transpute::{
    Circuit,
    circuit::bristol::{self, MAX_PIPE_BYTES, ParseLimits},
};
use transpute_language::{
    CompileOptions, Compiled, LanguageError, MAX_SOURCE_BYTES, Panics, compile,
};

use crate::failure::{Failure, FailureKind};

/// The file name extension of source files.
pub(crate) const EXTENSION: &str = ".garble.rs";

/// Prefix of the lines on the child's standard error that describe the circuit.
const NOTE: &str = "note: ";

/// Maximum number of bytes that are read from the child's standard error.
const MAX_MESSAGES: u64 = 1 << 20;

/// The limits of a compilation.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Bounds {
    /// Maximum processor time of a compilation, in seconds
    #[arg(long, value_name = "SECS", default_value_t = Self::default().max_seconds, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    max_seconds: u64,
    /// Maximum memory of a compilation, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Self::default().max_memory, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    max_memory: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_seconds: 60,
            max_memory: 2048,
        }
    }
}

/// A compiled circuit, and a description of its input and output values with one line per value.
pub(crate) struct Function {
    pub(crate) circuit: Circuit,
    pub(crate) notes: Vec<String>,
}

/// Compiles a source file within limits.
pub(crate) fn read(
    path: &Path,
    options: &CompileOptions,
    bounds: Bounds,
) -> Result<Function, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::other("cannot find this program").because(error))?;
    let mut command = Command::new(program);
    command.args(["circuit", "compile", "--contained"]);
    command.args(["--function", &options.function]);
    command.args(["--max-seconds", &bounds.max_seconds.to_string()]);
    command.args(["--max-memory", &bounds.max_memory.to_string()]);
    for (name, value) in &options.constants {
        command.args(["--const", &format!("{name}={value}")]);
    }
    if options.panics == Panics::Ignore {
        command.arg("--ignore-panics");
    }
    command.arg("--").arg(path);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let cannot = |error| Failure::other("cannot start the compiler").because(error);
    let mut child = command.spawn().map_err(cannot)?;
    let messages = child.stderr.take().map(listen);
    let circuit = match child.stdout.take() {
        Some(stdout) => bristol::read(stdout, MAX_PIPE_BYTES, &ParseLimits::default()),
        None => return Err(Failure::other("the compiler has no output")),
    };
    let status = child.wait().map_err(cannot)?;
    let messages = messages.and_then(|thread| thread.join().ok());
    let messages = messages.unwrap_or_default();
    if !status.success() {
        return Err(why(path, status, &messages, bounds));
    }
    let circuit = circuit.map_err(|error| {
        Failure::file(path, "the compiler of the language made no circuit").because(error)
    })?;
    Ok(Function {
        circuit: circuit.circuit,
        notes: (messages.lines())
            .filter_map(|line| line.strip_prefix(NOTE).map(str::to_owned))
            .collect(),
    })
}

/// Reads the child's messages on another thread, because the child blocks when the pipe is full.
fn listen(stderr: ChildStderr) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // After an error, the text that was read so far is used.
        let _ = stderr.take(MAX_MESSAGES).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Returns the failure of the child process.
fn why(path: &Path, status: ExitStatus, messages: &str, bounds: Bounds) -> Failure {
    let told = messages
        .lines()
        .find_map(|line| line.strip_prefix("error: "));
    if let Some(told) = told {
        let kind = match status.code() {
            Some(code) if code == FailureKind::Usage as i32 => FailureKind::Usage,
            Some(code) if code == FailureKind::File as i32 => FailureKind::File,
            _ => FailureKind::Other,
        };
        return Failure::new(kind, told);
    }
    let problem = if messages.contains("memory allocation") {
        format!(
            "compiling takes more than {} MiB (--max-memory)",
            bounds.max_memory
        )
    } else if messages.contains("overflowed its stack") {
        "types or expressions are nested too deep for the compiler of the language".to_owned()
    } else if was_too_long(status) {
        format!(
            "compiling takes more than {} s (--max-seconds)",
            bounds.max_seconds
        )
    } else {
        format!("the compiler of the language has failed ({status})")
    };
    Failure::file(path, problem)
}

#[cfg(unix)]
fn was_too_long(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::Signal;

    let signals = [Signal::XCPU, Signal::KILL].map(|signal| Some(signal.as_raw()));
    signals.contains(&status.signal())
}

/// Exit code of the child after its time limit, as of timeout(1).
#[cfg(not(unix))]
const OUT_OF_TIME: i32 = 124;

#[cfg(not(unix))]
fn was_too_long(status: ExitStatus) -> bool {
    status.code() == Some(OUT_OF_TIME)
}

/// Compiles a source file in this process, and prints the circuit and a description of its values.
/// The limits of this process remain set afterwards.
pub(crate) fn contained(
    path: &Path,
    options: &CompileOptions,
    bounds: Bounds,
) -> Result<Circuit, Failure> {
    limit(bounds).map_err(Failure::other)?;
    // A panic of the compiler is converted to an error, so its message is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let source = text(path)?;
    let Compiled {
        circuit,
        inputs,
        outputs,
    } = compile(&source, options).map_err(|error| failure(path, error))?;
    for (kind, values, widths) in [
        ("input", inputs, circuit.input_widths()),
        ("output", outputs, circuit.output_widths()),
    ] {
        for (index, (value, width)) in values.iter().zip(widths).enumerate() {
            let plural = if *width == 1 { "" } else { "s" };
            crate::output::note(format!(
                "{NOTE}{kind} {index}: {value} ({width} bit{plural})"
            ));
        }
    }
    Ok(circuit)
}

/// Limits the memory and the processor time of this process.
fn limit(bounds: Bounds) -> Result<(), String> {
    let bytes = usize::try_from(bounds.max_memory << 20).unwrap_or(usize::MAX);
    (crate::HEAP.set_limit(bytes)).map_err(|()| "cannot limit the memory".to_owned())?;
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};

        let seconds = Rlimit {
            current: Some(bounds.max_seconds),
            maximum: Some(bounds.max_seconds + 1),
        };
        setrlimit(Resource::Cpu, seconds)
            .map_err(|error| format!("cannot limit the processor time: {error}"))?;
    }
    // Other systems have no such limit of a process. Its whole time is limited instead.
    #[cfg(not(unix))]
    thread::Builder::new()
        .spawn(move || {
            thread::sleep(std::time::Duration::from_secs(bounds.max_seconds));
            std::process::exit(OUT_OF_TIME)
        })
        .map_err(|error| format!("cannot limit the time: {error}"))?;
    Ok(())
}

/// Reads a source file.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| Failure::file(path, "cannot be read").because(error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    // One byte more than the maximum is read. So a file that is too long is an error and is not
    // truncated silently.
    (file
        .take(MAX_SOURCE_BYTES as u64 + 1)
        .read_to_end(&mut bytes))
    .map_err(cannot)?;
    String::from_utf8(bytes).map_err(|_| Failure::file(path, "it is no text in UTF-8"))
}

fn failure(path: &Path, error: LanguageError) -> Failure {
    match &error {
        LanguageError::Source { .. } => {
            Failure::new(FailureKind::File, format!("{}:{error}", path.display()))
        }
        LanguageError::Function { .. } => Failure::usage(format!("--function: {error}")),
        LanguageError::Constant { .. } => Failure::usage(format!("--const: {error}")),
        _ => Failure::file(path, error.to_string()).because(error),
    }
}
