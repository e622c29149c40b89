//! Three servers as processes: the one that leads is killed again and again while work goes on. `OHM_KILLS` says how often
//! (3 unless it is set), `OHM_KILL_EVERY_MS` how fast.

use crate::cell;

use cell::http::Http;
use cell::processes::{children_of, signal};
use cell::submitter::Submitter;
use cell::{Cell, verify_log, wait};
use ohm_runtime::ports::free_addresses;
use ohm_stdx::codec;
use serde_json::Value;
use std::time::Duration;

const NODES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(120);

fn asked(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn servers(cell: &Cell) -> Vec<Value> {
    let answer = cell.try_json(&["server", "members", "list"]).unwrap_or_default();
    answer["servers"].as_array().cloned().unwrap_or_default()
}

fn leader(cell: &Cell) -> Option<Value> {
    servers(cell).into_iter().find(|server| server["leads"] == true)
}

fn wait_for_voters(cell: &Cell, count: usize) {
    wait("all servers vote", || {
        let servers = servers(cell);
        let votes = |server: &&Value| server["role"] == "voter";
        servers.iter().filter(votes).count() == count && servers.iter().any(|server| server["leads"] == true)
    });
}

/// The process of the server that listens at this address.
fn process_of(cell: &Cell, address: &str) -> Option<u32> {
    let listen = address.strip_prefix("http://").unwrap();
    let arguments = format!("server --listen {listen} ");
    children_of(cell.up_pid())
        .into_iter()
        .find(|child| child.arguments().starts_with(&arguments))
        .map(|child| child.pid)
}

#[test]
fn nothing_acknowledged_is_lost_when_leaders_die() {
    let (kills, every) = (asked("OHM_KILLS", 3), Duration::from_millis(asked("OHM_KILL_EVERY_MS", 4_000)));
    let cell = Cell::start(&["--servers", "3", "--nodes", "0"]);
    let _agent = cell.sim_agent(NODES);
    wait_for_voters(&cell, 3);
    cell.wait_for_nodes(NODES);
    let submitter = Submitter::staying(Duration::from_secs(1));
    let mut outages = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| submitter.run(&cell));
        for _ in 0..kills {
            std::thread::sleep(every);
            let Some(leader) = leader(&cell) else { continue };
            submitter.forget_silences();
            let Some(pid) = process_of(&cell, leader["address"].as_str().unwrap()) else { continue };
            signal(pid, "KILL");
            std::thread::sleep(Duration::from_millis(2_500));
            outages.push(submitter.longest_silence());
        }
        std::thread::sleep(every);
        submitter.stop();
    });
    let accepted = submitter.accepted();
    println!("{} jobs accepted; longest silence around each kill: {outages:?}", accepted.len());
    assert!(!outages.is_empty() && accepted.len() > 50, "{} accepted, {outages:?}", accepted.len());
    wait_for_voters(&cell, 3);
    cell.wait_until_all_succeeded(&accepted, PATIENCE);
    let mut cell = cell;
    let folder = cell.stop();
    for server in ["server", "server-2", "server-3"] {
        verify_log(&format!("{folder}/{server}"));
    }
}

/// Runs a command of the cell at this server: exit code, output, errors.
fn asked_at(cell: &Cell, url: &str, words: &[&str], rest: &[&str]) -> (Option<i32>, String, String) {
    let mut command = std::process::Command::new(cell.path("ohm"));
    command.args(words).args(["--server", url, "--data-dir", &cell.data_dir()]);
    if !rest.is_empty() {
        command.arg("--").args(rest);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Starts a job whose task writes 100,001 lines and runs on.
pub(crate) fn submit_talkative(cell: &Cell) {
    let text = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: talks}\n\
                spec: {requests: {cpu: 10m}, command: [sh, -c, 'echo hello; seq 100000; sleep 1000']}\n";
    cell.submit(text);
    cell.wait_for_tasks("talks");
}

/// Each of these servers gives all output of that job, and that of a task which it is asked to run.
pub(crate) fn assert_output_at(cell: &Cell, urls: &[String], round: &str) {
    for url in urls {
        wait("all of the output comes", || {
            let (code, out, _) = asked_at(cell, url, &["logs", "talks"], &[]);
            code == Some(0) && out.starts_with("hello\n1\n") && out.lines().count() == 100_001
        });
        let (code, out, err) = asked_at(cell, url, &["run"], &["echo", "hi"]);
        assert_eq!((code, out.as_str()), (Some(0), "hi\n"), "{round}, {url}: {err}");
    }
}

/// Stops the process of a server where it is.
pub(crate) fn freeze(cell: &Cell, url: &str) {
    signal(process_of(cell, url).unwrap(), "STOP");
}

/// Lets it go on.
pub(crate) fn thaw(cell: &Cell, url: &str) {
    signal(process_of(cell, url).unwrap(), "CONT");
}

/// Waits until one of these servers says how the cell is.
pub(crate) fn wait_until_answered(cell: &Cell, urls: &[String]) {
    wait("a server answers", || urls.iter().any(|url| asked_at(cell, url, &["status"], &[]).0 == Some(0)));
}

#[test]
fn any_server_gives_the_output_of_any_task() {
    let cell = Cell::start(&["--servers", "3", "--shape", "1x1x2"]);
    wait_for_voters(&cell, 3);
    cell.wait_for_nodes(2);
    submit_talkative(&cell);
    let urls: Vec<String> = cell.urls().split(',').map(str::to_string).collect();
    assert_output_at(&cell, &urls, "all servers live");
    let dead = leader(&cell).unwrap()["address"].as_str().unwrap().to_string();
    freeze(&cell, &dead);
    let others: Vec<String> = urls.iter().filter(|url| **url != dead).cloned().collect();
    wait_until_answered(&cell, &others);
    assert_output_at(&cell, &others, "the former leader is frozen");
    thaw(&cell, &dead);
}

#[test]
fn a_server_is_removed_and_another_leads() {
    let cell = Cell::start(&["--servers", "3", "--nodes", "0"]);
    wait_for_voters(&cell, 3);
    let other = servers(&cell).into_iter().find(|server| server["leads"] == false).unwrap();
    let number = other["server"].to_string();
    cell.ask(&["server", "members", "transfer", &number]).good();
    let now = leader(&cell).unwrap();
    assert_eq!(now["server"], other["server"]);
    let third = servers(&cell).into_iter().find(|server| server["leads"] == false).unwrap()["server"].to_string();
    cell.ask(&["server", "members", "remove", &third]).good();
    let list = cell.json(&["server", "members", "list"]);
    assert_eq!(
        (list["servers"].as_array().unwrap().len(), &list["removed"][0]),
        (2, &third.parse::<u64>().unwrap().into())
    );
    let said = cell.ask(&["server", "members", "remove", &third]);
    assert_eq!(said.code, 0, "it is removed already: {said:?}");
    let said = cell.ask(&["server", "members", "remove", "77"]);
    assert!(said.code == 1 && said.err.contains("77 is no member"), "{said:?}");
}

const JOBS: usize = 5;

fn jobs() -> String {
    let job = |number| {
        format!(
            "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: kept-{number}}}\nspec: {{command: [\"true\"]}}\n"
        )
    };
    (0..JOBS).map(job).collect()
}

#[test]
fn a_cell_is_backed_up_restored_and_recovered() {
    let mut cell = Cell::start(&["--servers", "3", "--nodes", "0"]);
    wait_for_voters(&cell, 3);
    cell.submit(&jobs());
    let backup = cell.path("cell.backup").display().to_string();
    let folder = cell.data_dir();
    // Whichever server is asked, everything acknowledged is in it.
    cell.ask(&["server", "backup", "--to", &backup]).good();
    let ohm = || std::process::Command::new(cell.path("ohm"));
    let unwanted = cell.path("unwanted.backup").display().to_string();
    let words = ["server", "backup", "--offline", "--data-dir", &format!("{folder}/server-2"), "--to", &unwanted];
    assert_eq!(ohm().args(words).output().unwrap().status.code(), Some(1), "its server runs");
    cell.stop();
    let restored = cell.path("restored").display().to_string();
    cell::ohm(&["server", "restore", "--data-dir", &restored, "--from", &backup]);
    assert_serves_jobs(&cell, &restored);
    let survivor = format!("{folder}/server-3");
    let refused =
        std::process::Command::new(cell.path("ohm")).args(["server", "recover", "--data-dir", &survivor]).output();
    assert_eq!(refused.unwrap().status.code(), Some(2), "nothing happens without the long word");
    cell::ohm(&["server", "recover", "--force-new-cell-of-one", "--data-dir", &survivor]);
    assert_serves_jobs(&cell, &survivor);
    // What comes back from the lost majority is of another cell and disturbs nobody.
    verify_log(&survivor);
}

/// A server with this folder leads by itself and knows the jobs.
fn assert_serves_jobs(cell: &Cell, folder: &str) {
    let listen = free_addresses(1).unwrap()[0].to_string();
    let log = std::fs::File::create(cell.path("alone.log")).unwrap();
    let mut command = std::process::Command::new(cell.path("ohm"));
    let server = command.args(["server", "--listen", &listen, "--data-dir", folder]).stderr(log).spawn().unwrap();
    let _server = cell::Killed::of(server);
    let ask = |words: &[&str]| {
        let mut command = std::process::Command::new(cell.path("ohm"));
        command.args(words).args(["-o", "json", "--server", &format!("http://{listen}"), "--data-dir", folder]);
        serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap_or_default()
    };
    wait("the jobs are there", || ask(&["jobs"])["jobs"].as_array().is_some_and(|jobs| jobs.len() == JOBS));
    let list = ask(&["server", "members", "list"]);
    assert_eq!((list["servers"].as_array().unwrap().len(), &list["servers"][0]["leads"]), (1, &true.into()), "{list}");
}

/// Starts a server that is expected to end by itself, and gives what it says.
fn refusal(cell: &Cell, folder: &str) -> String {
    let listen = free_addresses(1).unwrap()[0].to_string();
    let words = ["server", "--listen", &listen, "--data-dir", folder];
    let mut command = std::process::Command::new("timeout");
    let output = command.args(["-s", "KILL", "20"]).arg(cell.path("ohm")).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "it serves: {said}");
    said
}

#[test]
fn a_server_without_its_log_comes_back_under_a_new_number_only() {
    let cell = Cell::start(&["--servers", "3", "--nodes", "0"]);
    wait_for_voters(&cell, 3);
    cell.submit(&jobs());
    let third = cell.urls().split(',').next_back().unwrap().to_string();
    let number = servers(&cell).into_iter().find(|server| server["address"] == third.as_str()).unwrap();
    let former = number["server"].clone();
    let number = former.to_string();
    // The mark alone, then the key alone that it had joined with: each is enough.
    let folder = cell.path("data").join("server-3");
    let log = cell.path("data").join("logs").join("server-3.log");
    let never = format!("remove {number}`, then start it again: it joins under a new one");
    let key = std::fs::read(folder.join("join.key")).unwrap();
    for left in ["log.mark", "join.key"] {
        std::fs::write(folder.join("join.key"), &key).unwrap();
        let said_before = std::fs::read_to_string(&log).unwrap().matches(&never).count();
        for gone in ["log.mark", "join.key"].into_iter().filter(|file| *file != left) {
            let _ = std::fs::remove_file(folder.join(gone));
        }
        let _ = std::fs::remove_dir_all(folder.join("log"));
        if let Some(pid) = process_of(&cell, &third) {
            signal(pid, "KILL");
        }
        wait("it says what to do", || std::fs::read_to_string(&log).unwrap().matches(&never).count() > said_before);
    }
    let list = servers(&cell);
    assert!(list.iter().any(|server| server["server"] == former), "it still belongs to them: {list:?}");
    cell.ask(&["server", "members", "remove", &number]).good();
    wait_for_voters(&cell, 3);
    let list = servers(&cell);
    let back = list.iter().find(|server| server["address"] == third.as_str()).unwrap();
    assert!(back["server"] != former, "{list:?}");
}

#[test]
fn a_lone_server_without_its_log_founds_nothing() {
    let mut cell = Cell::start(&["--nodes", "0"]);
    cell.submit(&jobs());
    let backup = cell.path("cell.backup").display().to_string();
    cell.ask(&["server", "backup", "--to", &backup]).good();
    let folder = format!("{}/server", cell.stop());
    std::fs::remove_dir_all(format!("{folder}/log")).unwrap();
    let output = std::process::Command::new(cell.path("ohm")).args(["log", "verify", "--data-dir", &folder]).output();
    let said = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    assert!(said.contains("is gone") && said.contains("put the files back"), "{said}");
    let said = refusal(&cell, &folder);
    assert!(said.contains("the log of server 1 of cell") && said.contains("ohm server restore"), "{said}");
    cell::ohm(&["server", "restore", "--data-dir", &folder, "--from", &backup]);
    assert_serves_jobs(&cell, &folder);
}

#[test]
fn a_log_that_was_cut_in_the_middle_is_not_served() {
    let mut cell = Cell::start(&["--nodes", "0"]);
    cell.submit(&jobs());
    let folder = format!("{}/server", cell.stop());
    let log = std::path::Path::new(&folder).join("log");
    let files = std::fs::read_dir(&log).unwrap().map(|file| file.unwrap().path());
    let segment = files.filter(|file| file.display().to_string().ends_with(".log")).max().unwrap();
    let whole = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &whole[..whole.len() / 2]).unwrap();
    let said = refusal(&cell, &folder);
    assert!(said.contains("has lost entries that were durable") && said.contains("log.mark"), "{said}");
    assert_eq!(std::fs::read(&segment).unwrap(), whole[..whole.len() / 2], "the evidence stays");
    // Whoever looks at it, or takes a backup of it, hears the same.
    let backup = cell.path("cut.backup").display().to_string();
    for words in [vec!["log", "verify"], vec!["server", "backup", "--offline", "--to", &backup]] {
        let output = std::process::Command::new(cell.path("ohm")).args(&words).args(["--data-dir", &folder]).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("has lost entries that were durable"), "{words:?}: {said}");
    }
    assert!(!cell.path("cut.backup").exists(), "half a backup is none");
    // Back in its place, all is there.
    std::fs::write(&segment, &whole).unwrap();
    verify_log(&folder);
    assert_serves_jobs(&cell, &folder);
}

/// Entries after which the copies have surely been compared.
const COMPARED: usize = 300;
/// The format bytes of the write-ahead log and of the entries in it.
const FORMATS: (u8, u8) = (0xa1, 1);

/// Writes another word of the same length into every entry of a log that nobody has open, with right checksums: as if
/// this server had always been told something else. Gives how many entries held it.
fn falsify(log: &std::path::Path, word: &[u8], other: &[u8]) -> usize {
    let mut found = 0;
    for file in std::fs::read_dir(log).unwrap().map(|file| file.unwrap().path()) {
        if !file.file_name().unwrap().to_string_lossy().starts_with("wal-") {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap();
        let (mut place, mut written) = (0, Vec::new());
        while place < bytes.len() {
            let (body, taken) = codec::unframe(FORMATS.0, &bytes[place..]).unwrap();
            let mut body = body.to_vec();
            for start in 0..body.len() {
                let Ok((entry, length)) = codec::unframe(FORMATS.1, &body[start..]) else { continue };
                let Some(at) = entry.windows(word.len()).position(|found| found == word) else { continue };
                let (mut entry, mut framed) = (entry.to_vec(), Vec::new());
                entry[at..at + other.len()].copy_from_slice(other);
                codec::frame(FORMATS.1, &entry, &mut framed);
                body[start..start + length].copy_from_slice(&framed);
                found += 1;
            }
            codec::frame(FORMATS.0, &body, &mut written);
            place += taken;
        }
        std::fs::write(&file, written).unwrap();
    }
    found
}

#[test]
fn a_copy_that_differs_stops_and_keeps_its_evidence() {
    let mut cell = Cell::start(&["--servers", "3", "--nodes", "0"]);
    wait_for_voters(&cell, 3);
    cell.submit(&jobs());
    cell.stop();
    let folder = cell.path("data").join("server-3");
    assert!(falsify(&folder.join("log"), b"kept-1", b"bent-1") > 0, "its log holds the job");
    cell.start_again();
    wait_for_voters(&cell, 3);
    // Over the first server; whichever leads, the third one is told all of it.
    let mut http = Http::connect(&cell);
    for number in 0..COMPARED {
        let job = format!(
            "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: more-{number}}}\nspec: {{command: [\"true\"]}}\n"
        );
        assert_eq!(http.submit(job.as_bytes()).0, 200);
    }
    wait("the copy stops", || folder.join("diverged").exists());
    let said = std::fs::read_to_string(folder.join("diverged")).unwrap();
    assert!(said.contains("differs from the others"), "{said}");
    let evidence = std::fs::read(folder.join("diverged.cell")).unwrap();
    assert!(evidence.windows(6).any(|word| word == b"bent-1"), "what it had is kept");
    // It does not serve any more, also when it is started again; the others go on, and have what they should.
    let log = cell.path("data").join("logs").join("server-3.log");
    wait("it says why it does not start", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("this copy of the cell differed from the others"))
    });
    let urls = cell.urls();
    let third = urls.split(',').next_back().unwrap().trim_start_matches("http://").to_string();
    // Another process may have got its port meanwhile.
    let job = b"apiVersion: ohm/v1\nkind: Job\nmetadata: {name: to-nobody}\nspec: {command: [\"true\"]}\n";
    let served = Http::try_connect(&cell, &third, Duration::from_secs(1)).and_then(|mut http| http.try_submit(job));
    assert_ne!(served, Some(200), "nobody is served a wrong truth");
    let list = cell.json(&["jobs"]);
    let has = |name: &str| list["jobs"].as_array().unwrap().iter().any(|job| job["name"] == name);
    assert!(has("kept-1") && !has("bent-1"));
}
