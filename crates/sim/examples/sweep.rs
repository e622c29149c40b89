//! Development sweep.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
use ohm_sim::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (a, b): (u64, u64) = (args[1].parse().unwrap(), args[2].parse().unwrap());
    let trace = args.get(3).is_some_and(|w| w == "trace");
    let threads: u64 = args.get(3).and_then(|w| w.parse().ok()).unwrap_or(1);
    let started = std::time::Instant::now();
    let next = AtomicU64::new(a);
    let all = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= b {
                        return;
                    }
                    let t = std::time::Instant::now();
                    let report =
                        match std::panic::catch_unwind(|| run_twice(&Scenario { trace, ..Scenario::of_seed(seed) })) {
                            Ok(report) => report,
                            Err(_) => {
                                println!("seed {seed}: PANIC");
                                continue;
                            }
                        };
                    if t.elapsed().as_secs_f64() > 2.0 {
                        println!(
                            "seed {seed} slow {:.1}s nodes {} entries {}",
                            t.elapsed().as_secs_f64(),
                            report.nodes,
                            report.entries
                        );
                    }
                    if trace {
                        report.trace.iter().for_each(|l| println!("{l}"));
                        report.fault_lines.iter().for_each(|l| println!("{l}"));
                    }
                    for b in &report.broken {
                        println!("seed {seed}: {b}");
                    }
                    all.lock().unwrap().add(&report);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    println!("faults {:?}\nconflicts {:?}\nmissing {:?}", all.faults, all.conflicts, all.missing());
    println!(
        "runs {} failed {} entries {} ack {} began {} large {} virtual {}s in {:.1}s = {:.1}/s",
        all.runs,
        all.failed,
        all.entries,
        all.acknowledged,
        all.began,
        all.large,
        all.virtual_ms / 1000,
        started.elapsed().as_secs_f64(),
        all.runs as f64 / started.elapsed().as_secs_f64()
    );
}
