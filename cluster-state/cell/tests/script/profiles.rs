//! Scheduling profiles as text.

use super::Script;
use super::parse::{Words, class};
use ohm_model::transaction::GUARDS;
use ohm_model::{ClassKind, Guard, SchedulingProfile, Score, Strategy, WeightedScore};
use std::fmt::Write;

impl Words<'_> {
    /// `profile NAME [class=CLASS] [like=batch|service|tas] [score:NAME=WEIGHT…] [spread:LABEL=WEIGHT…]
    /// [strategy:WORD=0…] [conflicts=fit|version] [patience=SECONDS]`; without a score, those of a built-in class.
    pub(super) fn profile(&mut self) -> SchedulingProfile {
        let name = self.need("name").to_string();
        let mut profile = SchedulingProfile::built_in(class(self.option("class").unwrap_or(&name)));
        profile.name = name;
        match self.option("like") {
            None => {}
            Some("batch") => profile.like = ClassKind::Batch,
            Some("service") => profile.like = ClassKind::Service,
            Some("tas") => profile.like = ClassKind::Tas,
            Some(other) => panic!("no class is like {other}"),
        }
        if let Some(seconds) = self.option("patience") {
            profile.head_patience_seconds = seconds.parse().expect("seconds");
        }
        if let Some(word) = self.option("conflicts") {
            let guard = GUARDS.iter().find(|(name, _)| *name == word).expect("fit or version");
            profile.conflicts = guard.1;
        }
        let mut scores = Vec::new();
        let pair = |text: &str| {
            let (name, number) = text.split_once('=').expect("NAME=NUMBER");
            (name.to_string(), number.parse().expect("a number"))
        };
        for text in self.all("score:") {
            let (name, weight) = pair(text);
            let known = profile.scores.iter().find(|known| known.score.name() == name);
            scores.push(WeightedScore { score: known.expect("a score of the built-in classes").score.clone(), weight });
        }
        for text in self.all("spread:") {
            let (topology_key, weight) = pair(text);
            let score = Score::PodTopologySpread { topology_key: Some(topology_key) };
            scores.push(WeightedScore { score, weight });
        }
        if !scores.is_empty() {
            profile.scores = scores;
        }
        let strategy = |name: &str| Strategy::ALL.into_iter().find(|strategy| strategy.name() == name);
        let named = self.all("strategy:").into_iter();
        profile.strategies = named.map(|name| strategy(name).expect("the name of a strategy")).collect();
        profile
    }
}

impl Script {
    /// What the cell says of every class.
    pub(super) fn profiles_text(&self) -> String {
        let mut text = String::from("profiles");
        for class in self.cell.profiles().classes() {
            let profile = self.cell.profiles().of(class).expect("every known class has a profile");
            let submitted = self.cell.profiles().submitted(class).is_some();
            let origin = if submitted { "submitted" } else { "built in" };
            write!(text, "\n    {class}: {}, {origin}, like {:?};", profile.name, profile.like).unwrap();
            for weighted in &profile.scores {
                write!(text, " {} {}", weighted.score.name(), weighted.weight).unwrap();
            }
            if !profile.strategies.is_empty() {
                let names: Vec<&str> = profile.strategies.iter().map(|strategy| strategy.name()).collect();
                write!(text, "; {}", names.join(", ")).unwrap();
            }
            if profile.conflicts != Guard::default() {
                write!(text, "; conflicts by {}", profile.conflicts.name()).unwrap();
            }
        }
        text
    }
}
