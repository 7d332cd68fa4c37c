//! Unix domain sockets as a transport: parties on one machine, with TLS and pinned keys.
use std::{fs, io, sync::Arc};

use async_trait::async_trait;
use tokio::net::{UnixListener, UnixStream};
use transpute::transport::{
    BindError, ConnectError, Link, Listener, Profile, Security, Settings, Transport,
    TransportError,
    secure::{self, Handshakes, Stream},
};

use super::tuning::Tuning;

const NAME: &str = "unix";

#[derive(Default)]
pub(crate) struct Unix(Tuning);

#[async_trait]
impl Transport for Unix {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> &'static str {
        "Unix domain sockets: for two parties on one machine"
    }

    fn configure(&self, s: &mut Settings) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        Ok(Some(Arc::new(Self(self.0.configured(s)?))))
    }

    fn profile(&self) -> Option<Profile> {
        // Opening a socket needs no round trip, so one remains for TLS.
        let mut profile = Profile::default();
        profile.setup_round_trips = 1;
        Some(profile)
    }

    async fn listen(&self, at: &str, s: &Security) -> Result<Box<dyn Listener>, TransportError> {
        let (address, handshakes) = (at.to_owned(), Handshakes::new(s)?);
        match UnixListener::bind(at) {
            Ok(socket) => Ok(Box::new(Port(socket, address, self.0, handshakes))),
            Err(source) => Err(BindError::Listen { address, source }.into()),
        }
    }

    async fn connect(&self, to: &str, security: &Security) -> Result<Link, TransportError> {
        let open = async { about(UnixStream::connect(to).await?, to, self.0) };
        let address = to.to_owned();
        let (stream, about) =
            (open.await).map_err(|source| ConnectError::Connect { address, source })?;
        secure::connect(stream, security, about).await
    }
}

struct Port(UnixListener, String, Tuning, Handshakes);

#[async_trait]
impl Listener for Port {
    fn local_address(&self) -> String {
        self.1.clone()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        let Self(socket, address, tuning, handshakes) = self;
        let next = || async {
            let accepted = socket.accept().await;
            let address = address.clone();
            (accepted.and_then(|(stream, _)| about(stream, &address, *tuning)))
                .map_err(|source| BindError::Accept { address, source }.into())
        };
        handshakes.next(next).await
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Otherwise the next listener could not use the address.
        let _ = fs::remove_file(&self.1);
    }
}

fn about(stream: UnixStream, path: &str, tuning: Tuning) -> io::Result<(UnixStream, Stream)> {
    let mut about = Stream::new(NAME, path, path);
    about.probe = Some(tuning.apply(&stream)?);
    Ok((stream, about))
}
