//! Our kernel "Rust (loglinear)": evcxr with a start-up file of its own.

use super::place::{KERNEL, Lab, output, write};
use super::{State, Step, analysis, evcxr, library, rust_source};
use loglinear::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Kernel;

impl Step for Kernel {
    fn name(&self) -> &'static str {
        "kernel \"Rust (loglinear)\""
    }

    fn state(&self, lab: &Lab) -> Result<State> {
        let file = specification(lab).join("kernel.json");
        Ok(if file.is_file() {
            State::Ready(file.display().to_string())
        } else {
            State::Absent {
                found: "not registered".to_owned(),
                plan: "registering it with this lab".to_owned(),
            }
        })
    }

    fn always(&self) -> bool {
        true
    }

    fn make(&self, lab: &Lab) -> Result<()> {
        let missing = |what: &str| Error::value(what, "ready", "missing");
        let program = evcxr::program(lab)?.ok_or_else(|| missing("evcxr_jupyter"))?;
        let source = rust_source::folder(lab)?.ok_or_else(|| missing("standard library's source"))?;
        let library = library::current(lab).ok_or_else(|| missing("compiled library"))?;
        analysis::generate(lab)?;
        let start_up = lab.root.join("start-up");
        write(&start_up.join("evcxr.toml"), EVCXR)?;
        write(&start_up.join("init.evcxr"), &init(lab, &library)?)?;
        write(&start_up.join("prelude.rs"), PRELUDE)?;
        let specification = specification(lab);
        let kernel = serde_json::json!({
            "argv": [program, "--control_file", "{connection_file}"],
            "display_name": "Rust (loglinear)",
            "language": "rust",
            "interrupt_mode": "message",
            "env": {
                "EVCXR_CONFIG_DIR": start_up,
                "RUST_SRC_PATH": source,
                // For rust-analyzer alone: evcxr sets its own flags when it compiles.
                "RUSTFLAGS": format!("--cfg={}", analysis::FLAG),
                // A cell is compiled once: keeping its parts for a next time takes a twentieth of a second.
                "CARGO_INCREMENTAL": "0",
                "LOGLINEAR_PROGRAM": library.join("loglinear"),
                "LOGLINEAR_DEVICE": lab.device,
            },
        });
        write(&specification.join("logo-svg.svg"), LOGO)?;
        // Last: with it the kernel is registered.
        write(&specification.join("kernel.json"), &format!("{kernel:#}\n"))
    }
}

fn specification(lab: &Lab) -> PathBuf {
    lab.root.join("jupyter").join("data").join("kernels").join(KERNEL)
}

/// Cells compose what the library computes; compiled without optimisation they start sooner.
const EVCXR: &str = "[evcxr]\nopt_level = \"0\"\n";

/// Run once in every kernel, while its reader still reads. The variable has rust-analyzer load what it needs
/// to know a frame's type, two seconds that the first cell would wait; the `?` tells evcxr to expect some,
/// which saves the first cell that has one a second compilation.
const PRELUDE: &str = "let loglinear_kernel = loglinear::notebook::start()?;\n";

fn init(lab: &Lab, library: &Path) -> Result<String> {
    let standard = output(Command::new(rust_source::rustc()).args(["--print", "target-libdir"]))?;
    let standard = String::from_utf8_lossy(&standard).trim().to_owned();
    let flags = [
        "-Cprefer-dynamic".to_owned(),
        format!("--extern={}={}", analysis::LIBRARY, library::file(library).display()),
        format!("-Ldependency={}", lab.target.join("release").join("deps").display()),
        // evcxr's own search paths are relative to another folder than the one a cell is loaded from:
        // right by chance, as long as nothing but the root is common to both.
        format!("-Clink-arg=-Wl,-rpath,{}", library.display()),
        format!("-Clink-arg=-Wl,-rpath,{standard}"),
    ];
    let facade = toml::Value::String(analysis::facade(lab).display().to_string());
    // Flags separated as cargo asks where one may hold a space.
    Ok(format!(
        ":build_env CARGO_ENCODED_RUSTFLAGS={}\n:dep loglinear = {{ path = {facade} }}\n",
        flags.join("\x1f")
    ))
}

/// A prefix of 21 positions and its buckets.
const LOGO: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
<rect width="64" height="64" rx="10" fill="#ffffff"/>
<rect x="6" y="10" width="36" height="12" fill="#0072b2"/>
<rect x="44" y="10" width="10" height="12" fill="#d55e00"/>
<rect x="56" y="10" width="3" height="12" fill="#222222"/>
<rect x="6" y="26" width="36" height="12" fill="#0072b2"/>
<rect x="44" y="26" width="4" height="12" fill="#009e73"/>
<rect x="50" y="26" width="3" height="12" fill="#222222"/>
<rect x="6" y="42" width="17" height="12" fill="#d55e00"/>
<rect x="25" y="42" width="8" height="12" fill="#009e73"/>
<rect x="35" y="42" width="3" height="12" fill="#222222"/>
</svg>
"##;
