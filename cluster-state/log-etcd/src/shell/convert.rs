//! From the words of the core to those of the client, and back.

use crate::core::call::{CallError, Guard, Op, Pair, Range, Response, Txn};
use bytes::Bytes;
use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, GetResponse, KeyValue, PutOptions, TxnOp, TxnOpResponse, TxnResponse,
};

/// The code of a gRPC status, by its number: the client does not hand out the type.
const INVALID_ARGUMENT: i32 = 3;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const OUT_OF_RANGE: i32 = 11;
const UNAUTHENTICATED: i32 = 16;

pub(super) fn txn(txn: Txn) -> etcd_client::Txn {
    let guards: Vec<Compare> = txn.guards.into_iter().map(guard).collect();
    let then: Vec<TxnOp> = txn.then.into_iter().map(op).collect();
    let otherwise: Vec<TxnOp> = txn.otherwise.into_iter().map(op).collect();
    etcd_client::Txn::new().when(guards).and_then(then).or_else(otherwise)
}

fn guard(guard: Guard) -> Compare {
    match guard {
        Guard::Modified(key, revision) => Compare::mod_revision(key, CompareOp::Equal, revision.cast_signed()),
        Guard::Absent(key) => Compare::create_revision(key, CompareOp::Equal, 0),
    }
}

fn op(op: Op) -> TxnOp {
    match op {
        Op::Put { key, value, lease } => {
            let options = (lease != 0).then(|| PutOptions::new().with_lease(lease.cast_signed()));
            TxnOp::put(key, value, options)
        }
        Op::Get(key) => TxnOp::get(key, None),
        Op::Delete(key, end) => TxnOp::delete(key, end.map(|end| DeleteOptions::new().with_range(end))),
    }
}

pub(super) fn range(range: Range) -> (String, GetOptions) {
    let Range { key, end, revision, limit } = range;
    let options = GetOptions::new().with_revision(revision.cast_signed()).with_limit(limit.cast_signed());
    (
        key,
        match end {
            Some(end) => options.with_range(end),
            None => options,
        },
    )
}

pub(super) fn pair(pair: &KeyValue) -> Pair {
    Pair {
        key: String::from_utf8_lossy(pair.key()).into_owned(),
        value: Bytes::copy_from_slice(pair.value()),
        modified: pair.mod_revision().cast_unsigned(),
        version: pair.version().cast_unsigned(),
    }
}

pub(super) fn txn_response(response: TxnResponse) -> Response {
    let found = |response: TxnOpResponse| match response {
        TxnOpResponse::Get(got) => got.kvs().iter().map(pair).collect(),
        _ => Vec::new(),
    };
    let revision = response.header().map_or(0, |header| header.revision().cast_unsigned());
    let found = response.op_responses().into_iter().flat_map(found).collect();
    Response::Txn { succeeded: response.succeeded(), revision, found }
}

pub(super) fn range_response(mut response: GetResponse) -> Response {
    let revision = response.header().map_or(0, |header| header.revision().cast_unsigned());
    let more = response.more();
    Response::Range { revision, pairs: response.take_kvs().iter().map(pair).collect(), more }
}

pub(super) fn lease(lease: i64, ttl_s: i64) -> Response {
    Response::Lease { lease: lease.cast_unsigned(), ttl_s: ttl_s.max(0).cast_unsigned() }
}

pub(super) fn error(error: etcd_client::Error) -> CallError {
    let status = match error {
        etcd_client::Error::GRpcStatus(status) => status,
        etcd_client::Error::InvalidArgs(reason) => return CallError::Refused(reason),
        etcd_client::Error::TransportError(error) => return CallError::Lost(with_causes(&error)),
        other => return CallError::Lost(other.to_string()),
    };
    let text = match std::error::Error::source(&status) {
        Some(cause) => with_causes(cause),
        None => status.message().to_string(),
    };
    match i32::from(status.code()) {
        OUT_OF_RANGE if text.contains("compacted") => CallError::Compacted,
        RESOURCE_EXHAUSTED if text.contains("space") => CallError::NoSpace,
        INVALID_ARGUMENT | PERMISSION_DENIED | UNAUTHENTICATED => CallError::Refused(text),
        _ => CallError::Lost(text),
    }
}

/// An error with everything behind it: a refused certificate is called no more than "transport error" in front.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
