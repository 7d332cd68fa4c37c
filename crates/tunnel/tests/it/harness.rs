//! Pairs of tunnels, and small servers behind them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use transpute_transport::{Identity, Link, Registry, Security};
use transpute_tunnel::{Forward, Tunnel, TunnelConfig, TunnelSet, TunnelSide, TunnelTask};

/// Maximum duration of any step, far beyond what it needs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the two ends of a link.
pub(crate) async fn links(transport: &str, is_pinned: bool) -> [Link; 2] {
    let transport = Registry::with_builtins().get(transport).unwrap();
    let [a, b] = [(); 2].map(|()| Arc::new(Identity::generate().unwrap()));
    let (ours, theirs) = match is_pinned {
        true => (
            Security::tls(Arc::clone(&a), [b.fingerprint()]),
            Security::tls(Arc::clone(&b), [a.fingerprint()]),
        ),
        false => (Security::Plaintext, Security::Plaintext),
    };
    let mut listener = transport.listen("127.0.0.1:0", &ours).await.unwrap();
    let address = listener.local_address();
    let (near, far) = tokio::join!(listener.accept(), transport.connect(&address, &theirs));
    [near.unwrap(), far.unwrap()]
}

/// A tunnel with its task.
pub(crate) struct End {
    pub(crate) tunnel: Tunnel,
    pub(crate) task: TunnelTask,
}

impl End {
    pub(crate) fn start(link: Link, side: TunnelSide, config: TunnelConfig) -> Self {
        let (tunnel, task) = Tunnel::start(link, side, config);
        Self { tunnel, task }
    }

    /// Listens on a port of this side, whose connections go to `target`. Returns its address.
    pub(crate) async fn forward(&self, target: &str) -> SocketAddr {
        let forward = Forward::bind(format!("0={target}").parse().unwrap());
        let forward = forward.await.unwrap();
        let address = forward.rule().local.to_string().parse().unwrap();
        let tunnels = TunnelSet::default();
        tunnels.add(self.tunnel.clone());
        tokio::spawn(forward.serve(tunnels));
        address
    }

    pub(crate) async fn connect(&self, target: &str) -> TcpStream {
        let address = self.forward(target).await;
        TcpStream::connect(address).await.unwrap()
    }
}

/// Returns settings that allow these targets.
pub(crate) fn allowing(targets: &[&str]) -> TunnelConfig {
    let mut config = TunnelConfig::default();
    config.allow = targets.iter().map(|it| it.parse().unwrap()).collect();
    config
}

/// Starts a tunnel whose two sides allow the same targets: the listener's and the connector's end.
pub(crate) async fn pair(transport: &str, is_pinned: bool, targets: &[&str]) -> [End; 2] {
    let [near, far] = links(transport, is_pinned).await;
    [
        End::start(near, TunnelSide::Listener, allowing(targets)),
        End::start(far, TunnelSide::Connector, allowing(targets)),
    ]
}

/// Starts a server that runs `serve` for each connection. Returns its address.
pub(crate) async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(socket));
        }
    });
    address
}

/// Starts a server that returns all bytes, and then ends its direction.
pub(crate) async fn echo() -> String {
    server(|mut socket| async move {
        let (mut reader, mut writer) = socket.split();
        if tokio::io::copy(&mut reader, &mut writer).await.is_ok() {
            let _ = writer.shutdown().await;
        }
    })
    .await
}

/// Returns bytes that differ between seeds.
pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 31 + i / 257 + seed * 17).to_le_bytes()[0])
        .collect()
}

/// Sends bytes, ends the direction, and returns all bytes of the answer.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite,
    bytes: Vec<u8>,
) -> std::io::Result<Vec<u8>> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sending = async {
        writer.write_all(&bytes).await?;
        writer.shutdown().await
    };
    let receiving = async {
        let mut answer = Vec::new();
        reader.read_to_end(&mut answer).await?;
        Ok(answer)
    };
    let (sent, received) = timeout(DEADLINE, async { tokio::join!(sending, receiving) })
        .await
        .expect("an exchange takes too long");
    sent.and(received)
}

/// Closes a connection with a reset.
pub(crate) fn reset(socket: TcpStream) {
    socket2::SockRef::from(&socket)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

/// Checks that a connection is reset, and never ends as if all data had arrived.
#[track_caller]
pub(crate) fn assert_reset(result: std::io::Result<Vec<u8>>) {
    let error = result.expect_err("the connection ended cleanly");
    assert!(
        matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe
        ),
        "{error}"
    );
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    (timeout(DEADLINE, waiting).await).unwrap_or_else(|_| panic!("not in time: {what}"));
}
