//! The loop: exact resumption, cohorts, divergence, and that something is learnt.

use loglinear::lambda::{Hidden, LambdaConfig, LambdaKind};
use loglinear::model::{Mixer, ModelConfig};
use loglinear::task::{MqarConfig, TaskConfig};
use loglinear::train::*;
use std::path::Path;

pub fn options() -> Options {
    Options {
        device: crate::fixture::device(),
        progress: ProgressMode::Quiet,
        interrupt: Interrupt::default(),
    }
}

/// A small run: MQAR with 4 pairs in 16 positions.
pub fn tiny() -> RunConfig {
    RunConfig {
        task: TaskConfig::Mqar(MqarConfig {
            seq_len: 16,
            pairs: 4,
            train_examples: 640,
            validation_examples: 100,
            ..MqarConfig::default()
        }),
        model: ModelConfig {
            max_seq_len: 16,
            d_model: 32,
            lambda: LambdaConfig::release(LambdaKind::MlpSoftplus),
            ..ModelConfig::default()
        },
        train: TrainConfig { steps: 60, batch: 32, eval_every: 20, ..TrainConfig::default() },
        seed: 0,
    }
}

fn job(config: RunConfig, folder: &Path) -> Job {
    Job { config, folder: folder.to_owned(), lambda: None }
}

/// Everything of a run folder but times: metrics, parameters, moments, result.
pub fn outcome(folder: &Path) -> (Vec<MetricsRow>, Vec<f64>, Option<RunResult>) {
    let run = RunFolder::open(folder).unwrap();
    let mut metrics = run.metrics().unwrap();
    metrics.iter_mut().for_each(|row| row.seconds = 0.0);
    let model = run.model(None).unwrap();
    let checkpoint = run.checkpoint(&model, &crate::fixture::device()).unwrap();
    let mut values = crate::fixture::values(checkpoint.parameters.flatten());
    values.extend(crate::fixture::values(checkpoint.adam.first));
    values.extend(crate::fixture::values(checkpoint.adam.second));
    // A recorded step keeps its own memory: how much a run used is no part of what it computed.
    let result = run.result().unwrap().map(|result| RunResult {
        seconds: 0.0,
        cohort: 0,
        device_memory: None,
        ..result
    });
    (metrics, values, result)
}

#[test]
fn a_cohort_of_three_equals_three_cohorts_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let configs: Vec<RunConfig> = [(0, 1e-3), (1, 1e-3), (2, 3e-3)]
        .into_iter()
        .map(|(seed, learning_rate)| {
            let mut config = tiny();
            config.seed = seed;
            config.train.learning_rate = learning_rate;
            config
        })
        .collect();
    let at = |group: &str, i: usize| folder.path().join(group).join(i.to_string());
    let jobs: Vec<Job> =
        configs.iter().enumerate().map(|(i, config)| job(config.clone(), &at("together", i))).collect();
    let together = train(&jobs, &options()).unwrap();
    assert!(together.iter().all(|result| result.cohort == 3));
    for (i, config) in configs.iter().enumerate() {
        let alone = train(&[job(config.clone(), &at("alone", i))], &options()).unwrap();
        assert_eq!(alone[0].cohort, 1);
        assert_eq!(outcome(&at("together", i)), outcome(&at("alone", i)), "run {i}");
    }
    assert_ne!(outcome(&at("alone", 0)).1, outcome(&at("alone", 1)).1);
}

/// Three runs of which some stop early.
fn early_and_late(folder: &Path) -> Vec<Job> {
    let run = |seed: u64| {
        let mut config = tiny();
        (config.seed, config.train.steps, config.train.target) = (seed, 400, 0.25);
        job(config, &folder.join(seed.to_string()))
    };
    (0..3).map(run).collect()
}

#[test]
fn recorded_steps_equal_those_taken_one_by_one() {
    // A GPU records them, unless the environment says no: the other way is in another process.
    let folder = tempfile::tempdir().unwrap();
    let jobs = early_and_late(&folder.path().join("here"));
    let results = train(&jobs, &options()).unwrap();
    assert!(results.iter().any(|result| result.steps != results[0].steps), "runs leave at different steps");
    let there = folder.path().join("there");
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "training::trains_where_it_is_told", "--ignored"])
        .envs([("LOGLINEAR_RECORD", "0".as_ref()), ("LOGLINEAR_TRAIN_INTO", there.as_os_str())])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    for (here, there) in jobs.iter().zip(early_and_late(&there)) {
        assert_eq!(outcome(&here.folder), outcome(&there.folder), "{}", there.folder.display());
    }
}

#[test]
#[ignore = "what the test above runs in a process of its own"]
fn trains_where_it_is_told() {
    let folder = std::env::var_os("LOGLINEAR_TRAIN_INTO").expect("a folder");
    train(&early_and_late(Path::new(&folder)), &options()).unwrap();
}

#[test]
fn runs_that_a_kill_left_behind_catch_up_and_go_on_with_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |group: &str, seed: u64| folder.path().join(group).join(seed.to_string());
    let jobs = |group: &str, steps: usize| -> Vec<Job> {
        let config = |seed| {
            let mut config = tiny();
            (config.seed, config.train.steps) = (seed, steps);
            config
        };
        (0..3).map(|seed| job(config(seed), &at(group, seed))).collect()
    };
    train(&jobs("whole", 60), &options()).unwrap();
    train(&jobs("parts", 60), &options()).unwrap();
    // As if killed while the second evaluation was written: two runs at step 40, the third still at 20.
    train(&jobs("short", 20), &options()).unwrap();
    for (seed, rows) in [(0, 2), (1, 2), (2, 2)] {
        let parts = at("parts", seed);
        std::fs::remove_file(parts.join("result.json")).unwrap();
        let text = std::fs::read_to_string(parts.join("metrics.jsonl")).unwrap();
        let kept: String = text.split_inclusive('\n').take(rows).collect();
        std::fs::write(parts.join("metrics.jsonl"), kept).unwrap();
    }
    train(&jobs("middle", 40), &options()).unwrap();
    for (seed, from) in [(0, "middle"), (1, "middle"), (2, "short")] {
        let name = "checkpoint.safetensors";
        std::fs::copy(at(from, seed).join(name), at("parts", seed).join(name)).unwrap();
    }
    let results = train(&jobs("parts", 60), &options()).unwrap();
    assert!(results.iter().all(|result| result.cohort == 3), "one cohort in the end");
    for seed in 0..3 {
        assert_eq!(outcome(&at("parts", seed)), outcome(&at("whole", seed)), "seed {seed}");
    }
}

#[test]
fn an_interrupted_and_resumed_run_equals_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = tiny();
    config.train.steps = 150;
    let whole = folder.path().join("whole");
    train(&[job(config.clone(), &whole)], &options()).unwrap();
    let parts = folder.path().join("parts");
    let mut interruptions = 0;
    loop {
        let options = options();
        let interrupt = options.interrupt.clone();
        // Longer each time, so that a slow machine gets past the start.
        let delay = std::time::Duration::from_millis(120 + 40 * interruptions);
        let timer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            interrupt.request();
        });
        let result = train(&[job(config.clone(), &parts)], &options).unwrap().remove(0);
        timer.join().unwrap();
        if result.status != Status::Interrupted {
            break;
        }
        assert!(RunFolder::open(&parts).unwrap().result().unwrap().is_none());
        interruptions += 1;
        assert!(interruptions < 200, "no progress between interruptions");
    }
    assert!(interruptions > 0, "the run was too short to be interrupted");
    assert_eq!(outcome(&parts), outcome(&whole));
}

#[test]
fn a_run_killed_between_checkpoint_and_result_ends_as_it_would_have() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&[job(tiny(), &run)], &options()).unwrap();
    let before = outcome(&run);
    std::fs::remove_file(run.join("result.json")).unwrap();
    train(&[job(tiny(), &run)], &options()).unwrap();
    assert_eq!(outcome(&run), before);
}

#[test]
fn a_run_that_lost_its_last_row_is_evaluated_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&[job(tiny(), &run)], &options()).unwrap();
    let (metrics, _, result) = outcome(&run);
    std::fs::remove_file(run.join("result.json")).unwrap();
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let kept: String = text.split_inclusive('\n').take(2).collect();
    std::fs::write(run.join("metrics.jsonl"), format!("{kept}{{\"step\":60,")).unwrap();
    let again = train(&[job(tiny(), &run)], &options()).unwrap();
    assert_eq!(again[0].accuracy, result.unwrap().accuracy);
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert!(text.starts_with(&kept), "rows that are there keep their bytes");
    assert_eq!(outcome(&run).0[2].validation_loss, metrics[2].validation_loss);
}

#[test]
fn a_lost_checkpoint_is_not_trained_over() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&[job(tiny(), &run)], &options()).unwrap();
    std::fs::remove_file(run.join("result.json")).unwrap();
    let checkpoint = std::fs::read(run.join("checkpoint.safetensors")).unwrap();
    std::fs::remove_file(run.join("checkpoint.safetensors")).unwrap();
    let message = train(&[job(tiny(), &run)], &options()).unwrap_err().to_string();
    assert!(message.contains("3 rows") && message.contains("checkpoint.safetensors is missing"), "{message}");
    // A checkpoint of a longer run, and one with a value that isn't finite.
    std::fs::write(run.join("checkpoint.safetensors"), &checkpoint).unwrap();
    let config = tiny().to_toml().replace("steps = 60", "steps = 40");
    std::fs::write(run.join("config.toml"), config).unwrap();
    let mut shorter = tiny();
    shorter.train.steps = 40;
    let message = train(&[job(shorter, &run)], &options()).unwrap_err().to_string();
    assert!(message.contains("step 60") && message.contains("steps = 40"), "{message}");
    std::fs::write(run.join("config.toml"), tiny().to_toml()).unwrap();
    let mut broken = checkpoint;
    let end = broken.len();
    broken[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(run.join("checkpoint.safetensors"), broken).unwrap();
    let message = train(&[job(tiny(), &run)], &options()).unwrap_err().to_string();
    assert!(message.contains("NaN"), "{message}");
}

#[test]
fn rows_past_the_checkpoint_and_a_torn_line_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    train(&[job(tiny(), &whole)], &options()).unwrap();
    // As after a kill at step 40 in the middle of a write: metrics ahead of the checkpoint.
    let mut short = tiny();
    short.train.steps = 40;
    train(&[job(short, &cut)], &options()).unwrap();
    std::fs::remove_file(cut.join("result.json")).unwrap();
    std::fs::copy(whole.join("config.toml"), cut.join("config.toml")).unwrap();
    let mut metrics = std::fs::read(whole.join("metrics.jsonl")).unwrap();
    metrics.extend(b"{\"step\": 8");
    std::fs::write(cut.join("metrics.jsonl"), metrics).unwrap();
    assert_eq!(RunFolder::open(&cut).unwrap().metrics().unwrap().len(), 3);
    train(&[job(tiny(), &cut)], &options()).unwrap();
    assert_eq!(outcome(&cut), outcome(&whole));
}

#[test]
fn a_diverging_run_stops_with_a_record_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let wild = |learning_rate: f64| {
        let mut wild = tiny();
        wild.seed = 1;
        wild.train.learning_rate = learning_rate;
        wild
    };
    let at = |name: &str| folder.path().join(name);
    let jobs = [job(wild(1e37), &at("wild")), job(tiny(), &at("tame")), job(wild(3e38), &at("overflowing"))];
    let results = train(&jobs, &options()).unwrap();
    let statuses: Vec<Status> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [Status::Diverged, Status::Completed, Status::Diverged]);
    assert!(results[0].steps < 60 && results[2].steps < 60);
    assert!(outcome(&at("overflowing")).1.iter().all(|value| value.is_finite()));
    let written = RunFolder::open(at("wild")).unwrap().result().unwrap().unwrap();
    assert_eq!(written, results[0]);
    assert!(outcome(&at("wild")).1.iter().all(|value| value.is_finite()));
    train(&[job(tiny(), &at("alone"))], &options()).unwrap();
    assert_eq!(outcome(&at("tame")), outcome(&at("alone")));
}

#[test]
fn a_tiny_mqar_is_learnt_and_the_same_seed_gives_the_same_curve() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = tiny();
    config.model.d_model = 64;
    config.task = TaskConfig::Mqar(MqarConfig {
        seq_len: 16,
        pairs: 4,
        train_examples: 10_000,
        validation_examples: 500,
        ..MqarConfig::default()
    });
    config.train = TrainConfig { steps: 3000, eval_every: 100, target: 0.95, ..TrainConfig::default() };
    let at = |name: &str| folder.path().join(name);
    let result = train(&[job(config.clone(), &at("a"))], &options()).unwrap().remove(0);
    assert_eq!(result.status, Status::Target, "accuracy {:?}", result.accuracy);
    assert!(result.accuracy.unwrap() >= 0.95);
    config.train.steps = 200;
    train(&[job(config, &at("b"))], &options()).unwrap();
    assert_eq!(outcome(&at("a")).0[..2], outcome(&at("b")).0[..]);
}

#[test]
fn baselines_train() {
    let folder = tempfile::tempdir().unwrap();
    for mixer in [Mixer::Linear, Mixer::Softmax] {
        let mut config = tiny();
        config.model.mixer = mixer;
        config.model.heads = 2;
        let name = config.model.kind().to_owned();
        let result = train(&[job(config, &folder.path().join(&name))], &options()).unwrap().remove(0);
        let rows = outcome(&folder.path().join(&name)).0;
        assert_eq!((result.status, result.kind), (Status::Completed, name));
        assert!(rows[2].train_loss < rows[0].train_loss);
    }
}

#[test]
fn folders_that_can_not_be_used_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&[job(tiny(), &run)], &options()).unwrap();
    let message =
        |config: RunConfig, at: &Path| train(&[job(config, at)], &options()).unwrap_err().to_string();
    let mut other = tiny();
    other.train.clip = 2.0;
    let text = message(other, &run);
    assert!(text.contains("clip = 1.0") && text.contains("clip = 2.0"), "{text}");
    assert_eq!(RunFolder::open(&run).unwrap().config().unwrap(), tiny());

    let occupied = folder.path().join("occupied");
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("thesis.txt"), "precious").unwrap();
    assert!(message(tiny(), &occupied).contains("other files"));
    assert_eq!(std::fs::read(occupied.join("thesis.txt")).unwrap(), b"precious");

    let busy = folder.path().join("busy");
    std::fs::create_dir(&busy).unwrap();
    let lock = std::fs::File::create(busy.join("lock")).unwrap();
    lock.lock().unwrap();
    assert!(message(tiny(), &busy).contains("another process"));

    let twice = [job(tiny(), &folder.path().join("twice")), job(tiny(), &folder.path().join("twice"))];
    assert!(train(&twice, &options()).unwrap_err().to_string().contains("two runs share"));

    let damaged = folder.path().join("damaged");
    train(&[job(tiny(), &damaged)], &options()).unwrap();
    std::fs::remove_file(damaged.join("result.json")).unwrap();
    let checkpoint = damaged.join("checkpoint.safetensors");
    let bytes = std::fs::read(&checkpoint).unwrap();
    std::fs::write(&checkpoint, &bytes[..bytes.len() / 2]).unwrap();
    let text = message(tiny(), &damaged);
    assert!(text.contains("checkpoint.safetensors") && text.contains("not a whole checkpoint"), "{text}");
    assert_eq!(std::fs::read(&checkpoint).unwrap().len(), bytes.len() / 2);

    std::fs::write(run.join("metrics.jsonl"), "{\"step\": 1}\n{}\n").unwrap();
    let text = RunFolder::open(&run).unwrap().metrics().unwrap_err().to_string();
    assert!(text.contains("line 1") && text.contains("train_loss"), "{text}");
    assert!(RunFolder::find(folder.path().join("occupied")).is_err());
}

#[test]
fn configurations_out_of_range_name_the_field() {
    type Change = fn(&mut RunConfig);
    let changes: [(&str, Change); 15] = [
        ("train.steps", |c| c.train.steps = 0),
        ("train.learning_rate", |c| c.train.learning_rate = -1.0),
        ("train.beta2", |c| c.train.beta2 = 1.0),
        ("train.target", |c| c.train.target = 99.0),
        ("model.heads", |c| c.model.heads = 3),
        ("model.chunk", |c| c.model.chunk = 48),
        ("model.max_seq_len", |c| c.model.max_seq_len = 8),
        ("model.vocab", |c| c.model.vocab = 64),
        ("task.train_examples", |c| c.train.batch = 1000),
        ("model.d_model", |c| c.model.d_model = usize::MAX),
        ("model.layers", |c| c.model.layers = 1_000_000_000),
        ("model.lambda.hidden", |c| c.model.lambda.hidden = Hidden::Width(usize::MAX)),
        ("model.max_seq_len", |c| c.model.max_seq_len = usize::MAX),
        ("train.batch", |c| c.train.batch = usize::MAX),
        ("task.validation_examples", |c| {
            c.task =
                TaskConfig::Mqar(MqarConfig { validation_examples: usize::MAX, ..MqarConfig::default() });
            c.model.max_seq_len = 128;
        }),
    ];
    for (field, change) in changes {
        let mut config = tiny();
        change(&mut config);
        let message = config.validate().unwrap_err().to_string();
        assert!(message.starts_with(field), "{field}: {message}");
    }
}

#[test]
fn schedules_warm_up_and_decay() {
    let config = TrainConfig {
        steps: 110,
        warmup: 10,
        learning_rate: 2.0,
        schedule: Schedule::Cosine,
        ..TrainConfig::default()
    };
    let rates = [0, 4, 9, 10, 60, 110].map(|step| config.learning_rate_at(step));
    let expected = [0.2, 1.0, 2.0, 2.0, 1.0, 0.0];
    assert!(rates.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{rates:?}");
    let constant = TrainConfig { schedule: Schedule::Constant, ..config };
    assert_eq!(constant.learning_rate_at(100), 2.0);
}

/// A map of a reader's own: λ the same at every token and level.
#[derive(Debug)]
struct Flat {
    name: &'static str,
    scale: f64,
    levels_less: usize,
}

impl loglinear::lambda::LambdaMap for Flat {
    fn kind(&self) -> String {
        self.name.to_owned()
    }

    fn specs(&self, heads: usize, levels: usize) -> Vec<loglinear::cohort::Spec> {
        vec![loglinear::cohort::Spec::new("b", &[heads, levels], loglinear::cohort::Init::Constant(0.5))]
    }

    fn forward(
        &self,
        input: loglinear::lambda::LambdaInput,
        parameters: loglinear::lambda::Scope<'_>,
    ) -> loglinear::Result<loglinear::burn::tensor::Tensor<4>> {
        let [runs, tokens, heads, levels] = input.d.dims();
        let b = parameters.get("b")?.reshape([runs, 1, heads, levels]).expand([runs, tokens, heads, levels]);
        Ok((b * self.scale).narrow(3, 0, levels - self.levels_less))
    }
}

#[test]
fn an_experiment_trains_a_map_here_and_goes_on_where_it_was() {
    use loglinear::notebook::{Experiment, Show, Trained};
    let folder = tempfile::tempdir().unwrap();
    let config = tiny();
    let own = |name| Flat { name, scale: 1.0, levels_less: 0 };
    let experiment = Experiment::new(folder.path()).task(config.task.clone()).seeds([0, 1]).configure(|to| {
        to.train = config.train.clone();
        to.model = config.model.clone();
    });
    let trained = experiment.run_here(own("flat")).unwrap();
    assert_eq!((trained.runs.height(), trained.folders.len()), (2, 2));
    assert_eq!(trained.folders[1].config().unwrap().model.lambda.custom.as_deref(), Some("flat"));
    assert!(trained.lambda(1).unwrap().height() > 0);
    let before = std::fs::read(trained.folders[0].file("metrics.jsonl")).unwrap();
    experiment.run_here(own("flat")).unwrap();
    assert_eq!(std::fs::read(trained.folders[0].file("metrics.jsonl")).unwrap(), before);
    let opened = Trained::open(folder.path()).unwrap();
    assert!(opened.rich().as_text().contains("flat-seed1"), "{}", opened.rich().as_text());
    // A run in both counts once, and the map stays known.
    let both = opened.and(&trained).unwrap();
    assert_eq!(both.runs.height(), 2);
    assert!(both.lambda(1).is_ok() && opened.lambda(1).is_err());

    let message = |error: loglinear::Error| error.to_string();
    // The name alone doesn't make it the same map.
    let found = message(experiment.run_here(Flat { name: "flat", scale: 1e6, levels_less: 0 }).unwrap_err());
    assert!(found.contains("another map named `flat`") && found.contains("loss"), "{found}");
    for name in ["", "../flat", "fixed", "softmax-attention"] {
        let found = message(experiment.run_here(own(name)).unwrap_err());
        assert!(found.contains("model.lambda.custom"), "{name}: {found}");
    }
    // What can't train leaves no folder.
    let wrong = Flat { name: "wrong", scale: 1.0, levels_less: 1 };
    assert!(message(experiment.run_here(wrong).unwrap_err()).contains("λ map `wrong`"));
    assert!(!folder.path().join("wrong-seed0").exists());
    let found = message(experiment.clone().seeds([]).run_here(own("flat")).unwrap_err());
    assert!(found.contains("seeds"), "{found}");
    let found = message(experiment.clone().seeds([3, 3]).run().unwrap_err());
    assert!(found.contains("3 twice"), "{found}");
    // Outside the lab's kernel there is no program to start.
    let found = message(experiment.run().unwrap_err());
    assert!(found.contains("LOGLINEAR_PROGRAM"), "{found}");
}

#[test]
fn runs_that_frames_would_take_for_one_are_refused() {
    use loglinear::notebook::Trained;
    let folder = tempfile::tempdir().unwrap();
    for place in ["a/same", "b/same"] {
        let config = RunConfig { train: TrainConfig { steps: 1, ..tiny().train }, ..tiny() };
        train(&[job(config, &folder.path().join(place).join("run"))], &options()).unwrap();
    }
    let found = Trained::open(folder.path()).unwrap_err().to_string();
    assert!(found.contains("same/run") && found.contains("rename"), "{found}");
    let lambda = Trained::open(folder.path().join("a")).unwrap().lambda(1).unwrap();
    let found = loglinear::frame::stack_lambda([lambda.clone(), lambda]).unwrap_err().to_string();
    assert!(found.contains("`same/run` twice"), "{found}");
    let run = &Trained::open(folder.path().join("b")).unwrap();
    let held = run.folders[0].config().unwrap().task.examples().unwrap().1;
    let found = run.lambda(held + 1).unwrap_err().to_string();
    assert!(found.contains(&format!("1 to {held}")), "{found}");
}
