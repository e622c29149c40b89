//! What long bodies took is given back: what stays is the jobs.

use crate::cell;

use cell::Cell;
use cell::http::Http;

/// Bodies at once, as many as are kept in memory.
const BODIES: usize = 8;
const BODY_BYTES: usize = 16 << 20;
/// Of one job.
const JOB_BYTES: usize = 100_000;
/// What a server may hold for a byte of a job, in tenths: the job in the cell, the same in the log until the next
/// snapshot lets go of it, and as much again for what is around them.
const TENTHS_HELD_MAX: u64 = 30;

fn body(number: usize) -> Vec<u8> {
    let filler = "x".repeat(JOB_BYTES);
    let job = |at: usize| {
        format!(
            "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: job-{number}-{at}}}\nspec: {{requests: {{cpu: 1}}, command: [\"true\"], \
             env: [{{name: FILLER, value: {filler}}}]}}\n---\n"
        )
    };
    (0..BODY_BYTES / JOB_BYTES).map(job).collect::<String>().into_bytes()
}

#[test]
fn memory_of_long_bodies_is_given_back() {
    let cell = Cell::start(&["--nodes", "0"]);
    let server = cell.child("server").unwrap();
    let before_mib = server.memory_mib();
    std::thread::scope(|scope| {
        for number in 0..BODIES {
            let mut http = Http::connect(&cell);
            scope.spawn(move || {
                let (status, answer) = http.submit(&body(number));
                assert_eq!((status, &answer["refused"]), (200, &0.into()), "{answer}");
            });
        }
    });
    let jobs_mib = (BODIES * BODY_BYTES) as u64 >> 20;
    let most_mib = before_mib + jobs_mib * TENTHS_HELD_MAX / 10;
    println!("peak {} MiB", server.peak_memory_mib());
    let mut least_mib = u64::MAX;
    cell::wait("memory is given back", || {
        least_mib = least_mib.min(server.memory_mib());
        println!("{} MiB of at most {most_mib}", server.memory_mib());
        std::thread::sleep(std::time::Duration::from_secs(1));
        least_mib <= most_mib
    });
    assert_eq!(cell.child("server"), Some(server), "the server goes on");
}
