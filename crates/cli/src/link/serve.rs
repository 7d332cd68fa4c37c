//! `transpute link serve`: the side that listens.

use std::{cell::Cell, rc::Rc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::{JoinSet, LocalSet},
};
use transpute::transport::{Link, LinkInfo, LinkReader, LinkStats, LinkWriter};

use super::{
    LinkArgs, MAX_BYTES, MAX_ROUNDS, before_link,
    measure::{CpuMeter, now},
    report::{Report, Role},
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
#[command(after_help = "Example:\n  transpute link serve --plaintext --listen 0.0.0.0:7700")]
pub(crate) struct Args {
    #[command(flatten)]
    link: LinkArgs,
    /// The address to listen on (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: String,
    /// Exit after one transfer, with its exit code
    #[arg(long)]
    once: bool,
}

/// Maximum number of concurrent transfers. Further clients wait. Each transfer uses less than 1 MiB
/// of memory in addition to its link.
const MAX_AT_ONCE: usize = 16;

pub(crate) fn serve(args: Args) -> Result<(), Failure> {
    let transport = args.link.find_transport(None)?;
    let security = args.link.security()?;
    let serving = async {
        let listener = (transport.listen(&args.listen, &security).await).map_err(before_link)?;
        output::note(format!("listening on {}", listener.local_address()));
        // The transfers share counters, so they all run on this thread.
        LocalSet::new().run_until(accept(args, listener)).await
    };
    crate::block_on(unless_interrupted(serving))
}

async fn accept(
    args: Args,
    mut listener: Box<dyn transpute::transport::Listener>,
) -> Result<(), Failure> {
    let server = Rc::new(Server {
        args: args.link,
        active: Cell::new(0),
        begun: Cell::new(0),
    });
    let limit = if args.once { 1 } else { MAX_AT_ONCE };
    let mut transfers = JoinSet::new();
    // Counting starts before the connection arrives, so that it includes the handshake. Waiting
    // takes no processor time.
    let mut cpu = CpuMeter::start();
    loop {
        tokio::select! {
            Some(done) = transfers.join_next(), if !transfers.is_empty() => {
                let done = done.unwrap_or_else(|error| {
                    Err(Failure::other("a transfer ended in a panic").because(error))
                });
                if args.once {
                    return done;
                }
                if let Err(failure) = done {
                    failure.print();
                }
                if server.active.get() == 0 {
                    cpu = CpuMeter::start();
                }
            }
            link = listener.accept(), if transfers.len() < limit => {
                let link = link.map_err(before_link)?;
                let established_ns = now();
                let server = Rc::clone(&server);
                transfers.spawn_local(async move {
                    server.transfer(link, established_ns, cpu).await
                });
            }
        }
    }
}

struct Server {
    args: LinkArgs,
    /// Number of active transfers.
    active: Cell<u64>,
    /// Number of transfers that have begun.
    begun: Cell<u64>,
}

/// An active transfer.
struct Transfer<'a> {
    server: &'a Server,
    info: LinkInfo,
    stats: LinkStats,
    reader: LinkReader,
    writer: LinkWriter,
    cpu: CpuMeter,
    number: u64,
    was_alone: bool,
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.server.active.set(self.server.active.get() - 1);
    }
}

impl Server {
    async fn transfer(
        &self,
        link: Link,
        established_ns: u64,
        cpu: CpuMeter,
    ) -> Result<(), Failure> {
        self.begun.set(self.begun.get() + 1);
        let was_alone = self.active.replace(self.active.get() + 1) == 0;
        let (info, stats) = (link.info().clone(), link.stats());
        let (reader, writer) = link.into_parts();
        let transfer = Transfer {
            server: self,
            info,
            stats,
            reader,
            writer,
            cpu,
            number: self.begun.get(),
            was_alone,
        };
        let report = transfer.run(established_ns).await?;
        report.print(self.args.json)
    }
}

impl Transfer<'_> {
    async fn run(mut self, established_ns: u64) -> Result<Report, Failure> {
        let request: Request = patiently(wire::get(&mut self.reader)).await?;
        if let Some(reason) = objection(&request) {
            self.reply(&Reply::Refused(reason.clone())).await?;
            let _ = transfer::step(self.writer.shutdown()).await;
            let message = format!("refused a transfer: {reason}");
            return Err(Failure::new(FailureKind::Disagreement, message));
        }
        let (task, amount, seed) = (request.task, request.amount, request.seed);
        let mut mine = Side::of(&self.info, established_ns);
        match task {
            Task::Up => {
                let arrival = transfer::receive(&mut self.reader, amount, seed).await?;
                mine.received(arrival);
            }
            Task::Down => {
                patiently(wire::put(&mut self.writer, &Reply::Ready)).await?;
                transfer::send(&mut self.writer, amount, seed).await?;
            }
            Task::PingPong => {
                self.reply(&Reply::Ready).await?;
                transfer::pong(&mut self.reader, &mut self.writer, amount).await?;
            }
        }
        // The side that received the last byte reports first.
        let mut theirs = None;
        if task != Task::Up {
            theirs = Some(self.done().await?);
            mine.receipt_ns = Some(now());
        }
        mine.cpu_seconds = self.cpu.seconds();
        mine.cpu_is_shared = !self.was_alone || self.server.begun.get() != self.number;
        mine.path = Path::of(&self.stats);
        self.reply(&Reply::Done(Box::new(mine.clone()))).await?;
        let theirs = match theirs {
            Some(theirs) => theirs,
            None => self.done().await?,
        };
        // The other side closes when it has the report.
        let mut rest = [0; 1];
        let _ = transfer::step(self.reader.read(&mut rest)).await;
        let _ = transfer::step(self.writer.shutdown()).await;
        let number = (self.number, self.server.begun.get());
        let sides = (mine, theirs);
        Report::new(
            Role::Server,
            &self.server.args,
            number,
            &request,
            &self.info,
            sides,
        )
    }

    async fn reply(&mut self, reply: &Reply) -> Result<(), Failure> {
        patiently(wire::put(&mut self.writer, reply)).await?;
        transfer::step(self.writer.flush()).await
    }

    async fn done(&mut self) -> Result<Side, Failure> {
        match patiently(wire::get(&mut self.reader)).await? {
            Reply::Done(side) => Ok(*side),
            _ => Err(wire::nonsense()),
        }
    }
}

/// Returns the reason why a request is rejected. `None` if the request is valid.
fn objection(request: &Request) -> Option<String> {
    let max = match request.task {
        Task::Up | Task::Down => MAX_BYTES,
        Task::PingPong => MAX_ROUNDS,
    };
    if request.version != VERSION {
        return Some(format!(
            "this side speaks version {VERSION} of the protocol of `transpute link`, the other {}",
            request.version
        ));
    }
    (!(1..=max).contains(&request.amount))
        .then(|| format!("asked for {}, expected 1 to {max}", request.amount))
}
