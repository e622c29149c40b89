//! The whole state, to be kept elsewhere.

use super::answer::{Answer, stamped};
use super::shared::Shared;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use ohm_cell::{BackupSource, Cell, write_backup};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Parts of this many bytes go out; some of them wait for whoever reads.
const PART_BYTES: usize = 256 << 10;
const PARTS_WAITING: usize = 4;

/// Everything that was acknowledged anywhere before the request is in it.
pub(super) async fn backup(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    let index = cell.applied();
    let (parts, sent) = mpsc::channel(PARTS_WAITING);
    let source = shared.options.source;
    // Whoever reads may be slow; that must not stop other requests.
    tokio::task::spawn_blocking(move || write(source, &cell, &parts));
    let kind = [(header::CONTENT_TYPE, "application/octet-stream"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok(stamped(index, (kind, Body::from_stream(ReceiverStream::new(sent))).into_response()))
}

fn write(source: BackupSource, cell: &Arc<Cell>, parts: &mpsc::Sender<io::Result<Bytes>>) {
    let mut part = Vec::with_capacity(PART_BYTES);
    let is_readable = write_backup(source, cell, |bytes| {
        part.extend_from_slice(bytes);
        // Whoever has gone away needs no more of it.
        if part.len() >= PART_BYTES && !parts.is_closed() {
            let _ = parts.blocking_send(Ok(std::mem::take(&mut part).into()));
        }
    });
    let last = match is_readable {
        true => Ok(part.into()),
        // An error breaks the answer off, so that nobody takes a part for the whole.
        false => Err(io::Error::other("the state holds something too large for a backup")),
    };
    let _ = parts.blocking_send(last);
}
