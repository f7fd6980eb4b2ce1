//! Runware's client against a Runware that misbehaves.

mod opening;
mod polling;
mod submitting;
mod webhooks;

use serde_json::{Value, json};
use steadfast_fake_runware::FakeRunware;
use steadfast_generations::providers::{
    Delivery, GenerateError, Output, OutputSource, OutputStream, Provider, Reconcile, Request,
    Runware, RunwareOptions, Submitted, Task, TaskState,
};

/// A fake and a client of it.
struct World {
    fake: FakeRunware,
    runware: Runware,
}

impl World {
    fn new() -> Self {
        Self::with(|options| options)
    }

    fn with(change: impl FnOnce(RunwareOptions) -> RunwareOptions) -> Self {
        let fake = FakeRunware::start().unwrap();
        let runware = Runware::new(change(fake.options())).unwrap();
        Self { fake, runware }
    }

    /// With images delivered later, as videos are.
    fn later() -> Self {
        Self::with(|it| RunwareOptions { image_delivery: Delivery::Async, ..it })
    }

    /// A task, checked as the application does.
    fn task(&self, number: u32, input: Value) -> Task {
        let model = "runware:101@1".to_owned();
        let mut request = Request { model, input: input.as_object().unwrap().clone() };
        if request.input.contains_key("duration") {
            request.model = "klingai:5@3".into();
        }
        let checked = self.runware.check(&request).unwrap();
        Task {
            id: format!("0d6a1c52-7b1f-4a57-9a0e-{number:012}"),
            model: request.model,
            kind: checked.kind,
            input: checked.input,
            webhook_url: None,
        }
    }

    fn image(&self, prompt: &str) -> Task {
        self.task(1, json!({ "positivePrompt": prompt, "width": 512, "height": 512 }))
    }

    fn video(&self, prompt: &str) -> Task {
        self.task(2, json!({ "positivePrompt": prompt, "duration": 5 }))
    }

    async fn poll(&self, task: &Task) -> Result<TaskState, GenerateError> {
        let mut reports = self.runware.poll(std::slice::from_ref(&task.id)).await?;
        assert_eq!(reports.len(), 1);
        let report = reports.remove(0);
        assert_eq!(report.task.as_ref(), Some(&task.id));
        Ok(report.state)
    }

    /// Polls first, then submits, as the application does with a task, also after each crash.
    async fn ask_then_submit(&self, task: &Task) -> Result<Option<Output>, GenerateError> {
        let outputs = match self.poll(task).await? {
            TaskState::Finished(outputs) => outputs,
            TaskState::InProgress { .. } => return Ok(None),
            TaskState::Failed(error) => return Err(error),
            TaskState::Unknown => match self.runware.submit(task).await? {
                Submitted::Finished(outputs) => outputs,
                Submitted::Accepted => return Ok(None),
            },
        };
        Ok(outputs.into_iter().next())
    }
}

fn one(submitted: Submitted) -> Output {
    let Submitted::Finished(mut outputs) = submitted else { panic!("it is not done") };
    assert_eq!(outputs.len(), 1);
    outputs.remove(0)
}

fn finished(state: TaskState) -> Output {
    let TaskState::Finished(mut outputs) = state else { panic!("it is not done: {state:?}") };
    assert_eq!(outputs.len(), 1);
    outputs.remove(0)
}

fn url(output: &Output) -> &str {
    let OutputSource::Url { url } = &output.source else { panic!("it is at no address") };
    url
}

/// All bytes of a stream, and the size of its largest chunk.
async fn read(stream: &mut OutputStream) -> Result<(Vec<u8>, usize), GenerateError> {
    let (mut bytes, mut largest) = (Vec::new(), 0);
    while let Some(chunk) = stream.chunk().await? {
        largest = largest.max(chunk.len());
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, largest))
}
