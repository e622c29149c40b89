//! P10 is judged over a state, so these histories are real cells.

use super::{job, node};
use crate::{Reason, Why, judge_reason, stuck_jobs};
use ohm_cell::{Applied, Cell};
use ohm_model::{
    Class, Command, Entry, Envelope, GroupIndex, Index, JobSpec, Role, Sequence, SessionId, TopologyMode,
    TopologyRequest, TopologySlice, TopologySpec,
};

const RACK: &str = "rack";

struct World {
    cell: Cell,
    index: u64,
}

impl World {
    /// Two nodes in each of two racks.
    fn new() -> Self {
        let mut world = World { cell: Cell::new(), index: 0 };
        world.apply(0, Command::OpenSession { nonce: 1, role: Role::Server, name: "test".into() });
        let levels = [RACK, ohm_model::node::HOSTNAME_LABEL].map(String::from).to_vec();
        world.apply(1, Command::PutTopology(TopologySpec { name: "default".into(), levels }));
        for (number, rack) in ["r0", "r0", "r1", "r1"].into_iter().enumerate() {
            let spec = node(&format!("n{number}"), &[(RACK, rack)]);
            world.apply(
                1,
                Command::RegisterNode { spec, key: number as u64 + 1, instance: 1, boot: 1, alive: Vec::new() },
            );
        }
        world
    }

    fn apply(&mut self, session: u64, command: Command) {
        self.index += 1;
        let sequence = Sequence(if session > 0 { self.index } else { 0 });
        let envelope = Envelope::new(SessionId(session), sequence, Sequence(0), command);
        let entry = Entry { stamp_ms: self.index, commands: vec![envelope] };
        self.cell.apply(Index(self.index), &entry, &mut Applied::default());
    }

    /// Whether the job, submitted alone, is found to wait although it fits.
    fn sees_stuck(mut self, spec: JobSpec) -> bool {
        self.apply(1, Command::SubmitJobs { jobs: vec![spec] });
        assert_eq!(self.cell.jobs().len(), 1, "the cell takes the job");
        !stuck_jobs(&self.cell).is_empty()
    }
}

/// A gang of `count` tasks of which `per_node` fit on one node.
fn gang(count: u32, per_node: i64, edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    job("j", count, |job| {
        job.class = Class::TAS;
        let capacity = node("n", &[]).capacity["cpu"];
        job.groups[0].requests = [("cpu".to_string(), capacity / per_node)].into();
        job.groups[0].min_count = count;
        job.groups[0].topology =
            TopologyRequest { mode: TopologyMode::Required, level: RACK.into(), ..TopologyRequest::default() };
        edit(job);
    })
}

#[test]
fn a_job_that_waits_although_it_fits_is_seen() {
    assert!(!World::new().sees_stuck(gang(5, 2, |_| {})), "a rack takes four");
    assert!(World::new().sees_stuck(gang(4, 2, |_| {})));
}

#[test]
fn so_is_one_of_several_groups() {
    let with_side = |count: u32, together: bool| {
        gang(2, 2, |job| {
            let mut side = job.groups[0].clone();
            (side.name, side.count, side.min_count) = ("side".into(), count, count);
            job.groups.push(side);
            if together {
                job.groups.iter_mut().for_each(|group| group.place_with = "team".into());
                (job.groups[0].count, job.groups[0].min_count) = (1, 1);
            }
        })
    };
    assert!(World::new().sees_stuck(with_side(4, false)), "each in a rack of its own");
    assert!(!World::new().sees_stuck(with_side(5, false)));
    assert!(World::new().sees_stuck(with_side(3, true)), "leader and three workers in one rack");
    assert!(!World::new().sees_stuck(with_side(4, true)));
}

#[test]
fn so_is_one_with_slices() {
    let sliced = |count: u32, per_node: i64, level: &str, size: u32| {
        gang(count, per_node, |job| {
            job.groups[0].topology = TopologyRequest {
                mode: TopologyMode::Preferred,
                level: RACK.into(),
                slices: vec![TopologySlice { level: level.into(), size }],
                ..TopologyRequest::default()
            };
        })
    };
    let host = ohm_model::node::HOSTNAME_LABEL;
    assert!(World::new().sees_stuck(sliced(8, 2, host, 2)), "a pair on each of four nodes");
    assert!(!World::new().sees_stuck(sliced(6, 1, host, 2)), "no node takes a pair");
    assert!(World::new().sees_stuck(sliced(8, 2, RACK, 4)), "four in each rack");
    assert!(!World::new().sees_stuck(sliced(6, 2, RACK, 6)), "no rack takes six");
}

#[test]
fn a_reason_that_is_not_true_is_seen() {
    let mut world = World::new();
    world.apply(1, Command::SubmitJobs { jobs: vec![gang(9, 2, |_| {})] });
    let job = world.cell.jobs().find("j").expect("submitted").clone();
    let told = |misses: &[(Why, u32)]| Reason {
        group: GroupIndex(0),
        beside: Vec::new(),
        text: "no room".into(),
        short: Some((8, 9)),
        total_nodes: 4,
        open_nodes: 4 - misses.iter().map(|(_, nodes)| nodes).sum::<u32>(),
        misses: misses.to_vec(),
        quota: None,
    };
    let good = told(&[]);
    assert_eq!(judge_reason(&world.cell, &job, &good), None);
    for wrong in [
        Reason { text: " ".into(), ..good.clone() },
        Reason { short: Some((9, 9)), ..good.clone() },
        Reason { total_nodes: 5, ..good.clone() },
        Reason { open_nodes: 3, ..good },
        told(&[(Why::Closed, 1)]),
        told(&[(Why::Class, 2)]),
        told(&[(Why::Resource(ohm_cell::CPU), 4)]),
    ] {
        assert!(judge_reason(&world.cell, &job, &wrong).is_some(), "{wrong:?}");
    }
}
