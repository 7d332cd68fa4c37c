//! `transpute link send`: the side that connects and prints the report.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, time::Instant};
use transpute::select::{End, Workload};
use transpute::transport::{Link, Security, retry_connect};
use transpute::{Transport, TransportError, transport::RegistryError};

use super::{
    LinkArgs, MAX_BYTES, MAX_ROUNDS, before_link,
    measure::{CpuMeter, now},
    report::{Report, Role, RoundTrips, median, printable},
    transfer::{self, patiently},
    wire::{self, Path, Reply, Request, Side, Task, VERSION},
};
use crate::{
    failure::{Failure, FailureKind},
    flags::parse_address,
    interrupt::unless_interrupted,
    output,
};

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("amount").required(true).args(["bytes", "pingpong"]))]
#[command(after_help = "\
Example:
  transpute link send --plaintext --connect server.example:7700 --bytes 100000000")]
pub(crate) struct Args {
    #[command(flatten)]
    link: LinkArgs,
    /// The address of a `transpute link serve` (host:port)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    connect: String,
    /// Number of bytes to transfer, up to 2^40
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_BYTES))]
    bytes: Option<u64>,
    /// Instead, number of round trips of one byte, up to 1000000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    pingpong: Option<u64>,
    /// Transfer the bytes from the server to this side
    #[arg(long, conflicts_with = "pingpong")]
    reverse: bool,
    /// The rate of the path in bits per second, for transports that can use it: short for the
    /// setting `rate`
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    rate_hint: Option<u64>,
    /// Number of transfers, each over a new link
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    repeat: u64,
    /// Time for which a refused connection is tried again, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    patience: u64,
}

pub(crate) fn send(args: &Args) -> Result<(), Failure> {
    let (transport, rate_hint) = find_transport(args)?;
    let security = args.link.security()?;
    let client = Client {
        args,
        transport: &*transport,
        security: &security,
        rate_hint,
    };
    crate::block_on(unless_interrupted(client.run()))
}

/// Returns the transport, with the rate of the path if it can use it.
fn find_transport(args: &Args) -> Result<(std::sync::Arc<dyn Transport>, Option<u64>), Failure> {
    if let Some(rate) = args.rate_hint {
        let text = &args.link.transport;
        let separator = if text.contains(':') { ',' } else { ':' };
        match super::transport(&format!("{text}{separator}rate={rate}"), None) {
            Err(TransportError::Registry(RegistryError::UnknownSetting { key, .. }))
                if key == "rate" =>
            {
                output::note(format!(
                    "--rate-hint: {text} does not use the rate of the path"
                ))
            }
            found => return Ok((found.map_err(before_link)?, Some(rate))),
        }
    }
    Ok((args.link.find_transport(Some(work(args)))?, None))
}

/// Returns the workload of a transfer, by which `auto` chooses a transport.
fn work(args: &Args) -> Workload {
    let end = match args.reverse {
        true => End::Listener,
        false => End::Connector,
    };
    Workload::transfer(end, args.bytes.unwrap_or(0))
}

struct Client<'a> {
    args: &'a Args,
    transport: &'a dyn Transport,
    security: &'a Security,
    rate_hint: Option<u64>,
}

impl Client<'_> {
    fn task(&self) -> (Task, u64) {
        match (self.args.bytes, self.args.pingpong) {
            (Some(bytes), _) if self.args.reverse => (Task::Down, bytes),
            (Some(bytes), _) => (Task::Up, bytes),
            (None, rounds) => (Task::PingPong, rounds.unwrap_or(1)),
        }
    }

    async fn run(&self) -> Result<(), Failure> {
        let mut seconds = Vec::new();
        let mut deadline = Instant::now() + Duration::from_secs(self.args.patience);
        for transfer in 1..=self.args.repeat {
            let report = self.transfer(transfer, deadline).await?;
            // Only the first connection waits for the server to start.
            deadline = Instant::now();
            seconds.extend(report.seconds_from_established);
            report.print(self.args.link.json)?;
        }
        if !self.args.link.json
            && self.args.repeat > 1
            && self.args.pingpong.is_none()
            && let Some(median) = median(seconds)
        {
            output::print(|out| writeln!(out, "median {median:.6} s from the link established"))?;
        }
        Ok(())
    }

    /// Connects, transfers once, and returns the report.
    async fn transfer(&self, transfer: u64, deadline: Instant) -> Result<Report, Failure> {
        let (link, cpu, started_ns) = self.connect(deadline).await?;
        let established_ns = now();
        let info = link.info().clone();
        let stats = link.stats();
        let (mut reader, mut writer) = link.into_parts();
        let mut mine = Side {
            started_ns: Some(started_ns),
            ..Side::of(&info, established_ns)
        };
        let (task, amount) = self.task();
        // The start time is the seed, so that each transfer has different bytes.
        let seed = started_ns;
        let request = Request {
            version: VERSION,
            task,
            amount,
            seed,
        };
        patiently(wire::put(&mut writer, &request)).await?;
        let mut round_trips = None;
        if task == Task::Up {
            let sent = transfer::send(&mut writer, amount, seed).await;
            // A server that rejects the request sends the reason before it closes the link.
            if let Err(failure) = sent {
                return Err(match patiently(wire::get::<Reply>(&mut reader)).await {
                    Ok(Reply::Refused(reason)) => refused(&reason),
                    _ => failure,
                });
            }
        } else {
            transfer::step(writer.flush()).await?;
            match patiently(wire::get::<Reply>(&mut reader)).await? {
                Reply::Ready => {}
                Reply::Refused(reason) => return Err(refused(&reason)),
                Reply::Done(_) => return Err(wire::nonsense()),
            }
        }
        match task {
            Task::Up => {}
            Task::Down => {
                let arrival = transfer::receive(&mut reader, amount, seed).await?;
                mine.received(arrival);
            }
            Task::PingPong => {
                let times = transfer::ping(&mut reader, &mut writer, amount).await?;
                round_trips = RoundTrips::of(times);
            }
        }
        // The side that received the last byte reports first.
        let mut theirs = None;
        if task == Task::Up {
            theirs = Some(done(&mut reader).await?);
            mine.receipt_ns = Some(now());
        }
        mine.cpu_seconds = cpu.seconds();
        mine.path = Path::of(&stats);
        patiently(wire::put(&mut writer, &Reply::Done(Box::new(mine.clone())))).await?;
        transfer::step(writer.flush()).await?;
        let theirs = match theirs {
            Some(theirs) => theirs,
            None => done(&mut reader).await?,
        };
        // All messages were exchanged, so an error does not matter. The other side may have closed
        // the link already.
        let _ = transfer::step(writer.shutdown()).await;
        let number = (transfer, self.args.repeat);
        let sides = (mine, theirs);
        let report = Report::new(
            Role::Client,
            &self.args.link,
            number,
            &request,
            &info,
            sides,
        )?;
        Ok(Report {
            rate_hint_bits_per_second: self.rate_hint,
            round_trips,
            ..report
        })
    }

    /// Connects to the server. Retries until `deadline` if the connection is refused. The returned
    /// times start with the successful attempt.
    async fn connect(&self, deadline: Instant) -> Result<(Link, CpuMeter, u64), Failure> {
        let attempt = || async {
            let (cpu, started_ns) = (CpuMeter::start(), now());
            let link = (self.transport)
                .connect(&self.args.connect, self.security)
                .await?;
            Ok((link, cpu, started_ns))
        };
        retry_connect(deadline, attempt).await.map_err(before_link)
    }
}

async fn done(reader: &mut transpute::transport::LinkReader) -> Result<Side, Failure> {
    match patiently(wire::get(reader)).await? {
        Reply::Done(side) => Ok(*side),
        Reply::Refused(reason) => Err(refused(&reason)),
        Reply::Ready => Err(wire::nonsense()),
    }
}

fn refused(reason: &str) -> Failure {
    let message = format!("the server refuses: {}", printable(reason));
    Failure::new(FailureKind::Disagreement, message)
}
