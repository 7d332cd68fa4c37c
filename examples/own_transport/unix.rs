//! Unix domain sockets as a transport: parties on one machine, whom file permissions keep apart.
use std::{fs, io, sync::Arc};

use async_trait::async_trait;
use tokio::net::{UnixListener, UnixStream};
use transpute::transport::{
    Link, LinkInfo, LinkTimings, Listener, Security, Settings, Transport, TransportError,
};

use super::tuning::Tuning;

#[derive(Default)]
pub(crate) struct Unix(Tuning);

#[async_trait]
impl Transport for Unix {
    fn name(&self) -> &'static str {
        "unix"
    }

    fn describe(&self) -> &'static str {
        "Unix domain sockets: for two parties on one machine; plaintext only"
    }

    fn configure(&self, s: &mut Settings) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        Ok(Some(Arc::new(Self(self.0.configured(s)?))))
    }

    async fn listen(&self, at: &str, s: &Security) -> Result<Box<dyn Listener>, TransportError> {
        let address = at.to_owned();
        match allowed(s).and_then(|()| UnixListener::bind(at)) {
            Ok(socket) => Ok(Box::new(Port(socket, address, self.0))),
            Err(source) => Err(TransportError::Listen { address, source }),
        }
    }

    async fn connect(&self, to: &str, security: &Security) -> Result<Link, TransportError> {
        let connect = async {
            allowed(security)?;
            link(UnixStream::connect(to).await?, to, self.0)
        };
        let address = to.to_owned();
        (connect.await).map_err(|source| TransportError::Connect { address, source })
    }
}

/// Encryption that was asked for and is not there must be an error.
fn allowed(security: &Security) -> io::Result<()> {
    match security {
        Security::Plaintext => Ok(()),
        _ => Err(io::Error::other(
            "unix links are plaintext: both sides must ask for that",
        )),
    }
}

struct Port(UnixListener, String, Tuning);

#[async_trait]
impl Listener for Port {
    fn local_address(&self) -> String {
        self.1.clone()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        let accepted = self.0.accept().await;
        let address = self.local_address();
        (accepted.and_then(|(stream, _)| link(stream, &address, self.2)))
            .map_err(|source| TransportError::Accept { address, source })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Else nobody could listen there again.
        let _ = fs::remove_file(&self.1);
    }
}

fn link(stream: UnixStream, path: &str, tuning: Tuning) -> io::Result<Link> {
    let probe = tuning.apply(&stream)?;
    let info = LinkInfo {
        transport: "unix",
        local_address: path.into(),
        peer_address: path.into(),
        peer_fingerprint: None,
        encrypted: false,
        cipher: None,
        timings: LinkTimings::default(),
    };
    // Not `into_split`: dropping its writer would tell the peer that this direction is complete.
    let (reader, writer) = tokio::io::split(stream);
    Ok(Link::new(reader, writer, info, Some(probe)))
}
