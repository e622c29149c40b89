//! What clients felt: how long each job waited between its first request and its acknowledgement, and which fault that
//! was.

/// One job on its way into the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmitRequest {
    /// When it was first sent, in milliseconds of CLOCK_BOOTTIME.
    pub sent_ms: u64,
    /// When it was acknowledged; never, if the run ended before.
    pub answered_ms: Option<u64>,
    /// How often it was sent.
    pub tries: u32,
}

/// The longest wait of any request that was answered between each moment and the next one, in milliseconds; none where
/// there was none. What was never answered counts for the last moment before it was sent, as `u64::MAX`.
pub fn longest_waits(moments: &[u64], requests: &[SubmitRequest]) -> Vec<Option<u64>> {
    let until_ms = |number: usize| moments.get(number + 1).copied().unwrap_or(u64::MAX);
    let longest = |(number, &from_ms): (usize, &u64)| {
        let ended_ms = |request: &SubmitRequest| request.answered_ms.unwrap_or(request.sent_ms);
        let ends_here = |request: &&SubmitRequest| (from_ms..until_ms(number)).contains(&ended_ms(request));
        let wait =
            |request: &SubmitRequest| request.answered_ms.map_or(u64::MAX, |answered_ms| answered_ms - request.sent_ms);
        requests.iter().filter(ends_here).map(wait).max()
    };
    moments.iter().enumerate().map(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_for_the_fault_after_which_it_ended() {
        let request = |sent_ms, answered_ms| SubmitRequest { sent_ms, answered_ms, tries: 1 };
        let requests = [request(5, Some(6)), request(8, Some(70)), request(105, Some(108)), request(120, None)];
        assert_eq!(longest_waits(&[10, 100, 110], &requests), [Some(62), Some(3), Some(u64::MAX)]);
        assert_eq!(longest_waits(&[10], &requests[..1]), [None]);
    }
}
