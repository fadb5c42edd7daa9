//! What an engine promises for the numbers that it tells: a transaction sees the commits up to its snapshot, and no others.

use super::versions::{Appended, Read, Versions};
use super::{Anomaly, Finding, Level, Outcome, Transaction};

pub(super) fn check(
    history: &[Transaction],
    versions: &Versions,
    level: Level,
    findings: &mut Vec<Finding>,
) {
    let number = |by: usize| match history[by].outcome {
        Outcome::Committed { number } => Some(number),
        Outcome::Aborted | Outcome::Unknown => None,
    };
    for (key, list) in &versions.order {
        for pair in list.windows(2).filter(|pair| pair[0].by != pair[1].by) {
            let [earlier, later] = [pair[0].by, pair[1].by];
            // The later one has read before the earlier one came.
            if number(earlier).is_some_and(|number| number > history[later].snapshot)
                && number(later).is_some()
            {
                findings.push(Finding::at(Anomaly::Overlap, *key, [earlier, later]));
            }
        }
    }
    for Read { by, key, len } in &versions.reads {
        let Some(list) = versions.order.get(key) else { continue };
        let snapshot = history[*by].snapshot;
        let of = |appended: &Appended| number(appended.by);
        let seen = len.checked_sub(1).and_then(|last| of(list.get(last)?));
        let mut unseen = list.iter().skip(*len);
        let next = unseen.find(|next| next.by != *by);
        if seen.is_some_and(|number| number > snapshot)
            || next.and_then(of).is_some_and(|number| number <= snapshot)
        {
            findings.push(Finding::at(Anomaly::WrongSnapshot, *key, [*by]));
        }
        let before = |appended: &Appended| match (of(appended), number(*by)) {
            (Some(next), Some(own)) => next < own,
            _ => false,
        };
        if level == Level::Serializable && next.is_some_and(before) {
            let next = next.map_or(*by, |next| next.by);
            findings.push(Finding::at(Anomaly::StaleRead, *key, [next, *by]));
        }
    }
}
