//! λ as a frame: a row for every layer, head, sequence, position and level.

use super::runs::run_name;
use crate::cohort::Parameters;
use crate::fenwick;
use crate::lambda::LambdaMap;
use crate::model::{IGNORED, Mixer, Model};
use crate::task::{Dataset, Example, Region, Split, Tokenizer};
use crate::train::RunFolder;
use crate::{Error, Result, device};
use burn::tensor::{Device, Int, Tensor, TensorData};
use polars::prelude::{DataFrame, NamedFrom, Series};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most rows of a frame of λ.
const MOST_ROWS: usize = 1 << 28;

/// λ of a trained run on the first `sequences` validation sequences of its task.
///
/// `seq_len` replaces the trained length, up to the model's `max_seq_len`; `lambda` is the map if the
/// run used one of a reader's own. Columns as [`capture_lambda`].
///
/// # Errors
///
/// If the folder has no usable checkpoint, or the model is a baseline without λ.
pub fn run_lambda(
    folder: &RunFolder,
    sequences: usize,
    seq_len: Option<usize>,
    lambda: Option<Arc<dyn LambdaMap>>,
    device: &Device,
) -> Result<DataFrame> {
    let config = folder.config()?;
    let model = folder.model(lambda)?;
    let task = match seq_len {
        Some(seq_len) => config.task.with_seq_len(seq_len),
        None => config.task.clone(),
    };
    let (seq_len, longest) = (task.task().seq_len(), config.model.max_seq_len);
    if seq_len > longest {
        return Err(Error::value("seq_len", format!("at most the model's max_seq_len = {longest}"), seq_len));
    }
    let rows = [seq_len, config.model.layers, config.model.heads, config.model.levels()];
    let fit = MOST_ROWS / rows.iter().product::<usize>();
    // A text's number of sequences is known, and checked, once it is opened.
    let held = config.task.examples().map_or(usize::MAX, |(_, validation)| validation);
    if !(1..=held.min(fit)).contains(&sequences) {
        let expected = match held <= fit {
            true => format!("1 to {held} (the run's validation set)"),
            false => format!("1 to {fit} (a frame has at most {MOST_ROWS} rows)"),
        };
        return Err(Error::value("number of sequences", expected, sequences));
    }
    folder.check_corpus()?;
    let data = Dataset::generate(&task, config.seed, Split::Validation, sequences)?;
    let device = device::plain(device);
    let (parameters, _) = folder.parameters(&model, &device)?;
    capture_lambda(&run_name(folder), &model, &parameters, &data, &device)
}

/// λ that was recorded with runs (`lambda.parquet` of their folders) in one frame, wherever they were
/// trained: a run has the name of the place where it is now.
///
/// # Errors
///
/// If a folder has no such file, or it can't be read.
pub fn recorded_lambda(folders: &[RunFolder]) -> Result<DataFrame> {
    let read = |folder: &RunFolder| {
        let path = folder.file("lambda.parquet");
        if !path.is_file() {
            let message = "has no lambda.parquet: `loglinear lambda` writes it";
            return Err(Error::run(folder.path(), message));
        }
        let mut frame = super::read_parquet(path)?;
        let name = Series::new("run".into(), vec![run_name(folder); frame.height()]);
        Ok(frame.with_column(name.into())?.clone())
    };
    stack_lambda(folders.iter().map(read).collect::<Result<Vec<_>>>()?)
}

/// λ of several runs in one frame, one below the other.
///
/// # Errors
///
/// If there is no frame, their columns differ, or two hold runs of one name: such runs would be taken
/// for one.
pub fn stack_lambda(frames: impl IntoIterator<Item = DataFrame>) -> Result<DataFrame> {
    let mut frames = frames.into_iter();
    let first = frames.next().ok_or_else(|| Error::value("frames of λ", "at least one", 0))?;
    let mut names = run_names(&first)?;
    frames.try_fold(first, |all, frame| {
        for name in run_names(&frame)? {
            if names.contains(&name) {
                let expected = "of runs with different names (the last two parts of their paths)";
                return Err(Error::value("frames of λ", expected, format!("`{name}` twice")));
            }
            names.insert(name);
        }
        Ok(all.vstack(&frame)?)
    })
}

fn run_names(lambda: &DataFrame) -> Result<HashSet<String>> {
    Ok(super::texts(&lambda.column("run")?.unique()?.into_frame(), "run")?.into_iter().collect())
}

/// Name of the run that a frame of λ is of, or starts with.
///
/// # Errors
///
/// If the frame has no row or no column `run`.
pub fn first_run(lambda: &DataFrame) -> Result<String> {
    let name = lambda.column("run")?.str()?.get(0);
    name.map(str::to_owned).ok_or_else(|| Error::value("frame of λ", "at least one row", 0))
}

/// λ of a trained language model on a text of the reader's own, as one sequence from position 0. Columns as
/// [`capture_lambda`].
///
/// # Errors
///
/// If the run is not one on a text, the text has no token or more than the model's `max_seq_len`, the folder
/// has no usable checkpoint, or the model is a baseline without λ.
pub fn text_lambda(
    folder: &RunFolder,
    text: &str,
    lambda: Option<Arc<dyn LambdaMap>>,
    device: &Device,
) -> Result<DataFrame> {
    let config = folder.config()?;
    folder.target_offset()?;
    let tokens: Vec<i32> = Tokenizer::gpt2().encode(text).into_iter().map(|token| token as i32).collect();
    let rows = config.model.layers * config.model.heads * config.model.levels();
    let most = config.model.max_seq_len.min(MOST_ROWS / rows);
    if !(1..=most).contains(&tokens.len()) {
        let expected = format!("of 1 to {most} tokens (the model's max_seq_len)");
        return Err(Error::value("text", expected, format!("{} tokens", tokens.len())));
    }
    let model = folder.model(lambda)?;
    let device = device::plain(device);
    let (parameters, _) = folder.parameters(&model, &device)?;
    let example = Example {
        targets: vec![IGNORED as i32; tokens.len()],
        regions: vec![Region::Text; tokens.len()],
        tokens,
    };
    capture(&run_name(folder), &model, &parameters, &[example], &device)
}

/// λ of one run on given sequences, with columns
///
/// | column | meaning |
/// |---|---|
/// | run, kind | name of the run; its λ kind |
/// | layer, head | from 0 |
/// | sequence, position | place in the data, from 0 |
/// | token, region | what stands there, and what for |
/// | text | of a text only: the token as a person reads it |
/// | level | memory level, 0 is the position itself |
/// | present | whether that level holds anything at that position; else its λ multiplies nothing |
/// | lambda | the weight |
///
/// # Errors
///
/// If the parameters are not of exactly one run, or the model is a baseline without λ.
pub fn capture_lambda(
    run: &str,
    model: &Model,
    parameters: &Parameters,
    data: &Dataset,
    device: &Device,
) -> Result<DataFrame> {
    let examples = (0..data.len()).map(|sequence| data.read(sequence)).collect::<Result<Vec<_>>>()?;
    capture(run, model, parameters, &examples, device)
}

/// λ on sequences of one length.
fn capture(
    run: &str,
    model: &Model,
    parameters: &Parameters,
    examples: &[Example],
    device: &Device,
) -> Result<DataFrame> {
    if model.config().mixer != Mixer::LogLinear {
        return Err(Error::value("model.mixer", "log-linear (a baseline has no λ)", model.kind()));
    }
    if parameters.runs() != 1 {
        return Err(Error::value("parameters", "of one run", format!("{} runs", parameters.runs())));
    }
    let seq_len = examples.first().map_or(0, |example| example.tokens.len());
    let tokens: Vec<i32> = examples.iter().flat_map(|example| example.tokens.iter().copied()).collect();
    let tokens = TensorData::new(tokens, [1, examples.len(), seq_len]);
    let layers = model.lambda(parameters, Tensor::<3, Int>::from_data(tokens, device))?;
    let mut rows = Rows::default();
    for (layer, lambda) in layers.into_iter().enumerate() {
        let [_, _, heads, levels] = lambda.dims();
        let values: Vec<f32> = lambda.into_data().iter().collect();
        for head in 0..heads {
            for (sequence, example) in examples.iter().enumerate() {
                for position in 0..seq_len {
                    let start = ((sequence * seq_len + position) * heads + head) * levels;
                    let present: Vec<usize> =
                        fenwick::buckets(position).iter().map(|bucket| bucket.level).collect();
                    for level in 0..levels {
                        rows.layer.push(layer as u32);
                        rows.head.push(head as u32);
                        rows.sequence.push(sequence as u32);
                        rows.position.push(position as u32);
                        rows.token.push(example.tokens[position]);
                        rows.region.push(example.regions[position].name());
                        rows.level.push(level as u32);
                        rows.present.push(present.contains(&level));
                        rows.lambda.push(values[start + level]);
                    }
                }
            }
        }
    }
    let frame = rows.frame(run, &model.kind())?;
    let of_text = examples.iter().any(|example| example.regions.contains(&Region::Text));
    if of_text { with_text(&frame) } else { Ok(frame) }
}

/// A frame of λ of a run on a text with one column more, `text`: what each GPT-2 token stands for, control
/// characters escaped ([`Tokenizer::piece`]).
///
/// # Errors
///
/// If the frame has no column `token`, or a value in it is no token.
pub fn with_text(lambda: &DataFrame) -> Result<DataFrame> {
    let tokens = super::numbers(lambda, "token")?;
    let mut pieces: HashMap<u32, String> = HashMap::new();
    for token in tokens.iter().map(|&token| token as u32) {
        if let Entry::Vacant(place) = pieces.entry(token) {
            place.insert(Tokenizer::gpt2().piece(token)?);
        }
    }
    let texts: Vec<&str> = tokens.iter().map(|&token| pieces[&(token as u32)].as_str()).collect();
    Ok(lambda.clone().with_column(Series::new("text".into(), texts).into())?.clone())
}

#[derive(Default)]
struct Rows {
    layer: Vec<u32>,
    head: Vec<u32>,
    sequence: Vec<u32>,
    position: Vec<u32>,
    token: Vec<i32>,
    region: Vec<&'static str>,
    level: Vec<u32>,
    present: Vec<bool>,
    lambda: Vec<f32>,
}

impl Rows {
    fn frame(self, run: &str, kind: &str) -> Result<DataFrame> {
        let height = self.lambda.len();
        let columns = vec![
            Series::new("run".into(), vec![run; height]).into(),
            Series::new("kind".into(), vec![kind; height]).into(),
            Series::new("layer".into(), self.layer).into(),
            Series::new("head".into(), self.head).into(),
            Series::new("sequence".into(), self.sequence).into(),
            Series::new("position".into(), self.position).into(),
            Series::new("token".into(), self.token).into(),
            Series::new("region".into(), self.region).into(),
            Series::new("level".into(), self.level).into(),
            Series::new("present".into(), self.present).into(),
            Series::new("lambda".into(), self.lambda).into(),
        ];
        Ok(DataFrame::new(height, columns)?)
    }
}
