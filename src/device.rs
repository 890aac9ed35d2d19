//! Devices by name: `cpu`, `cuda:0`. The only place where a name becomes a device.

use crate::{Error, Result};
use burn::tensor::Device;

/// Names that [`parse`] understands, for messages.
pub const NAMES: &str = "cpu, cuda, cuda:N";

/// Device of the given name.
///
/// # Errors
///
/// If the name is unknown, or names CUDA in a build without the `cuda` feature.
pub fn parse(name: &str) -> Result<Device> {
    match name.split_once(':') {
        None if name == "cpu" => Ok(Device::flex()),
        None if name == "cuda" => cuda(0),
        Some(("cuda", index)) => match index.parse() {
            Ok(index) => cuda(index),
            Err(_) => Err(unknown(name)),
        },
        _ => Err(unknown(name)),
    }
}

/// Name of a device, as [`parse`] takes it.
pub fn name(device: &Device) -> String {
    if is_cpu(device) {
        return "cpu".to_owned();
    }
    let text = format!("{:?}", device.as_dispatch());
    let index = text.split(|c: char| !c.is_ascii_digit()).rfind(|digits| !digits.is_empty());
    format!("cuda:{}", index.unwrap_or("0"))
}

/// Whether tensors of this device live in host memory, where the kernels of `host` apply.
pub fn is_cpu(device: &Device) -> bool {
    plain(device) == Device::flex()
}

/// The device without autodiff.
pub fn plain(device: &Device) -> Device {
    if device.is_autodiff() { device.clone().inner() } else { device.clone() }
}

/// Bytes that are free where tensors of a device live, or 8 GiB if nothing says it.
pub fn free_memory(device: &Device) -> u64 {
    const UNKNOWN: u64 = 8 << 30;
    let free = if is_cpu(device) {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map(|kib| kib << 10)
    } else {
        let text = nvidia_smi(device, "memory.free");
        text.and_then(|text| text.parse::<u64>().ok()).map(|mib| mib << 20)
    };
    free.unwrap_or(UNKNOWN)
}

/// Bytes in use on a GPU, by this process and all others; none for the CPU, or if nothing says it.
pub fn used_memory(device: &Device) -> Option<u64> {
    if is_cpu(device) {
        return None;
    }
    nvidia_smi(device, "memory.used")?.parse::<u64>().ok().map(|mib| mib << 20)
}

/// Name of the processor or GPU behind a device.
pub fn hardware(device: &Device) -> String {
    let name = if is_cpu(device) {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("model name"));
        line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned())
    } else {
        nvidia_smi(device, "name")
    };
    name.unwrap_or_else(|| format!("unknown {} processor", std::env::consts::ARCH))
}

/// Version of NVIDIA's driver, if the device is a GPU and its tool says it.
pub fn driver(device: &Device) -> Option<String> {
    (!is_cpu(device)).then(|| nvidia_smi(device, "driver_version"))?
}

/// Architectures of the GPUs here (`sm_90`), each once; none if nothing says it. In builds without the `cuda` feature too.
pub fn architectures() -> Vec<String> {
    let text = query_nvidia_smi(&["--query-gpu=compute_cap"]).unwrap_or_default();
    let named = |line: &str| {
        let (major, minor) = line.trim().split_once('.')?;
        let number = |text: &str| text.parse::<u32>().is_ok();
        (number(major) && number(minor)).then(|| format!("sm_{major}{minor}"))
    };
    let all: std::collections::BTreeSet<String> = text.lines().filter_map(named).collect();
    all.into_iter().collect()
}

/// What NVIDIA's tool says of a device.
fn nvidia_smi(device: &Device, field: &str) -> Option<String> {
    let name = name(device);
    let index = name.rsplit(':').next().unwrap_or("0");
    query_nvidia_smi(&[&format!("--query-gpu={field}"), "-i", index])
}

/// What NVIDIA's tool answers, if it is there.
fn query_nvidia_smi(query: &[&str]) -> Option<String> {
    let mut command = std::process::Command::new("nvidia-smi");
    let output = command.args(query).arg("--format=csv,noheader,nounits").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Runs many tensor operations in a row. For the CPU they run on a thread of the worker pool, so
/// that each parallel operation starts without waking the pool from outside; for a GPU on the thread that orders
/// its operations, which makes each of them a call. Other threads' operations on that GPU wait meanwhile.
pub fn enter<R: Send>(device: &Device, body: impl FnOnce() -> R + Send) -> R {
    if is_cpu(device) {
        return rayon::scope(|_| body());
    }
    #[cfg(feature = "cuda")]
    return crate::gpu::thread::run(device, body);
    #[cfg(not(feature = "cuda"))]
    body()
}

fn unknown(name: &str) -> Error {
    Error::Device(format!("unknown device `{name}`; allowed: {NAMES}"))
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Result<Device> {
    // CubeCL reads its settings when the first GPU is used.
    crate::kernel_cache::prepare();
    Ok(Device::cuda(index))
}

#[cfg(not(feature = "cuda"))]
fn cuda(index: usize) -> Result<Device> {
    Err(Error::Device(format!(
        "cuda:{index} needs a build with the `cuda` feature: cargo run --release --features cuda -- …"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_names_the_allowed_ones() {
        let message = parse("tpu").unwrap_err().to_string();
        assert!(message.contains("tpu") && message.contains(NAMES), "{message}");
        assert!(parse("cuda:x").is_err());
        assert!(is_cpu(&parse("cpu").unwrap()) && name(&parse("cpu").unwrap()) == "cpu");
        assert!(is_cpu(&Device::flex().autodiff()));
    }
}
