//! The operator, forward and forward + backward, beside flash-linear-attention's Triton kernel and PyTorch's flash
//! attention.
//!
//! `LOGLINEAR_DEVICE=cuda:0 cargo bench --features cuda --bench speed -- operator [T H D TOKENS DTYPE]…`, by default
//! the sizes of the peer's script and more. `LOGLINEAR_PEER=FILE` names what that script printed in the same run; the
//! table then has its times and the ratios. Reported besides: floating-point operations of the products and the
//! bytes that the inputs, outputs and gradients alone take, over the time.

use burn::tensor::{DType, Device, Tensor, TensorData};
use loglinear::attention::{ChunkSize, Inputs, chunkwise};
use loglinear::cohort::Products;
use loglinear::random::Generator;
use loglinear::{burn, device, fenwick};
use std::time::Instant;

/// T, H, D, tokens, numbers, whether backward too.
type Size = (usize, usize, usize, usize, &'static str, bool);

const SIZES: [Size; 15] = [
    (1024, 16, 64, 65536, "bf16", true),
    (4096, 16, 64, 65536, "bf16", true),
    (8192, 16, 64, 65536, "bf16", true),
    (16384, 16, 64, 65536, "bf16", true),
    (65536, 16, 64, 65536, "bf16", true),
    (4096, 16, 128, 65536, "bf16", true),
    (8192, 16, 128, 65536, "bf16", true),
    (16384, 16, 128, 65536, "bf16", true),
    (65536, 16, 128, 65536, "bf16", true),
    (256, 1, 64, 196_608, "f32", true),
    (1024, 1, 64, 327_680, "f32", true),
    (256, 1, 64, 196_608, "high", true),
    (1024, 1, 64, 327_680, "high", true),
    (65536, 16, 64, 65536, "f32", true),
    (1_048_576, 16, 64, 1_048_576, "bf16", false),
];

pub fn run(on: &Device, arguments: &[String]) {
    // On a CPU the variable is for the step's peer.
    let peer = std::env::var("LOGLINEAR_PEER").ok().filter(|_| !device::is_cpu(on));
    let peer = peer.map(|path| std::fs::read_to_string(path).unwrap());
    let sizes: Vec<Size> = if arguments.is_empty() && device::is_cpu(on) {
        vec![(1024, 1, 64, 1024, "f32", true)]
    } else if arguments.is_empty() {
        SIZES.to_vec()
    } else {
        let number = |text: &String| text.parse().expect("T H D TOKENS DTYPE");
        let size = |a: &[String]| {
            (number(&a[0]), number(&a[1]), number(&a[2]), number(&a[3]), a[4].clone().leak() as &str, true)
        };
        arguments.chunks(5).map(size).collect()
    };
    println!(
        "operator on {}: median ms of single calls; peer: flash-linear-attention / flash attention",
        device::hardware(on)
    );
    println!(
        "{:>8} {:>3} {:>4} {:>5} {:>5} | {:>9} {:>9} {:>6} {:>6} | {:>9} {:>9} {:>6} | {:>9} {:>6}",
        "T",
        "H",
        "D",
        "batch",
        "type",
        "forward",
        "both",
        "TFLOP/s",
        "GB/s",
        "FLA fwd",
        "FLA both",
        "ratio",
        "flash",
        "ratio"
    );
    for size in sizes {
        device::enter(on, || measure(on, size, peer.as_deref()));
    }
}

fn random<const D: usize>(on: &Device, shape: [usize; D], dtype: DType, f: impl Fn(f64) -> f64) -> Tensor<D> {
    // One drawn block, repeated: drawing 10⁹ numbers on the host takes minutes.
    let count: usize = shape.iter().product();
    let mut generator = Generator::new(1, "operator bench");
    let block: Vec<f32> = (0..count.min(1 << 20)).map(|_| f(generator.normal()) as f32).collect();
    let block =
        Tensor::<1>::from_data(TensorData::new(block, [count.min(1 << 20)]), (on, DType::F32)).cast(dtype);
    block.repeat_dim(0, count.div_ceil(1 << 20)).narrow(0, 0, count).reshape(shape)
}

/// What a name of numbers says of products.
fn products(numbers: &str) -> Products {
    if numbers == "high" { Products::High } else { Products::Full }
}

fn measure(on: &Device, (t, h, d, tokens, numbers, backward): Size, peer: Option<&str>) {
    let half = numbers == "bf16";
    let dtype = if half { DType::BF16 } else { DType::F32 };
    let n = (tokens / t).max(1);
    let plain = on.clone();
    let [q, k, v] = [0.3, 0.3, 1.0].map(|scale| random(&plain, [n, t, h, d], dtype, |x| scale * x));
    let log_decay = random(&plain, [n, t, h], DType::F32, |x| -0.05 * x.abs());
    let levels = fenwick::num_levels(t);
    let lambda = random(&plain, [n, t, h, levels], DType::F32, |x| x.exp());
    let forward_ms = median(on, if t > 100_000 { 5 } else { 20 }, || {
        let inputs =
            Inputs::from_trusted_values(q.clone(), k.clone(), v.clone(), log_decay.clone(), lambda.clone());
        chunkwise(inputs.unwrap().with_products(products(numbers)), ChunkSize::default())
    });
    let both_ms = backward.then(|| {
        let leaf = |x: &Tensor<4>| Tensor::<4>::from_inner(x.clone()).require_grad();
        let [q, k, v, lambda] = [&q, &k, &v, &lambda].map(leaf);
        let log_decay = Tensor::<3>::from_inner(log_decay.clone()).require_grad();
        median(on, 20, || {
            let inputs = Inputs::from_trusted_values(
                q.clone(),
                k.clone(),
                v.clone(),
                log_decay.clone(),
                lambda.clone(),
            );
            let y = chunkwise(inputs.unwrap().with_products(products(numbers)), ChunkSize::default());
            // Of a tensor: its gradient is 1 everywhere, as no sum is in the way.
            let mut grads = y.backward();
            [&q, &k, &v, &lambda].map(|leaf| leaf.grad_remove(&mut grads))
        })
    });
    // Products of 64 × 64 × 64 a chunk: two for the chunk itself (half of each is masked and left out), one
    // for its state, one for every block that it reads; the backward pass has ten and two for every block.
    let chunks = t.div_ceil(64);
    let reads: f64 = (0..chunks).map(|chunk| f64::from(chunk.count_ones())).sum::<f64>() / chunks as f64;
    let tiles = (d / 64).max(1) as f64;
    let product = 2.0 * 64.0 * 64.0 * 64.0 * (n * h * chunks) as f64;
    let forward_flops = product * (2.0 * tiles * 0.5 + tiles * tiles * (1.0 + reads));
    let backward_flops = product * (tiles * 7.0 * 0.5 + tiles * tiles * (1.0 + 2.0 * reads + 2.0));
    let element = dtype.size() as f64;
    let io = (n * t * h) as f64 * (4.0 * d as f64 * element + 4.0 * (1 + levels) as f64);
    let io_backward = (n * t * h) as f64 * (8.0 * d as f64 * element + 8.0 * (1 + levels) as f64);
    let (ms, flops, bytes) = match both_ms {
        Some(both) => (both, forward_flops + backward_flops, io + io_backward),
        None => (forward_ms, forward_flops, io),
    };
    let rate = |amount: f64, unit: f64| amount / (ms / 1e3) / unit;
    let both = both_ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
    print!(
        "{t:>8} {h:>3} {d:>4} {n:>5} {:>5} | {forward_ms:>9.3} {both:>9} {:>6.1} {:>6.0} |",
        numbers,
        rate(flops, 1e12),
        rate(bytes, 1e9)
    );
    let peer = peer.filter(|_| half).and_then(|text| peer_line(text, t, h, d, n));
    let ratio = |peer: Option<f64>, ours: Option<f64>| match (peer, ours) {
        (Some(peer), Some(ours)) => format!("{:.2}", peer / ours),
        _ => "-".to_owned(),
    };
    let field = |name: &str| peer.and_then(|line| number_after(line, name));
    let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let ours = both_ms;
    println!(
        " {:>9} {:>9} {:>6} | {:>9} {:>6}",
        show(field("lla_fwd")),
        show(field("lla_fb")),
        ratio(field("lla_fb"), ours),
        show(field("sdpa_fb")),
        ratio(field("sdpa_fb"), ours)
    );
}

/// The peer's line for a size.
fn peer_line(text: &str, t: usize, h: usize, d: usize, n: usize) -> Option<&str> {
    let key = format!("'B': {n}, 'T': {t}, 'H': {h}, 'D': {d}}}");
    text.lines().find(|line| line.contains(&key))
}

fn number_after(line: &str, name: &str) -> Option<f64> {
    let rest = line.split_once(&format!("'{name}': "))?.1;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

fn median<T>(on: &Device, samples: usize, mut run: impl FnMut() -> T) -> f64 {
    for _ in 0..3 {
        drop(run());
    }
    on.sync().unwrap();
    let mut times: Vec<f64> = (0..samples)
        .map(|_| {
            let start = Instant::now();
            let kept = run();
            on.sync().unwrap();
            drop(kept);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
