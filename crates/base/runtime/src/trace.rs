//! Traces of a process: to standard error, filtered by `OHM_TRACE` (or `RUST_LOG`), as lines or as JSON.

use tracing_subscriber::EnvFilter;

/// Turns traces on. `OHM_TRACE_FORMAT=json` writes one JSON object per line. Only the first call of a process counts.
pub fn start(default_filter: &str) {
    let filter = std::env::var("OHM_TRACE").or_else(|_| std::env::var("RUST_LOG"));
    let filter = EnvFilter::new(filter.unwrap_or_else(|_| default_filter.to_string()));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let json = std::env::var("OHM_TRACE_FORMAT").is_ok_and(|format| format == "json");
    let _ = if json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
}
