//! NodeResourcesFit: how much of each resource is left, or used, once the task is there.

use super::ground::{Ground, Place};
use super::normal::SCORE_MAX;
use ohm_manifest::FitScoring;
use ohm_model::resources::{CPU, MEMORY};
use ohm_model::{FitStrategy, SpreadMode};

/// What is counted for every pod, whether it asks for it or not.
const ALWAYS: [&str; 3] = [CPU, MEMORY, "ephemeral-storage"];

/// What a full mark of a shape counts.
const SHAPE_MAX: i64 = 10;

pub(super) fn score(ground: &Ground<'_>) -> Option<Vec<i64>> {
    let fit = &ground.plugins.fit;
    let of_node = |place: &Place<'_>| {
        let shares = fit.resources.iter().filter_map(|(name, weight)| Some((*weight, share(ground, place, name)?)));
        match &fit.scoring {
            FitScoring::Shape(points) => by_shape(points, shares),
            FitScoring::Towards(strategy) => {
                let is_packed = match strategy {
                    FitStrategy::MostAllocated => true,
                    FitStrategy::LeastAllocated => false,
                    FitStrategy::ByGroup => ground.own.group.spread == SpreadMode::Pack,
                };
                by_direction(is_packed, shares)
            }
        }
    };
    Some(ground.fitting().map(of_node).collect())
}

/// What would be used of a resource, and what there is; nothing where it is left out.
fn share(ground: &Ground<'_>, place: &Place<'_>, name: &str) -> Option<(i64, i64)> {
    let (asked, capacity) = (ground.own.counted(name), place.capacity(name));
    if capacity <= 0 || (asked == 0 && !ALWAYS.contains(&name)) {
        return None;
    }
    Some((ground.counted(place, name).saturating_add(asked), capacity))
}

type Share = (i64, i64);

fn by_direction(is_packed: bool, shares: impl Iterator<Item = (u32, Share)>) -> i64 {
    let score = |(used, capacity): Share| {
        let good = if is_packed { used.min(capacity) } else { (capacity - used).max(0) };
        hundredths(good, capacity)
    };
    let (sum, weights) = shares.fold((0, 0), |(sum, weights), (weight, share)| {
        (sum + i64::from(weight) * score(share), weights + i64::from(weight))
    });
    if weights == 0 { 0 } else { sum / weights }
}

/// Resources that come to nothing are left out.
fn by_shape(points: &[(u32, u32)], shares: impl Iterator<Item = (u32, Share)>) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for (weight, (used, capacity)) in shares {
        let score = on_line(points, if used > capacity { SCORE_MAX } else { hundredths(used, capacity) });
        if score > 0 {
            sum += i64::from(weight) * score;
            weights += i64::from(weight);
        }
    }
    // Halves are rounded up.
    if weights == 0 { 0 } else { (2 * sum + weights) / (2 * weights) }
}

/// The height of the line through `points` where so much is used.
fn on_line(points: &[(u32, u32)], used: i64) -> i64 {
    let point = |(at, score): &(u32, u32)| (i64::from(*at), i64::from(*score) * SCORE_MAX / SHAPE_MAX);
    let Some(next) = points.iter().position(|(at, _)| used <= i64::from(*at)) else {
        return points.last().map_or(0, |last| point(last).1);
    };
    let (to, high) = point(&points[next]);
    let Some((from, low)) = next.checked_sub(1).map(|before| point(&points[before])) else { return high };
    low + (high - low) * (used - from) / (to - from)
}

fn hundredths(part: i64, whole: i64) -> i64 {
    (i128::from(part) * i128::from(SCORE_MAX) / i128::from(whole.max(1))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_straight_between_its_points() {
        let points = [(20, 10), (40, 0), (80, 5)];
        let on = |used| on_line(&points, used);
        assert_eq!([on(0), on(20), on(30), on(40), on(41), on(60), on(80), on(100)], [100, 100, 50, 0, 1, 25, 50, 50]);
    }
}
