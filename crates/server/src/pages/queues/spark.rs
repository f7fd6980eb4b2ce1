//! How a queue was over the last minutes, as a small picture made of attributes: the pages allow no
//! style in the markup.

use maud::{Markup, html};
use steadfast_store::{Clock, SystemClock, Timestamp};

use crate::api::wire::{QueueEntry, SampleEntry};

/// The size of a picture in its own units.
const WIDTH: f64 = 100.0;
const HEIGHT: f64 = 24.0;

/// How deep a queue was.
pub(super) fn depth(queue: &QueueEntry) -> Markup {
    let now = (SystemClock.now(), queue.depth);
    spark(&line(queue, |it| it.depth, now), "depth over the last minutes")
}

/// How old the oldest of its messages was.
pub(super) fn age(queue: &QueueEntry) -> Markup {
    let now = (SystemClock.now(), queue.oldest_age_ms.unwrap_or(0));
    spark(&line(queue, |it| it.oldest_age_ms, now), "age of the oldest over the last minutes")
}

/// What was looked at now and then, and what is now.
fn line(
    queue: &QueueEntry,
    value: fn(&SampleEntry) -> u64,
    now: (Timestamp, u64),
) -> Vec<(Timestamp, u64)> {
    let before =
        queue.history.iter().filter_map(|it| Some((steadfast_api::read_time(&it.at)?, value(it))));
    before.filter(|it| it.0 < now.0).chain([now]).collect()
}

fn spark(line: &[(Timestamp, u64)], what: &str) -> Markup {
    let corners = points(line);
    let is_calm = line.iter().all(|it| it.1 == 0);
    html! {
        svg.spark.calm[is_calm] viewBox="0 0 100 24" preserveAspectRatio="none" role="img"
            aria-label=(what) {
            polygon points={ "0,24 " (corners) " 100,24" } {}
            polyline points=(corners) {}
        }
    }
}

/// The corners of the line. It is as wide as the time that is known, and as high as its highest.
fn points(line: &[(Timestamp, u64)]) -> String {
    let most = line.iter().map(|it| it.1).max().unwrap_or(0);
    let (Some(first), Some(last)) = (line.first(), line.last()) else { return calm() };
    if most == 0 {
        // Always the same, so that a page on which nothing happens does not change.
        return calm();
    }
    let y = |value: u64| HEIGHT - 1.0 - (HEIGHT - 2.0) * value as f64 / most as f64;
    if first.0 == last.0 {
        return format!("0,{0:.1} 100,{0:.1}", y(last.1));
    }
    let whole = (last.0.0 - first.0.0) as f64;
    let corner = |(at, value): &(Timestamp, u64)| {
        let x = WIDTH * (at.0 - first.0.0) as f64 / whole;
        format!("{x:.1},{:.1}", y(*value))
    };
    line.iter().map(corner).collect::<Vec<_>>().join(" ")
}

fn calm() -> String {
    "0,23 100,23".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_the_first_look_to_the_last_and_up_to_the_highest() {
        let points = |all: &[(i64, u64)]| {
            points(&all.iter().map(|it| (Timestamp(it.0), it.1)).collect::<Vec<_>>())
        };
        assert_eq!(points(&[]), "0,23 100,23");
        assert_eq!(points(&[(0, 7)]), "0,1.0 100,1.0");
        assert_eq!(points(&[(0, 0), (5, 10), (20, 5)]), "0.0,23.0 25.0,1.0 100.0,12.0");
        assert_eq!(points(&[(0, 0), (9, 0)]), "0,23 100,23");
    }
}
