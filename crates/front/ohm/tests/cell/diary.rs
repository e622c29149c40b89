//! Diaries of tasks: each writes down itself when it starts and that it lives, so that nobody has to be believed about who
//! ran when.

use super::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One line of a shell script that makes an entry into the diary `file`: the attempt, the time since boot, the node.
pub fn entry(file: &str) -> String {
    format!("read now rest < /proc/uptime; echo \"$OHM_INCARNATION $now $OHM_NODE\" >> {file}")
}

/// When an incarnation of a task first and last wrote, and where.
#[derive(Clone, Debug)]
pub struct Life {
    pub first: f64,
    pub last: f64,
    pub node: String,
}

/// The lives of one task, by incarnation; none where there is no diary.
pub fn lives(file: &Path) -> BTreeMap<u32, Life> {
    let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
    let text = fs::read_to_string(file).unwrap_or_default();
    for line in text.lines().filter(|line| line.split(' ').count() == 3) {
        let words: Vec<&str> = line.split(' ').collect();
        let (incarnation, now) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        let life = lives.entry(incarnation).or_insert(Life { first: now, last: now, node: words[2].to_string() });
        life.last = life.last.max(now);
        life.first = life.first.min(now);
    }
    lives
}

/// Every incarnation of a task was silent before the next one spoke.
pub fn assert_one_at_a_time(lives: &BTreeMap<u32, Life>) {
    let all: Vec<&Life> = lives.values().collect();
    for pair in all.windows(2) {
        assert!(pair[0].last < pair[1].first, "two lives at once: {lives:?}");
    }
}

/// Where the tasks of [`job`] write: a file `JOB.RANK` each, and beside it what they found in their file of peers.
pub fn folder(cell: &Cell) -> PathBuf {
    cell.path("diaries")
}

/// A job of one group whose tasks keep diaries until they are stopped or [`let_end`]; `spec` is what else stands in it,
/// as `field: value, field: value`. Each writes down the peers it was started with (`JOB.RANK.ATTEMPT.peers`), and those
/// that it finds when it is told with SIGUSR1 (`JOB.RANK.ATTEMPT.told`).
pub fn job(cell: &Cell, name: &str, spec: &str) -> String {
    let folder = folder(cell);
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.display();
    let script = format!(
        "own={folder}/${{OHM_JOB#*/}}.$OHM_RANK\n\
         peers() {{ [ -z \"$OHM_PEERS_FILE\" ] || cp \"$OHM_PEERS_FILE\" $own.$OHM_INCARNATION.$1; }}\n\
         trap 'peers told' USR1\n\
         peers peers\n\
         while [ ! -e {folder}/end ]; do {}; sleep 0.1; done\n",
        entry("$own")
    );
    let script = cell.put("diary.sh", script);
    format!(
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{{spec}, terminationGracePeriodSeconds: 1, \
         requests: {{cpu: 10m, memory: 8Mi}}, command: [sh, {script}]}}\n"
    )
}

/// Lets the tasks of all jobs made by [`job`] end.
pub fn let_end(cell: &Cell) {
    fs::write(folder(cell).join("end"), "").unwrap();
}

/// The lives of one task of a job made by [`job`].
pub fn lives_of(cell: &Cell, job: &str, task: usize) -> BTreeMap<u32, Life> {
    lives(&folder(cell).join(format!("{job}.{task}")))
}

/// What such a task found in its file of peers: the generation, and the addresses by rank. `when` is `peers` for its
/// start and `told` for later.
pub fn peers_of(cell: &Cell, job: &str, task: usize, attempt: u32, when: &str) -> Option<(u64, Vec<String>)> {
    let text = fs::read_to_string(folder(cell).join(format!("{job}.{task}.{attempt}.{when}"))).ok()?;
    let (head, addresses) = text.split_once('\n')?;
    let generation = head.strip_prefix("# generation ")?.parse().ok()?;
    Some((generation, addresses.lines().map(String::from).collect()))
}
