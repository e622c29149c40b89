//! Diaries of tasks: each writes down itself when it starts and that it lives, so that nobody has to be believed about who
//! ran when.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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
