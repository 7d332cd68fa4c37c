//! Estimates of paths, kept from one run to the next.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{PathEstimate, SelectError, Source, Udp, files};

/// How old an estimate may be to be used in the place of a probe.
///
/// Internet paths keep their round-trip time and loss for tens of minutes at a time (Zhang et al., *On the constancy of internet
/// path properties*, 2001); the rate that other traffic leaves changes faster, which the relative error of a cached rate
/// grows for, see [`Cache::get`].
pub const FRESH_FOR: Duration = Duration::from_secs(600);

/// How many paths are kept: the oldest go first.
const MAX_ENTRIES: usize = 256;

/// The longest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The longest peer or address that is kept, in bytes.
const MAX_KEY: usize = 256;

/// By how much a rate is more uncertain after [`FRESH_FOR`].
const AGED_ERROR: f64 = 0.25;

/// What is left of the weight of counted losses after [`FRESH_FOR`].
const AGED_WEIGHT: f64 = 0.5;

/// By how much a round-trip time may differ from the cached one for the path to be the same.
const SAME_RTT: f64 = 0.25;
const SAME_RTT_S: f64 = 0.5e-3;

const FORMAT: u32 = 1;

/// Estimates by peer and address.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    entries: BTreeMap<String, PathEstimate>,
}

/// [`Cache`] in a file.
#[derive(Deserialize, Serialize)]
struct Written {
    format: u32,
    paths: BTreeMap<String, PathEstimate>,
}

impl Cache {
    /// Reads a cache. A file that is not there is an empty one; one that cannot be understood is too, with a warning: nothing
    /// in it is worth failing for.
    #[must_use]
    pub fn load(path: &Path) -> Self {
        let text = match files::read(path, MAX_FILE_BYTES) {
            Ok(Some(text)) => text,
            Ok(None) => return Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "cannot read the cache of paths");
                return Self::default();
            }
        };
        match serde_json::from_str(&text) {
            Ok(Written {
                format: FORMAT,
                paths,
            }) => {
                let mut cache = Self { entries: paths };
                cache.entries.retain(|key, _| key.len() <= 2 * MAX_KEY + 1);
                cache.bound();
                cache
            }
            Ok(Written { format, .. }) => {
                tracing::warn!(path = %path.display(), format, "ignoring a cache of paths of another format");
                Self::default()
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "ignoring a damaged cache of paths");
                Self::default()
            }
        }
    }

    /// Writes the cache, whole or not at all.
    ///
    /// Two processes that do so at once do not damage the file; what one of them learnt is lost.
    ///
    /// # Errors
    /// [`SelectError::File`].
    pub fn save(&self, path: &Path) -> Result<(), SelectError> {
        let written = Written {
            format: FORMAT,
            paths: self.entries.clone(),
        };
        files::replace_json(path, &written)
    }

    /// Keeps an estimate of the path to a peer (its fingerprint) at an address. One without a time, that is not valid, or for too long a
    /// name is not kept.
    pub fn put(&mut self, peer: &str, address: &str, estimate: &PathEstimate) {
        let Some(key) = key(peer, address) else {
            return;
        };
        if estimate.when_unix_ms.is_some() && estimate.validate().is_ok() {
            self.entries.insert(key, estimate.clone());
            self.bound();
        }
    }

    /// Returns what is known of the path to a peer at an address, if it is no older than [`FRESH_FOR`] and the round-trip time
    /// measured now, in seconds, is about that of then: otherwise it is another path, or a queue is in it.
    ///
    /// The round-trip time is that of now. The relative error of rates grows with age, and counts of losses fade, so that what is counted
    /// now soon says more. Whether UDP passes is kept only if it did: a
    /// firewall that was opened should be noticed.
    #[must_use]
    pub fn get(
        &self,
        peer: &str,
        address: &str,
        rtt_s: f64,
        now_unix_ms: u64,
    ) -> Option<PathEstimate> {
        let found = self.entries.get(&key(peer, address)?)?;
        // From the future: the clock was set.
        let age_ms = now_unix_ms.checked_sub(found.when_unix_ms?)?;
        let age = Duration::from_millis(age_ms);
        let off = (found.rtt.min_s - rtt_s).abs();
        // Not "greater than": a time that is no number is no time.
        let is_same = off <= SAME_RTT_S.max(SAME_RTT * found.rtt.min_s);
        if age > FRESH_FOR || !is_same {
            return None;
        }
        let mut estimate = found.clone();
        estimate.source = Source::Cached;
        estimate.rtt.min_s = rtt_s.min(found.rtt.min_s);
        if estimate.udp == Udp::Blocked {
            estimate.udp = Udp::Unknown;
        }
        let aged = age.as_secs_f64() / FRESH_FOR.as_secs_f64();
        for direction in [&mut estimate.up, &mut estimate.down] {
            if let Some(rate) = &mut direction.rate {
                rate.relative_error = rate.relative_error.hypot(AGED_ERROR * aged).min(10.0);
            }
            direction.loss = direction
                .loss
                .map(|loss| loss.fading(AGED_WEIGHT.powf(aged)));
        }
        estimate.validate().is_ok().then_some(estimate)
    }

    /// Returns how many paths there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Says whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Drops the oldest paths beyond the limit.
    fn bound(&mut self) {
        while self.entries.len() > MAX_ENTRIES {
            let oldest = (self.entries.iter())
                .min_by_key(|(_, estimate)| estimate.when_unix_ms)
                .map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.entries.remove(&oldest);
            }
        }
    }
}

fn key(peer: &str, address: &str) -> Option<String> {
    (peer.len() <= MAX_KEY && address.len() <= MAX_KEY).then(|| format!("{peer} {address}"))
}
