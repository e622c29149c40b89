//! Cells over etcd as processes: one with an etcd of its own, and three servers over three members that are killed.

use crate::cell;
use crate::process;
use crate::servers::{assert_output_at, freeze, submit_talkative, thaw, wait_until_answered};

use cell::submitter::Submitter;
use cell::{Cell, ohm, wait};
use process::Etcd;
use std::time::Duration;

const NODES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
#[cfg_attr(not(etcd_installed), ignore = "no etcd here: `apt-get install etcd-server`")]
fn a_cell_with_an_etcd_of_its_own_finds_everything_again() {
    let mut cell = Cell::start(&["--engine", "etcd", "--nodes", "1"]);
    cell.wait_for_nodes(1);
    let said = cell.ask_with(&["run", "--name", "first"], &["sh", "-c", "echo from $OHM_NODE; exit 3"]);
    assert_eq!((said.code, said.out.as_str()), (3, "from b1-r1-h1\n"), "{said:?}");
    let list = cell.ask(&["server", "members", "list"]).good();
    assert!(list.contains("peer over etcd"), "{list}");
    for (words, expected) in [
        (["server", "members", "transfer", "1"].as_slice(), "nobody leads"),
        (&["server", "members", "remove", "1"], "leaves when it is stopped"),
    ] {
        let said = cell.ask(words);
        assert!(said.code == 1 && said.err.contains(expected), "{said:?}");
    }
    let said = cell.ask(&["server", "members", "add"]).good();
    assert!(said.contains("--engine etcd"), "{said}");
    let folder = cell.stop();
    let data_dir = format!("{folder}/server");
    let mut command = std::process::Command::new(cell.path("ohm"));
    let said = command.args(["log", "verify", "--data-dir", &data_dir]).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("over etcd"), "{said:?}");
    let mut command = std::process::Command::new(cell.path("ohm"));
    let said = command.args(["server", "--data-dir", &data_dir, "--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains("--engine etcd"), "{said:?}");
    cell.start_again();
    assert!(cell.states().contains(&("first".to_string(), "failed".to_string())));
    cell.wait_for_nodes(1);
    cell.kill("server --listen");
    cell.wait_until_serving();
    let said = cell.ask_with(&["run", "--name", "second"], &["true"]);
    assert_eq!(said.code, 0, "{said:?}");
}

/// The agents hang on one of three servers, and nobody knows which: each one is frozen in turn.
#[test]
#[cfg_attr(not(etcd_installed), ignore = "no etcd here: `apt-get install etcd-server`")]
fn any_server_over_etcd_gives_the_output_of_any_task() {
    let cell = Cell::start(&["--engine", "etcd", "--servers", "3", "--shape", "1x1x2"]);
    cell.wait_for_nodes(2);
    submit_talkative(&cell);
    let urls: Vec<String> = cell.urls().split(',').map(str::to_string).collect();
    assert_output_at(&cell, &urls, "all servers live");
    for dead in &urls {
        freeze(&cell, dead);
        let others: Vec<String> = urls.iter().filter(|url| *url != dead).cloned().collect();
        wait_until_answered(&cell, &others);
        assert_output_at(&cell, &others, "another one is frozen");
        thaw(&cell, dead);
    }
}

#[test]
#[cfg_attr(not(etcd_installed), ignore = "no etcd here: `apt-get install etcd-server`")]
fn three_servers_lose_nothing_when_members_of_etcd_die() {
    let etcd = Etcd::start(3);
    let members = etcd.urls().join(",");
    let mut cell = Cell::start(&["--engine", "etcd", "--etcd", &members, "--servers", "3", "--nodes", "0"]);
    let agent = cell.sim_agent(NODES);
    wait("all servers are there", || {
        let list = cell.try_json(&["server", "members", "list"]).unwrap_or_default();
        list["servers"].as_array().is_some_and(|servers| servers.len() == 3)
    });
    cell.wait_for_nodes(NODES);
    let submitter = Submitter::moving_on(Duration::from_secs(2));
    let mut silences = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| submitter.run(&cell));
        for victims in [vec![0], vec![1, 2], vec![0, 1, 2]] {
            std::thread::sleep(Duration::from_secs(3));
            submitter.forget_silences();
            victims.iter().for_each(|member| etcd.kill(*member));
            std::thread::sleep(Duration::from_secs(2));
            victims.iter().for_each(|member| etcd.start_again(*member));
            std::thread::sleep(Duration::from_secs(8));
            silences.push((victims.len(), submitter.longest_silence()));
        }
        submitter.stop();
    });
    let accepted = submitter.accepted();
    println!("{} jobs accepted; longest silence by members killed: {silences:?}", accepted.len());
    assert!(accepted.len() > 100, "{} accepted, {silences:?}", accepted.len());
    cell.wait_until_all_succeeded(&accepted, PATIENCE);
    drop(agent);
    cell.stop();
    let report = ohm(&["log", "verify", "--engine", "etcd", "--etcd", &members]);
    assert!(report.contains("every invariant held at every index"), "{report}");
    let dump = ohm(&["log", "dump", "--engine", "etcd", "--etcd", &members]);
    assert!(accepted.iter().all(|name| dump.contains(&format!("\"{name}\""))), "a job is not in the log");
}
