//! A trace as it is read: the node list and the pod list of `alibaba-gpu-2023`, each a CSV file with a header.
//!
//! Invariant: what is read here can be placed by a cell as it is: names are unique, amounts are not negative, a pod
//! that
//! shares a device asks for one device only. Everything else is refused with its file and line.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A whole device, in the thousandths of the trace.
pub(super) const DEVICE_MILLI: i64 = 1000;
/// Largest amount of one row: sums of all rows of a trace stay far from the end of 64 bits.
const AMOUNT_MAX: i64 = 1 << 40;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum TraceError {
    /// The file cannot be opened.
    #[error("{file}: {source}")]
    Open {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no CSV file, or a field has the wrong form.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why, with the line.
        source: csv::Error,
    },
    /// A row says something that is impossible.
    #[error("{file}, line {line}: {problem}")]
    Row {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// There is a header and nothing else.
    #[error("{file}: the list has no row")]
    Empty {
        /// The file.
        file: String,
    },
}

/// A node of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TraceNode {
    pub(super) name: String,
    pub(super) cpu_milli: i64,
    pub(super) memory_mib: i64,
    /// Whole devices.
    pub(super) gpus: i64,
    /// The type of its devices; empty without any.
    pub(super) model: String,
}

/// A pod of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TracePod {
    pub(super) name: String,
    pub(super) request: Request,
    /// Latency-sensitive: it serves until it is taken away. Others run to their end.
    pub(super) is_service: bool,
    /// Seconds since the trace's start.
    pub(super) created_s: u64,
    /// Seconds since the trace's start; never before `created_s`.
    pub(super) deleted_s: u64,
}

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    pub(super) cpu_milli: i64,
    pub(super) memory_mib: i64,
    /// Thousandths of devices: below 1000 a share of one, else whole ones.
    pub(super) gpu_milli: i64,
    /// Types of devices it may stand on; empty for any.
    pub(super) models: Vec<String>,
}

/// Nodes and pods, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) nodes: Vec<TraceNode>,
    pub(super) pods: Vec<TracePod>,
}

#[derive(Deserialize)]
struct NodeRow {
    sn: String,
    cpu_milli: i64,
    memory_mib: i64,
    gpu: i64,
    model: String,
}

#[derive(Deserialize)]
struct PodRow {
    name: String,
    cpu_milli: i64,
    memory_mib: i64,
    num_gpu: i64,
    gpu_milli: i64,
    /// Some lists leave the column out: then every type will do.
    #[serde(default)]
    gpu_spec: String,
    qos: String,
    creation_time: u64,
    deletion_time: u64,
}

impl Trace {
    /// Reads both lists; of the pods the first `limit`.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub(super) fn read(nodes: &Path, pods: &Path, limit: Option<usize>) -> Result<Trace, TraceError> {
        let open = |path: &Path| {
            let file = path.display().to_string();
            let opened = File::open(path).map_err(|source| TraceError::Open { file: file.clone(), source });
            opened.map(|opened| (file, opened))
        };
        let (node_file, node_list) = open(nodes)?;
        let (pod_file, pod_list) = open(pods)?;
        Ok(Trace {
            nodes: read_nodes(&node_file, node_list)?,
            pods: read_pods(&pod_file, pod_list, limit.unwrap_or(usize::MAX))?,
        })
    }
}

fn read_nodes(file: &str, list: impl Read) -> Result<Vec<TraceNode>, TraceError> {
    read_rows(file, list, usize::MAX, |row: NodeRow| {
        check_name(&row.sn)?;
        check_amounts(&[("cpu_milli", row.cpu_milli), ("memory_mib", row.memory_mib), ("gpu", row.gpu)])?;
        let NodeRow { sn: name, cpu_milli, memory_mib, gpu: gpus, model } = row;
        Ok((name.clone(), TraceNode { name, cpu_milli, memory_mib, gpus, model }))
    })
}

fn read_pods(file: &str, list: impl Read, limit: usize) -> Result<Vec<TracePod>, TraceError> {
    read_rows(file, list, limit, |row: PodRow| {
        check_name(&row.name)?;
        if row.deletion_time < row.creation_time {
            return Err(format!("deletion_time {} is before creation_time {}", row.deletion_time, row.creation_time));
        }
        let pod = TracePod {
            name: row.name.clone(),
            request: request(&row)?,
            is_service: row.qos == "LS",
            created_s: row.creation_time,
            deleted_s: row.deletion_time,
        };
        Ok((row.name, pod))
    })
}

fn request(row: &PodRow) -> Result<Request, String> {
    let (count, milli) = (row.num_gpu, row.gpu_milli);
    check_amounts(&[
        ("cpu_milli", row.cpu_milli),
        ("memory_mib", row.memory_mib),
        ("num_gpu", count),
        ("gpu_milli", milli),
    ])?;
    let gpu_milli = match (count, milli) {
        (0, _) => 0,
        (1, 1..=DEVICE_MILLI) => milli,
        (_, DEVICE_MILLI) => count * DEVICE_MILLI,
        _ => return Err(format!("num_gpu {count} with gpu_milli {milli}: only 1 to 1000 of one GPU, or whole ones")),
    };
    let models = row.gpu_spec.split('|').filter(|model| !model.is_empty()).map(String::from).collect();
    Ok(Request { cpu_milli: row.cpu_milli, memory_mib: row.memory_mib, gpu_milli, models })
}

fn check_name(name: &str) -> Result<(), String> {
    // The name becomes a part of names in the cell, which says exactly what is wrong with any other character.
    if name.is_empty() { Err("the name is empty".to_string()) } else { Ok(()) }
}

fn check_amounts(amounts: &[(&str, i64)]) -> Result<(), String> {
    match amounts.iter().find(|(_, amount)| !(0..=AMOUNT_MAX).contains(amount)) {
        Some((name, amount)) => Err(format!("{name} is {amount}; 0 to {AMOUNT_MAX} is possible")),
        None => Ok(()),
    }
}

/// The first `limit` rows of `list`, each made by `make` into a name that is unique in the file and a thing.
fn read_rows<R: DeserializeOwned, T>(
    file: &str,
    list: impl Read,
    limit: usize,
    make: impl Fn(R) -> Result<(String, T), String>,
) -> Result<Vec<T>, TraceError> {
    let unreadable = |source| TraceError::Read { file: file.to_string(), source };
    let mut reader = csv::Reader::from_reader(list);
    let header = reader.headers().map_err(unreadable)?.clone();
    let mut names = BTreeSet::new();
    let mut things = Vec::new();
    let mut record = csv::StringRecord::new();
    while things.len() < limit && reader.read_record(&mut record).map_err(unreadable)? {
        let line = record.position().map_or(0, csv::Position::line);
        let wrong = |problem| TraceError::Row { file: file.to_string(), line, problem };
        let row = record.deserialize(Some(&header)).map_err(unreadable)?;
        let (name, thing) = make(row).map_err(wrong)?;
        if let Some(name) = names.replace(name) {
            return Err(wrong(format!("the name {name} is in an earlier line, too")));
        }
        things.push(thing);
    }
    if things.is_empty() { Err(TraceError::Empty { file: file.to_string() }) } else { Ok(things) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,32000,262144,0,\nnode-1,96000,786432,8,V100M32\n";
    const HEADER: &str =
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time";

    fn pods(rows: &str, limit: usize) -> Result<Vec<TracePod>, String> {
        read_pods("pods.csv", format!("{HEADER}\n{rows}").as_bytes(), limit).map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_are_read_with_their_devices() {
        let nodes = read_nodes("nodes.csv", NODES.as_bytes()).unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!((nodes[0].name.as_str(), nodes[0].cpu_milli, nodes[0].gpus), ("node-0", 32_000, 0));
        assert_eq!((nodes[1].memory_mib, nodes[1].gpus, nodes[1].model.as_str()), (786_432, 8, "V100M32"));
    }

    #[test]
    fn pods_are_read_with_shares_whole_devices_and_models() {
        let rows = "\
a,12000,16384,1,1000,,LS,Running,0,12537496,0
b,6000,12288,1,460,V100M16|V100M32,BE,Pending,427061,12902960,
c,1000,1024,8,1000,,Burstable,Failed,5,5,5
d,500,512,0,0,,Guaranteed,Running,5,9,5
";
        let pods = self::pods(rows, 9).unwrap();
        let milli: Vec<i64> = pods.iter().map(|pod| pod.request.gpu_milli).collect();
        assert_eq!(milli, [1000, 460, 8000, 0]);
        assert_eq!(pods.iter().map(|pod| pod.is_service).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(pods[1].request.models, ["V100M16", "V100M32"]);
        assert_eq!((pods[1].created_s, pods[1].deleted_s), (427_061, 12_902_960));
        assert_eq!(self::pods(rows, 2).unwrap().len(), 2);
    }

    #[test]
    fn lists_without_types_of_devices_are_read() {
        let with = format!("{HEADER}\na,12000,16384,1,460,,LS,Running,0,9,0\nb,1000,1024,2,1000,,BE,Running,1,9,1\n");
        let without = with.replace("gpu_spec,", "").replace(",,", ",");
        assert_ne!(with, without);
        let read = |list: &str| read_pods("pods.csv", list.as_bytes(), 9).unwrap();
        assert_eq!(read(&without), read(&with));
        assert!(read(&without).iter().all(|pod| pod.request.models.is_empty()));
        // Nodes never have it: what they have is told by `model`. A column that nobody knows is passed over.
        let nodes = read_nodes("nodes.csv", NODES.as_bytes()).unwrap();
        let wider = NODES.replace("model\n", "model,gpu_spec\n").replace(",0,\n", ",0,,\n").replace("M32\n", "M32,\n");
        assert_eq!(read_nodes("nodes.csv", wider.as_bytes()).unwrap(), nodes);
    }

    #[test]
    fn wrong_rows_are_refused_with_their_line() {
        for (rows, expected) in [
            ("", "pods.csv: the list has no row"),
            (
                "a,1,1,2,500,,LS,Running,0,0,0",
                "pods.csv, line 2: num_gpu 2 with gpu_milli 500: only 1 to 1000 of one GPU, or whole ones",
            ),
            ("a,1,1,0,0,,LS,Running,9,8,0", "pods.csv, line 2: deletion_time 8 is before creation_time 9"),
            ("a,-1,1,0,0,,LS,Running,0,0,0", "pods.csv, line 2: cpu_milli is -1; 0 to 1099511627776 is possible"),
            (
                "a,1,1,0,0,,LS,Running,0,0,0\na,1,1,0,0,,LS,Running,0,0,0",
                "pods.csv, line 3: the name a is in an earlier line, too",
            ),
            (",1,1,0,0,,LS,Running,0,0,0", "pods.csv, line 2: the name is empty"),
        ] {
            assert_eq!(pods(rows, 9).unwrap_err(), expected);
        }
        for rows in ["a,x,1,0,0,,LS,Running,0,0,0", "a,1,1"] {
            assert!(pods(rows, 9).unwrap_err().contains("line: 2"), "{rows}");
        }
    }

    #[test]
    fn files_and_columns_that_are_missing_are_named() {
        let missing = Path::new("/does/not/exist.csv");
        let error = Trace::read(missing, missing, None).unwrap_err().to_string();
        assert!(error.starts_with("/does/not/exist.csv: "), "{error}");
        let error = read_nodes("nodes.csv", "sn,cpu\na,1\n".as_bytes()).unwrap_err().to_string();
        assert!(error.contains("missing field") && error.contains("cpu_milli"), "{error}");
    }
}
