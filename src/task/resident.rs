//! Drawn data sets in a device's memory, for cohorts that would else send every batch there.

use super::{Batch, Dataset};
use crate::model::IGNORED;
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::sync::Arc;

/// Largest number of positions that a cohort's data sets keep on a device: 4 GiB of tokens and targets.
const MOST_POSITIONS: usize = 1 << 29;

/// Sequences of several data sets below one another, then one without targets.
#[derive(Debug)]
pub(super) struct Rows {
    tokens: Tensor<2, Int>,
    targets: Tensor<2, Int>,
}

/// Where a data set's sequences are among them.
#[derive(Clone, Debug)]
pub(super) struct Resident {
    rows: Arc<Rows>,
    first: usize,
    /// Positions with a target, of each sequence.
    scored: Vec<u32>,
}

/// Copies drawn data sets of one length to a device. Does nothing if one of them is a text, or they are too large.
pub(crate) fn reside(sets: &mut [Dataset], device: &Device) {
    let Some(seq_len) = sets.first().map(Dataset::seq_len) else { return };
    let all: Option<Vec<_>> = sets.iter().map(Dataset::drawn).collect();
    let Some(all) = all else { return };
    let positions: usize = all.iter().map(|(tokens, _)| tokens.len()).sum();
    if positions > MOST_POSITIONS || sets.iter().any(|set| set.seq_len() != seq_len) {
        return;
    }
    let rows = positions / seq_len;
    let join = |parts: Vec<&[i32]>, last: i32| {
        let mut values = parts.concat();
        values.resize(positions + seq_len, last);
        Tensor::from_data(TensorData::new(values, [rows + 1, seq_len]), device)
    };
    let tokens = join(all.iter().map(|(tokens, _)| *tokens).collect(), 0);
    let targets = join(all.iter().map(|(_, targets)| *targets).collect(), IGNORED as i32);
    let count =
        |targets: &[i32]| targets.iter().filter(|&&target| i64::from(target) != IGNORED).count() as u32;
    let scored: Vec<Vec<u32>> =
        all.iter().map(|(_, targets)| targets.chunks(seq_len).map(count).collect()).collect();
    let rows = Arc::new(Rows { tokens, targets });
    let mut first = 0;
    for (set, scored) in sets.iter_mut().zip(scored) {
        let length = scored.len();
        set.settle(Resident { rows: rows.clone(), first, scored });
        first += length;
    }
}

/// Where the sequences of a batch are among those that are on the device together.
pub(crate) struct Places {
    rows: Arc<Rows>,
    places: Vec<i32>,
    scored: Vec<usize>,
}

impl Places {
    /// None if the data sets are not on the device together.
    pub(crate) fn of(sets: &[Dataset], indices: &[Vec<usize>]) -> Option<Self> {
        let residents: Vec<&Resident> = sets.iter().map(Dataset::resident).collect::<Option<_>>()?;
        let rows = residents.first()?.rows.clone();
        if !residents.iter().all(|set| Arc::ptr_eq(&set.rows, &rows)) {
            return None;
        }
        let blank = rows.tokens.dims()[0] - 1;
        let (mut places, mut scored) = (Vec::new(), Vec::with_capacity(sets.len()));
        for (set, indices) in residents.iter().zip(indices) {
            let place = |&index: &usize| if index < set.scored.len() { set.first + index } else { blank };
            places.extend(indices.iter().map(|index| place(index) as i32));
            scored.push(indices.iter().map(|&index| set.scored.get(index).map_or(0, |&n| n as usize)).sum());
        }
        Some(Self { rows, places, scored })
    }

    /// All tokens and all targets [rows, time].
    #[cfg(feature = "cuda")]
    pub(crate) fn rows(&self) -> [&Tensor<2, Int>; 2] {
        [&self.rows.tokens, &self.rows.targets]
    }

    /// Row of every sequence, run after run.
    #[cfg(feature = "cuda")]
    pub(crate) fn places(&self) -> &[i32] {
        &self.places
    }

    /// The batch, or none if the sequences are on another device.
    pub(super) fn batch(self, device: &Device) -> Option<Batch> {
        let Self { rows, places, scored } = self;
        if rows.tokens.device() != *device {
            return None;
        }
        let shape = [scored.len(), places.len() / scored.len().max(1), rows.tokens.dims()[1]];
        let places = Tensor::<1, Int>::from_data(TensorData::new(places.clone(), [places.len()]), device);
        let pick = |of: &Tensor<2, Int>| of.clone().select(0, places.clone()).reshape(shape);
        Some(Batch { tokens: pick(&rows.tokens), targets: pick(&rows.targets), scored })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Split, TaskConfig};

    #[test]
    fn batches_of_resident_data_sets_are_those_of_the_others() {
        let task = TaskConfig::default().with_seq_len(64);
        let device = Device::flex();
        let set = |seed| Dataset::generate(&task, seed, Split::Train, 5).unwrap();
        let elsewhere = [set(0), set(1), set(2)];
        let mut here = elsewhere.clone().to_vec();
        reside(&mut here, &device);
        // A run has left; past the end of a data set are sequences without targets.
        here.remove(1);
        let kept = [elsewhere[0].clone(), elsewhere[2].clone()];
        let indices = [vec![4, 0, 7], vec![2, 5, 1]];
        let [found, expected] = [&here[..], &kept].map(|sets| Batch::stack(sets, &indices, &device).unwrap());
        assert_eq!(found.scored, expected.scored);
        let numbers = |tensor: Tensor<3, Int>| crate::cohort::integers(tensor);
        assert_eq!(numbers(found.tokens), numbers(expected.tokens));
        assert_eq!(numbers(found.targets), numbers(expected.targets));
    }
}
