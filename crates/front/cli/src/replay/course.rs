//! In which order and at what time the pods arrive and leave.

use super::bar::Bar;
use super::cell::CellClient;
use super::documents::{RunName, job_document};
use super::speed::Speed;
use super::trace::TracePod;
use crate::failure::Failure;
use std::time::{Duration, Instant};

/// How many jobs travel in one request.
const BATCH_JOBS: usize = 512;

/// One thing that happens, by the pod's place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrives(usize),
    Leaves(usize),
}

/// What happens at which millisecond after the start, in order. A pod that is no service leaves by itself.
fn agenda(pods: &[TracePod], speed: Speed) -> Vec<(u64, Happening)> {
    let first_s = pods.iter().map(|pod| pod.created_s).min().unwrap_or(0);
    let at_ms = |seconds: u64| speed.scaled_ms(seconds.saturating_sub(first_s));
    let mut agenda = Vec::with_capacity(pods.len());
    for (number, pod) in pods.iter().enumerate() {
        agenda.push((at_ms(pod.created_s).unwrap_or(0), Happening::Arrives(number)));
        if let Some(leaves_ms) = at_ms(pod.deleted_s) {
            // Who leaves by itself is in the agenda, too: the course lasts until the last one is gone.
            agenda.push((leaves_ms, Happening::Leaves(number)));
        }
    }
    // In the order of the file where the times are equal.
    agenda.sort();
    agenda
}

/// Lets all pods arrive, and leave.
///
/// # Errors
/// A refused pod, an interruption, or a server that is away for too long.
pub(super) fn run(cell: &CellClient, run: &RunName, pods: &[TracePod], speed: Speed) -> Result<(), Failure> {
    let bar = Bar::start("submitting", pods.len() as u64);
    let agenda = agenda(pods, speed);
    let started = Instant::now();
    let mut next = 0;
    while let Some(&(at_ms, _)) = agenda.get(next) {
        cell.pause(Duration::from_millis(at_ms).saturating_sub(started.elapsed()))?;
        let now_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (mut arriving, mut leaving) = (Vec::new(), Vec::new());
        while let Some(&(_, happening)) = agenda.get(next).filter(|due| due.0 <= now_ms && arriving.len() < BATCH_JOBS)
        {
            match happening {
                Happening::Arrives(number) => arriving.push(job_document(run, &pods[number], speed)),
                Happening::Leaves(number) if pods[number].is_service => leaving.push(run.named(&pods[number].name)),
                Happening::Leaves(_) => {}
            }
            next += 1;
        }
        if !arriving.is_empty() {
            cell.submit(&arriving)?;
            bar.advance(arriving.len() as u64);
        }
        // After the arrivals, among which they may be.
        cell.cancel(&leaving, || {})?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(created_s: u64, deleted_s: u64) -> TracePod {
        TracePod { created_s, deleted_s, ..TracePod::default() }
    }

    #[test]
    fn at_full_speed_pods_arrive_in_the_order_of_the_file_and_stay() {
        let arrivals = agenda(&[pod(50, 60), pod(10, 90)], Speed::Max);
        assert_eq!(arrivals, [(0, Happening::Arrives(0)), (0, Happening::Arrives(1))]);
    }

    #[test]
    fn times_are_counted_from_the_first_pod_and_divided() {
        let agenda = agenda(&[pod(110, 160), pod(100, 110)], Speed::Factor(10.0));
        assert_eq!(
            agenda,
            [
                (0, Happening::Arrives(1)),
                (1000, Happening::Arrives(0)),
                (1000, Happening::Leaves(1)),
                (6000, Happening::Leaves(0)),
            ]
        );
        assert_eq!(Speed::Factor(1e9).duration_ms(&pod(5, 6)), Some(1));
        assert_eq!(Speed::Max.duration_ms(&pod(5, 6)), None);
    }
}
