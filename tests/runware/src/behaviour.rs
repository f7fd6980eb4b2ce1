//! Failures and delays that a prompt asks for besides a picture.

/// Failures and delays of a task. Words of the prompt select them, anywhere in it:
///
/// | Word | What happens |
/// |---|---|
/// | `fail:503`, `fail:429:2` | submissions end in the status, all of them or the first two |
/// | `wait:9`, `wait-until:09` | they say how long to wait: in seconds, or as a time |
/// | `error:CODE` | the task fails with this code |
/// | `drop-answer` | the task is taken and charged, the connection closed |
/// | `hang` | the task is taken and charged, and no answer comes |
/// | `nonsense`, `huge-answer` | it is taken and charged, the answer is HTML, or has no end |
/// | `taken-silently` | the answer to the submission is empty |
/// | `duplicate-webhook`, `no-webhook` | it comes twice, or never |
/// | `webhook-first`, `late-webhook` | it comes before the answer, or when the test says |
/// | `polls:3` | the first three polls say that it is in progress |
/// | `never-done` | all of them do |
/// | `partial` | the first poll and the first webhook have a part of it |
/// | `forget-response`, `forget` | polls do not know it; the account's records neither |
/// | `expire-response` | polls say that it is expired |
/// | `details:CODE`, `details-silent` | the records refuse with this code, or say nothing |
/// | `slow`, `stall`, `cut` | the file comes in drops, stops halfway, ends halfway |
/// | `huge`, `huge-length` | it has no end, or says it has a terabyte |
/// | `wrong-content`, `gone` | it is HTML that says it is a PNG, or not there |
/// | `redirect-once`, `redirect-loop` | it is elsewhere, or always elsewhere |
/// | `redirect-private`, `redirect-metadata`, `redirect-scheme` | it is where nobody may look |
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    words: Vec<String>,
    /// When and how often the webhook is delivered.
    pub webhooks: Webhooks,
}

/// When and how often the webhook is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Webhooks {
    /// It comes after the answer.
    #[default]
    Once,
    /// It comes after the answer, and again.
    Twice,
    /// It comes before the answer.
    First,
    /// It comes when the test says.
    Late,
    /// It does not come.
    Never,
}

impl Behaviour {
    /// Reads the words of a prompt.
    pub fn of(prompt: &str) -> Self {
        let words: Vec<String> = prompt.split_whitespace().map(str::to_owned).collect();
        let has = |it: &str| words.iter().any(|word| word == it);
        let webhooks = if has("duplicate-webhook") {
            Webhooks::Twice
        } else if has("webhook-first") {
            Webhooks::First
        } else if has("late-webhook") {
            Webhooks::Late
        } else if has("no-webhook") {
            Webhooks::Never
        } else {
            Webhooks::Once
        };
        Self { words, webhooks }
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    /// The text after a word and a colon.
    pub(super) fn after(&self, word: &str) -> Option<&str> {
        self.words.iter().find_map(|it| it.strip_prefix(word)?.strip_prefix(':'))
    }

    /// The headers of a status: how long to wait, which is 7 seconds for 429.
    pub(super) fn headers(&self, status: u16) -> String {
        let day = "Wed, 21 Oct 2015 07:28";
        if let Some(seconds) = self.after("wait-until") {
            format!("date: {day}:00 GMT\r\nretry-after: {day}:{seconds} GMT\r\n")
        } else if let Some(seconds) = self.after("wait").or((status == 429).then_some("7")) {
            format!("retry-after: {seconds}\r\n")
        } else {
            String::new()
        }
    }

    /// The status that a submission ends in, if it does.
    pub(super) fn failure(&self, submission: u32) -> Option<u16> {
        let text = self.after("fail")?;
        let (status, times) = text.split_once(':').unwrap_or((text, ""));
        let times = times.parse().unwrap_or(u32::MAX);
        status.parse().ok().filter(|_| submission <= times)
    }
}
