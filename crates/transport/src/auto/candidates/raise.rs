//! Reliable UDP beside the control connection: raised, measured, or given up.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use super::{Inner, Measured, Raised, last_word, say};
use crate::{
    Rudp, TransportError,
    auto::{ControlReport, Pick, RudpReport},
    rudp::{Attempt, Hello, Wait, Watch},
    tcp::WeakSocket,
};

/// How long a busy machine may take to answer over UDP.
const SLOW_ANSWER: Duration = Duration::from_millis(30);

/// How often it is looked whether the control connection has heard of the peer.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Inner {
    pub(super) async fn raise_rudp(&self) {
        let raising = self.try_raise_rudp();
        let raised = self.in_time("reliable UDP", Instant::now(), raising).await;
        let (raised, peer, began) = match raised {
            Ok(up) => up,
            Err(error) => return self.settle(&self.rudp, Err(error)),
        };
        let watch = raised.attempt.watch();
        let known = Measured {
            report: self.rudp_report(&watch),
            is_complete: false,
        };
        self.settle(&self.rudp, Ok((known, raised)));
        // If it breaks, then so will the link that is made of it.
        let _ = watch.up(Wait::Both, peer, began).await;
        let complete = Measured {
            report: self.rudp_report(&watch),
            is_complete: true,
        };
        self.rudp.amend(|known| *known = complete);
    }

    async fn try_raise_rudp(&self) -> Result<(Raised, SocketAddr, Instant), TransportError> {
        let control = self.control.report(|_| true).await?;
        control.offer.check(&Pick::Rudp)?;
        let channel = self.control.share().ok_or(TransportError::Closed)?;
        let began = Instant::now();
        let (attempt, peer, socket) = {
            let mut channel = channel.lock().await;
            let channel = channel.as_mut().ok_or(TransportError::Closed)?;
            let hello = Hello::new(Rudp::NAME);
            let context = channel.context().clone();
            if let Err(error) = say(context, channel, hello.bytes()).await {
                return Err(last_word(channel).await.unwrap_or(error));
            }
            let attempt = Attempt::connect(&hello, channel, Rudp::NAME, self.options.rudp)?;
            (
                attempt,
                channel.context().peer,
                channel.socket().downgrade(),
            )
        };
        let watch = attempt.watch();
        let blocked = tokio::select! {
            biased;
            passing = watch.up(Wait::Passing, peer, began) => match passing {
                Ok(()) => {
                    watch.up(Wait::Estimate, peer, began).await?;
                    let took = began.elapsed();
                    return Ok((Raised { attempt, took }, peer, began));
                }
                Err(error) => error,
            },
            () = self.rudp_is_hopeless(began, &control, &socket) => TransportError::UdpBlocked {
                address: peer.to_string(),
                after: began.elapsed(),
            },
        };
        let mut channel = channel.lock().await;
        match channel.as_mut() {
            Some(channel) => Err(last_word(channel).await.unwrap_or(blocked)),
            None => Err(blocked),
        }
    }

    /// Waits until it is clear that reliable UDP will not come up. Sooner if QUIC did not either: then as soon as what was said on
    /// the control connection, at the same time, is acknowledged. Both may wait in a queue on the way.
    async fn rudp_is_hopeless(&self, began: Instant, control: &ControlReport, socket: &WeakSocket) {
        let (rtt, patience) = (control.rtt(), self.udp_patience(&control.offer));
        let latest = began + (rtt * 5 / 2).max(rtt * 3 / 2 + SLOW_ANSWER) + patience;
        tokio::time::sleep_until((began + rtt.max(patience)).into()).await;
        while !socket.is_acknowledged() && Instant::now() < latest {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tokio::time::sleep(patience.min(rtt / 8)).await;
        let is_blocked =
            |error: &TransportError| matches!(error, TransportError::UdpBlocked { .. });
        if !self.quic.has_failed(is_blocked) {
            // UDP may well pass: nothing is lost by being sure.
            tokio::time::sleep_until(latest.into()).await;
        }
        if self.quic.is_up() {
            // UDP does pass: packets were lost, which are sent again. Who chooses knows what waiting is worth.
            std::future::pending::<()>().await;
        }
    }

    fn rudp_report(&self, watch: &Watch) -> RudpReport {
        let [up, down] = watch.trains().map(|train| train.map(Into::into));
        let path = watch.sample();
        RudpReport {
            rtt: path.min_rtt,
            up,
            down,
            datagram: watch.datagram_size(),
            path,
            after: self.started.elapsed(),
            is_complete: false,
        }
    }
}
