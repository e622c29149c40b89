//! Bodies on their way: one that stops coming is given up, and an answer counts until it is sent.

use super::guests::UnderWay;
use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// The body of a request that must not stop coming.
pub(super) struct Coming<B> {
    body: B,
    patience: Duration,
    /// Runs only while something is waited for: who reads slowly is not the sender's fault.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<B> Coming<B> {
    /// Each piece of `body` has to come within `patience`.
    pub(super) fn new(body: B, patience: Duration) -> Self {
        Coming { body, patience, waiting: None }
    }
}

impl<B> HttpBody for Coming<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Some(Err(format!("nothing more came for {patience:?}").into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer; its request is under way until it is sent.
pub(super) struct Going {
    body: Body,
    _under_way: UnderWay,
}

impl Going {
    pub(super) fn new(body: Body, under_way: UnderWay) -> Self {
        Going { body, _under_way: under_way }
    }
}

impl HttpBody for Going {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn a_body_that_stops_coming_is_given_up() {
        let pieces = futures_util::stream::iter([Ok::<_, axum::Error>(Bytes::from("half"))]);
        let body = Body::from_stream(pieces.chain(futures_util::stream::pending()));
        let mut pieces = Body::new(Coming::new(body, PATIENCE)).into_data_stream();
        assert_eq!(pieces.next().await.unwrap().unwrap(), "half");
        tokio::time::sleep(PATIENCE * 2).await;
        let (started, error) = (Instant::now(), pieces.next().await.unwrap().unwrap_err());
        assert!(error.to_string().contains("nothing more came"), "{error}");
        assert!(started.elapsed() >= PATIENCE, "whoever reads may take any time");
    }
}
