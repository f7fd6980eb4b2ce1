//! The order in which steps are shown: by time, with the steps of a branch together.

use std::collections::BTreeMap;

use steadfast_store::sort::sort_by_key;

use super::StepView;

/// A step outside of branches, or a combination with its branches.
struct Group {
    at: i64,
    steps: Vec<StepView>,
}

/// Puts steps in order.
pub(super) fn arrange(steps: Vec<StepView>) -> Vec<StepView> {
    within("", steps)
}

/// Those of one branch and of all that begin in it.
fn within(scope: &str, steps: Vec<StepView>) -> Vec<StepView> {
    let mut groups = Vec::new();
    let mut combined: BTreeMap<String, Vec<StepView>> = BTreeMap::new();
    for step in steps {
        match combination(scope, &step) {
            Some(key) => combined.entry(key).or_default().push(step),
            None => groups.push(Group { at: step.started_at.0.0, steps: vec![step] }),
        }
    }
    groups.extend(combined.into_values().map(|steps| branches(scope, steps)));
    // Stable: what began in the same millisecond stays as it was recorded.
    sort_by_key(&mut groups, |it| it.at);
    groups.into_iter().flat_map(|it| it.steps).collect()
}

/// One combination: itself, if it is recorded, then its branches by their number.
fn branches(scope: &str, steps: Vec<StepView>) -> Group {
    let at = steps.iter().map(|it| it.started_at.0.0).min().unwrap_or(0);
    let mut own = Vec::new();
    let mut branches: BTreeMap<(usize, String), Vec<StepView>> = BTreeMap::new();
    for step in steps {
        match step.branch.get(scope.len()..).filter(|it| !it.is_empty()) {
            None => own.push(step),
            Some(rest) => {
                let branch = rest.split('/').next().unwrap_or(rest);
                let number = branch.rsplit('.').next().and_then(|it| it.parse().ok());
                let key = (number.unwrap_or(0), format!("{scope}{branch}/"));
                branches.entry(key).or_default().push(step);
            }
        }
    }
    own.extend(branches.into_iter().flat_map(|((_, scope), steps)| within(&scope, steps)));
    Group { at, steps: own }
}

/// The combination that a step belongs to, seen from a branch; `None` for one of the branch itself.
fn combination(scope: &str, step: &StepView) -> Option<String> {
    let rest = step.branch.get(scope.len()..).unwrap_or_default();
    if !rest.is_empty() {
        let branch = rest.split('/').next().unwrap_or(rest);
        return Some(branch.rsplit_once('.').map_or(branch, |it| it.0).to_owned());
    }
    let StepView { kind, name, count, .. } = step;
    (kind == "select").then(|| format!("{kind}{name}#{count}"))
}
