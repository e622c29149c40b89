//! How many `/bin/true` per second one shim starts and sees to their end, and how long a single start takes.
//!
//! `cargo run --release -p ohm-node --example starts [COUNT] [WORD]`, where only the measurements whose name holds the
//! word are made.

use ohm_model::{JobId, RunRef};
use ohm_node::cgroup::{Limits, Requests, Resources};
use ohm_node::clock::boottime_ms;
use ohm_node::shim::{
    Event, LeaseFile, NodeLease, Request, RunSpec, ShimClient, ShimCommand, ShimError, ShimOptions, shim_command,
};
use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts under way at a time.
const WINDOW: u32 = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_ref().is_some_and(|word| word == "shim") {
        return Ok(shim_command(arguments)?);
    }
    let count = first.and_then(|word| word.to_str()?.parse().ok()).unwrap_or(10_000);
    let word = arguments.next().and_then(|word| word.into_string().ok()).unwrap_or_default();
    println!("{:34} {:6.0}/s", "bare spawn + wait, one at a time", bare(count)?);
    let requests = Requests { cpu_millicores: 1000, memory_bytes: 64 << 20 };
    let limits = Limits { cpu_millicores: 1000, memory_bytes: 64 << 20, pids: 100 };
    let limited = Resources { requests, limits };
    // Removed at the very end: ext4 makes files slowly for a minute after many were removed.
    let mut folders = Vec::new();
    for (name, namespace, cgroups, resources) in [
        ("namespace, cgroups", true, true, Resources::default()),
        ("namespace, cgroups, three limits", true, true, limited),
        ("namespace, alone", true, false, Resources::default()),
        ("neither", false, false, Resources::default()),
    ] {
        if name.contains(&word) {
            folders.push(tempfile::tempdir()?);
            let folder = folders[folders.len() - 1].path();
            let wishes = ShimOptions { wants_namespace: namespace, wants_cgroups: cgroups, ..ShimOptions::new(folder) };
            measure(name, count, wishes, resources)?;
        }
    }
    Ok(())
}

/// The same processes without any shim, for comparison on the machine of the day.
fn bare(count: u32) -> std::io::Result<f64> {
    let begin = Instant::now();
    for _ in 0..count {
        Command::new("/bin/true").env_clear().stdin(Stdio::null()).spawn()?.wait()?;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// CPU time of a process so far, for what a busy neighbour does not change.
fn cpu_ms(pid: u32) -> u64 {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = line.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    // utime and stime, in ticks of 10 ms.
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10
}

fn measure(name: &str, count: u32, options: ShimOptions, resources: Resources) -> Result<(), Box<dyn Error>> {
    let lease = LeaseFile::open(&options.folder)?;
    lease.write(NodeLease { deadline_ms: boottime_ms() + 3_600_000, since_ms: 0, incarnation: 1 })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = ShimCommand::this_program(options)?.start_or_find().await?;
        let spec = RunSpec { resources, ..RunSpec::new(["/bin/true"]) };
        let (latencies, ends) = one_at_a_time(&mut client, &spec).await?;
        let (begin, cpu_before) = (Instant::now(), cpu_ms(client.info.pid));
        many(&mut client, &spec, count).await?;
        let cpu_us = (cpu_ms(client.info.pid) - cpu_before) * 1000 / u64::from(count);
        let rate = f64::from(count) / begin.elapsed().as_secs_f64();
        let [start_ms, end_ms] = [latencies, ends].map(|mut all| {
            all.sort();
            all[all.len() / 2].as_secs_f64() * 1e3
        });
        println!("{name:34} {rate:6.0}/s   {cpu_us:4} us of shim CPU each   idle p50: started {start_ms:.2} ms, ended {end_ms:.2} ms");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(client.info.pid.cast_signed()), nix::sys::signal::SIGTERM)?;
        while client.next().await.is_ok() {}
        Ok(())
    })
}

fn request(task: u32, spec: &RunSpec) -> Request {
    Request::Start { run: RunRef::new(JobId(1), 0, task, 1), spec: spec.clone() }
}

/// From a request on an idle shim to the news of its start, and of its end.
async fn one_at_a_time(client: &mut ShimClient, spec: &RunSpec) -> Result<(Vec<Duration>, Vec<Duration>), ShimError> {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for task in 0..200 {
        let begin = Instant::now();
        client.send(&[request(u32::MAX - task, spec)]).await?;
        loop {
            match client.next().await? {
                Event::Started(_) => starts.push(begin.elapsed()),
                Event::Exited(_) => break ends.push(begin.elapsed()),
                _ => {}
            }
        }
    }
    Ok((starts, ends))
}

async fn many(client: &mut ShimClient, spec: &RunSpec, count: u32) -> Result<(), ShimError> {
    let (mut sent, mut ended) = (0, 0);
    let mut forget = Vec::new();
    while ended < count {
        let mut requests = Vec::new();
        // Refilled in gulps, as an agent's wanted set comes in.
        if sent - ended <= WINDOW / 2 {
            let next = (ended + WINDOW).min(count);
            requests.extend((sent..next).map(|task| request(task, spec)));
            sent = next;
        }
        if forget.len() >= 128 {
            requests.push(Request::Forget { runs: std::mem::take(&mut forget) });
        }
        if !requests.is_empty() {
            client.send(&requests).await?;
        }
        if let Event::Exited(one) = client.next().await? {
            ended += 1;
            forget.push(one.run);
        }
    }
    Ok(())
}
