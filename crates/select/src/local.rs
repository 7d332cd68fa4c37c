//! The model of a run whose parties are on one host.
//!
//! There is no bottleneck and no loss: only the processors limit the time. The fitted parameters of
//! a transport do not apply, because they were measured on paths with packets of 1,500 bytes. Over
//! loopback, packets of TCP have up to 64 KiB.
//!
//! The constants are those of runs of AES-128 in batches of 1 to 8,000 on a server with two cores,
//! with TLS. Runs of SHA-256 and MinCut, which were not used for them, take 0.8 to 1.3 times the
//! predicted time.

use transpute_transport::Profile;
use transpute_units::{Bandwidth, PathClass};

use crate::{
    DirectionEstimate, PathEstimate, Source,
    law::Conditions,
    model::Values,
    path::MAX_RATE,
    predict::{DEFAULT_QUEUE, kernel_window},
};

/// Minimum measured rate at which the processors are taken for the limit, and not a path. Measured
/// with packet trains over loopback: 5 to 15 Gbit/s on an idle host.
const SLOWEST_LOCAL: Bandwidth = Bandwidth::from_megabits_per_second(2000.0);

/// The same if both addresses are those of one host. A lower rate is that of an emulated path.
const SLOWEST_ONE_HOST: Bandwidth = Bandwidth::from_megabits_per_second(200.0);

/// Standard deviation of the logarithm of measured over predicted time.
pub(crate) const SIGMA: f64 = 0.2;

impl PathEstimate {
    /// Returns whether both parties are on one host: the round-trip time is that of loopback, and
    /// no path limits the rate.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let slowest = match self.is_one_host {
            true => SLOWEST_ONE_HOST,
            false => SLOWEST_LOCAL,
        };
        let is_unlimited = |direction: &DirectionEstimate| match direction.known.rate {
            Some(rate) if self.source == Source::Measured => {
                rate >= slowest || direction.is_lower_bound
            }
            rate => rate.is_none(),
        };
        PathClass::of(self.rtt) == PathClass::SameHost
            && is_unlimited(&self.up)
            && is_unlimited(&self.down)
    }
}

/// Returns the parameters of a transport between two processes of one host.
pub(crate) fn values(profile: &Profile) -> Values {
    // Each packet costs processor time. TCP over loopback sends packets of up to 64 KiB, so its
    // time per byte is negligible. Transports over UDP send packets of at most 1,500 bytes.
    let (setup_s, byte_s) = match profile.needs_udp {
        true => (2.5e-3, 8e-10),
        false => (3e-4 + 1e-4 * f64::from(profile.connections), 0.0),
    };
    Values {
        setup_s,
        byte_s,
        rate_share: 1.0,
        ..Values::theory(profile)
    }
}

/// Returns the conditions of both directions: the highest rate, and no loss.
pub(crate) fn conditions(path: &PathEstimate) -> [Conditions; 2] {
    [Conditions {
        rtt: path.rtt.as_secs_f64(),
        rate: MAX_RATE,
        loss: 0.0,
        queue: DEFAULT_QUEUE,
        kernel_window: kernel_window(path),
    }; 2]
}

#[cfg(test)]
mod tests {
    use transpute_units::KnownDirection;

    use super::*;
    use crate::{End, Model, Workload};

    fn path(micros: f64, source: Source) -> PathEstimate {
        let mut path = PathEstimate::of_rtt(micros * 1e-6).unwrap();
        path.source = source;
        path
    }

    #[test]
    fn a_limited_rate_is_that_of_a_path() {
        // For each path: whether it is local between addresses of two hosts and of one host.
        for (micros, source, mbit, expected) in [
            (20.0, Source::Measured, Some(9000.0), [true, true]),
            (20.0, Source::Measured, Some(1000.0), [false, true]),
            (20.0, Source::Measured, Some(100.0), [false, false]),
            (20.0, Source::Measured, None, [true, true]),
            (20.0, Source::Given, None, [true, true]),
            (20.0, Source::Given, Some(9000.0), [false, false]),
            (20.0, Source::Emulated, Some(9000.0), [false, false]),
            (300.0, Source::Measured, None, [false, false]),
        ] {
            let mut path = path(micros, source);
            if let Some(mbit) = mbit {
                let rate = Bandwidth::from_megabits_per_second(mbit);
                path.up = KnownDirection::of_rate(rate).into();
            }
            let is_local = [false, true].map(|is_one_host| {
                path.is_one_host = is_one_host;
                path.is_local()
            });
            assert_eq!(is_local, expected, "{micros} µs, {source:?}, {mbit:?}");
        }
    }

    /// The measured times are medians of runs of `transpute run` with TLS over loopback, on a
    /// server with two cores, in seconds.
    #[test]
    fn measured_times_are_met_within_30_percent() {
        let work = |bytes, serial_s, garble_s| {
            let mut work = Workload::transfer(End::Listener, bytes);
            (work.serial_s, work.garble_s) = (serial_s, garble_s);
            work
        };
        let aes_2000 = work(415_000_000, 3.7e-3, 0.315);
        let mincut = work(36_000_000, 8.7e-3, 0.0279);
        for (transport, work, measured) in [
            ("tcp", &aes_2000, 0.280),
            ("rudp", &aes_2000, 0.518),
            ("quic", &aes_2000, 0.779),
            ("tcp", &mincut, 0.0425),
            ("rudp", &mincut, 0.0672),
            ("quic", &mincut, 0.0858),
        ] {
            let spec = transport.parse().unwrap();
            let path = path(30.0, Source::Measured);
            let predicted = Model::shipped().predict(&spec, &path, work).unwrap();
            let ratio = predicted.seconds / measured;
            assert!((0.77..1.3).contains(&ratio), "{transport}: {ratio}");
        }
    }
}
