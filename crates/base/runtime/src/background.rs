//! Threads for work that may wait. The system runs them on what the other threads of the process leave.

use std::future::Future;
use std::io;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

/// How much nicer than the rest of the process these threads are: of a core that both want they get about a tenth, and
/// whoever wakes up beside them runs at once.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// A runtime of such threads. What still runs in it when it is dropped is given up.
#[derive(Debug)]
pub struct Background {
    /// Always there until the drop.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Background {
    /// With so many threads for what does not block.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start(threads: usize) -> io::Result<Self> {
        let yields = yield_to_others();
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("background")
            .on_thread_start(yields)
            .enable_all()
            .build()?;
        Ok(Background { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Does `work` there, and what it spawns, too. To drop this is to stop the work. None when it panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let mut one = JoinSet::new();
        one.spawn_on(work, &self.handle);
        one.join_next().await?.ok()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // To wait is forbidden where this may be dropped.
            runtime.shutdown_background();
        }
    }
}

/// What makes a thread nicer than the one that asks for this. On Linux a thread has a niceness of its own, and those
/// that it starts have the same.
#[cfg(target_os = "linux")]
fn yield_to_others() -> impl Fn() {
    let nicer = rustix::process::getpriority_process(None).unwrap_or(0) + NICER;
    move || {
        if let Err(error) = rustix::process::setpriority_process(None, nicer) {
            tracing::warn!(%error, "a thread in the background is as urgent as any other");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn yield_to_others() -> impl Fn() {
    || {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::oneshot;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn all_its_threads_are_nicer_than_those_that_ask() {
        let own = || rustix::process::getpriority_process(None).unwrap();
        let background = Background::start(1).unwrap();
        let both = async move { (own(), tokio::task::spawn_blocking(own).await.unwrap()) };
        let before = own();
        let nicer = (before + NICER).min(19);
        assert_eq!(background.run(both).await, Some((nicer, nicer)));
        assert_eq!(own(), before);
    }

    #[tokio::test]
    async fn whoever_goes_away_stops_the_work() {
        let background = Background::start(1).unwrap();
        let (held, gone) = oneshot::channel::<()>();
        let work = background.run(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), work).await.is_err());
        assert!(gone.await.is_err());
    }

    #[tokio::test]
    async fn a_panic_is_no_answer() {
        let background = Background::start(1).unwrap();
        assert_eq!(background.run(async { panic!("on purpose") }).await, None::<()>);
        assert_eq!(background.run(async { 7 }).await, Some(7));
    }
}
