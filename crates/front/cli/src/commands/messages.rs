//! Server-sent messages.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

/// Between two attempts to go on after a stream broke off.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Calls `take` with the id and the data of every server-sent message, until the stream ends or it has enough; whether
/// it wants more.
pub(super) fn each_message(stream: impl Read, mut take: impl FnMut(Option<u64>, &str) -> bool) -> bool {
    let (mut id, mut data) = (None, String::new());
    for line in BufReader::new(stream).lines() {
        // A stream that breaks off has ended, too.
        let Ok(line) = line else { break };
        match line.split_once(':') {
            Some(("data", rest)) => data.push_str(rest.strip_prefix(' ').unwrap_or(rest)),
            Some(("id", rest)) => id = rest.trim().parse().ok(),
            _ if line.is_empty() && !data.is_empty() => {
                if !take(id.take(), &data) {
                    return false;
                }
                data.clear();
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_from_a_stream() {
        let stream = ":\n\nevent: a\ndata: {\"x\":1}\nid: 7\n\ndata:two\n\n: keep alive\n\ndata: cut off";
        let mut found = Vec::new();
        assert!(each_message(stream.as_bytes(), |id, data| {
            found.push((id, data.to_string()));
            true
        }));
        assert_eq!(found, [(Some(7), "{\"x\":1}".to_string()), (None, "two".to_string())]);
    }
}
