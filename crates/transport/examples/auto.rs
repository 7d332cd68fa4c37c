//! Races the transports of an address, and prints the time at which each of them was established.
//!
//! ```text
//! auto listen 10.0.0.1:7700
//! auto connect 10.0.0.1:7700 quic 3
//! auto probe 10.0.0.1:7700
//! ```
//!
//! Peers are not authenticated: it is for trying out paths. `connect` makes a number of links in
//! sequence. It prints the times at which each connection and the link were established, and the
//! time of the first byte that came back over the link.

use std::{env, error::Error, sync::Arc, time::Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{
    Identity, Link, Listener, Security,
    auto::{self, AutoListener, AutoOptions, Offer, Pick, Policy, RaceProgress},
};

/// A policy that always chooses the same transport.
struct Always(Pick);

impl Policy for Always {
    fn decide(&self, _: &RaceProgress) -> Option<Pick> {
        Some(self.0.clone())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let security = Security::Unpinned {
        identity: Arc::new(Identity::generate()?),
    };
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address, &security).await,
        ["probe", address] => {
            print(&auto::probe(address, &security, AutoOptions::default()).await?);
            Ok(())
        }
        ["connect", address, pick, count] => {
            for _ in 0..count.parse::<u32>()? {
                connect(address, &security, Pick::from(*pick)).await?;
            }
            Ok(())
        }
        _ => {
            Err("expected: listen ADDRESS | probe ADDRESS | connect ADDRESS TRANSPORT COUNT".into())
        }
    }
}

async fn listen(address: &str, security: &Security) -> Result<(), Box<dyn Error>> {
    let mut listener = AutoListener::bind(address, security, Offer::all()).await?;
    println!("listening on {}", listener.local_address());
    loop {
        let accepted = listener.next().await?;
        tokio::spawn(async move {
            if let Err(error) = echo(accepted.link).await {
                eprintln!("{}: {error}", accepted.pick);
            }
        });
    }
}

async fn echo(link: Link) -> std::io::Result<()> {
    let (mut reader, mut writer) = link.into_parts();
    let mut buffer = vec![0; 65_536];
    loop {
        let read = reader.read(&mut buffer).await?;
        if read == 0 {
            return writer.shutdown().await;
        }
        writer.write_all(&buffer[..read]).await?;
        writer.flush().await?;
    }
}

async fn connect(address: &str, security: &Security, pick: Pick) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let won = auto::race(address, security, AutoOptions::default(), &Always(pick)).await?;
    let picked = started.elapsed();
    let (mut reader, mut writer) = won.link.into_parts();
    writer.write_all(b"!").await?;
    writer.flush().await?;
    reader.read_exact(&mut [0]).await?;
    println!(
        "{}: link after {picked:.1?}, first byte back after {:.1?}",
        won.pick,
        started.elapsed()
    );
    print(&won.progress);
    writer.shutdown().await?;
    let _ = reader.read(&mut [0]).await;
    Ok(())
}

fn print(progress: &RaceProgress) {
    let up = |name| progress.stage(name).up().map(|report| report.after);
    println!(
        "  TCP answered after {:.1?}, up after {:.1?}; quic up after {:.1?}; rudp up after {:.1?}",
        progress.tcp_rtt,
        up("tcp"),
        up("quic"),
        up("rudp"),
    );
}
