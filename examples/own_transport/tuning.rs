//! The settings after the name of the transport, and the statistics of its links.
use std::{io, sync::Arc};

use socket2::SockRef;
use tokio::net::UnixStream;
use transpute::transport::{PathProbe, PathSample, Settings, TransportError};

/// Bytes of the socket's send buffer; the system's default if not set.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tuning(Option<usize>);

impl Tuning {
    pub(crate) fn configured(self, settings: &mut Settings) -> Result<Self, TransportError> {
        let given = settings.take("buffer", |text| {
            (text.parse().ok())
                .filter(|bytes| (4096..=1 << 30).contains(bytes))
                .ok_or_else(|| "expected bytes from 4096 to 1073741824".into())
        })?;
        Ok(Self(given.or(self.0)))
    }

    pub(crate) fn apply(self, stream: &UnixStream) -> io::Result<Arc<dyn PathProbe>> {
        let socket = SockRef::from(stream);
        if let Some(bytes) = self.0 {
            socket.set_send_buffer_size(bytes)?;
        }
        // Read back, because the system may grant another size.
        let in_flight = socket.send_buffer_size()? as u64;
        Ok(Arc::new(Probe { in_flight }))
    }
}

/// It contains a number instead of the socket, because statistics must not keep a link open.
struct Probe {
    in_flight: u64,
}

impl PathProbe for Probe {
    fn sample(&self) -> PathSample {
        let mut sample = PathSample::default();
        sample.congestion_window = Some(self.in_flight);
        sample
    }
}
