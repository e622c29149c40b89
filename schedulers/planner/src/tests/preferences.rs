//! What groups prefer of the tasks around them, and what those prefer of the group.

use super::fresh;
use ohm_placement::fixture;

/// Two nodes in each of two zones.
const ZONES: &str = "node a1 cpu=8 zone=a\n node a2 cpu=8 zone=a\n node b1 cpu=8 zone=b\n node b2 cpu=8 zone=b\n";

fn check(text: &str, expected: &str) {
    fixture::check(&mut fresh(), &format!("{ZONES} {text}"), expected);
}

#[test]
fn a_group_goes_where_what_it_likes_is() {
    let others = "node c1 cpu=8 zone=c\n job old\n group g select=zone:b cpu=1 label=app:a\n place old\n";
    check(&format!("{others} job new\n group g cpu=8"), "g 0 on a1");
    check(&format!("{others} job new\n group g cpu=8 likes=app:a@zone*1"), "g 0 on b2");
    check(&format!("{others} job new\n group g cpu=1 likes=app:a@zone*-1"), "g 0 on a1");
    // A preference keeps it away from no node.
    check(&format!("{others} job new\n group g count=2 cpu=8 likes=app:a@zone*1"), "g 0 on b2, 1 on a1");
}

#[test]
fn the_heavier_preference_counts() {
    let others = "job x\n group g select=zone:a cpu=1 label=app:x\n place x
        job y\n group g select=zone:b cpu=1 label=app:y\n place y\n";
    check(&format!("{others} job new\n group g cpu=7 likes=app:x@zone*1 likes=app:y@zone*2"), "g 0 on b1");
    check(&format!("{others} job new\n group g cpu=7 likes=app:x@zone*2 likes=app:y@zone*1"), "g 0 on a1");
}

#[test]
fn what_stands_has_preferences_too() {
    let old = |rule: &str| format!("job old\n group g select=zone:b cpu=1 label=app:a {rule}\n place old\n");
    let new = "job new\n group g cpu=8 label=app:b";
    check(&format!("{} {new}", old("")), "g 0 on a1");
    check(&format!("{} {new}", old("likes=app:b@zone*1")), "g 0 on b2");
    // Who must be near others counts as one who would like to be.
    let near = "job b\n group g select=zone:b cpu=1 label=app:b\n place b\n";
    check(&format!("{near} {} {new}", old("near=app:b@zone")), "g 0 on b2");
}

#[test]
fn a_group_that_packs_is_spread_softly() {
    check("job new\n group g count=4 cpu=1 label=app:n", "g 0-3 on a1");
    check("job new\n group g count=4 cpu=1 label=app:n evenly=app:n@zone", "g 0-1 on a1, 2-3 on b1");
    // Where one zone is full the rest goes to the other one.
    let full = "job x\n group g count=2 select=zone:b cpu=8\n place x\n";
    check(&format!("{full} job new\n group g count=4 cpu=1 label=app:n evenly=app:n@zone"), "g 0-3 on a1");
}

#[test]
fn a_service_fills_the_zone_that_it_likes_evenly() {
    let old = "job old\n group g select=zone:b cpu=1 label=app:a\n place old\n";
    let new = "job new class=service\n group g count=4 cpu=1 label=app:n likes=app:a@zone*1";
    check(&format!("{old} {new}"), "g 0-1 on b2, 2-3 on b1");
}
