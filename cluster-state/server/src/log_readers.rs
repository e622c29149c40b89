//! Output of tasks on its way from an agent's connection to whoever reads it. It never passes the replica thread.
//!
//! Invariant: no more pieces are under way to a reader than it has granted, so nobody is cut off for being slow and
//! nothing piles up here.

use dashmap::DashMap;
use ohm_model::{NodeId, RunRef};
use ohm_replica::Peer;
use ohm_wire::{AgentDown, LogPiece as WirePiece, MoreLog, NODE_READERS_MAX, ReadLog, agent_down};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Pieces (of at most 64 KiB) that may be under way to one reader.
const CREDIT: u32 = 16;
/// Pieces are granted again in lots of this many.
const GRANT: u32 = CREDIT / 2;
/// Readers of one client on a node: there is always room for somebody else.
const SHARE_MAX: usize = NODE_READERS_MAX / 4 * 3;

/// Which part of a task's output is wanted.
#[derive(Clone, Copy, Debug)]
pub struct LogQuery {
    /// The node that holds it.
    pub node: NodeId,
    /// The run that wrote it.
    pub run: RunRef,
    /// Its standard error instead of its standard output.
    pub stderr: bool,
    /// Go on as it grows.
    pub follow: bool,
    /// Only so many of the last bytes; 0 is everything kept.
    pub tail_bytes: u64,
    /// Only so many of the last lines, if at all.
    pub tail_lines: Option<u64>,
    /// Who reads, as a number: nobody has all readers of a node.
    pub client: u64,
}

/// One piece of a task's output, or why it ends.
pub type LogPiece = Result<bytes::Bytes, String>;

/// The way to an agent's connection. It does not keep the connection open.
pub(crate) struct AgentOutlet {
    pub(crate) peer: Peer,
    pub(crate) orders: mpsc::WeakSender<AgentDown>,
}

/// Everybody who reads output through this server, by request.
#[derive(Default)]
pub(crate) struct LogReaders {
    open: DashMap<u64, Reader>,
    last: AtomicU64,
}

struct Reader {
    agent: Peer,
    node: NodeId,
    client: u64,
    pieces: mpsc::Sender<LogPiece>,
}

impl LogReaders {
    /// Asks the agent for what `query` names.
    pub(crate) async fn open(self: Arc<Self>, query: LogQuery, agent: AgentOutlet) -> AgentStream {
        let request = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        // One more than the credit: room for the word that the agent is gone.
        let (sender, pieces) = mpsc::channel(CREDIT as usize + 1);
        let LogQuery { node, client, .. } = query;
        self.open.insert(request, Reader { agent: agent.peer, node, client, pieces: sender });
        // Counted with this one, so that of two who come at once neither is passed over.
        let is_refused = self.count(node, client) > SHARE_MAX;
        let stream = AgentStream { request, pieces, orders: agent.orders, readers: self, taken: 0 };
        if is_refused {
            stream.readers.pass(refused(request));
        } else {
            stream.order(agent_down::Kind::ReadLog(order_of(request, &query))).await;
        }
        stream
    }

    /// How many readers on `node` are one client's.
    fn count(&self, node: NodeId, client: u64) -> usize {
        self.open.iter().filter(|reader| (reader.node, reader.client) == (node, client)).count()
    }

    /// Hands a piece to its reader, if it still reads.
    pub(crate) fn pass(&self, piece: WirePiece) {
        let is_last = piece.last || !piece.error.is_empty();
        let message = if piece.error.is_empty() { Ok(piece.data) } else { Err(piece.error) };
        let Some(reader) = self.open.get(&piece.request).map(|reader| reader.pieces.clone()) else { return };
        // Full only when the agent sends more than was granted.
        let is_over_credit = reader.try_send(message).is_err();
        if is_last || is_over_credit {
            self.open.remove(&piece.request);
        }
    }

    /// The agent's connection ended: whoever reads through it is told.
    pub(crate) fn agent_gone(&self, agent: Peer) {
        self.open.retain(|_, reader| {
            if reader.agent == agent {
                let reason = "the agent's connection ended; read again from where you are".to_string();
                // Has room, or the reader is gone itself.
                let _ = reader.pieces.try_send(Err(reason));
            }
            reader.agent != agent
        });
    }
}

pub(crate) fn order_of(request: u64, query: &LogQuery) -> ReadLog {
    ReadLog {
        request,
        node: query.node.0,
        job: query.run.task.job.0,
        group: u32::from(query.run.task.group.0),
        task: query.run.task.task.0,
        incarnation: query.run.incarnation.0,
        stderr: query.stderr,
        follow: query.follow,
        tail_bytes: query.tail_bytes,
        tail_lines: query.tail_lines,
        credit: CREDIT,
        client: query.client,
    }
}

/// A task's output from the agent's connection, piece by piece, at the pace of whoever takes them. To drop it is to
/// stop reading.
pub struct AgentStream {
    request: u64,
    pieces: mpsc::Receiver<LogPiece>,
    orders: mpsc::WeakSender<AgentDown>,
    readers: Arc<LogReaders>,
    /// Since the last grant.
    taken: u32,
}

impl AgentStream {
    /// The next piece; none at the end.
    pub async fn next(&mut self) -> Option<LogPiece> {
        let piece = self.pieces.recv().await?;
        self.taken += 1;
        if self.taken >= GRANT {
            let more = MoreLog { request: self.request, pieces: std::mem::take(&mut self.taken) };
            self.order(agent_down::Kind::MoreLog(more)).await;
        }
        Some(piece)
    }

    async fn order(&self, kind: agent_down::Kind) {
        match self.orders.upgrade() {
            // Fails only when the connection has just ended; `agent_gone` tells the reader.
            Some(orders) => drop(orders.send(AgentDown { kind: Some(kind) }).await),
            None => self.readers.pass(gone(self.request)),
        }
    }
}

fn gone(request: u64) -> WirePiece {
    let error = "the node's agent is not connected any more".to_string();
    WirePiece { request, data: bytes::Bytes::new(), last: true, error }
}

fn refused(request: u64) -> WirePiece {
    let error = format!(
        "{SHARE_MAX} readers of this owner read on the node from there already, as many as one may have; end some of them"
    );
    WirePiece { request, data: bytes::Bytes::new(), last: true, error }
}

impl Drop for AgentStream {
    fn drop(&mut self) {
        if self.readers.open.remove(&self.request).is_some()
            && let Some(orders) = self.orders.upgrade()
        {
            // An agent with a full queue stops by itself: it is granted nothing more.
            let _ = orders.try_send(AgentDown { kind: Some(agent_down::Kind::StopLog(self.request)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::{JobId, NodeId, RunRef};

    /// A task's output of `pieces` pieces, sent as an agent sends it: never more than granted.
    async fn agent(mut orders: mpsc::Receiver<AgentDown>, readers: Arc<LogReaders>, pieces: u32) -> u32 {
        let (mut credit, mut sent, mut request) = (0, 0, 0);
        while let Some(order) = orders.recv().await {
            match order.kind.expect("an order has a kind") {
                agent_down::Kind::ReadLog(read) => (request, credit) = (read.request, read.credit),
                agent_down::Kind::MoreLog(more) => credit += more.pieces,
                _ => break,
            }
            while credit > 0 && sent < pieces {
                let last = sent + 1 == pieces;
                let data = bytes::Bytes::from(sent.to_string());
                readers.pass(WirePiece { request, data, last, error: String::new() });
                (credit, sent) = (credit - 1, sent + 1);
            }
        }
        sent
    }

    fn query() -> LogQuery {
        let run = RunRef::new(JobId(1), 0, 0, 1);
        LogQuery { node: NodeId(1), run, stderr: false, follow: false, tail_bytes: 0, tail_lines: None, client: 1 }
    }

    #[tokio::test]
    async fn a_reader_takes_everything_at_its_own_pace() {
        let readers = Arc::new(LogReaders::default());
        let (orders, inbox) = mpsc::channel(8);
        let sending = tokio::spawn(agent(inbox, Arc::clone(&readers), 200));
        let outlet = AgentOutlet { peer: Peer(1), orders: orders.downgrade() };
        let mut stream = Arc::clone(&readers).open(query(), outlet).await;
        for expected in 0..200 {
            // Lets the agent run as far ahead as it may.
            tokio::task::yield_now().await;
            let piece = stream.next().await.expect("a piece").expect("no error");
            assert_eq!(piece, expected.to_string());
        }
        assert!(stream.next().await.is_none(), "the last piece ends the stream");
        drop((stream, orders));
        assert_eq!((sending.await.unwrap(), readers.open.len()), (200, 0));
    }

    #[tokio::test]
    async fn whoever_stops_reading_stops_the_agent() {
        let readers = Arc::new(LogReaders::default());
        let (orders, inbox) = mpsc::channel(8);
        let sending = tokio::spawn(agent(inbox, Arc::clone(&readers), 200));
        let outlet = AgentOutlet { peer: Peer(1), orders: orders.downgrade() };
        let mut stream = Arc::clone(&readers).open(query(), outlet).await;
        assert!(stream.next().await.is_some());
        drop(stream);
        assert_eq!((sending.await.unwrap(), readers.open.len()), (CREDIT, 0));
    }

    #[tokio::test]
    async fn the_end_of_the_agents_connection_is_told() {
        let readers = Arc::new(LogReaders::default());
        let (orders, _inbox) = mpsc::channel(8);
        let outlet = |peer| AgentOutlet { peer: Peer(peer), orders: orders.downgrade() };
        let mut gone = Arc::clone(&readers).open(query(), outlet(1)).await;
        let _other = Arc::clone(&readers).open(query(), outlet(2)).await;
        readers.agent_gone(Peer(1));
        assert!(gone.next().await.is_some_and(|piece| piece.is_err()));
        assert!(gone.next().await.is_none());
        assert_eq!(readers.open.len(), 1, "the other agent's reader stays");
    }

    #[tokio::test]
    async fn no_client_has_all_readers_of_a_node() {
        let readers = Arc::new(LogReaders::default());
        let (orders, mut inbox) = mpsc::channel(256);
        let open = |node, client| {
            let query = LogQuery { node: NodeId(node), client, ..query() };
            Arc::clone(&readers).open(query, AgentOutlet { peer: Peer(1), orders: orders.downgrade() })
        };
        let mut held = Vec::new();
        for _ in 0..NODE_READERS_MAX {
            held.push(open(1, 1).await);
        }
        let mut asked = 0;
        while let Ok(order) = inbox.try_recv() {
            asked += usize::from(matches!(order.kind, Some(agent_down::Kind::ReadLog(_))));
        }
        assert_eq!(asked, 48, "the agent is asked for no more");
        let refused = held[48].next().await.unwrap().unwrap_err();
        assert!(refused.contains("48 readers of this owner"), "{refused}");
        assert!(held[48].next().await.is_none());
        let mut others = Vec::new();
        for (node, client) in [(1, 2), (2, 1)] {
            others.push(open(node, client).await);
            assert!(matches!(inbox.recv().await.unwrap().kind, Some(agent_down::Kind::ReadLog(_))));
        }
        drop((held, others));
        assert_eq!(readers.open.len(), 0);
        let _again = open(1, 1).await;
        assert_eq!(readers.open.len(), 1);
    }
}
