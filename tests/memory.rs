//! Memory, measured: of a forward and backward pass, linear in T up to the log factor; of making tokens,
//! that of a few blocks of text. A program of its own, because it counts every allocation of the process.

use burn::tensor::{DType, Device, Tensor, TensorData};
use loglinear::attention::{ChunkSize, Inputs, chunkwise, chunkwise_portable};
use loglinear::random::Generator;
use loglinear::task::{Corpus, Split, TokenCache, Tokenizer};
use loglinear::{burn, fenwick};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches atomics only.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        PEAK.fetch_max(now, Ordering::SeqCst);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests run at the same time otherwise, and would count each other's.
static ALONE: Mutex<()> = Mutex::new(());

/// Most bytes in use during forward and backward, beyond what was in use before.
fn peak(seq_len: usize, form: fn(Inputs, ChunkSize) -> Tensor<4>) -> usize {
    let device = Device::flex().autodiff();
    let mut generator = Generator::new(0, "memory");
    let mut random = |shape: [usize; 4], scale: f64| {
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|_| (scale * generator.normal().abs()) as f32).collect();
        Tensor::<4>::from_data(TensorData::new(values, shape), (&device, DType::F32)).require_grad()
    };
    let [q, k, v] = [0; 3].map(|_| random([1, seq_len, 1, 16], 1.0));
    let log_decay = random([1, seq_len, 1, 1], -0.1).reshape([1, seq_len, 1]);
    let lambda = random([1, seq_len, 1, fenwick::num_levels(seq_len)], 1.0);
    let inputs = Inputs::new(q, k, v, log_decay, lambda).unwrap();
    let before = NOW.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let gradients = form(inputs, ChunkSize::new(64).unwrap()).sum().backward();
    drop(gradients);
    PEAK.load(Ordering::SeqCst) - before
}

#[test]
fn memory_grows_with_t_up_to_the_log_factor() {
    let _alone = ALONE.lock().unwrap();
    // Once for what is allocated a single time, whatever T.
    peak(256, chunkwise);
    for (name, form) in [("fused", chunkwise as fn(_, _) -> _), ("portable", chunkwise_portable)] {
        let peaks: Vec<usize> = [1024, 2048, 4096, 8192].map(|seq_len| peak(seq_len, form)).to_vec();
        // Eight times the positions: 8 × the growth of the number of levels, where quadratic memory
        // would grow by 64.
        let levels = [1024, 8192].map(|seq_len| fenwick::num_levels(seq_len) as f64);
        let growth = peaks[3] as f64 / peaks[0] as f64;
        assert!(growth < 8.0 * levels[1] / levels[0] * 1.1, "{name}: bytes {peaks:?}");
        // T × T scores of f32 alone would take 256 MiB at T = 8192.
        assert!(peaks[3] < 128 << 20, "{name}: bytes {peaks:?}");
    }
}

#[test]
fn a_text_of_50_mb_becomes_tokens_in_a_fraction_of_that_memory() {
    let _alone = ALONE.lock().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    let mut text = String::new();
    for number in 0.. {
        writeln!(text, "Line {number} of a text that says the same again and again .").unwrap();
        if text.len() > 50 << 20 {
            break;
        }
    }
    std::fs::write(&path, &text).unwrap();
    drop(text);
    // The tokenizer's own table is there once.
    Tokenizer::gpt2();
    let before = NOW.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let tokens = Corpus::open(&path).unwrap().tokens(Split::Train, &TokenCache::at(folder.path())).unwrap();
    assert!(tokens.len() > 10_000_000);
    let peak = PEAK.load(Ordering::SeqCst) - before;
    assert!(peak < 32 << 20, "{peak} bytes");
}
