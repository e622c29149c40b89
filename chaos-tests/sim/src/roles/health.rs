//! A simulated candidate for the health duty.

use super::follower::{Duty, Follower};
use crate::faults::Victim;
use crate::stage::{Stage, Up};
use ohm_agent::BeatAnswer;
use ohm_health::{BeatMark, DutyConfig, DutyCore, DutyInput, DutyWord, RelayedBeats};
use ohm_replica::Beat;
use ohm_stdx::Prng;

/// It hears beats and answers them.
pub(crate) struct Health;

pub(crate) type HealthProcess = Follower<Health>;

impl Duty for Health {
    type Core = DutyCore;
    const NAME: &'static str = "health";
    const TICK_MS: u64 = 40;
    const SHOWS_SESSION: bool = true;

    fn victim(number: usize) -> Victim {
        Victim::Health(number)
    }

    fn core(&self, number: usize, starts: u64, stage: &Stage, dice: &mut Prng) -> DutyCore {
        let name = format!("health-{number} #{starts}");
        let mut health = stage.knobs.health();
        if stage.knobs.leases_differ {
            health.node_lease_ms += stage.knobs.theme.lease_differences_ms()[dice.below(4) as usize];
        }
        DutyCore::new(DutyConfig { name, health }, dice.fork())
    }

    fn perform(health: &mut HealthProcess, word: DutyWord, stage: &mut Stage) -> Option<DutyInput> {
        if let (DutyWord::HearsNobody { .. }, Some(connection)) = (&word, health.shell.connection) {
            stage.break_connection(connection);
            return None;
        }
        if let DutyWord::Answers { duty_epoch, lease_ms, interval_ms, answers, relay } = word {
            let answers = answers.into_iter().map(|mark| {
                let (incarnation, sequence) = (mark.incarnation, mark.sequence);
                (mark.node, BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms })
            });
            stage.send_up(relay, Up::Answers(answers.collect()));
        }
        None
    }

    fn beats(connection: u64, beats: Vec<Beat>) -> Option<DutyInput> {
        let mark = |beat: Beat| BeatMark { node: beat.node, incarnation: beat.incarnation, sequence: beat.sequence };
        let beats = beats.into_iter().map(mark).collect();
        Some(DutyInput::Own(RelayedBeats { relay: connection, beats }))
    }
}
