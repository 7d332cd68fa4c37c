//! Stands in for `rudp` version 3 until it is there: no connection comes up.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use transpute_rudp::TrainResult;

use crate::{PathSample, Rudp, RudpOptions, Security, TransportError, link::Bare, rudp::Door};

pub(crate) type Reader = ReadHalf<DuplexStream>;
pub(crate) type Writer = WriteHalf<DuplexStream>;

pub(crate) struct Authenticated {
    pub(crate) bare: Bare<Reader, Writer>,
    pub(crate) message: Option<Vec<u8>>,
    pub(crate) transport: String,
    pub(crate) watch: Watch,
}

pub(crate) struct Watch;

impl Watch {
    pub(crate) async fn measured(&self) {}

    pub(crate) fn trains(&self) -> [Option<TrainResult>; 2] {
        [None, None]
    }

    pub(crate) fn datagram_size(&self) -> u16 {
        1200
    }

    pub(crate) fn sample(&self) -> PathSample {
        PathSample::default()
    }
}

impl Rudp {
    pub(crate) async fn connect_over(
        &self,
        address: &str,
        _: &Security,
        _: &[&str],
    ) -> Result<Authenticated, TransportError> {
        Err(TransportError::UdpBlocked {
            address: address.into(),
            after: Duration::ZERO,
        })
    }
}

pub(crate) trait Host: Clone + Send + 'static {
    type Guest: Send + 'static;

    const TRANSPORTS: &'static [&'static str];

    fn host(
        self,
        authenticated: Authenticated,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Self::Guest>, TransportError>> + Send;
}

pub(crate) struct RudpListener<H: Host>(H);

impl<H: Host> RudpListener<H> {
    #[expect(clippy::unnecessary_wraps, reason = "stands in for what can fail")]
    pub(crate) fn beside(
        host: H,
        _: Arc<Door>,
        _: &Security,
        _: Vec<u8>,
        _: RudpOptions,
    ) -> Result<Self, TransportError> {
        Ok(Self(host))
    }

    pub(crate) async fn next(&mut self) -> Result<H::Guest, TransportError> {
        std::future::pending().await
    }
}
