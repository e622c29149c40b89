//! Trouble that aims: once jobs lost tasks, or have just got them back, the wrong thing happens to them at the wrong
//! moment. Between the loss and the plan, the plan and its commit, the commit and the start lie milliseconds that
//! faults drawn beforehand would hardly ever hit.

use crate::faults::{Fault, Victim, Way};
use crate::role::Role;
use crate::roles::{ClientProcess, Roles};
use crate::stage::{Event, Stage};
use crate::workload;
use ohm_model::{Command, EventKind, Index, JobId};
use ohm_oracle::Record;

/// Of 1000 losses and repairs, so many are aimed at.
const AIMED_PERMILLE: u64 = 350;

/// Looks for something to aim at in what has just been applied for the first time, which is what comes after `aimed`.
pub(crate) fn aim(records: &[Record], aimed: &mut Index, roles: &Roles, stage: &mut Stage) {
    if stage.healed || !stage.knobs.losses {
        return;
    }
    for record in records {
        let Record::Applied { index, applied, .. } = record else { continue };
        if *index <= *aimed {
            continue;
        }
        *aimed = *index;
        for event in &applied.events {
            let (job, name, is_admission) = match &event.kind {
                EventKind::TasksLost { job, name, .. } | EventKind::RepairCommitted { job, name, .. } => {
                    (job, name, false)
                }
                EventKind::QuotaReserved { job, name, .. }
                | EventKind::CheckChanged { job, name, .. }
                | EventKind::ChecksReady { job, name, .. } => (job, name, true),
                _ => continue,
            };
            if stage.dice.chance(AIMED_PERMILLE) {
                trouble(*job, name.clone(), is_admission, roles, stage);
            }
        }
    }
}

fn trouble(job: JobId, name: String, is_admission: bool, roles: &Roles, stage: &mut Stage) {
    let after_ms = match stage.dice.below(4) {
        0 => 0,
        1 => stage.dice.between(1, 12),
        2 => stage.dice.between(10, 90),
        _ => stage.dice.between(80, 500),
    };
    if !roles.provisioners.is_empty() && stage.dice.chance(250) {
        return trouble_provisioners(after_ms, roles, stage);
    }
    match stage.dice.below(if is_admission { 9 } else { 6 }) {
        0 => say_after(after_ms, Command::CancelJob { name, grace_ms: None }, stage),
        1 => {
            let again_ms = after_ms + stage.dice.between(5, 800);
            say_after(after_ms, Command::SuspendJob { name: name.clone() }, stage);
            say_after(again_ms, Command::ResumeJob { name }, stage);
        }
        // The node is back before, while or after its tasks are given a new place.
        2 => {
            let down: Vec<usize> = (0..roles.nodes.len()).filter(|number| !roles.nodes[*number].is_up()).collect();
            if let Some(&number) = stage.dice.pick(&down) {
                stage.agenda.after(after_ms, Event::Restart(Victim::Node(number)));
            }
        }
        3 => {
            let number = stage.dice.below(roles.schedulers.len() as u64) as usize;
            let down_ms = stage.dice.between(10, 4_000);
            strike_after(after_ms, Fault::Crash { victim: Victim::Scheduler(number), down_ms }, stage);
        }
        // It becomes another job meanwhile, or what runs of it is done, then or once its second pass has placed it.
        6 => update_after(after_ms, &name, &roles.clients, stage),
        7 => stage.agenda.after(after_ms, Event::Finish(job)),
        8 => {
            let later_ms = after_ms + stage.dice.between(100, 3_000);
            stage.agenda.after(later_ms, Event::Finish(job));
        }
        // A second loss of the same job.
        _ => {
            let hosts = hosts_of(job, roles);
            if let Some(&node) = stage.dice.pick(&hosts) {
                let down_ms = stage.dice.between(3_000, 20_000);
                strike_after(after_ms, Fault::Reboot { node, down_ms }, stage);
            }
        }
    }
}

fn update_after(after_ms: u64, name: &str, clients: &[ClientProcess], stage: &mut Stage) {
    let find = |client: &ClientProcess| client.submitted.iter().find(|spec| spec.name == name).cloned();
    if let Some(spec) = clients.iter().find_map(find) {
        let spec = Box::new(workload::update(&mut stage.dice, &spec));
        say_after(after_ms, Command::UpdateJob { spec, version: None }, stage);
    }
}

fn trouble_provisioners(after_ms: u64, roles: &Roles, stage: &mut Stage) {
    let number = stage.dice.below(roles.provisioners.len() as u64) as usize;
    let (victim, for_ms) = (Victim::Provisioner(number), stage.dice.between(300, 6_000));
    let fault = match stage.dice.below(3) {
        0 => Fault::Crash { victim, down_ms: for_ms },
        1 => Fault::Pause { victim, for_ms },
        _ => Fault::Cut { victim, way: Way::Both, for_ms },
    };
    strike_after(after_ms, fault, stage);
}

fn say_after(after_ms: u64, command: Command, stage: &mut Stage) {
    stage.ask_at(stage.now_ms() + after_ms, command);
}

fn strike_after(after_ms: u64, fault: Fault, stage: &mut Stage) {
    stage.agenda.after(after_ms, Event::Strike(fault));
}

/// The nodes on which tasks of `job` run, as the leader knows it.
fn hosts_of(job: JobId, roles: &Roles) -> Vec<usize> {
    let Some(cell) = roles.cell() else { return Vec::new() };
    let hosts = |number: &usize| {
        let node = cell.nodes().find(&roles.nodes[*number].spec.name);
        node.is_some_and(|node| cell.runs().on_node(cell.nodes(), node).any(|(_, run)| run.run.task.job == job))
    };
    (0..roles.nodes.len()).filter(hosts).collect()
}
