//! Where the tasks of a job can be reached.

use super::Style;
use super::table::Grid;
use ohm_wire::api::{EndpointList, EndpointView};
use std::collections::BTreeSet;

/// Endpoints, one line each.
pub(crate) fn endpoints_table(list: &EndpointList, style: &Style) -> String {
    if list.endpoints.is_empty() {
        return format!("no task of {} is ready; `ohm job {}` shows its tasks\n", list.job, list.job);
    }
    let mut grid = Grid::new(style, &["GROUP", "TASK", "NODE", "ADDRESS"]);
    for endpoint in &list.endpoints {
        let task = endpoint.task.to_string();
        grid.row([endpoint.group.clone(), task, endpoint.node.clone(), addresses(endpoint).join(" ")]);
    }
    grid.text()
}

/// Which endpoints have gone and which have come, one line each.
pub(crate) fn endpoint_changes(before: &EndpointList, now: &EndpointList) -> String {
    let line = |sign: char, endpoint: &EndpointView| {
        let EndpointView { group, task, node, .. } = endpoint;
        format!("{sign} {group} {task} {node} {}\n", addresses(endpoint).join(" "))
    };
    let [was, is] = [before, now].map(|list| list.endpoints.iter().collect::<BTreeSet<_>>());
    let gone = before.endpoints.iter().filter(|endpoint| !is.contains(endpoint)).map(|gone| line('-', gone));
    let come = now.endpoints.iter().filter(|endpoint| !was.contains(endpoint)).map(|come| line('+', come));
    gone.chain(come).collect()
}

/// The node's address with each port; the address alone where there are no ports, and the port alone where the node
/// told no address. A port that is bound to an address of its own is reached there.
fn addresses(endpoint: &EndpointView) -> Vec<String> {
    let EndpointView { address, ports, .. } = endpoint;
    if ports.is_empty() {
        return vec![address.clone()];
    }
    let is_bare_v6 = address.contains(':') && !address.starts_with('[');
    let host = if is_bare_v6 { format!("[{address}]") } else { address.clone() };
    let whole = |port: &String| if port.contains(':') { port.clone() } else { format!("{host}:{port}") };
    ports.iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::super::PLAIN;
    use super::*;

    fn list(endpoints: &[(u32, &str, &str, &[&str])]) -> EndpointList {
        let view = |&(task, node, address, ports): &(u32, &str, &str, &[&str])| EndpointView {
            group: "main".into(),
            task,
            node: node.into(),
            address: address.into(),
            ports: ports.iter().map(ToString::to_string).collect(),
        };
        EndpointList { job: "web".into(), endpoints: endpoints.iter().map(view).collect() }
    }

    #[test]
    fn a_table_says_where_each_task_is_reached() {
        let list = list(&[
            (0, "n1", "10.0.0.1", &["80", "53/UDP", "127.0.0.1:9"]),
            (1, "n2", "fe80::1", &["80"]),
            (2, "n3", "10.0.0.3", &[]),
        ]);
        let table = "GROUP  TASK  NODE  ADDRESS\n\
                     main   0     n1    10.0.0.1:80 10.0.0.1:53/UDP 127.0.0.1:9\n\
                     main   1     n2    [fe80::1]:80\n\
                     main   2     n3    10.0.0.3\n";
        assert_eq!(endpoints_table(&list, &PLAIN), table);
        let none = EndpointList { job: "web".into(), endpoints: Vec::new() };
        assert_eq!(endpoints_table(&none, &PLAIN), "no task of web is ready; `ohm job web` shows its tasks\n");
    }

    #[test]
    fn what_changes_is_told_line_by_line() {
        let before = list(&[(0, "n1", "10.0.0.1", &["80"]), (1, "n2", "10.0.0.2", &["80"])]);
        let now = list(&[(0, "n1", "10.0.0.1", &["80"]), (1, "n3", "10.0.0.3", &["80"])]);
        let told = "- main 1 n2 10.0.0.2:80\n+ main 1 n3 10.0.0.3:80\n";
        assert_eq!(endpoint_changes(&before, &now), told);
        assert_eq!(endpoint_changes(&now, &now), "");
    }
}
