//! Where things of the lab lie, and how its programs are called.

use crate::{Failure, Outcome};
use loglinear::{Error, Result, device};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of our kernel, as notebooks record it.
pub const KERNEL: &str = "loglinear";

/// The lab of one checkout.
pub struct Lab {
    /// Folder of our Cargo.toml.
    pub checkout: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Folder of all that the lab makes.
    pub root: PathBuf,
    /// Device for notebooks.
    pub device: String,
    /// Whether that is a GPU.
    cuda: bool,
}

impl Lab {
    /// The lab of the checkout that the current folder is in, or that cargo runs.
    pub fn find(device: &str) -> Result<Self> {
        // The name alone is checked: a build for CUDA may be what this start has to make.
        let cuda = device.starts_with("cuda");
        match device::parse(device) {
            Err(error) if !cuda => return Err(error),
            _ => {}
        }
        let checkout = checkout()?;
        let metadata = metadata(&checkout, &["--no-deps"])?;
        let target = PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target"));
        let root = target.join(if cuda { "lab-cuda" } else { "lab" });
        Ok(Self { checkout, target, root, device: device.to_owned(), cuda })
    }

    /// What cargo is told of features, in every build and question.
    pub fn features(&self) -> &'static [&'static str] {
        if self.cuda { &["--features", "cuda"] } else { &[] }
    }

    /// Folder of the notebooks.
    pub fn notebooks(&self) -> PathBuf {
        self.checkout.join("notebooks")
    }

    /// What does not depend on the device: shared by the labs of a target folder.
    pub fn shared(&self) -> PathBuf {
        self.target.join("lab")
    }

    /// A program of the Python environment.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.shared().join("python").join("bin").join(name)
    }

    /// A script and its arguments, run by the lab's Python.
    pub fn python_command(&self, script: &[String]) -> Command {
        let mut command = Command::new(self.tool("python"));
        command.args(script);
        self.with_jupyter(command)
    }

    /// Sets the folders in which Jupyter looks: ours alone.
    pub fn with_jupyter(&self, mut command: Command) -> Command {
        let jupyter = self.root.join("jupyter");
        command
            .env("JUPYTER_DATA_DIR", jupyter.join("data"))
            .env("JUPYTER_CONFIG_DIR", jupyter.join("config"))
            .env("JUPYTER_RUNTIME_DIR", jupyter.join("runtime"))
            .env_remove("JUPYTER_PATH")
            .env_remove("JUPYTER_CONFIG_PATH")
            .env("LOGLINEAR_CHECKOUT", &self.checkout);
        command
    }

    /// Runs a program to its end and takes over its success or failure.
    pub fn finish(&self, mut command: Command) -> Outcome {
        // Ctrl-C is the program's to answer (JupyterLab asks whether it is meant); we end when it does.
        let _ = ctrlc::set_handler(|| {});
        let status = command.status().map_err(|error| failed(&command, error))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::Stopped(format!("{} ended with {status}", command.get_program().display())))
    }

    /// A lock that a second start waits for.
    pub fn lock(&self) -> Result<File> {
        let shared = self.shared();
        std::fs::create_dir_all(&shared).map_err(Error::io(&shared))?;
        let path = shared.join("lock");
        let file = File::create(&path).map_err(Error::io(&path))?;
        if file.try_lock().is_err() {
            eprintln!("another start of the lab is preparing it; waiting …");
            file.lock().map_err(Error::io(&path))?;
        }
        Ok(file)
    }
}

/// Folder of our Cargo.toml: the current folder, one above it, or the one cargo runs.
fn checkout() -> Result<PathBuf> {
    let current = std::env::current_dir().map_err(Error::io("."))?;
    let run_by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let ours = |folder: &&Path| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == "name = \"loglinear\""))
    };
    let found = current.ancestors().find(ours).or(run_by_cargo.as_deref().filter(ours));
    found.map(Path::to_owned).ok_or_else(|| {
        let expected = "in a checkout of loglinear: its library is compiled for the kernel";
        Error::value("current folder", expected, current.display())
    })
}

/// The cargo that runs us, or the one on the path, without what `cargo run` told us of our own package:
/// build scripts would take it for a change and half of the dependencies would be compiled again.
pub fn cargo() -> Command {
    const OURS: [&str; 6] = [
        "CARGO_MANIFEST_",
        "CARGO_PKG_",
        "CARGO_BIN_",
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "OUT_DIR",
    ];
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if OURS.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// What cargo tells of the packages of a checkout.
pub fn metadata(checkout: &Path, arguments: &[&str]) -> Result<serde_json::Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1"]).args(arguments);
    let text = output(command.arg("--manifest-path").arg(checkout.join("Cargo.toml")))?;
    serde_json::from_slice(&text).map_err(|error| Error::format("cargo metadata", error))
}

/// Whether we run as root.
pub fn is_superuser() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|answer| answer.trim_ascii() == b"0")
}

/// Runs a program whose messages the user sees.
pub fn visible(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| failed(command, error))?;
    if status.success() { Ok(()) } else { Err(failed(command, status)) }
}

/// Standard output of a program that should succeed; its messages are in the error if it doesn't.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(command, error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    Err(failed(command, format_args!("{}: {}", output.status, messages.trim())))
}

fn failed(command: &Command, message: impl std::fmt::Display) -> Error {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    let words: Vec<_> = std::iter::once(program).chain(arguments).collect();
    Error::Command { command: words.join(" "), message: message.to_string() }
}

/// Writes a file if its content differs, so that nothing downstream looks changed.
pub fn write(path: &Path, content: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|found| found == content) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    std::fs::write(path, content).map_err(Error::io(path))
}
