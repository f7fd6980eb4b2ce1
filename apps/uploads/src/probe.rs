//! Whether the classifier is there, asked once for all runs that want to know.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use steadfast_core::store::StoreClock;
use tokio::sync::Mutex;

use crate::classifier::{Classifier, ClassifyError};

/// How long the answer that the classifier is away holds for everybody. That it is there is asked
/// anew: an image that is not taken then counts as refused.
const AWAY: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Probe {
    asked: AtomicU64,
    /// The last answer, and when it came.
    last: Mutex<Option<(Duration, Result<(), ClassifyError>)>>,
}

impl Probe {
    pub(crate) async fn ask(
        &self,
        classifier: &dyn Classifier,
        clock: &StoreClock,
    ) -> Result<(), ClassifyError> {
        let seen = self.asked.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &*last {
            let is_new = seen != self.asked.load(Ordering::SeqCst);
            if is_new || (answer.is_err() && clock.elapsed() < *at + AWAY) {
                return answer.clone();
            }
        }
        let answer = classifier.ready().await;
        self.asked.fetch_add(1, Ordering::SeqCst);
        *last = Some((clock.elapsed(), answer.clone()));
        answer
    }
}
