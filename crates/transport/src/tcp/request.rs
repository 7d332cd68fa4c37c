//! Retries of a lost SYN in less than a second.
//!
//! Without an earlier measurement of the path, the kernel retransmits a SYN after one second (RFC
//! 6298). A lost SYN is more likely than a round-trip time of more than 250 ms. So after 250 ms,
//! [`open`] attempts a second connection. RFC 8305 uses the same delay between attempts to
//! different addresses. [`open`] keeps the connection that is established first, and cancels the
//! other attempt before it completes, so the listener does not accept a second connection.

use std::{future::Future, pin::pin, time::Duration};

/// Time without an answer after which a second connection is attempted (RFC 8305, section 8).
pub(super) const SYN_TIMEOUT: Duration = Duration::from_millis(250);

/// Opens a connection with `begin`. If the first attempt is not complete when `doubt` completes,
/// starts a second attempt, and returns the connection that is established first. Also returns the
/// number of SYNs assumed lost: 1 if the second attempt succeeded first, otherwise 0.
///
/// # Errors
/// Returns the error of the first attempt. Ignores an error of the second attempt.
pub(crate) async fn open<T, E, F>(
    begin: impl Fn() -> F,
    doubt: impl Future<Output = ()>,
) -> Result<(T, u64), E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut first = pin!(begin());
    tokio::select! {
        biased;
        opened = &mut first => return opened.map(|stream| (stream, 0)),
        () = doubt => {}
    }
    tokio::select! {
        biased;
        opened = &mut first => opened.map(|stream| (stream, 0)),
        Ok(stream) = begin() => Ok((stream, 1)),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, io};

    use tokio::time::{Instant, sleep};

    use super::*;

    /// The duration of an attempt in milliseconds, and its outcome.
    type Outcome = (u64, Result<(), io::ErrorKind>);

    /// Returns the number of the successful attempt, the number of failed ones, and the time in
    /// milliseconds.
    async fn run(outcomes: &[Outcome]) -> (io::Result<(usize, u64)>, u64, usize) {
        let began = Instant::now();
        let count = Cell::new(0);
        let begin = || {
            let number = count.replace(count.get() + 1);
            let (after, fate) = outcomes[number];
            async move {
                sleep(Duration::from_millis(after)).await;
                fate.map(|()| number).map_err(io::Error::from)
            }
        };
        let opened = open(begin, sleep(SYN_TIMEOUT)).await;
        let after = began.elapsed().as_millis().try_into().unwrap();
        (opened, after, count.get())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_answered_soon_is_asked_for_once() {
        let (opened, after, count) = run(&[(200, Ok(()))]).await;
        assert_eq!((opened.unwrap(), after, count), ((0, 0), 200, 1));
        let (opened, after, count) = run(&[(3, Err(io::ErrorKind::ConnectionRefused))]).await;
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!((after, count), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_counts() {
        // On a slow path, the first attempt succeeds.
        let (opened, after, _) = run(&[(600, Ok(())), (600, Ok(()))]).await;
        assert_eq!((opened.unwrap(), after), ((0, 0), 600));
        // The first SYN was lost, and the kernel retransmitted it.
        let (opened, after, _) = run(&[(1080, Ok(())), (80, Ok(()))]).await;
        assert_eq!((opened.unwrap(), after), ((1, 1), 330));
        // The second SYN was lost.
        let (opened, after, _) = run(&[(300, Ok(())), (1300, Ok(()))]).await;
        assert_eq!((opened.unwrap(), after), ((0, 0), 300));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_one_tells_why_there_is_none() {
        let full = (1, Err(io::ErrorKind::AddrNotAvailable));
        let (opened, after, _) = run(&[(900, Ok(())), full]).await;
        assert_eq!((opened.unwrap(), after), ((0, 0), 900));
        let (opened, after, _) = run(&[(900, Err(io::ErrorKind::TimedOut)), full]).await;
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(after, 900);
    }
}
