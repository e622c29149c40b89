//! The command hook: a program that gets the question on its standard input. Exit 0 is an answer, as JSON on its
//! standard output; any other end is a failure, with the last line of its standard error as the reason.

use super::answer::{self, ANSWER_BYTES_MAX};
use ohm_provisioning::{Answer, AnswerState, Question};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

pub(super) async fn ask(command: &[String], question: &Question, patience: Duration) -> Answer {
    let failed = |why: String| Answer::of(AnswerState::Failed, why);
    let Some((program, arguments)) = command.split_first() else { return failed("its class names no program".into()) };
    let child = Command::new(program)
        .args(arguments)
        .env("OHM_REQUEST_ID", question.id())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) => return failed(format!("{program} can't be started: {error}")),
    };
    match tokio::time::timeout(patience, converse(child, question)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => failed(format!("{program}: {error}")),
        Err(_) => failed(format!("{program} gave no answer within callTimeoutSeconds ({})", patience.as_secs())),
    }
}

async fn converse(mut child: Child, question: &Question) -> Result<Answer, std::io::Error> {
    let asked = serde_json::to_vec(question).map_err(std::io::Error::other)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input is fine.
            let _ = stdin.write_all(&asked).await;
        }
    };
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let read = async {
        if let Some(stdout) = stdout {
            stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut said).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let listen = async {
        if let Some(stderr) = stderr {
            stderr.take(ANSWER_BYTES_MAX).read_to_end(&mut complained).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let ((), read, listened) = tokio::join!(write, read, listen);
    read?;
    listened?;
    let status = child.wait().await?;
    if status.success() {
        return Ok(answer::read(&String::from_utf8_lossy(&said)));
    }
    let complained = String::from_utf8_lossy(&complained);
    let why = complained.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Ok(Answer::of(AnswerState::Failed, why.map_or_else(|| status.to_string(), String::from)))
}
