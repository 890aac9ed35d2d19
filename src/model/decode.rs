//! Decoding: a language model that sees one token after another, with a memory instead of its whole past.

use super::mixer::Memory;
use super::{Mixer, Model, language};
use crate::attention::BeyondLevels;
use crate::cohort::Parameters;
use crate::{Error, Result, device};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Most positions of one pass of a prefill: what it holds at once.
const LONGEST_BLOCK: usize = 1024;

/// A language model in the middle of a text.
///
/// Log-linear attention keeps one state [K, V] for each set bit of the position, linear attention one in
/// all, softmax attention all keys and values. A prompt is seen in blocks, then tokens one by one; both give
/// the logits of the whole text in one pass.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    model: &'a Model,
    parameters: Parameters,
    memories: Vec<Memory>,
    position: usize,
    block: usize,
    device: Device,
}

impl<'a> Decoder<'a> {
    /// A decoder that has seen nothing. `beyond` is what happens at positions that need more levels than
    /// the model has (log-linear attention only).
    ///
    /// # Errors
    ///
    /// If the model is not a language model, or the parameters are not of exactly one run.
    pub fn new(model: &'a Model, parameters: &Parameters, beyond: BeyondLevels, on: &Device) -> Result<Self> {
        let Some(config) = &model.config().language else {
            let expected = "present: only a language model decodes";
            return Err(Error::value("model.language", expected, "the recall model"));
        };
        if parameters.runs() != 1 {
            return Err(Error::value("parameters", "of one run", format!("{} runs", parameters.runs())));
        }
        let device = device::plain(on);
        let layers = model.config().layers;
        // A block needs no more levels than the model has.
        let most = 1 << (model.config().levels() - 1).min(LONGEST_BLOCK.trailing_zeros() as usize);
        let block = if model.config().mixer == Mixer::LogLinear { most } else { LONGEST_BLOCK };
        let memories = (0..layers).map(|_| Memory::new(model, config, beyond, &device)).collect();
        Ok(Self { model, parameters: parameters.clone(), memories, position: 0, block, device })
    }

    /// Number of tokens seen.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes that the memory of all layers takes.
    pub fn state_bytes(&self) -> usize {
        self.memories.iter().map(Memory::bytes).sum()
    }

    /// What a head of a layer keeps: states [K, V], or keys and values for softmax attention.
    pub fn entries(&self) -> usize {
        self.memories.first().map_or(0, Memory::entries)
    }

    /// Sees tokens and returns the logits of what comes next.
    ///
    /// # Errors
    ///
    /// If there is no token, one is not in the vocabulary, or a position needs more levels than the model has
    /// and the policy is [`BeyondLevels::Error`]; the memory may have seen a part of the tokens then.
    pub fn extend(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let vocab = self.model.config().vocab;
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::value("token", format!("in 0..{vocab}"), token));
        }
        let mut last = None;
        let mut rest = tokens;
        while !rest.is_empty() {
            // Up to the next multiple of a block, so that all further blocks are aligned.
            let (now, later) = rest.split_at((self.block - self.position % self.block).min(rest.len()));
            last = Some(self.see(now)?);
            rest = later;
        }
        let hidden = last.ok_or_else(|| Error::value("tokens", "at least one", 0))?;
        let logits = self.model.linear(hidden, self.model.head(&self.parameters)?);
        Ok(logits.into_data().iter().collect())
    }

    /// What the head sees at the last of some tokens [1, 1, d_model].
    fn see(&mut self, tokens: &[u32]) -> Result<Tensor<3>> {
        let ids: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
        let ids = TensorData::new(ids, [1, 1, tokens.len()]);
        let ids = Tensor::<3, Int>::from_data(ids, &self.device);
        let memories = Some(self.memories.as_mut_slice());
        let hidden = language::hidden(self.model, &self.parameters, ids, memories, |_| ())?;
        self.position += tokens.len();
        Ok(hidden.narrow(1, tokens.len() - 1, 1))
    }
}
