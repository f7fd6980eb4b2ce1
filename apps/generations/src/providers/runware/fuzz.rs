//! Fuzz targets: answers of Runware, and the files that it makes.

use std::collections::HashSet;

use steadfast_egress::fuzz::assert_short;

use super::{
    super::{
        error::GenerateError,
        media::{MediaKind, MediaSize, sniff_media},
        provider::{OutputSource, TaskState},
    },
    taxonomy,
    wire::{Answer, reports},
};

/// The body of an answer or a webhook. The first byte stands for the status.
pub fn runware(data: &[u8]) {
    let Some((status, body)) = data.split_first() else { return };
    let status = 200 + 2 * u16::from(*status);
    let answer = match Answer::parse(status, None, body) {
        Ok(answer) => answer,
        Err(error) => return assert_error(&error),
    };
    assert_reports(&answer);
    if let Some(error) = answer.refusal() {
        assert_error(&error);
        assert!(!taxonomy::is_missing(&error), "a missing task is no refusal");
    }
    if let Some(inner) = answer.details("t") {
        assert_reports(&inner);
    }
    if let Err(error) = answer.or_status() {
        assert!(!(200..300).contains(&status));
        assert_error(&error);
    }
}

/// Each task has one report.
fn assert_reports(answer: &Answer) {
    let found = reports(answer);
    let tasks: HashSet<_> = found.iter().map(|it| &it.task).collect();
    assert_eq!(tasks.len(), found.len(), "two reports of one task");
    for report in &found {
        match &report.state {
            TaskState::Finished(outputs) => {
                assert!(!outputs.is_empty());
                for output in outputs {
                    let OutputSource::Url { .. } = output.source else { panic!("no address") };
                    assert!(output.cost.is_none_or(|it| 0.0 <= it && it.is_finite()));
                }
            }
            TaskState::Failed(error) => assert_error(error),
            TaskState::InProgress { progress, .. } => {
                assert!(progress.is_none_or(|it| it <= 100));
            }
            TaskState::Unknown => panic!("an answer does not say this"),
        }
    }
}

fn assert_error(error: &GenerateError) {
    assert_short(&error.message);
    assert!(error.field.as_ref().is_none_or(|it| it.chars().count() <= 60));
}

/// A file that was made. The first byte is the size of the pieces in which it arrives.
pub fn media(data: &[u8]) {
    let Some((piece, file)) = data.split_first() else { return };
    let kinds = [
        MediaKind::Png,
        MediaKind::Jpeg,
        MediaKind::Webp,
        MediaKind::Gif,
        MediaKind::Mp4,
        MediaKind::Webm,
    ];
    let _ = sniff_media(file);
    for kind in kinds {
        let size = |piece: usize| {
            let mut size = MediaSize::new(kind);
            file.chunks(piece.max(1)).for_each(|it| size.add(it));
            size.find()
        };
        let found = size(usize::from(*piece));
        assert_eq!(found, size(file.len()), "the size of the pieces matters");
        assert!(found.is_none_or(|it| 0 < it.0 && 0 < it.1));
    }
}

#[cfg(test)]
mod tests {
    use steadfast_mutations::run;

    #[test]
    fn answers_become_reports_or_short_errors() {
        run("runware", super::runware, 1_500);
    }

    #[test]
    fn the_size_of_a_file_does_not_depend_on_its_pieces() {
        run("media", super::media, 1_500);
    }
}
