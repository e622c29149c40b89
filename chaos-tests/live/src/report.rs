//! What came of a run, for people and for programs.

use crate::repairs::Repairs;
use crate::scenario::JUDGED;
use crate::starts::Starts;
use crate::timeline::KILL_LEADER;
use crate::verdict::Finding;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Findings that are shown in full.
const TOLD_MAX: usize = 4;
const LINE_CHARACTERS_MAX: usize = 160;

/// Everything about one run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which scenario.
    pub scenario: String,
    /// What chance followed from.
    pub seed: u64,
    /// In one sentence.
    pub about: String,
    /// How long it all took.
    pub seconds: u64,
    /// Faults in the order in which they struck.
    pub strikes: Vec<Strike>,
    /// Jobs by what became of them.
    pub jobs: JobCounts,
    /// How much was judged.
    pub history: Counts,
    /// What was lost with nodes, and repaired.
    pub repairs: Repairs,
    /// How often tasks were started, and why again.
    pub starts: Starts,
    /// How often processes ended that nobody had struck.
    pub ended_by_themselves: BTreeMap<String, u32>,
    /// What `ohm log verify` said.
    pub verified: String,
    /// What this machine can't do.
    pub skipped: Vec<String>,
    /// What did not hold, and was to be seen not to hold.
    pub expected: Vec<Finding>,
    /// What did not hold.
    pub findings: Vec<Finding>,
    /// Where everything is kept, if it is.
    pub evidence: Option<String>,
}

/// One fault.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Strike {
    /// When, in milliseconds after the first one.
    pub after_ms: u64,
    /// Its kind.
    pub kind: &'static str,
    /// In words.
    pub what: String,
    /// The longest wait of a client for an acknowledgement from here to the next fault, if any client waited; the
    /// largest number there is for a client that waited in vain.
    pub longest_wait_ms: Option<u64>,
    /// The longest time without the beginning of any task that ended from here to the next fault.
    pub longest_silence_ms: Option<u64>,
}

/// Jobs by what became of them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobCounts {
    /// In the timeline.
    pub planned: usize,
    /// Acknowledged to a client.
    pub acknowledged: usize,
    /// Over.
    pub ended: usize,
    /// Over as they should be.
    pub succeeded: usize,
    /// Requests that clients sent for them.
    pub requests: u64,
}

/// How much was judged.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Files of records.
    pub files: usize,
    /// Entries of the log.
    pub entries: usize,
    /// Hashes of other copies.
    pub copied: usize,
    /// Runs that began.
    pub began: usize,
    /// Runs that were over.
    pub over: usize,
    /// Signs of life that tasks wrote themselves.
    pub signs: usize,
}

impl Report {
    /// Whether everything held.
    pub fn is_good(&self) -> bool {
        self.findings.is_empty()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let finding = |finding: &Finding| {
            let Finding { broken, before } = finding;
            json!({ "promise": broken.promise, "what": broken.what, "before": before })
        };
        json!({
            "scenario": self.scenario,
            "seed": self.seed,
            "about": self.about,
            "seconds": self.seconds,
            "good": self.is_good(),
            "faults": self.by_kind(),
            "strikes": self.strikes,
            "leaderOutagesMs": self.outages_ms(),
            "jobs": self.jobs,
            "history": self.history,
            "repairs": self.repairs,
            "starts": self.starts,
            "endedByThemselves": self.ended_by_themselves,
            "logVerify": self.verified,
            "notTested": self.skipped,
            "judged": JUDGED.split(' ').collect::<Vec<_>>(),
            "expected": self.expected.iter().map(finding).collect::<Vec<_>>(),
            "broken": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "evidence": self.evidence,
        })
    }

    fn by_kind(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.strikes.iter().for_each(|strike| *counts.entry(strike.kind).or_insert(0) += 1);
        counts
    }

    /// How long clients waited around each death of a leader, shortest first; nobody waited where there is none.
    fn outages_ms(&self) -> Vec<u64> {
        let kills = self.strikes.iter().filter(|strike| strike.kind == KILL_LEADER);
        let mut waits: Vec<u64> = kills.filter_map(|strike| strike.longest_wait_ms).collect();
        waits.sort_unstable();
        waits
    }

    fn outage(&self) -> Option<String> {
        let waits = self.outages_ms();
        let (median, longest) = (waits.get(waits.len() / 2)?, waits.last()?);
        let count = waits.len();
        Some(format!(
            "longest wait around each of {count} deaths of a leader: median {}, longest {}",
            seconds(*median),
            seconds(*longest)
        ))
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        table.set_header(["AFTER", "FAULT", "LONGEST WAIT FOR AN ACKNOWLEDGEMENT", "LONGEST TIME WITHOUT A START"]);
        let wait = |wait: Option<u64>| match wait {
            None => "-".to_string(),
            Some(u64::MAX) => "never".to_string(),
            Some(wait_ms) => seconds(wait_ms),
        };
        for strike in &self.strikes {
            let waits = [wait(strike.longest_wait_ms), wait(strike.longest_silence_ms)];
            table.add_row([seconds(strike.after_ms), strike.what.clone()].into_iter().chain(waits));
        }
        let mut text = format!("{}, seed {}: {}\n\n", self.scenario, self.seed, self.about);
        table.lines().for_each(|line| text.push_str(&format!("{}\n", line.trim())));
        let outage = self.outage();
        let kinds = self.by_kind().into_iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>();
        let JobCounts { planned, acknowledged, ended, succeeded, requests } = self.jobs;
        let Counts { files, entries, copied, began, over, signs } = self.history;
        // Writing to a String cannot fail.
        let mut line = |name: &str, what: String| {
            let _ = writeln!(text, "{}", format!("{name:<12}{what}").trim_end());
        };
        line("", String::new());
        line("faults", kinds.join(", "));
        if let Some(outage) = outage {
            line("outage", outage);
        }
        line("jobs", format!("{planned} submitted ({requests} requests), {acknowledged} acknowledged, {ended} ended"));
        line("", format!("{succeeded} succeeded"));
        line("history", format!("{entries} entries, {began} beginnings, {over} ends, {signs} signs of life of tasks"));
        line("", format!("{copied} hashes of other copies, in {files} files"));
        for (number, figures) in self.repairs.text().into_iter().enumerate() {
            line(if number == 0 { "repairs" } else { "" }, figures);
        }
        for (number, figures) in self.starts.text().into_iter().enumerate() {
            line(if number == 0 { "starts" } else { "" }, figures);
        }
        line("log", self.verified.clone());
        for (name, count) in &self.ended_by_themselves {
            line("note", format!("{name} ended {count} times without having been struck"));
        }
        self.skipped.iter().for_each(|skipped| line("NOT TESTED", skipped.clone()));
        line("judged", format!("{JUDGED}; {} s in all", self.seconds));
        for finding in &self.expected {
            line("expected", short(&finding.broken.to_string()));
        }
        for (number, finding) in self.findings.iter().enumerate() {
            if number < TOLD_MAX {
                line("", String::new());
                line("BROKEN", finding.broken.to_string());
                finding.before.iter().for_each(|before| line("", short(before)));
            }
        }
        if self.findings.len() > TOLD_MAX {
            line("", format!("and {} more", self.findings.len() - TOLD_MAX));
        }
        if let Some(evidence) = &self.evidence {
            line("kept", format!("in {evidence}; history.txt tells all of it in order"));
        }
        line("", String::new());
        match self.findings.len() {
            0 => line("HELD", "every promise that was judged".into()),
            count => line("BROKEN", format!("{count} findings")),
        }
        text
    }
}

/// A line as wide as it is read.
fn short(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}

fn seconds(time_ms: u64) -> String {
    format!("{}.{:03} s", time_ms / 1000, time_ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: Vec<Finding>) -> Report {
        let strike = Strike {
            after_ms: 1_500,
            kind: "kill -9",
            what: "kill -9 server".into(),
            longest_wait_ms: Some(700),
            longest_silence_ms: None,
        };
        Report {
            scenario: "test".into(),
            seed: 1,
            about: "a test".into(),
            seconds: 9,
            strikes: vec![strike],
            jobs: JobCounts::default(),
            history: Counts::default(),
            repairs: Repairs::default(),
            starts: Starts::default(),
            ended_by_themselves: BTreeMap::new(),
            verified: String::new(),
            skipped: vec!["flying".into()],
            expected: vec![Finding::alone("P4", "half".into())],
            findings,
            evidence: None,
        }
    }

    #[test]
    fn what_broke_and_what_was_not_tested_is_said_in_both_forms() {
        let good = report(Vec::new());
        assert!(good.text().contains("HELD") && good.text().contains("NOT TESTED  flying"), "{}", good.text());
        assert!(good.text().contains("1.500 s") && good.text().contains("0.700 s"));
        assert_eq!((good.json()["good"].clone(), good.json()["faults"]["kill -9"].clone()), (json!(true), json!(1)));
        let finding = Finding { before: vec!["before".into()], ..Finding::alone("P2", "twice".into()) };
        let bad = report(vec![finding]);
        assert!(bad.text().contains("P2 broken: twice") && bad.text().contains("before"), "{}", bad.text());
        assert_eq!(bad.json()["broken"][0]["promise"], "P2");
        assert!(!bad.is_good());
        assert!(bad.text().contains("expected    P4 broken: half"), "{}", bad.text());
        let many = report(vec![Finding::alone("P2", "x".repeat(500)); 6]);
        assert!(many.text().contains("and 2 more") && many.json()["broken"].as_array().unwrap().len() == 6);
    }
}
