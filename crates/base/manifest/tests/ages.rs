//! How old a job is.

use ohm_manifest::parse;

#[test]
fn a_job_may_say_when_it_was_created() {
    let created = |metadata: &str| {
        let file = format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: j{metadata}}}\nspec: {{}}\n");
        parse("job.yaml", file.as_bytes())[0].as_ref().map(|document| document.created_us).map_err(ToString::to_string)
    };
    assert_eq!(created(""), Ok(None));
    assert_eq!(created(", creationTimestamp: \"1970-01-01T00:00:01.5Z\""), Ok(Some(1_500_000)));
    let expected = "job.yaml:3:40: metadata.creationTimestamp: must be a time, such as `2026-01-31T12:00:00Z`, is";
    assert_eq!(created(", creationTimestamp: now"), Err(format!("{expected} the text `now`")));
}
