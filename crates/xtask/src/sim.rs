//! `cargo xtask sim`: builds `ohm` with every assertion on and lets `ohm chaos sim` sweep a range of seeds.

use anyhow::{Context, Result, bail};

use crate::command::cargo;
use crate::workspace::Workspace;

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    seeds: String,
    profile: String,
    /// What goes to the sweep as it is.
    rest: Vec<String>,
}

/// Runs the sweep with its output shown as it comes; true if every seed held.
pub(crate) fn sim(arguments: &[String]) -> Result<bool> {
    let request = parse(arguments)?;
    let workspace = Workspace::load()?;
    let mut command = cargo(&workspace.root, &["run", "--quiet", "--locked", "--profile", &request.profile]);
    command.args(["--package", "ohm", "--", "chaos", "sim", "--seeds", &request.seeds]);
    Ok(command.args(&request.rest).status().context("cannot start cargo")?.success())
}

/// Reads `--seeds A..B [--profile NAME] [-- …]`.
fn parse(arguments: &[String]) -> Result<Request> {
    let (own, rest) = match arguments.iter().position(|argument| argument == "--") {
        Some(position) => (&arguments[..position], arguments[position + 1..].to_vec()),
        None => (arguments, Vec::new()),
    };
    let (mut seeds, mut profile) = (None, "sim".to_owned());
    for pair in own.chunks(2) {
        match pair {
            [option, value] if option == "--seeds" => seeds = Some(parse_seeds(value)?),
            [option, value] if option == "--profile" => profile.clone_from(value),
            _ => bail!("`{}`: known are --seeds A..B, --profile NAME and -- …", pair.join(" ")),
        }
    }
    Ok(Request { seeds: seeds.context("--seeds A..B is missing")?, profile, rest })
}

/// Checks that a range of seeds is one and holds at least one seed.
fn parse_seeds(text: &str) -> Result<String> {
    let range = text.split_once("..").and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    let (first, end): (u64, u64) = range.with_context(|| format!("`{text}` is not a range of seeds A..B"))?;
    if first >= end {
        bail!("`{text}` holds no seed");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> Result<Request> {
        parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_range_a_profile_and_a_rest_are_read() {
        let found = request(&["--seeds", "3..9", "--profile", "dev", "--", "--trace"]).ok();
        let expected = Request { seeds: "3..9".into(), profile: "dev".into(), rest: vec!["--trace".into()] };
        assert_eq!(found, Some(expected));
        assert_eq!(request(&["--seeds", "0..1"]).ok().map(|request| request.profile), Some("sim".to_owned()));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for bad in
            [&[][..], &["--seeds"], &["--seeds", "5..5"], &["--seeds", "a..b"], &["--seeds", "7"], &["--sed", "1..2"]]
        {
            assert!(request(bad).is_err(), "{bad:?}");
        }
    }
}
