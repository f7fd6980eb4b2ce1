//! A network in memory that names what is on an image.

use std::sync::Arc;

use rten::{Dimension, Model, ModelOptions, NodeId, RunOptions, ThreadPool, ValueView};
use steadfast_images::ImageLimits;

use super::{
    ClassifyError, LABELS_MAX, Label,
    recipe::{Layout, Recipe},
};

/// Threads that share the work on one image.
///
/// How rten splits a multiplication, and with it the last bits of the answer, depends on their
/// number, which is that of the processors unless told otherwise. Two, always: the same answer on
/// every machine with the same instructions, and a large machine works on several images instead.
const THREADS_PER_IMAGE: usize = 2;

thread_local! {
    /// One set for each thread that classifies, so that no image waits for another in the middle.
    static THREADS: Arc<ThreadPool> = Arc::new(ThreadPool::with_num_threads(THREADS_PER_IMAGE));
}

/// A network, what it is fed with, and the names of what it answers.
pub(crate) struct Network {
    model: Model,
    input: NodeId,
    output: NodeId,
    layout: Layout,
    recipe: Recipe,
    labels: Vec<String>,
}

impl Network {
    /// Takes a network from the bytes of an ONNX file, and tries it once. The error says what is
    /// wrong with it.
    pub(crate) fn load(
        bytes: Vec<u8>,
        recipe: Recipe,
        labels: Vec<String>,
    ) -> Result<Self, String> {
        if recipe.short_side < recipe.edge || recipe.edge == 0 {
            return Err("its image must have 1 pixel at least, and its short side not fewer".into());
        }
        let mut options = ModelOptions::with_all_ops();
        let model = options.prepack_weights(true).load(bytes).map_err(|error| error.to_string())?;
        let (&[input], &[output]) = (model.input_ids(), model.output_ids()) else {
            return Err("it must have one input and one output".into());
        };
        let layout = layout(&model)?;
        let labels = labels.iter().map(|it| shown(it)).collect();
        let network = Self { model, input, output, layout, recipe, labels };
        let edge = recipe_len(&network.recipe);
        let scores = network.run(&vec![0.0; 3 * edge * edge])?;
        if scores.len() != network.labels.len() {
            let (scores, labels) = (scores.len(), network.labels.len());
            return Err(format!("it answers with {scores} scores and there are {labels} labels"));
        }
        Ok(network)
    }

    /// The likeliest labels of an image.
    pub(crate) fn classify(
        &self,
        image: &[u8],
        limits: &ImageLimits,
    ) -> Result<Vec<Label>, ClassifyError> {
        let numbers = self.recipe.prepare(image, limits, self.layout)?;
        let scores =
            self.run(&numbers).map_err(|message| ClassifyError::Unavailable { message })?;
        self.best(&scores).ok_or_else(|| ClassifyError::Answer {
            message: "the network answered with something that is not a number".into(),
        })
    }

    /// The scores of the network, one for each label.
    pub(crate) fn run(&self, numbers: &[f32]) -> Result<Vec<f32>, String> {
        let edge = recipe_len(&self.recipe);
        let shape = match self.layout {
            Layout::Planes => [1, 3, edge, edge],
            Layout::Pixels => [1, edge, edge, 3],
        };
        let input = ValueView::from_shape(shape, numbers).map_err(|error| error.to_string())?;
        let inputs = vec![(self.input, input.into())];
        let options = RunOptions::default().with_thread_pool(Some(THREADS.with(Arc::clone)));
        let answer = self.model.run_n(inputs, [self.output], Some(options));
        let [answer] = answer.map_err(|error| error.to_string())?;
        let (_, scores) = answer.into_shape_vec::<f32, 2>().map_err(|error| error.to_string())?;
        Ok(scores)
    }

    fn best(&self, scores: &[f32]) -> Option<Vec<Label>> {
        let scores = likelihoods(scores)?;
        let mut order: Vec<usize> = (0..scores.len()).collect();
        // Equal scores in the order of the labels, so that the answer is the same each time.
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let label = |index: &usize| {
            Some(Label { label: self.labels.get(*index)?.clone(), score: scores[*index] })
        };
        order.iter().take(LABELS_MAX).map(label).collect()
    }
}

fn recipe_len(recipe: &Recipe) -> usize {
    usize::try_from(recipe.edge).unwrap_or(usize::MAX)
}

/// Where a network wants the three channels.
fn layout(model: &Model) -> Result<Layout, String> {
    let shape = model.input_shape(0).unwrap_or_default();
    let is_three = |index: usize| matches!(shape.get(index), Some(Dimension::Fixed(3)));
    match shape.len() {
        4 if is_three(1) => Ok(Layout::Planes),
        4 if is_three(3) => Ok(Layout::Pixels),
        _ => Err("its input must be one image with three channels, in four dimensions".into()),
    }
}

/// Scores from 0 to 1 whose sum is 1. A network may end with that or leave it to us; what it gives
/// without it never looks like it.
fn likelihoods(scores: &[f32]) -> Option<Vec<f64>> {
    if scores.is_empty() || scores.iter().any(|it| !it.is_finite()) {
        return None;
    }
    let scores: Vec<f64> = scores.iter().map(|it| f64::from(*it)).collect();
    let sum: f64 = scores.iter().sum();
    if (sum - 1.0).abs() < 1e-3 && scores.iter().all(|it| (0.0..=1.0).contains(it)) {
        return Some(scores);
    }
    let most = scores.iter().copied().fold(f64::MIN, f64::max);
    let powers: Vec<f64> = scores.iter().map(|it| (it - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    Some(powers.iter().map(|it| it / sum).collect())
}

/// A label as the hosted model writes it.
fn shown(label: &str) -> String {
    label.trim().replace('_', " ").to_uppercase()
}

#[cfg(test)]
pub(crate) mod tests;
