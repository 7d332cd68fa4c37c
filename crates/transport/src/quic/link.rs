//! A QUIC connection as a link, shared by its halves and its statistics.
//!
//! The halves own the connection. The statistics hold a weak reference, so that dropping both
//! halves closes the connection even if a handle on the statistics exists.

use std::sync::{Arc, OnceLock, Weak};

use quinn::Connection;

use super::{connection::Shared, options::QuicOptions, reader::Reader, writer::Writer};
use crate::{LinkInfo, PathProbe, PathSample, TransportError, link::LinkHalves};

/// Converts an authenticated connection to the parts from which a link can be made later. Opens
/// the streams for sending.
pub(super) fn bare(
    connection: Connection,
    options: &QuicOptions,
    info: LinkInfo,
) -> Result<LinkHalves<Reader, Writer>, TransportError> {
    let shared = Arc::new(Shared::new(connection, options));
    let probe = Arc::new(QuicProbe {
        shared: Arc::downgrade(&shared),
        last_sample: shared.last_sample(),
    });
    let writer = Writer::new(Arc::clone(&shared), options.streams())?;
    let reader = Reader::new(shared);
    Ok(LinkHalves {
        reader,
        writer,
        info,
        probe,
    })
}

struct QuicProbe {
    shared: Weak<Shared>,
    last_sample: Arc<OnceLock<PathSample>>,
}

impl PathProbe for QuicProbe {
    fn sample(&self) -> PathSample {
        match self.shared.upgrade() {
            Some(shared) => shared.sample(),
            None => self.last_sample.get().cloned().unwrap_or_default(),
        }
    }
}
