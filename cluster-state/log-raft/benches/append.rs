//! Durable appends per second on a real folder, by how many are handed in before each poll; and the cost of encoding
//! and ordering alone, on a disk in memory.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ohm_log::{Bytes, Disk, Log, LogEvent, LogRequest, MemDisk};
use ohm_log_raft::{FileDisk, RaftConfig, RaftLog, Remarks};
use ohm_model::Index;
use std::time::Duration;

const ENTRY_BYTES: usize = 300;

struct Appender<D> {
    log: RaftLog<D>,
    token: u64,
    last: Index,
    since_snapshot: u64,
    events: Vec<LogEvent>,
}

impl<D: Disk> Appender<D> {
    fn new(disk: D) -> Self {
        let log = RaftLog::create(disk, RaftConfig::single(1, 1), Remarks::none()).expect("an empty folder");
        Appender { log, token: 0, last: Index(0), since_snapshot: 0, events: Vec::new() }
    }

    /// Hands in `batch` appends and polls until the last of them is committed.
    fn append(&mut self, batch: u64, bytes: &Bytes) {
        for _ in 0..batch {
            self.token += 1;
            let append = LogRequest::Append { token: self.token, bytes: bytes.clone() };
            self.log.submit(0, append).expect("room for a batch");
        }
        let mut committed = false;
        while !committed {
            self.log.poll(0, &mut self.events).expect("the disk works");
            for event in self.events.drain(..) {
                if let LogEvent::Committed { index, token, .. } = event {
                    self.last = index;
                    committed |= token == Some(self.token);
                }
            }
        }
        self.forget(batch);
    }

    /// Keeps memory and disk bounded, as a copy of the cell would.
    fn forget(&mut self, batch: u64) {
        self.since_snapshot += batch;
        if self.since_snapshot > 200_000 {
            self.since_snapshot = 0;
            let pieces = vec![Bytes::from_static(b"state")];
            self.log.submit(0, LogRequest::SaveSnapshot { index: self.last, pieces }).expect("one at a time");
            while self.log.wake_ms() == Some(0) {
                self.log.poll(0, &mut self.events).expect("the disk works");
                self.events.clear();
            }
            self.log.submit(0, LogRequest::Trim { below: self.last }).expect("trim is always taken");
        }
    }
}

fn durable(criterion: &mut Criterion) {
    let bytes = Bytes::from(vec![7; ENTRY_BYTES]);
    let mut group = criterion.benchmark_group("durable append, 300 bytes");
    group.measurement_time(Duration::from_secs(4)).sample_size(20);
    for batch in [1, 64, 1024] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut appender = Appender::new(FileDisk::open(folder.path()).expect("a disk"));
        group.throughput(Throughput::Elements(batch));
        group.bench_function(format!("batch of {batch}"), |bench| bench.iter(|| appender.append(batch, &bytes)));
    }
    group.finish();
}

fn in_memory(criterion: &mut Criterion) {
    let bytes = Bytes::from(vec![7; ENTRY_BYTES]);
    let mut group = criterion.benchmark_group("encode and order, 300 bytes");
    group.sample_size(20).throughput(Throughput::Elements(1024));
    group.bench_function("batch of 1024", |bench| {
        let make = || Appender::new(MemDisk::new());
        bench.iter_batched_ref(make, |appender| appender.append(1024, &bytes), BatchSize::LargeInput);
    });
    group.finish();
}

criterion_group!(benches, durable, in_memory);
criterion_main!(benches);
