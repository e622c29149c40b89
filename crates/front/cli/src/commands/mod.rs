//! What each command does.

mod documents;
pub(crate) mod endpoints;
mod events;
mod jobs;
mod logs;
mod messages;
mod nodes;
pub(crate) mod plan;
mod progress;
pub(crate) mod rollout;
mod run;
mod session;
mod submit;
mod wait;

pub(crate) use session::Session;

use crate::client::{Client, path_of};
use crate::command::{Budgets, ClientCommand, QueueCommand, RemoveCommand, ShowQueue};
use crate::failure::{EXIT_DONE, Failure};
use crate::globals::Globals;
use crate::output::Output;
use crate::text;
use ohm_wire::api::{
    BudgetList, NamespaceList, PriorityClassList, ProfileList, ProvisioningClassList, QueueDetail, QueueList,
    ResourceFlavorList, StatusView, TopologyList,
};
use serde_json::json;

/// Does what `command` says; returns the exit code.
pub(crate) fn perform(command: ClientCommand, globals: &Globals, whole: fn() -> clap::Command) -> Result<u8, Failure> {
    if let ClientCommand::Completion { shell } = command {
        return completion(shell, whole);
    }
    if let ClientCommand::Plan(args) = command {
        return plan::plan(&Output::new(globals), &args);
    }
    let session = Session::new(Client::new(globals)?, globals);
    match command {
        ClientCommand::Submit(args) => submit::submit(&session, &args),
        ClientCommand::Run(args) => run::run(&session, &args),
        ClientCommand::Jobs(args) => jobs::list(&session, &args),
        ClientCommand::Job(args) => jobs::show(&session, &args),
        ClientCommand::Wait(args) => wait::command(&session, &args),
        ClientCommand::Explain(args) => jobs::explain(&session, &session.job(&args.name)),
        ClientCommand::Logs(args) => logs::command(&session, &args),
        ClientCommand::Endpoints(args) => endpoints::command(&session, &args),
        ClientCommand::Rollout(args) => rollout::command(&session, &args),
        ClientCommand::Cancel(args) => jobs::change(&session, &session.jobs(&args.names), &args.action()),
        ClientCommand::Suspend(args) => jobs::change(&session, &session.jobs(&args.names), "suspend"),
        ClientCommand::Resume(args) => jobs::change(&session, &session.jobs(&args.names), "resume"),
        ClientCommand::Scale(args) => jobs::scale(&session, &args),
        ClientCommand::Remove(args) => jobs::remove(&session, &session.jobs(&args.names)),
        ClientCommand::Nodes => nodes::list(&session),
        ClientCommand::Node(args) => nodes::one(&session, &args),
        ClientCommand::Queues => queues(&session),
        ClientCommand::Queue(QueueCommand::Show(args)) => queue(&session, &args),
        ClientCommand::Queue(QueueCommand::Remove { name }) => remove(&session, "queue", "queues", &name),
        ClientCommand::Flavors => flavors(&session),
        ClientCommand::Flavor(RemoveCommand::Remove { name }) => {
            remove(&session, "resource flavor", "resource-flavors", &name)
        }
        ClientCommand::Namespaces => namespaces(&session),
        ClientCommand::Namespace(RemoveCommand::Remove { name }) => remove(&session, "namespace", "namespaces", &name),
        ClientCommand::Budgets(args) => budgets(&session, &args),
        ClientCommand::Budget(RemoveCommand::Remove { name }) => {
            remove(&session, "budget", "budgets", &session.job(&name))
        }
        ClientCommand::PriorityClasses => priority_classes(&session),
        ClientCommand::Subqueue(RemoveCommand::Remove { name }) => remove(&session, "subqueue", "subqueues", &name),
        ClientCommand::PriorityClass(RemoveCommand::Remove { name }) => {
            remove(&session, "priority class", "priority-classes", &name)
        }
        ClientCommand::ProvisioningClasses => provisioning_classes(&session),
        ClientCommand::ProvisioningClass(RemoveCommand::Remove { name }) => {
            remove(&session, "provisioning class", "provisioning-classes", &name)
        }
        ClientCommand::Profiles => profiles(&session),
        ClientCommand::Profile(RemoveCommand::Remove { name }) => {
            remove(&session, "scheduling profile", "profiles", &name)
        }
        ClientCommand::Topologies => topologies(&session),
        ClientCommand::Topology(RemoveCommand::Remove { name }) => remove(&session, "topology", "topologies", &name),
        ClientCommand::Events(args) => events::events(&session, &args),
        ClientCommand::Status => status(&session),
        ClientCommand::Plan(args) => plan::plan(&session.output, &args),
        ClientCommand::Replay(args) => crate::replay::replay(&session, globals, &args),
        ClientCommand::Completion { shell } => completion(shell, whole),
    }
}

fn queues(session: &Session) -> Result<u8, Failure> {
    let list: QueueList = session.client.get("/v1/queues", &[])?;
    session.output.print(&list, |style| text::queues_table(&list, style))?;
    Ok(EXIT_DONE)
}

fn queue(session: &Session, args: &ShowQueue) -> Result<u8, Failure> {
    let query = [("limit", args.limit.to_string())];
    let queue: QueueDetail = session.client.get(&path_of("queues", &args.name), &query)?;
    session.output.print(&queue, |style| text::queue_text(&queue, style))?;
    Ok(EXIT_DONE)
}

fn remove(session: &Session, kind: &str, kinds: &str, name: &str) -> Result<u8, Failure> {
    session.client.delete(&path_of(kinds, name))?;
    session.output.print(&json!({"removed": name}), |_| format!("{kind} {name} removed\n"))?;
    Ok(EXIT_DONE)
}

fn flavors(session: &Session) -> Result<u8, Failure> {
    let list: ResourceFlavorList = session.client.get("/v1/resource-flavors", &[])?;
    session.output.print(&list, |style| text::flavors_table(&list, style))?;
    Ok(EXIT_DONE)
}

fn namespaces(session: &Session) -> Result<u8, Failure> {
    let list: NamespaceList = session.client.get("/v1/namespaces", &[])?;
    session.output.print(&list, |style| text::namespaces_table(&list, style))?;
    Ok(EXIT_DONE)
}

fn budgets(session: &Session, args: &Budgets) -> Result<u8, Failure> {
    let query = [("namespace", session.namespace.clone())];
    let query = if args.all_namespaces { &[][..] } else { &query[..] };
    let list: BudgetList = session.client.get("/v1/budgets", query)?;
    session.output.print(&list, |style| text::budgets_table(&list, style))?;
    Ok(EXIT_DONE)
}

fn priority_classes(session: &Session) -> Result<u8, Failure> {
    let list: PriorityClassList = session.client.get("/v1/priority-classes", &[])?;
    session.output.print(&list, |style| text::priority_classes_table(&list, style))?;
    Ok(EXIT_DONE)
}

fn provisioning_classes(session: &Session) -> Result<u8, Failure> {
    let list: ProvisioningClassList = session.client.get("/v1/provisioning-classes", &[])?;
    session.output.print(&list, |style| text::provisioning_classes_table(&list, style))?;
    Ok(EXIT_DONE)
}

fn profiles(session: &Session) -> Result<u8, Failure> {
    let list: ProfileList = session.client.get("/v1/profiles", &[])?;
    session.output.print(&list, |style| text::profiles_table(&list, style))?;
    Ok(EXIT_DONE)
}

fn topologies(session: &Session) -> Result<u8, Failure> {
    let list: TopologyList = session.client.get("/v1/topologies", &[])?;
    session.output.print(&list, |_| text::topologies_text(&list))?;
    Ok(EXIT_DONE)
}

fn status(session: &Session) -> Result<u8, Failure> {
    let status: StatusView = session.client.get("/v1/status", &[])?;
    session.output.print(&status, |style| text::status_text(&status, style))?;
    Ok(EXIT_DONE)
}

fn completion(shell: clap_complete::Shell, whole: fn() -> clap::Command) -> Result<u8, Failure> {
    let mut command = whole();
    let name = command.get_name().to_string();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    crate::output::write_out(&script)?;
    Ok(EXIT_DONE)
}
