//! Tests of reliable UDP over an interface with smaller packets than Ethernet, in a network of its
//! own. They need root or user namespaces, `/dev/net/tun` and the program `ip`, and report if they
//! cannot run.

use std::{env, process::Command, sync::Arc, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_netem::{
    lab::{Lab, Side},
    scenario::Scenario,
    testing::{skip, unless_skipped},
};
use transpute_transport::{
    ConnectError, Identity, Link, Listener, Rudp, RudpOptions, Security, StreamError, Transport,
    TransportError,
};

/// Environment variable with the MTU, for the inner part.
const MTU: &str = "TRANSPUTE_NARROW_MTU";

/// Runs a test of this file in a network whose loopback interface has this MTU. The test does
/// nothing otherwise.
fn inside(mtu: u32, test: &str) {
    let scenario = Scenario::parse("name = \"narrow\"\n", "test").unwrap();
    let Some(lab) = unless_skipped(Lab::start(&scenario)) else {
        return;
    };
    if Command::new("ip").arg("-V").output().is_err() {
        return skip("no program called ip");
    }
    let output = (lab.command(Side::A, "sh"))
        .args([
            "-c",
            "ip link set lo up mtu \"$0\" && exec \"$@\"",
            &mtu.to_string(),
        ])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MTU, mtu.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the MTU in the inner part, and `None` in the process that the tests start in.
fn mtu() -> Option<u64> {
    Some(env::var(MTU).ok()?.parse().unwrap())
}

#[test]
fn smaller_packets_pass() {
    for mtu in [1400, 1280] {
        inside(mtu, "rudp_narrow::link_passes");
    }
}

#[test]
fn an_interface_that_is_too_narrow_is_told_at_once() {
    inside(576, "rudp_narrow::link_is_refused");
}

async fn pair() -> (
    Result<Link, TransportError>,
    Result<Link, TransportError>,
    Box<dyn Listener>,
) {
    let identity = || Arc::new(Identity::generate().unwrap());
    let (a, b) = (identity(), identity());
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    let (listening, connecting) = (Security::tls(a, [of_b]), Security::tls(b, [of_a]));
    let mut options = RudpOptions::default();
    // Longer than this test may take, because a refusal is not waited for.
    options.setup_timeout = Duration::from_secs(600);
    let rudp = Rudp::new(options);
    let mut listener = rudp.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let limit = Duration::from_secs(30);
    let connect = async {
        let connecting = rudp.connect(&address, &connecting);
        let connected = tokio::time::timeout(limit, connecting).await;
        connected.expect("connecting takes no time")
    };
    let accept = tokio::time::timeout(limit, listener.accept());
    // The connector may fail before a connection is accepted.
    let (accepted, connected) = {
        tokio::pin!(accept, connect);
        tokio::select! {
            accepted = &mut accept => (accepted.unwrap(), connect.await),
            connected = &mut connect => match connected {
                Ok(_) => (accept.await.unwrap(), connected),
                Err(_) => (Err(TransportError::Stream(StreamError::Closed)), connected),
            },
        }
    };
    (accepted, connected, listener)
}

/// The inner part of `smaller_packets_pass`.
#[tokio::test]
async fn link_passes() {
    let Some(mtu) = mtu() else { return };
    let (accepted, connected, _listener) = pair().await;
    let (accepted, connected) = (accepted.unwrap(), connected.unwrap());
    let stats = connected.stats();
    let accepted_stats = accepted.stats();
    let (mut reader, mut back) = accepted.into_parts();
    let (mut back_reader, mut writer) = connected.into_parts();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    let (mut got, mut got_back) = (vec![0; sent.len()], vec![0; sent.len()]);
    let send = async {
        writer.write_all(&sent).await.unwrap();
        writer.flush().await.unwrap();
    };
    let (_, read) = tokio::join!(send, reader.read_exact(&mut got));
    read.unwrap();
    let send = async {
        back.write_all(&sent).await.unwrap();
        back.flush().await.unwrap();
    };
    let (_, read) = tokio::join!(send, back_reader.read_exact(&mut got_back));
    read.unwrap();
    assert!(got == sent && got_back == sent);
    for stats in [stats, accepted_stats] {
        let path = stats.path();
        // Full packets are as large as the interface allows. They include acknowledgements of the
        // other direction.
        let most = mtu - 28;
        let full = path.largest_datagram.map(u64::from);
        assert_eq!(full, Some(most), "{path:?}");
    }
}

/// The inner part of `an_interface_that_is_too_narrow_is_told_at_once`.
#[tokio::test]
async fn link_is_refused() {
    if mtu().is_none() {
        return;
    }
    let (_, connected, _listener) = pair().await;
    let error = connected.unwrap_err();
    assert!(
        matches!(
            error,
            TransportError::Connect(ConnectError::UdpBlocked { .. })
        ),
        "{error}"
    );
}
