//! `ohm server members`: who keeps the truth.

use crate::client::{Client, path_of};
use crate::failure::Failure;
use crate::globals::Globals;
use crate::output::Output;
use crate::text;
use ohm_wire::api::{ServerEngine, ServerList};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long to go on while the servers say that the time is not right: a change of leader, another change under way.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(300);

/// `ohm server members`. A server is added by starting it with `--join` and an empty data folder.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum MembersCommand {
    /// The servers of the cell: which vote, which leads, where they listen
    List,
    /// Say how a server is added
    Add,
    /// Remove a server for good; its number is never used again
    Remove {
        /// Its number
        #[arg(value_name = "NUMBER")]
        number: u64,
    },
    /// Let another server lead
    Transfer {
        /// Its number
        #[arg(value_name = "NUMBER")]
        number: u64,
    },
}

pub(crate) fn members(command: &MembersCommand, globals: &Globals) -> Result<(), Failure> {
    let (client, output) = (Client::new(globals)?, Output::new(globals));
    match command {
        MembersCommand::List => print(&client.get("/v1/servers", &[])?, &output),
        MembersCommand::Add => {
            let list: ServerList = client.get("/v1/servers", &[])?;
            if list.engine == ServerEngine::Etcd {
                return print_etcd(&output);
            }
            let urls: Vec<&str> = list.servers.iter().map(|server| server.address.as_str()).collect();
            let urls = urls.join(",");
            let command = format!("ohm server --data-dir EMPTY --listen HOST:PORT --join {urls}");
            let steps =
                "It needs the cell's token in its data folder. It learns first, and votes once it has caught up.";
            output.print(&json!({"command": command}), |_| {
                format!("start the new server like this:\n  {command}\n{steps}\n")
            })
        }
        MembersCommand::Remove { number: server } => {
            let path = path_of("servers", &server.to_string());
            patiently(|| match client.delete(&path) {
                // An attempt before may have done it although its answer was lost.
                Err(failure) => match client.get::<ServerList>("/v1/servers", &[])?.removed.contains(server) {
                    true => Ok(()),
                    false => Err(failure),
                },
                done => done,
            })?;
            output.print(&json!({"removed": server}), |_| format!("server {server} removed\n"))
        }
        MembersCommand::Transfer { number: server } => {
            let started = Instant::now();
            let path = format!("{}/lead", path_of("servers", &server.to_string()));
            loop {
                let list: ServerList = patiently(|| client.post(&path))?;
                let leads = list.servers.iter().any(|known| known.server == *server && known.leads);
                if leads {
                    return print(&list, &output);
                }
                if started.elapsed() > PATIENCE {
                    let message = format!("server {server} does not lead after {PATIENCE:?}; is it up and caught up?");
                    return Err(Failure::Failed(message));
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Over etcd, servers only start and stop.
fn print_etcd(output: &Output) -> Result<(), Failure> {
    let command = "ohm server --data-dir EMPTY --listen HOST:PORT --engine etcd --etcd URL,URL";
    let steps = "The log of this cell is kept by etcd. The new server needs the cell's token in its data folder, and the \
                 same --etcd and --etcd-prefix as the others.";
    output.print(&json!({"command": command}), |_| format!("start the new server like this:\n  {command}\n{steps}\n"))
}

fn print(list: &ServerList, output: &Output) -> Result<(), Failure> {
    output.print(list, |style| text::servers_table(list, style))
}

/// Tries again while the servers ask for that.
fn patiently<T>(attempt: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(Failure::Refused(error))
                if ["busy", "not_serving"].contains(&error.code.as_str()) && started.elapsed() < PATIENCE =>
            {
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}
