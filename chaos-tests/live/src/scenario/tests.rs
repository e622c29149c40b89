use super::*;
use std::fs;

const CELL: &str =
    "cell: 2 real nodes, 3 simulated nodes, 2 batch schedulers, node lease 8s, duty lease 2s, disk of 64MiB\n";
const LOAD: &str = "load: 10 batch jobs on real nodes, 4 per second, 1 to 3 tasks of 300ms\n";

fn with(line: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(&format!("about: a test\n{CELL}{LOAD}{line}\n"))
}

#[test]
fn sentences_are_read() {
    let scenario = with("fault: from 1s every 2s kill server, shim-2 in turn # and so on").unwrap();
    assert_eq!((scenario.cell.real_nodes, scenario.cell.simulated_nodes, scenario.cell.health), (2, 3, 1));
    assert_eq!((scenario.cell.node_lease_ms, scenario.cell.duty_lease_ms), (8_000, 2_000));
    assert_eq!(scenario.cell.disk_bytes, Some(64 << 20));
    let kill = |at_ms, name: &str| Fault { at_ms, kind: Kind::Kill(vec![name.into()]) };
    assert_eq!(scenario.faults, [kill(1_000, "server"), kill(3_000, "shim-2")]);
    let random = with("fault: from 1s every 2s strike at random 3 times").unwrap().faults;
    assert_eq!(random.iter().map(|fault| fault.at_ms).collect::<Vec<_>>(), [1_000, 3_000, 5_000]);
    let load = &scenario.loads[0];
    assert_eq!((load.at_ms(0), load.at_ms(5)), (0, 1_250));
    assert_eq!((0..4).map(|number| load.tasks_of(number)).collect::<Vec<_>>(), [1, 2, 3, 1]);
    let kind = |line: &str| with(line).unwrap().faults[0].kind.clone();
    let all = "server batch-1 batch-2 service-1 tas-1 health-1 node-1 node-2 shim-1 shim-2 fleet";
    let all: Vec<String> = all.split(' ').map(String::from).collect();
    assert_eq!(kind("fault: at 60s kill everything"), Kind::Kill(all));
    assert_eq!(kind("fault: at 1s pause server for 4s"), Kind::Pause { process: "server".into(), for_ms: 4_000 });
    let cut = |way| Kind::Cut { process: "node-1".into(), way, for_ms: 2_000 };
    assert_eq!(kind("fault: at 1s cut node-1 towards the server for 2s"), cut(Way::Towards));
    assert_eq!(kind("fault: at 1s cut node-1 from the server for 2s"), cut(Way::From));
    assert_eq!(kind("fault: at 1s cut node-1 for 2s"), cut(Way::Both));
    assert_eq!(kind("fault: at 1s fill the disk for 2s"), Kind::FillDisk { for_ms: 2_000 });
    assert_eq!(with("expect: quiet within 2min").unwrap().quiet_ms, 120_000);
    assert_eq!(with("expect: node-2 lost").unwrap().expectations, [Expectation::Lost("node-2".into())]);
    assert_eq!(with("expect: P2 broken").unwrap().expectations, [Expectation::Broken("P2".into())]);
    assert_eq!(with("expect: no node lost").unwrap().expectations, [Expectation::NoneLost]);
    assert_eq!(with("expect: no task started again").unwrap().expectations, [Expectation::NoneStartedAgain]);
}

#[test]
fn fleets_stand_in_racks_and_their_gangs_too() {
    let cell = "cell: 40 simulated nodes in racks of 15\n";
    let load =
        "load: 2 tas jobs on simulated nodes, 4 per second, 4 tasks until the end, in one rack, repair waits 1min\n";
    let scenario = format!("{cell}{load}fault: from 1s every 2s take two nodes down for 3s to 4s 2 times\n");
    let scenario = Scenario::parse(&scenario).unwrap();
    assert_eq!(scenario.cell.racks(), [0..15, 15..30, 30..40]);
    let load = &scenario.loads[0];
    assert_eq!((load.task_ms, load.stands, load.repair), (None, Stands::InRack, Some(Repair::Waits(60_000))));
    let slices = format!(
        "{cell}load: 2 tas jobs on simulated nodes, 4 per second, 5 to 6 tasks of 1s, in slices of 4 per rack\n"
    );
    let slices = &Scenario::parse(&slices).unwrap().loads[0];
    assert_eq!(slices.stands, Stands::InSlices(4));
    assert_eq!((slices.tasks_of(0), slices.tasks_of(1)), (8, 8), "whole slices");
    let kind = Kind::Outage { extent: Extent::TwoNodes, for_ms: (3_000, 4_000) };
    assert_eq!(scenario.faults[1], Fault { at_ms: 3_000, kind });
    let at_once = format!("{cell}{LOAD}fault: at 1s take a rack down for 3s\n").replace("real", "simulated");
    assert_eq!(Scenario::parse(&at_once).unwrap().faults.len(), 1);
    for (line, words) in [
        ("cell: 2 real nodes in racks of 1", "only simulated nodes"),
        ("load: 1 tas jobs on simulated nodes, 1 per second, 1 task of 1s, in one rack", "no racks"),
        ("load: 1 tas jobs on real nodes, 1 per second, 1 task until the end", "for simulated nodes"),
        ("fault: at 1s take a rack down for 3s", "in racks of 5"),
        ("fault: at 1s take a node down for 3s to 2s", "the shorter one"),
        ("fault: at 1s take three nodes down for 3s", "two nodes or a rack"),
    ] {
        let error = with(line).unwrap_err();
        assert!(error.message.contains(words), "{line}: {error}");
    }
}

#[test]
fn of_several_servers_the_leader_can_be_killed() {
    let text = format!("cell: 3 servers, 1 real node\n{LOAD}fault: from 1s every 3s kill the leader for 7s\n");
    let scenario = Scenario::parse(&text).unwrap();
    assert_eq!(scenario.cell.processes()[..3], ["server-1", "server-2", "server-3"]);
    let kill = |at_ms| Fault { at_ms, kind: Kind::KillLeader };
    assert_eq!(scenario.faults, [kill(1_000), kill(4_000), kill(7_000)]);
}

#[test]
fn what_cannot_be_read_is_named_with_its_line_and_what_would_be_right() {
    for (line, words) in [
        ("faults: at 1s kill server", "about, cell, load, fault and expect"),
        ("kill the server", "at its beginning"),
        ("fault: at 1s kill node-3", "this cell has server, batch-1"),
        ("fault: at 1s kill", "ends where a process is due"),
        ("fault: at soon kill server", "such as 300ms, 4s or 2min"),
        ("fault: at 1s pause server", "\"for\""),
        ("fault: at 1s cut shim-1 for 2s", "no connection"),
        ("fault: at 1s explode", "kill, pause, cut"),
        ("fault: at 1s pause server for 2s twice", "\"twice\" is too much"),
        ("load: 0 batch jobs on real nodes, 4 per second, 1 task of 1s", "from 1 to"),
        ("load: 5 lazy jobs on real nodes, 4 per second, 1 task of 1s", "batch, service or tas"),
        ("fault: at 1s kill the leader", "a lone server"),
        ("cell: 3 servers, 1 real node, disk of 64MiB", "one server only"),
        ("cell: 2 servers, 1 real node", "1, 3 or 5"),
        ("load: 5 batch jobs on real nodes, 4 per second, 3 to 1 tasks of 1s", "the smaller one"),
        ("expect: fleet lost", "is no node"),
        ("cell: 5 batch schedulers", "a cell needs nodes"),
        ("cell: 5 fast nodes", "can be counted"),
    ] {
        let error = with(line).unwrap_err();
        assert_eq!(error.line, 4, "{line}");
        assert!(error.message.contains(words), "{line}: {error}");
    }
    let error = Scenario::parse("cell: 1 real node\nfault: at 1s fill the disk for 2s").unwrap_err();
    assert!(error.message.contains("disk of 64MiB"));
    assert!(Scenario::parse("cell: 1 real node").unwrap_err().message.contains("load:"));
    assert!(Scenario::parse(LOAD).unwrap_err().message.contains("cell: line"));
}

#[test]
fn members_of_an_etcd_are_processes_like_others() {
    let cell = |words: &str| format!("cell: 1 real node, {words}\n{LOAD}fault: at 1s kill etcd-1 and etcd-3\n");
    let scenario = Scenario::parse(&cell("etcd of 3 members")).unwrap();
    assert_eq!((scenario.cell.etcd, scenario.cell.processes().last().unwrap().as_str()), (3, "etcd-3"));
    assert!(Scenario::parse(&cell("etcd of 1 member")).unwrap_err().message.contains("no process etcd-3"));
    assert!(Scenario::parse(&cell("etcd of 9 members")).is_err());
    let cut = cell("etcd of 3 members").replace("kill etcd-1 and etcd-3", "cut etcd-1 for 2s");
    assert!(Scenario::parse(&cut).unwrap_err().message.contains("no connection to the server"));
}

#[test]
fn the_scenarios_of_the_project_can_be_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/live");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let scenario = Scenario::parse(&fs::read_to_string(&path).unwrap());
        let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!scenario.about.is_empty() && !scenario.faults.is_empty(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 5);
}
