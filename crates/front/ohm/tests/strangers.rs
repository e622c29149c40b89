//! Whoever only connects, without a token, and whoever misuses the token: nobody else is kept waiting, nothing is lost,
//! and the server goes on. `cargo bench -p ohm --bench misuse` does the same with 10,000 connections, and measures.

use crate::cell;

use cell::Cell;
use cell::http::Http;
use cell::misuse::Misuse;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What each process of the cell may have open.
const FILES: u32 = 320;
const STRANGERS: usize = 500;
/// A submit waits for nobody. Left alone it takes a few hundredths of a second.
const PROMPT: Duration = Duration::from_secs(5);
/// Eight long bodies, and as much again.
const MEMORY_MIB_MAX: u64 = 512;

const JOB: &str = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: NAME}\nspec: {requests: {cpu: 100m, memory: 16Mi}, \
                   command: [\"true\"]}\n";

/// A connection that sends half a header, and then nothing.
fn half_sent(cell: &Cell) -> TcpStream {
    let mut stream = TcpStream::connect(cell.listen()).unwrap();
    // One that was pushed out already may not take it.
    let _ = stream.write_all(b"POST /v1/submit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le");
    stream
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn half_sent_headers_use_nothing_up() {
    ohm_runtime::descriptors::raise();
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let mut cell = Cell::start_bounded(folder, &data_dir, &["--nodes", "1"], Some(FILES));
    cell.wait_for_nodes(1);
    let server = cell.child("server").unwrap();
    let _half_sent: Vec<TcpStream> = (0..STRANGERS).map(|_| half_sent(&cell)).collect();
    let names: Vec<String> = (0..5).map(|number| format!("job-{number}")).collect();
    for name in &names {
        let started = Instant::now();
        cell.submit(&JOB.replace("NAME", name));
        assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    }
    cell.wait_until_all_succeeded(&names, cell::SOON);
    let open = open_files(server.pid);
    assert!(open < FILES as usize / 2, "{open} files are open");
    assert_eq!(cell.child("server"), Some(server), "the server goes on");
    cell::verify_log(&cell.stop());
}

#[test]
fn nothing_is_lost_while_clients_misuse_everything() {
    ohm_runtime::descriptors::raise();
    let cell = Cell::start(&["--nodes", "0"]);
    let _agent = cell.sim_agent(20);
    cell.wait_for_nodes(20);
    let server = cell.child("server").unwrap();
    let misuse = Misuse::of(cell.listen(), &cell.token());
    let names: Vec<String> = (0..100).map(|number| format!("job-{number}")).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| misuse.run(10, 500, || {}));
        let mut http = Http::connect(&cell);
        for name in &names {
            let job = format!(
                "{}\n",
                JOB.trim_end().replace("NAME", name).replace("spec: {", "spec: {sim: {duration: 100ms}, ")
            );
            assert_eq!(http.submit(job.as_bytes()).0, 200);
            std::thread::sleep(Duration::from_millis(20));
        }
        cell.wait_until_all_succeeded(&names, cell::SOON);
        misuse.stop();
    });
    println!("{:?}, peak {} MiB", misuse.tally, server.peak_memory_mib());
    let tally = &misuse.tally;
    for done in [&tally.idle, &tally.opened, &tally.body_bytes, &tally.malformed, &tally.questions] {
        assert!(done.load(Ordering::Relaxed) > 0, "{tally:?}");
    }
    assert!(server.peak_memory_mib() < MEMORY_MIB_MAX);
    assert_eq!(cell.child("server"), Some(server), "the server goes on");
}
