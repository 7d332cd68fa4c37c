//! The test bench of a check: two parties, and functions that link them, send and receive.

use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    ConformanceOptions, Mode,
    pattern::{Pattern, Sizes},
    transfer::{receive_pattern, send_pattern},
};
use crate::{
    Fingerprint, Identity, Link, LinkReader, LinkWriter, Listener, Security, Transport,
    TransportError,
};

/// The identities and options of a check.
pub(super) struct Bench<'a> {
    pub(super) transport: &'a dyn Transport,
    pub(super) mode: Mode,
    pub(super) options: &'a ConformanceOptions,
    pub(super) listening: Arc<Identity>,
    pub(super) connecting: Arc<Identity>,
    pub(super) stranger: Arc<Identity>,
}

/// Two linked parties.
pub(super) struct Pair {
    pub(super) accepted: Link,
    pub(super) connected: Link,
    /// The listener, kept open so that its end does not affect the check.
    pub(super) listener: Box<dyn Listener>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        transport: &'a dyn Transport,
        mode: Mode,
        options: &'a ConformanceOptions,
    ) -> Result<Self, String> {
        let identity = || {
            Identity::generate()
                .map(Arc::new)
                .map_err(|error| error.to_string())
        };
        Ok(Self {
            transport,
            mode,
            options,
            listening: identity()?,
            connecting: identity()?,
            stranger: identity()?,
        })
    }

    /// Returns the [`Security`] of a party in the mode of this bench.
    pub(super) fn security(&self, me: &Arc<Identity>, peer: &Identity) -> Security {
        self.security_of(self.mode, me, peer)
    }

    /// Returns the [`Security`] of a party in the given mode.
    pub(super) fn security_of(&self, mode: Mode, me: &Arc<Identity>, peer: &Identity) -> Security {
        match mode {
            Mode::Tls => Security::tls(Arc::clone(me), [peer.fingerprint()]),
            Mode::Unpinned => Security::Unpinned {
                identity: Arc::clone(me),
            },
            Mode::Plaintext => Security::Plaintext,
        }
    }

    pub(super) async fn listen(&self) -> Result<Box<dyn Listener>, String> {
        self.transport
            .listen(
                &self.options.address,
                &self.security(&self.listening, &self.connecting),
            )
            .await
            .map_err(|error| format!("cannot listen: {error}"))
    }

    pub(super) async fn connect(&self, address: &str) -> Result<Link, TransportError> {
        self.transport
            .connect(address, &self.security(&self.connecting, &self.listening))
            .await
    }

    /// Links the two parties that pin each other, over a listener that may have rejected peers
    /// before.
    pub(super) async fn link(&self, listener: &mut dyn Listener) -> Result<(Link, Link), String> {
        let address = listener.local_address();
        let (accepted, connected) = tokio::join!(listener.accept(), self.connect(&address));
        Ok((
            accepted.map_err(|error| format!("cannot accept: {error}"))?,
            connected.map_err(|error| format!("cannot connect: {error}"))?,
        ))
    }

    pub(super) async fn pair(&self) -> Result<Pair, String> {
        let mut listener = self.listen().await?;
        let (accepted, connected) = self.link(&mut *listener).await?;
        Ok(Pair {
            accepted,
            connected,
            listener,
        })
    }

    /// Sends all data of a party, `total` bytes of the pattern `word` in writes up to `largest`,
    /// and closes the sending direction.
    pub(super) async fn send_all(
        &self,
        writer: &mut LinkWriter,
        word: u64,
        total: usize,
        largest: usize,
    ) -> Result<(), String> {
        let mut sizes = Sizes::new(self.options.seed ^ word);
        send(writer, &mut Pattern::new(word), total, largest, &mut sizes).await?;
        finish(writer).await
    }

    /// Receives the data of [`send_all`](Self::send_all), and checks that the stream ends after it.
    pub(super) async fn receive_all(
        &self,
        reader: &mut LinkReader,
        word: u64,
        total: usize,
    ) -> Result<(), String> {
        let mut sizes = Sizes::new(!self.options.seed ^ word);
        receive(reader, &mut Pattern::new(word), total, &mut sizes).await?;
        expect_end(reader).await
    }

    pub(super) fn fingerprint(&self, party: &Identity) -> Option<Fingerprint> {
        (self.mode == Mode::Tls).then(|| party.fingerprint())
    }
}

/// Sends `total` bytes of a pattern in writes of random sizes up to `largest`, and flushes.
pub(super) async fn send(
    writer: &mut LinkWriter,
    pattern: &mut Pattern,
    total: usize,
    largest: usize,
    sizes: &mut Sizes,
) -> Result<(), String> {
    let size = || sizes.draw(largest);
    send_pattern(writer, pattern, total as u64, NO_LIMIT, size)
        .await
        .map_err(|error| error.to_string())
}

/// Closes the sending direction.
pub(super) async fn finish(writer: &mut LinkWriter) -> Result<(), String> {
    writer
        .shutdown()
        .await
        .map_err(|error| format!("cannot shut down the writer: {error}"))
}

/// Receives exactly `total` bytes of a pattern in reads of random sizes.
pub(super) async fn receive(
    reader: &mut LinkReader,
    pattern: &mut Pattern,
    total: usize,
    sizes: &mut Sizes,
) -> Result<(), String> {
    let size = || sizes.draw(LARGEST_READ);
    let check = |bytes: &[u8]| pattern.check(bytes);
    receive_pattern(reader, total as u64, NO_LIMIT, size, check)
        .await
        .map_err(|error| error.to_string())
}

/// Checks that the parties can exchange a few bytes.
pub(super) async fn works(a: Link, b: Link) -> Result<(), String> {
    const LENGTH: usize = 1000;
    let (mut a_reader, mut a_writer) = a.into_parts();
    let (mut b_reader, mut b_writer) = b.into_parts();
    let party = async |reader: &mut _, writer: &mut _| {
        let (mut out, mut inward) = (Pattern::new(9), Pattern::new(9));
        let (mut sizes, mut rooms) = (Sizes::new(1), Sizes::new(2));
        // Write and read concurrently, because a link need not buffer the data.
        tokio::try_join!(
            send(writer, &mut out, LENGTH, 100, &mut sizes),
            receive(reader, &mut inward, LENGTH, &mut rooms)
        )
    };
    tokio::try_join!(
        party(&mut a_reader, &mut a_writer),
        party(&mut b_reader, &mut b_writer)
    )?;
    Ok(())
}

/// Checks that the next read returns the end of the stream, without an error.
pub(super) async fn expect_end(reader: &mut LinkReader) -> Result<(), String> {
    match reader.read(&mut [0; 64]).await {
        Ok(0) => Ok(()),
        Ok(read) => Err(format!(
            "{read} bytes arrived after the last one that was sent"
        )),
        Err(error) => Err(format!("expected the end of the stream, got: {error}")),
    }
}

const LARGEST_READ: usize = 256 * 1024;

/// The `idle_limit` of a transfer: none, because [`ConformanceOptions::check_timeout`] limits the
/// whole check.
const NO_LIMIT: Duration = Duration::MAX;

/// Maximum time until a link must report a vanished peer.
pub(super) const NOTICE: Duration = Duration::from_secs(10);
