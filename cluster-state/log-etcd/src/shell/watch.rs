//! One watch of etcd, from its first revision until it ends. The client never begins one again; the core does.

use super::bell::Bell;
use super::convert;
use crate::core::call::{CallError, Heard, WatchEvent};
use etcd_client::{EventType, WatchClient, WatchFilterType, WatchOptions, WatchResponse};
use std::sync::Arc;
use tokio::sync::mpsc;

pub(super) struct Wanted {
    pub(super) watch: u64,
    pub(super) prefix: String,
    pub(super) from: u64,
    pub(super) deletions: bool,
}

pub(super) async fn run(client: WatchClient, wanted: Wanted, watches: mpsc::Sender<Heard>, bell: Arc<Bell>) {
    let watch = wanted.watch;
    let (compacted, reason) = match follow(client, wanted, &watches, &bell).await {
        Ok(ended) => ended,
        Err(error) => (matches!(error, CallError::Compacted), error.to_string()),
    };
    let _ = watches.send(Heard::WatchEnded { watch, compacted, reason }).await;
    bell.ring();
}

/// Hands on what comes; ends with whether the revision was compacted away, and why.
async fn follow(
    mut client: WatchClient,
    wanted: Wanted,
    watches: &mpsc::Sender<Heard>,
    bell: &Bell,
) -> Result<(bool, String), CallError> {
    let options = WatchOptions::new().with_prefix().with_start_revision(wanted.from.cast_signed()).with_fragment();
    let options = match wanted.deletions {
        true => options,
        false => options.with_filters([WatchFilterType::NoDelete]),
    };
    let mut stream = client.watch(wanted.prefix, Some(options)).await.map_err(convert::error)?;
    loop {
        let Some(response) = stream.message().await.map_err(convert::error)? else {
            return Ok((false, "the watch ended".into()));
        };
        if response.canceled() {
            return Ok((response.compact_revision() > 0, response.cancel_reason().to_string()));
        }
        let events = events(&response);
        if events.is_empty() {
            continue;
        }
        if watches.send(Heard::Watched(wanted.watch, events)).await.is_err() {
            return Ok((false, "nobody listens".into()));
        }
        bell.ring();
    }
}

fn events(response: &WatchResponse) -> Vec<WatchEvent> {
    let event = |event: &etcd_client::Event| {
        let pair = convert::pair(event.kv()?);
        Some(match event.event_type() {
            EventType::Put => WatchEvent::Put(pair),
            EventType::Delete => WatchEvent::Deleted { key: pair.key, modified: pair.modified },
        })
    };
    response.events().iter().filter_map(event).collect()
}
