//! The rules of the paper transputation-2020 for choosing a transport.

use crate::{
    Candidate, Chooser, Loss, PathEstimate, Prediction, Ranked, Spec, Workload, order,
    path::{Seconds, Short},
    predict::{self, kernel_window},
};

/// Minimum loss probability at which "reliability should be taken care of in the user space"
/// (transputation-2020, section 4.1: "TCP performs poorly during packet loss events, even when very
/// few packets are lost, say 1%").
const MIN_USER_SPACE_LOSS: f64 = 0.01;

/// Maximum number of the application's round trips that count as "a small number of interactions".
const MAX_FEW_INTERACTIONS: f64 = 10.0;

/// Chooses by section 4.1 of transputation-2020, which docs/selection.md quotes ("The paper's
/// rules").
///
/// For an unknown property of the path, the most likely value is used. Transports without a profile
/// come last.
#[derive(Clone, Copy, Debug, Default)]
pub struct PaperRules;

/// Returns a sort key of a transport; the smallest key is the best.
type Order = fn(&Spec) -> f64;

const USER_SPACE: Order = |spec| order::by_start(spec, true);
const UDP_LIKE: Order = order::without_repair_first;
const TCP: Order = order::tcp_first;

impl PaperRules {
    fn rule(path: &PathEstimate, workload: &Workload) -> (Order, String) {
        let rtt = path.rtt.as_secs_f64();
        let seen = |loss: Option<Loss>| loss.map_or(0.0, Loss::fraction);
        let loss = seen(path.up.known.loss).max(seen(path.down.known.loss));
        // The rules apply to the direction with more bytes.
        let (volume, busier) = workload.busier(path);
        let window = kernel_window(path);
        let time = predict::rate(busier, path.rtt).seconds_to_send(window);
        let pipe = format!("W·t is {}, the round trip {}", Seconds(time), Seconds(rtt));
        if loss >= MIN_USER_SPACE_LOSS {
            let percent = Short(loss * 100.0);
            let reason = format!("{percent:.2} % are lost: reliability in user space");
            return (USER_SPACE, reason);
        }
        let (order, why) = if time > rtt && loss > 0.0 {
            (TCP, ": full pipe, with losses: TCP")
        } else if time > rtt {
            (UDP_LIKE, ": full pipe without losses: UDP or like it")
        } else if workload.round_trips() <= MAX_FEW_INTERACTIONS && volume as f64 > window {
            (
                USER_SPACE,
                "; few interactions and more than a window to send: not window-based",
            )
        } else {
            (TCP, "; no more than a window to send: TCP")
        };
        (order, pipe + why)
    }
}

impl Chooser for PaperRules {
    fn name(&self) -> &str {
        "paper"
    }

    fn score(&self, path: &PathEstimate, work: &Workload, it: &Candidate, _: &Prediction) -> f64 {
        let (order, _) = Self::rule(path, work);
        order(&it.spec)
    }

    fn reason(&self, path: &PathEstimate, workload: &Workload, _: &[Ranked]) -> String {
        Self::rule(path, workload).1
    }
}
