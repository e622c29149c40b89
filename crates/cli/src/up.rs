//! `ohm up`: a whole cell on this machine, each role a real child process, restarted when it dies, stopped in order.

mod child;
mod plan;

use crate::client::Client;
use crate::failure::Failure;
use crate::globals::Globals;
use child::{Child, Verdict};
use ohm_runtime::data_dir;
use ohm_runtime::shutdown::Shutdown;
use plan::CellPlan;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use plan::{Replicas, Shape};

/// How often the children are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the server may take until it serves: a long log is replayed first.
const SERVING: Duration = Duration::from_secs(120);
/// How long a child may take to stop by itself.
const STOPPING: Duration = Duration::from_secs(15);

/// `ohm up`.
#[derive(Clone, Debug, clap::Args)]
pub struct Up {
    /// Address of the server
    #[arg(long, default_value = "127.0.0.1:6460", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// How many servers keep the truth: 1, 3 or 5, on the ports after that of --listen
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = servers)]
    pub(crate) servers: u16,
    /// Blocks x racks in each x hosts in each
    #[arg(long, default_value = "2x2x2", value_name = "BxRxH")]
    pub(crate) shape: Shape,
    /// 0 leaves the nodes out; agents are then started by hand
    #[arg(long, value_name = "COUNT")]
    pub(crate) nodes: Option<usize>,
    /// More replicas of a class of scheduler, such as batch=2
    #[arg(long, value_name = "CLASS=COUNT")]
    pub(crate) schedulers: Vec<Replicas>,
    /// How long a node may go on without a word from the health duty, in milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub(crate) node_lease_ms: u64,
}

fn servers(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| [1, 3, 5].contains(count));
    count.ok_or_else(|| "1, 3 or 5 are possible: of an even number one more may not fail than of one less".to_string())
}

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
    let plan = CellPlan::new(options, &folder)?;
    plan.write_token(&token)?;
    say(&format!("cell in {} · server http://{}", folder.display(), options.listen));
    let mut children = Vec::new();
    for command in plan.servers() {
        children.push(Child::start(command)?);
    }
    let outcome = bring_up(&plan, options, globals, &mut children, shutdown).await;
    let outcome = match outcome {
        Ok(()) => watch(&mut children, shutdown).await,
        Err(failure) => Err(failure),
    };
    stop(&mut children).await;
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
    wait_for_server(options.listen, &mut children[0], shutdown).await?;
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
        children.push(Child::start(command)?);
    }
    children.iter().for_each(|child| say(&format!("{:<12} runs (pid {})", child.name(), child.pid())));
    say(&format!("ctrl-C stops everything; what the processes say is in {}", plan.logs().display()));
    Ok(())
}

async fn wait_for_server(address: SocketAddr, server: &mut Child, shutdown: &Shutdown) -> Result<(), Failure> {
    let started = Instant::now();
    while !shutdown.is_started() {
        if TcpStream::connect_timeout(&address, LOOK).is_ok() {
            return Ok(());
        }
        if let Verdict::Died(how) = server.look(false)? {
            return Err(Failure::Failed(format!("the server ended at once ({how}): see {}", server.log().display())));
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
        match client.submit(plan::TOPOLOGY, "application/yaml", false) {
            Ok(_) => return Ok(()),
            Err(failure) if started.elapsed() > SERVING || shutdown.is_started() => return Err(failure),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Restarts whoever dies, until the end.
async fn watch(children: &mut [Child], shutdown: &Shutdown) -> Result<(), Failure> {
    while !shutdown.is_started() {
        for child in children.iter_mut() {
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

/// Stops everybody, the last started first: agents with their tasks, then the schedulers, the server last.
async fn stop(children: &mut [Child]) {
    say("stopping");
    let mut ranks: Vec<u8> = children.iter().map(Child::rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    for rank in ranks.into_iter().rev() {
        children.iter_mut().filter(|child| child.rank() == rank).for_each(Child::terminate);
        let started = Instant::now();
        while children.iter_mut().any(|child| child.rank() == rank && child.is_alive()) {
            if started.elapsed() > STOPPING {
                for child in children.iter_mut().filter(|child| child.rank() == rank) {
                    if child.is_alive() {
                        say(&format!("{:<12} does not stop and is killed", child.name()));
                        child.kill();
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    say("stopped");
}

fn say(text: &str) {
    println!("{text}");
}
