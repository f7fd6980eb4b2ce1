//! Small charts of the last hour. SVG attributes draw them, because pages allow no inline styles.

use maud::{Markup, html};
use steadfast_store::Timestamp;

/// Bounds of the shown time in milliseconds.
const SHOWN_MS_MIN: i64 = 5 * 60_000;
const SHOWN_MS_MAX: i64 = 60 * 60_000;

/// The size of the drawing.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 60.0;

/// A longer time without a value is a gap in the line: the store did not respond, or no request
/// arrived.
const GAP_MS: i64 = 25_000;

/// Values over time. `None` is a gap.
pub(crate) struct Line {
    class: &'static str,
    values: Vec<(Timestamp, Option<f64>)>,
    gap_ms: i64,
}

impl Line {
    /// Values of every period.
    pub(crate) fn new(class: &'static str, values: Vec<(Timestamp, Option<f64>)>) -> Self {
        Self { class, values, gap_ms: GAP_MS }
    }

    /// Values recorded on changes: the line has no gaps.
    pub(crate) fn on_change(class: &'static str, values: &[(Timestamp, u64)]) -> Self {
        let values = values.iter().map(|it| (it.0, Some(it.1 as f64))).collect();
        Self { class, values, gap_ms: i64::MAX }
    }
}

/// A chart with its last and its highest value, formatted by `words`.
pub(crate) fn chart(
    title: &str,
    lines: &[Line],
    now: Timestamp,
    words: impl Fn(f64) -> String,
) -> Markup {
    let values = lines.iter().flat_map(|it| &it.values).filter_map(|it| it.1);
    let highest = values.fold(0.0, f64::max);
    let first = lines.iter().filter_map(|it| it.values.first()).map(|it| it.0.0).min();
    let shown = first.map_or(0, |it| now.0 - it).clamp(SHOWN_MS_MIN, SHOWN_MS_MAX);
    // The last line has the highest values.
    let last = lines.last().and_then(|it| it.values.last()).and_then(|it| it.1);
    let last = last.map_or("–".into(), &words);
    let highest_words = match highest {
        0.0 if last == "–" => "no value yet".into(),
        _ => format!("highest {}", words(highest)),
    };
    html! {
        figure.chart {
            figcaption { span { (title) } strong { (last) } }
            svg viewBox="0 0 360 60" preserveAspectRatio="none" role="img"
                aria-label={ (title) ": last " (last) ", " (highest_words) } {
                @for line in lines {
                    @for part in parts(line, (now, shown), highest) {
                        polyline.(line.class) points=(part) {}
                    }
                }
            }
            p.quiet { span { (shown / 60_000) " min ago" } span { (highest_words) } }
        }
    }
}

/// The points of a line in segments: a missing value ends one.
fn parts(line: &Line, (now, shown): (Timestamp, i64), highest: f64) -> Vec<String> {
    let x = |at: Timestamp| WIDTH * (1.0 - (now.0 - at.0) as f64 / shown as f64);
    let y = |value: f64| HEIGHT - 2.0 - (HEIGHT - 4.0) * value / highest.max(f64::MIN_POSITIVE);
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut last: Option<Timestamp> = None;
    for (at, value) in line.values.iter().filter_map(|(at, value)| Some((*at, (*value)?))) {
        let corner = (x(at), y(value));
        let goes_on = last.is_some_and(|it| at.0 - it.0 < line.gap_ms);
        match parts.last_mut().filter(|_| goes_on) {
            Some(part) => part.push(corner),
            None => parts.push(vec![corner]),
        }
        last = Some(at);
    }
    let text = |part: Vec<(f64, f64)>| {
        // A single value is drawn as a dash.
        let first = part.first().map(|it| (it.0 - 1.0, it.1));
        let corners = first.into_iter().chain(part).filter(|it| 0.0 <= it.0);
        corners.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    };
    parts.into_iter().map(text).collect()
}

/// Size of a sparkline.
const SPARK_WIDTH: f64 = 100.0;
const SPARK_HEIGHT: f64 = 24.0;

/// Values over time as a sparkline over the known time.
pub(crate) fn spark(values: &[(Timestamp, u64)], about: &str) -> Markup {
    let corners = corners(values);
    let is_calm = values.iter().all(|it| it.1 == 0);
    html! {
        svg.spark.calm[is_calm] viewBox="0 0 100 24" preserveAspectRatio="none" role="img"
            aria-label=(about) {
            polygon points={ "0,24 " (corners) " 100,24" } {}
            polyline points=(corners) {}
        }
    }
}

fn corners(values: &[(Timestamp, u64)]) -> String {
    let most = values.iter().map(|it| it.1).max().unwrap_or(0);
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return FLAT.into() };
    if most == 0 {
        return FLAT.into();
    }
    let y = |value: u64| SPARK_HEIGHT - 1.0 - (SPARK_HEIGHT - 2.0) * value as f64 / most as f64;
    if first.0 == last.0 {
        return format!("0,{0:.1} 100,{0:.1}", y(last.1));
    }
    let whole = (last.0.0 - first.0.0) as f64;
    let corner = |(at, value): &(Timestamp, u64)| {
        let x = SPARK_WIDTH * (at.0 - first.0.0) as f64 / whole;
        format!("{x:.1},{:.1}", y(*value))
    };
    values.iter().map(corner).collect::<Vec<_>>().join(" ")
}

/// Constant, so that the page of an idle queue does not change.
const FLAT: &str = "0,23 100,23";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_spans_its_time_and_its_values() {
        let corners = |all: &[(i64, u64)]| {
            corners(&all.iter().map(|it| (Timestamp(it.0), it.1)).collect::<Vec<_>>())
        };
        assert_eq!(corners(&[]), "0,23 100,23");
        assert_eq!(corners(&[(0, 7)]), "0,1.0 100,1.0");
        assert_eq!(corners(&[(0, 0), (5, 10), (20, 5)]), "0.0,23.0 25.0,1.0 100.0,12.0");
        assert_eq!(corners(&[(0, 0), (9, 0)]), "0,23 100,23");
    }

    fn parts_of(values: &[(i64, Option<f64>)]) -> Vec<String> {
        let values: Vec<_> = values.iter().map(|it| (Timestamp(it.0), it.1)).collect();
        parts(&Line::new("value", values), (Timestamp(3_600_000), 3_600_000), 10.0)
    }

    #[test]
    fn a_line_is_placed_in_the_hour_and_interrupted_by_a_gap() {
        let shown = parts_of(&[
            (1_800_000, Some(10.0)),
            (1_810_000, Some(5.0)),
            (1_820_000, None),
            (1_830_000, None),
            (1_840_000, Some(0.0)),
        ]);
        assert_eq!(shown, ["179.0,2.0 180.0,2.0 181.0,30.0", "183.0,58.0 184.0,58.0"]);
        assert!(parts_of(&[]).is_empty());
    }

    #[test]
    fn an_empty_chart_shows_a_dash() {
        let chart = chart("Commits", &[], Timestamp(0), |it| format!("{it}/s")).into_string();
        assert!(chart.contains("<strong>–</strong>") && !chart.contains("polyline"), "{chart}");
    }
}
