//! Whether knowing the path better could change the choice.

use serde::Serialize;

use crate::{
    Candidate, Direction, ModelChooser, PathEstimate, SelectError, Workload,
    plausible::Range,
    terms::{Plausible, Point},
};

/// A loss of time that is not worth a probe, as a fraction of the best time.
const FEW_PERCENT: f64 = 0.05;

/// Round-trip time below which nothing of a path is worth measuring, in seconds: in one building the processors decide, which
/// the model knows, and losses are made good within the time of a probe.
pub(crate) const NEXT_DOOR_S: f64 = 1e-3;

/// Round-trip time below which both ends are taken for one machine, in seconds.
const ONE_MACHINE_S: f64 = 0.3e-3;

/// The part of what a run takes for which losses that nobody expects are looked for: a run of a second over a path of a millisecond
/// takes twice as long over what does not bear them, and knowing costs a hundredth.
pub(crate) const INSURANCE: f64 = 0.03;

/// Packets whose fate tells anything of losses: a train has more, handshakes have fewer.
const A_LOOK: u64 = 16;

/// What knowing the path better could bring.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settlement {
    /// Probing on is of no use: one candidate is within 5 % of the best wherever the path plausibly is; or what is gained on
    /// average is less than what waiting for a probe takes; or the other end is next door, within a millisecond, and nothing was lost. Not so where
    /// nothing is known of losses where most goes and a probe takes 3 % of the run at most, unless both ends are on one machine.
    pub is_settled: bool,
    /// By which fraction of the best time the choice may be too slow at worst, over what is plausible.
    pub worst_regret: f64,
    /// What knowing everything would save on average, in seconds.
    pub expected_gain_s: f64,
    /// What it is worth knowing first: of which the ignorance costs more.
    pub worth_knowing: Unknown,
}

/// A quantity of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// None.
    Nothing,
    /// The rate of the bottleneck.
    Rate,
    /// The probability of loss.
    Loss,
}

impl Settlement {
    /// Nothing to gain.
    pub const SETTLED: Self = Self {
        is_settled: true,
        worst_regret: 0.0,
        expected_gain_s: 0.0,
        worth_knowing: Unknown::Nothing,
    };
}

/// A place within a range, and how likely it is there.
struct Place {
    of: fn(&Range) -> f64,
    weight: f64,
}

/// Three points with the mean and the variance of a normal distribution, the outer ones at two standard deviations.
const PLACES: [Place; 3] = [
    Place {
        of: |range| range.low,
        weight: 0.125,
    },
    Place {
        of: |range| range.mid,
        weight: 0.75,
    },
    Place {
        of: |range| range.high,
        weight: 0.125,
    },
];

pub(crate) fn settlement(
    chooser: &ModelChooser,
    path: &PathEstimate,
    workload: &Workload,
    candidates: &[Candidate],
) -> Result<Settlement, SelectError> {
    path.validate()?;
    let plausible = Plausible::of(path);
    let mut points = [(plausible.mid(), 0.0); 9];
    for (i, rate) in PLACES.iter().enumerate() {
        for (j, loss) in PLACES.iter().enumerate() {
            points[3 * i + j] = (plausible.at(rate.of, loss.of), rate.weight * loss.weight);
        }
    }
    const MIDDLE: usize = 4;
    let model = chooser.model();
    // Until more is known.
    let mut probe = None;
    // One row for each candidate that can be used: its scores at the nine points.
    let mut scores: Vec<[f64; 9]> = Vec::with_capacity(candidates.len());
    let mut usable = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        if candidate.obstacle(path).is_some() {
            continue;
        }
        let mut substitute = None;
        let ready = model.ready(&candidate.spec, path, &mut substitute);
        let factor = chooser.factor(&candidate.spec);
        let score = |point: &Point| factor * ready.expected(point, workload, candidate.setup);
        scores.push(std::array::from_fn(|place| score(&points[place].0)));
        usable.push(candidate);
        if ready.is_probe() {
            probe = Some(ready.left(&points[MIDDLE].0, workload, candidate.setup));
        }
    }
    if scores.len() < 2 {
        return Ok(Settlement::SETTLED);
    }
    let sure: [f64; 9] = std::array::from_fn(|place| {
        (usable.iter().zip(&scores))
            .filter(|(candidate, _)| candidate.doubt <= 0.0)
            .map(|(_, row)| row[place])
            .fold(f64::INFINITY, f64::min)
    });
    for (candidate, row) in usable.iter().zip(&mut scores) {
        for (score, best_sure) in row.iter_mut().zip(sure) {
            *score = candidate.doubted(*score, best_sure, path.rtt_s());
        }
    }
    // What would be chosen now: the best in the middle.
    let chosen = (scores.iter())
        .reduce(|best, other| {
            if other[MIDDLE] < best[MIDDLE] {
                other
            } else {
                best
            }
        })
        .map_or([0.0; 9], |best| *best);
    let best: [f64; 9] =
        std::array::from_fn(|place| scores.iter().map(|row| row[place]).fold(f64::MAX, f64::min));
    let lost = |place: usize| chosen[place] - best[place];
    let worst_regret = (0..9)
        .map(|place| lost(place) / best[place].max(1e-12))
        .fold(0.0, f64::max);
    let expected_gain_s = (0..9).map(|place| points[place].1 * lost(place)).sum();
    // Along the axes: rate low and high at middling loss, and the other way round.
    let by_rate = lost(1).max(lost(7));
    let by_loss = lost(3).max(lost(5));
    let has_looked =
        |direction: &Direction| direction.loss.is_some_and(|loss| loss.sent() >= A_LOOK);
    let (_, busier) = workload.busier(path);
    let is_blind = !has_looked(busier);
    let is_worth_insuring = is_blind
        && path.rtt_s() >= ONE_MACHINE_S
        && probe.is_some_and(|left| left <= INSURANCE * chosen[MIDDLE]);
    let has_lost = |direction: &Direction| direction.loss.is_some_and(|loss| loss.lost() > 0);
    let is_next_door = path.rtt_s() < NEXT_DOOR_S && !has_lost(&path.up) && !has_lost(&path.down);
    let is_settled = is_next_door
        || worst_regret <= FEW_PERCENT
        || expected_gain_s <= probe.unwrap_or(0.0).max(path.rtt_s());
    Ok(Settlement {
        is_settled: is_settled && !is_worth_insuring,
        worst_regret,
        expected_gain_s,
        worth_knowing: match (by_rate, by_loss) {
            (rate, loss) if rate <= 0.0 && loss <= 0.0 => Unknown::Nothing,
            (rate, loss) if rate >= loss => Unknown::Rate,
            _ => Unknown::Loss,
        },
    })
}
