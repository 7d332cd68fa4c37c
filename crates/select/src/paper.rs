//! The rules of the paper, made exact.

use crate::{
    Candidate, Choice, Chooser, Loss, Model, PathEstimate, SelectError, Workload,
    path::{Seconds, Short},
    predict::{self, kernel_window},
};

/// Loss from which on "reliability should be taken care of in the user space" (transputation-2020, section 4.1: "TCP performs
/// poorly during packet loss events, even when very few packets are lost, say 1%").
const MIN_USER_SPACE_LOSS: f64 = 0.01;

/// "A small number of interactions": round trips that the application waits for.
const MAX_FEW_INTERACTIONS: f64 = 10.0;

/// Section 4.1 of transputation-2020, over the transports at hand.
///
/// `W` is the bytes of a TCP window (here: the smaller of the kernel's ceilings), `t` the time that a byte takes at the rate of
/// the path. In this order:
///
/// 1. *Packet loss.* At 1 % and more, in either direction: reliability in user space.
/// 2. *Latency.* If `W t > RTT`, TCP's window does not hold it up ("full pipe"). Then TCP if there is any loss, otherwise UDP.
/// 3. *Rounds and volume.* Otherwise, if there are few interactions and more than one initial window to send each of them
///    needs the window to grow: a protocol that is not based on a window, once the volume is more than `W`. Small volumes
///    stay with TCP: in their Table 3 it is the faster one for AES-128 and SHA-256 on every path.
///
/// The paper has TCP, UDP and SABUL. Reliability in user space is `rudp` here, else `quic`; UDP is `udp` only if it is
/// among the candidates, otherwise the same; TCP is `tcp`, else `tcp-striped`. If UDP does not pass, several windows side by side,
/// `tcp-striped`, stand in for one that is not based on a window. What is unknown of the path counts as the likeliest value.
#[derive(Clone, Copy, Debug, Default)]
pub struct PaperRules;

const USER_SPACE: &[&str] = &["rudp", "quic", "tcp-striped", "tcp"];
const UDP_LIKE: &[&str] = &["udp", "rudp", "quic", "tcp", "tcp-striped"];
const TCP: &[&str] = &["tcp", "tcp-striped", "quic", "rudp"];

impl PaperRules {
    fn rule(path: &PathEstimate, workload: &Workload) -> (&'static [&'static str], String) {
        let rtt = path.rtt_s();
        let of = |direction| predict::rate(direction, rtt);
        let seen = |loss: Option<Loss>| loss.map_or(0.0, Loss::fraction);
        let loss = seen(path.up.loss).max(seen(path.down.loss));
        // The direction that carries more decides.
        let (volume, busier) = workload.busier(path);
        let rate = of(busier);
        let window = kernel_window(path);
        let time = window * 8.0 / rate;
        let pipe = format!("W·t is {}, the round trip {}", Seconds(time), Seconds(rtt));
        if loss >= MIN_USER_SPACE_LOSS {
            let percent = Short(loss * 100.0);
            (
                USER_SPACE,
                format!("{percent:.2} % are lost: reliability in user space"),
            )
        } else if time > rtt && loss > 0.0 {
            (TCP, format!("{pipe}: full pipe, with losses: TCP"))
        } else if time > rtt {
            (
                UDP_LIKE,
                format!("{pipe}: full pipe without losses: UDP or like it"),
            )
        } else if workload.round_trips() <= MAX_FEW_INTERACTIONS && volume as f64 > window {
            (
                USER_SPACE,
                format!(
                    "{pipe}; few interactions and more than a window to send: not window-based"
                ),
            )
        } else {
            (TCP, format!("{pipe}; no more than a window to send: TCP"))
        }
    }
}

impl Chooser for PaperRules {
    fn name(&self) -> &str {
        "paper"
    }

    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError> {
        path.validate()?;
        let (order, reason) = Self::rule(path, workload);
        let place = |candidate: &Candidate| {
            // Names that the paper could not know come last.
            let place = order.iter().position(|&name| name == candidate.spec.name());
            place.unwrap_or(order.len()) as f64
        };
        Choice::of(
            self.name(),
            Model::shipped(),
            path,
            workload,
            candidates,
            |candidate, _| place(candidate),
            |_| reason,
        )
    }
}
