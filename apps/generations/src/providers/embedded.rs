//! Pictures without a model: drawn by rules from the prompt, the seed and the size. They need no
//! key and no network, cost nothing, and say what they are: procedural, no AI model.

mod art;
mod clip;
mod drawing;
mod noise;
mod palette;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use steadfast_images::Pool;

pub use self::drawing::Drawing;
use super::{
    error::{ErrorKind, GenerateError},
    input::{SEED_MAX, number, one_result, prompt, text},
    provider::{
        Checked, Model, Output, OutputKind, OutputSource, Provider, Report, Request, Submitted,
        Task, TaskState,
    },
    stream::OutputStream,
};

/// Draws images.
const ART: &str = "embedded:art@1";

/// Draws clips.
const CLIP: &str = "embedded:clip@1";

/// The method that it names with everything it makes.
const METHOD: &str = "procedural, no AI model";

/// Draws images and clips on a pool's threads. Clones share it.
#[derive(Clone, Debug)]
pub struct Embedded {
    pool: Pool,
}

impl Embedded {
    /// Its name among the providers.
    pub const NAME: &str = "embedded";

    /// Draws on this pool. A picture takes a few bytes for each of its pixels while it is drawn.
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }
}

/// The kind of output of a model, its largest and its default edge, and its format.
fn rules(model: &str) -> Option<(OutputKind, u64, u64, &'static str)> {
    match model {
        ART => Some((OutputKind::Image, 2_048, 1_024, "PNG")),
        CLIP => Some((OutputKind::Video, 512, 256, "GIF")),
        _ => None,
    }
}

impl Drawing {
    /// Draws it: a PNG, or a GIF that moves.
    pub(crate) fn draw(&self) -> Result<Vec<u8>, GenerateError> {
        let Some((_, edge_max, _, _)) = rules(&self.model) else {
            return Err(GenerateError::unknown_model(&self.model));
        };
        // It may come back from storage, so it is looked at again.
        for (field, edge) in [("width", self.width), ("height", self.height)] {
            if !(64..=edge_max).contains(&u64::from(edge)) {
                return Err(GenerateError::input(field, format!("is not from 64 to {edge_max}")));
            }
        }
        let encoded = match self.model.as_str() {
            ART => art::png(self),
            CLIP => clip::gif(self),
            _ => return Err(GenerateError::unknown_model(&self.model)),
        };
        encoded.map_err(|it| GenerateError::new(ErrorKind::Unavailable, format!("not drawn: {it}")))
    }
}

/// Refuses fields that these models do not know: taking them would be a promise.
fn check_fields(kind: OutputKind, input: &Map<String, Value>) -> Result<(), GenerateError> {
    let mut taken = vec![
        "positivePrompt",
        "width",
        "height",
        "seed",
        "taskType",
        "numberResults",
        "outputFormat",
    ];
    if kind == OutputKind::Video {
        taken.push("duration");
    }
    let other = input.keys().find(|it| !taken.contains(&it.as_str()));
    match other {
        Some(field) => Err(GenerateError::input(field, "is nothing that this model can do")),
        None => Ok(()),
    }
}

#[async_trait]
impl Provider for Embedded {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn models(&self) -> Vec<Model> {
        let model = |id: &str, name: &str, kind| Model { id: id.into(), name: name.into(), kind };
        vec![
            model(ART, "Art (procedural, no AI model)", OutputKind::Image),
            model(CLIP, "Clip (procedural, no AI model)", OutputKind::Video),
        ]
    }

    fn check(&self, request: &Request) -> Result<Checked, GenerateError> {
        let Request { model, input } = request;
        let Some((kind, edge_max, edge, format)) = rules(model) else {
            return Err(GenerateError::unknown_model(model));
        };
        check_fields(kind, input)?;
        one_result(input)?;
        if prompt(input, 1)?.is_none() {
            return Err(GenerateError::input("positivePrompt", "is missing; say what to make"));
        }
        let task_type = match kind {
            OutputKind::Image => "imageInference",
            OutputKind::Video => "videoInference",
        };
        for (field, value) in [("outputFormat", format), ("taskType", task_type)] {
            if text(input, field)?.is_some_and(|it| it != value) {
                return Err(GenerateError::input(field, format!("can only be {value}")));
            }
        }
        number(input, "seed", 0..=SEED_MAX)?;
        let mut checked = input.clone();
        checked.retain(|_, it| !it.is_null());
        for field in ["taskType", "numberResults", "outputFormat"] {
            checked.remove(field);
        }
        for field in ["width", "height"] {
            let size = number(input, field, 64..=edge_max)?.unwrap_or(edge);
            checked.insert(field.into(), json!(size));
        }
        if kind == OutputKind::Video {
            let seconds = number(input, "duration", 1..=3)?.unwrap_or(2);
            checked.insert("duration".into(), json!(seconds));
        }
        Ok(Checked { kind, input: checked })
    }

    /// Nothing is drawn yet: the output is a note of what to draw, and drawn when it is opened.
    async fn submit(&self, task: &Task) -> Result<Submitted, GenerateError> {
        let request = Request { model: task.model.clone(), input: task.input.clone() };
        let Checked { kind, input } = self.check(&request)?;
        // Nobody said which seed: each task has its own, and always the same.
        let own = || {
            let digest = Sha256::digest(task.id.as_bytes());
            let number = digest.iter().take(8).fold(0, |all, it| all << 8 | u64::from(*it));
            number & SEED_MAX
        };
        let seed = number(&input, "seed", 0..=SEED_MAX)?.unwrap_or_else(own);
        let edge = |it: &str| input.get(it).and_then(Value::as_u64).map_or(0, |it| it as u32);
        let drawing = Drawing {
            model: task.model.clone(),
            prompt: prompt(&input, 1)?.unwrap_or_default().to_owned(),
            seed,
            width: edge("width"),
            height: edge("height"),
            seconds: (kind == OutputKind::Video).then(|| edge("duration")),
        };
        let (task_type, content_type) = match kind {
            OutputKind::Image => ("imageInference", "image/png"),
            OutputKind::Video => ("videoInference", "image/gif"),
        };
        let raw = json!({
            "taskType": task_type,
            "taskUUID": task.id,
            "model": task.model,
            "method": METHOD,
            "seed": seed,
            "cost": 0,
        });
        Ok(Submitted::Finished(vec![Output {
            id: Some(task.id.clone()),
            source: OutputSource::Inline { drawing },
            seed: Some(seed),
            cost: Some(0.0),
            content_type: Some(content_type.into()),
            raw,
        }]))
    }

    /// It remembers nothing and charges nothing: what was lost is submitted again.
    async fn poll(&self, tasks: &[String]) -> Result<Vec<Report>, GenerateError> {
        let unknown = |it: &String| Report { task: Some(it.clone()), state: TaskState::Unknown };
        Ok(tasks.iter().map(unknown).collect())
    }

    async fn open(
        &self,
        source: &OutputSource,
        bytes_max: u64,
    ) -> Result<OutputStream, GenerateError> {
        let OutputSource::Inline { drawing } = source else {
            let message = "the output is at an address, and the embedded provider asks none";
            return Err(GenerateError::new(ErrorKind::OutputAddress, message));
        };
        let work = || {
            let drawing = drawing.clone();
            move || drawing.draw()
        };
        let failed = |it| GenerateError::new(ErrorKind::Unavailable, format!("not drawn: {it}"));
        let drawn = self.pool.run(work).await.map_err(|error| failed(error.to_string()))??;
        if bytes_max < drawn.len() as u64 {
            let message = format!("the output has more than {bytes_max} bytes");
            return Err(GenerateError::new(ErrorKind::OutputTooLarge, message));
        }
        OutputStream::there(Bytes::from(drawn))
    }

    fn parse_webhook(&self, _body: &[u8]) -> Result<Vec<Report>, GenerateError> {
        let message = "the embedded provider sends no webhooks";
        Err(GenerateError::new(ErrorKind::Answer, message))
    }
}

#[cfg(test)]
mod tests;
