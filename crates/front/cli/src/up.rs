//! `ohm up`: a whole cell on this machine, each role a real child process, restarted when it dies, stopped in order.

mod child;
mod down;
mod instance;
mod options;
mod plan;

use crate::client::Client;
use crate::failure::Failure;
use crate::globals::Globals;
use child::{Child, Verdict};
pub use down::ChaosNode;
pub(crate) use down::mark;
use ohm_runtime::data_dir;
use ohm_runtime::shutdown::Shutdown;
pub use options::Up;
use plan::CellPlan;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the children are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the server may take until it serves: a long log is replayed first.
const SERVING: Duration = Duration::from_secs(120);
/// How long a child may take to stop by itself. Agents take as long as the tasks of their nodes, unless somebody
/// hurries.
const STOPPING: Duration = Duration::from_secs(15);
/// Between two words about what is still waited for.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// Runs the cell until it is told to stop.
pub(crate) fn up(options: &Up, globals: &Globals) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("the runtime", error))?;
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals().map_err(|error| Failure::io("signals", error))?;
        run(options, globals, &shutdown).await
    })
}

async fn run(options: &Up, globals: &Globals, shutdown: &Shutdown) -> Result<(), Failure> {
    let folder = std::path::absolute(globals.data_dir()).map_err(|error| Failure::io("the data folder", error))?;
    let unusable = |error: data_dir::DataDirError| Failure::Failed(error.to_string());
    let _lock = data_dir::lock(&folder).map_err(unusable)?;
    // One token for the whole cell: where people look for it, and where the server keeps its own.
    let token = data_dir::token(&folder).map_err(unusable)?;
    let instance = format!("{:016x}", ohm_runtime::dice::random_u64());
    let plan = CellPlan::new(options, &folder, &instance)?;
    plan.listens().iter().try_for_each(|listen| instance::refuse_taken(*listen))?;
    plan.write_token(&token)?;
    say(&format!("cell in {} · server http://{}", folder.display(), options.listen));
    let etcd = plan.etcd().map(Child::start).transpose()?;
    let mut children = Vec::new();
    for command in plan.servers() {
        children.push(Child::start(command)?);
    }
    children.extend(etcd);
    let outcome = bring_up(&plan, options, globals, &mut children, shutdown).await;
    let outcome = match outcome {
        Ok(()) => watch(&mut children, &folder, shutdown).await,
        Err(failure) => Err(failure),
    };
    stop(&mut children, shutdown).await;
    outcome
}

/// Starts everybody else once the server serves.
async fn bring_up(
    plan: &CellPlan,
    options: &Up,
    globals: &Globals,
    children: &mut Vec<Child>,
    shutdown: &Shutdown,
) -> Result<(), Failure> {
    wait_for_server(plan, options.listen, &mut children[0], shutdown).await?;
    if shutdown.is_started() {
        return Ok(());
    }
    for command in plan.followers() {
        children.push(Child::start(command)?);
    }
    if plan.has_nodes() {
        let globals = Globals { server: plan.addresses(), token_file: Some(plan.token_file()), ..globals.clone() };
        put_topology(&globals, shutdown).await?;
    }
    for command in plan.agents() {
        children.push(if down::is_down(plan.folder(), &command.name) {
            Child::waiting(command)
        } else {
            Child::start(command)?
        });
    }
    children.iter().for_each(|child| say(&format!("{:<12} runs (pid {})", child.name(), child.pid())));
    say(&format!("what the processes say is in {}", plan.logs().display()));
    say("another class of jobs: submit its SchedulingProfile, then start `ohm scheduler --class NAME`");
    say("ctrl-C stops the cell and its tasks; the next `ohm up` goes on with the jobs");
    Ok(())
}

/// Waits until our own server serves. Whoever else listens there is not taken for it: the answer must name the instance
/// that was given to our child.
async fn wait_for_server(
    plan: &CellPlan,
    address: SocketAddr,
    server: &mut Child,
    shutdown: &Shutdown,
) -> Result<(), Failure> {
    let started = Instant::now();
    while !shutdown.is_started() {
        if let Verdict::Died(how) = server.look(false)? {
            let said = child::last_line(server.log());
            return Err(Failure::Failed(format!("the server {how}: {said} (in {})", server.log().display())));
        }
        match instance::ask(address) {
            Some(found) if found == plan.instance() => return Ok(()),
            Some(_) => return Err(instance::taken(address)),
            None => {}
        }
        if started.elapsed() > SERVING {
            let log = server.log().display();
            return Err(Failure::Failed(format!("the server does not serve after {SERVING:?}: see {log}")));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// The topology of the virtual nodes; a second start finds it unchanged.
async fn put_topology(globals: &Globals, shutdown: &Shutdown) -> Result<(), Failure> {
    let client = Client::new(globals)?;
    let started = Instant::now();
    loop {
        match client.submit(plan::TOPOLOGY, "application/yaml", &[]) {
            Ok(_) => return Ok(()),
            Err(failure) if started.elapsed() > SERVING || shutdown.is_started() => return Err(failure),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Restarts whoever dies, until the end. Nodes that are to be down are killed with their tasks and left alone.
async fn watch(children: &mut [Child], folder: &Path, shutdown: &Shutdown) -> Result<(), Failure> {
    let mut down: BTreeSet<String> = BTreeSet::new();
    while !shutdown.is_started() {
        for child in children.iter_mut() {
            let name = child.name().to_string();
            if child.rank() == plan::AGENTS && down::is_down(folder, &name) {
                // Also what was still being started when the mark was found.
                child.strike(down::shim_of(folder, &name));
                if down.insert(name) {
                    say(&format!("{:<12} is down, with its tasks, until `ohm chaos node-up`", child.name()));
                }
                continue;
            }
            if down.remove(&name) {
                say(&format!("{name:<12} comes up again"));
            }
            match child.look(true)? {
                Verdict::Runs => {}
                Verdict::Died(how) => say(&format!("{:<12} {how}; starting it again", child.name())),
                Verdict::Restarted => say(&format!("{:<12} runs again (pid {})", child.name(), child.pid())),
            }
        }
        tokio::select! { biased; () = shutdown.started() => {}, () = tokio::time::sleep(LOOK) => {} }
    }
    Ok(())
}

/// Stops everybody in order: first the schedulers, so that nothing is placed any more; then the agents, each with the
/// tasks of its node and as long as those need; then health, which keeps the leases of the nodes alive until there; the
/// server last.
async fn stop(children: &mut [Child], shutdown: &Shutdown) {
    say("stopping; ctrl-C again leaves the tasks no time");
    let mut ranks: Vec<u8> = children.iter().map(Child::rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    for rank in ranks.into_iter().rev() {
        let mut of_rank: Vec<&mut Child> = children.iter_mut().filter(|child| child.rank() == rank).collect();
        stop_rank(&mut of_rank, rank == plan::AGENTS, shutdown).await;
    }
    say("stopped");
}

async fn stop_rank(children: &mut [&mut Child], are_agents: bool, shutdown: &Shutdown) {
    children.iter_mut().for_each(|child| child.terminate());
    let (mut since, mut said, mut is_hurried) = (Instant::now(), Instant::now(), false);
    loop {
        let alive: Vec<&mut &mut Child> =
            children.iter_mut().filter_map(|child| child.is_alive().then_some(child)).collect();
        if alive.is_empty() {
            return;
        }
        let is_late = since.elapsed() > STOPPING && (!are_agents || is_hurried);
        let hurries = shutdown.is_hurried() && !is_hurried;
        if said.elapsed() > SAY_EVERY {
            let names: Vec<&str> = alive.iter().map(|child| child.name()).collect();
            let what = if are_agents { "the tasks on " } else { "" };
            say(&format!("still waiting for {what}{}", names.join(", ")));
            said = Instant::now();
        }
        for child in alive {
            if is_late {
                say(&format!("{:<12} does not stop and is killed", child.name()));
                child.kill();
            } else if hurries {
                child.terminate();
            }
        }
        if hurries {
            (since, is_hurried) = (Instant::now(), true);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn say(text: &str) {
    println!("{text}");
}
