//! Messages of the agent stream, in the words of the agent core.

use super::output::Tail;
use ohm_agent::{AgentInput, BeatAnswer};
use ohm_model::{Epoch, Incarnation, Index, NodeCondition, NodeId, RunRef, RunReport};
use ohm_wire::{
    AgentDown, AgentUp, Beat, Beats, Conditions, LogPiece, Malformed, ReadLog, RegisterNode, Registered, Reports,
    agent_down, agent_up, read, write,
};
use tokio_stream::Stream;

/// What a server says.
#[derive(Debug)]
pub(crate) enum Order {
    /// To the node with this name on the stream.
    Local {
        local: u64,
        node: NodeId,
        input: AgentInput,
    },
    /// To a registered node.
    Node {
        node: NodeId,
        input: AgentInput,
    },
    /// To many registered nodes.
    Answers(Vec<(NodeId, BeatAnswer)>),
    ReadLog(LogRequest),
    MoreLog {
        request: u64,
        pieces: u32,
    },
    StopLog {
        request: u64,
    },
}

/// Somebody wants to read the output of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRequest {
    pub(crate) request: u64,
    pub(crate) run: RunRef,
    pub(crate) is_stderr: bool,
    pub(crate) follow: bool,
    pub(crate) tail: Tail,
    /// Pieces that may be sent before more are granted.
    pub(crate) credit: u32,
}

/// The stream that the network reads a queue through.
pub(crate) fn stream_of<T>(receiver: tokio::sync::mpsc::Receiver<T>) -> impl Stream<Item = T> {
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}

/// Reads a message; none for what this version does not know.
pub(crate) fn order_of(message: AgentDown) -> Result<Option<Order>, Malformed> {
    let Some(kind) = message.kind else { return Ok(None) };
    Ok(Some(match kind {
        agent_down::Kind::Registered(registered) => registration(&registered)?,
        agent_down::Kind::Ended(ended) => {
            let input = AgentInput::RegistrationEnded { incarnation: Incarnation(ended.incarnation) };
            Order::Node { node: NodeId(ended.node), input }
        }
        agent_down::Kind::Wanted(wanted) => {
            let input = AgentInput::Wanted(read("a set of wanted runs", &wanted.set_bytes)?);
            Order::Node { node: NodeId(wanted.node), input }
        }
        agent_down::Kind::Answers(answers) => {
            Order::Answers(answers.answers.iter().map(|one| (NodeId(one.node), answer(one))).collect())
        }
        agent_down::Kind::Taken(taken) => {
            let input = AgentInput::ReportsAccepted { batch: taken.batch, index: Index(taken.index) };
            Order::Node { node: NodeId(taken.node), input }
        }
        agent_down::Kind::ReadLog(request) => Order::ReadLog(log_request(&request)?),
        agent_down::Kind::MoreLog(more) => Order::MoreLog { request: more.request, pieces: more.pieces },
        agent_down::Kind::StopLog(request) => Order::StopLog { request },
    }))
}

fn registration(registered: &Registered) -> Result<Order, Malformed> {
    let (local, instance, node) = (registered.local, registered.instance, NodeId(registered.node));
    let input = if registered.refusal_bytes.is_empty() {
        AgentInput::Registered { instance, node, incarnation: Incarnation(registered.incarnation) }
    } else {
        AgentInput::RegisterRefused { instance, refusal: read("a refusal", &registered.refusal_bytes)? }
    };
    Ok(Order::Local { local, node, input })
}

fn answer(answer: &ohm_wire::BeatAnswer) -> BeatAnswer {
    BeatAnswer {
        incarnation: Incarnation(answer.incarnation),
        duty_epoch: Epoch(answer.duty_epoch),
        sequence: answer.sequence,
        lease_ms: answer.lease_ms,
        interval_ms: answer.interval_ms,
    }
}

fn log_request(request: &ReadLog) -> Result<LogRequest, Malformed> {
    let group = u16::try_from(request.group);
    let group = group.map_err(|error| Malformed { what: "a group's number", reason: error.to_string() })?;
    Ok(LogRequest {
        request: request.request,
        run: RunRef::new(ohm_model::JobId(request.job), group, request.task, request.incarnation),
        is_stderr: request.stderr,
        follow: request.follow,
        tail: match (request.tail_lines, request.tail_bytes) {
            (Some(lines), _) => Tail::Lines(lines),
            (None, 0) => Tail::All,
            (None, bytes) => Tail::Bytes(bytes),
        },
        credit: request.credit,
    })
}

fn up(kind: agent_up::Kind) -> AgentUp {
    AgentUp { kind: Some(kind) }
}

/// A registration of the node `local`, of this process and boot; `alive` are the runs that live there.
pub(crate) fn register(
    local: u64,
    spec_bytes: bytes::Bytes,
    key: u64,
    (instance, boot): (u64, u64),
    alive: &[RunRef],
) -> AgentUp {
    let alive_bytes = if alive.is_empty() { bytes::Bytes::new() } else { write(alive) };
    up(agent_up::Kind::Register(RegisterNode { local, spec_bytes, key, instance, boot, alive_bytes }))
}

pub(crate) fn beat(node: NodeId, incarnation: Incarnation, sequence: u64) -> Beat {
    Beat { node: node.0, incarnation: incarnation.0, sequence }
}

pub(crate) fn beats(beats: Vec<Beat>) -> AgentUp {
    up(agent_up::Kind::Beats(Beats { beats }))
}

pub(crate) fn reports(node: NodeId, batch: u64, reports: &[RunReport]) -> AgentUp {
    up(agent_up::Kind::Reports(Reports { node: node.0, batch, reports_bytes: write(reports) }))
}

pub(crate) fn conditions(node: NodeId, incarnation: Incarnation, number: u64, all: &[NodeCondition]) -> AgentUp {
    let (node, incarnation, conditions_bytes) = (node.0, incarnation.0, write(all));
    up(agent_up::Kind::Conditions(Conditions { node, incarnation, number, conditions_bytes }))
}

/// A piece of a run's output, or its end, or why there is none.
pub(crate) fn log_piece(request: u64, piece: Result<Option<bytes::Bytes>, String>) -> AgentUp {
    let (data, last, error) = match piece {
        Ok(Some(data)) => (data, false, String::new()),
        Ok(None) => (bytes::Bytes::new(), true, String::new()),
        Err(error) => (bytes::Bytes::new(), true, error),
    };
    up(agent_up::Kind::Log(LogPiece { request, data, last, error }))
}
