//! Whoever only connects, without a token: nobody else is kept waiting, and the server goes on.

use crate::cell;

use cell::Cell;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What each process of the cell may have open.
const FILES: u32 = 320;
const STRANGERS: usize = 500;
/// A submit waits for nobody. Left alone it takes a few hundredths of a second.
const PROMPT: Duration = Duration::from_secs(5);

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
