//! Runs both servers and the companies in one process, with encrypted connections over loopback.

use std::{sync::Arc, time::Duration};

use transpute::{Identity, Role, TransportChoice};

use crate::{
    company::{RoundConfig, ServerAddress},
    failure::Failure,
    round::Members,
    server::{Report, Server, ServerConfig, Timeouts},
    simulation::{Order, Simulated, simulate},
    transports,
};

/// Time limit of each wait of a server or a company.
const TIMEOUT: Duration = Duration::from_secs(60);

const ROUND: &str = "demo";

/// Runs two servers, and one company for each figure.
///
/// # Errors
/// Returns the first [`Failure`] of a server or a company.
pub(crate) async fn run(
    figures: &[u32],
    order: Order,
    transport: &str,
) -> Result<(Simulated, [Report; 2]), Failure> {
    let [garbler, evaluator] = [Identity::generate()?, Identity::generate()?].map(Arc::new);
    let identities = figures.iter().map(|_| Identity::generate());
    let identities: Vec<_> = identities.collect::<Result<_, _>>()?;
    let members = Members::new(identities.iter().map(Identity::fingerprint));
    let members = members.map_err(Failure::Usage)?;
    let plan = |role, own: &Arc<Identity>, other: &Arc<Identity>| ServerConfig {
        role,
        round: ROUND.into(),
        members: members.clone(),
        min_companies: None,
        identity: own.clone(),
        other: other.fingerprint(),
        listen: "127.0.0.1:0".into(),
        between: "127.0.0.1:0".into(),
        garbler: None,
        transport: transport.into(),
        computation: TransportChoice::Auto,
        limits: Timeouts::of(TIMEOUT),
    };
    let first = Server::bind(plan(Role::Garbler, &garbler, &evaluator)).await?;
    let second = Server::bind(ServerConfig {
        between: first.between().unwrap_or_default(),
        garbler: Some(first.address()),
        ..plan(Role::Evaluator, &evaluator, &garbler)
    })
    .await?;
    let place = |server: &Server, identity: &Identity| ServerAddress {
        address: server.address(),
        fingerprint: identity.fingerprint(),
    };
    let round_config = RoundConfig {
        round: ROUND.into(),
        garbler: place(&first, &garbler),
        evaluator: place(&second, &evaluator),
        transport: transports::named(transport).map_err(|source| Failure::Link {
            peer: "the companies",
            source,
        })?,
        timeout: TIMEOUT,
    };
    let companies = identities.into_iter().zip(figures.iter().copied());
    // The failure of a company does not end `try_join`. So if a server fails, its own error is
    // returned, which is more specific than the refusal that it sends to companies.
    let playing = async { Ok(simulate(&round_config, companies.collect(), order).await) };
    let (simulated, first, second) = tokio::try_join!(playing, first.run(), second.run())?;
    Ok((simulated?, [first, second]))
}
