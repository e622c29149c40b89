//! Scheduling profiles as the API shows them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The profile of every class that the cell knows, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileList {
    /// The profiles.
    pub profiles: Vec<ProfileView>,
}

/// How the jobs of a class are planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileView {
    /// Its name.
    pub name: String,
    /// The class that it is for.
    pub class: String,
    /// `batch`, `service` or `tas`: what the class is like.
    pub like: String,
    /// Whether every cell has it; another one was submitted.
    pub built_in: bool,
    /// The set of scores (`base`) that its scores are, exactly; empty when they are its own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base: String,
    /// The scores, those that are switched off included.
    pub scores: Vec<ScoreView>,
    /// The strategies that are tried, in order; empty for those that the class is like have built in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strategies: Vec<String>,
    /// When a placement collides with what others did to its node meanwhile: `fit` (it does not fit any more) or
    /// `version` (anything about the node has changed).
    pub conflicts: String,
    /// How many seconds a job of the class waits for room before it may become the head of its line.
    pub head_patience_seconds: u32,
    /// How many schedulers of the class run.
    pub replicas: u64,
    /// How many jobs of the class are not finished.
    pub jobs: u64,
}

/// A score and how much it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScoreView {
    /// Its name.
    pub name: String,
    /// 0 to 100; 0 is switched off.
    pub weight: u32,
    /// Its arguments by their paths, such as `scoringStrategy.type`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
}
