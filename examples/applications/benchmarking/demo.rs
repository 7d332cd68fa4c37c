//! Everybody in one program, over encrypted connections of this machine.

use std::{sync::Arc, time::Duration};

use transpute::{Choice, Identity, Role};

use crate::{
    company::{Place, Venue},
    crowd::{Order, Played, play},
    failure::Failure,
    round::Members,
    server::{Limits, Plan, Report, Server},
    transports,
};

/// How long anybody waits.
const PATIENCE: Duration = Duration::from_secs(60);

const ROUND: &str = "demo";

/// Runs two servers, and companies with these figures.
///
/// # Errors
/// Any [`Failure`].
pub(crate) async fn run(
    figures: &[u32],
    order: Order,
    transport: &str,
) -> Result<(Played, [Report; 2]), Failure> {
    let [garbler, evaluator] = [Identity::generate()?, Identity::generate()?].map(Arc::new);
    let identities = figures.iter().map(|_| Identity::generate());
    let identities: Vec<_> = identities.collect::<Result<_, _>>()?;
    let members = Members::new(identities.iter().map(Identity::fingerprint));
    let members = members.map_err(Failure::Usage)?;
    let plan = |role, own: &Arc<Identity>, other: &Arc<Identity>| Plan {
        role,
        round: ROUND.into(),
        members: members.clone(),
        least: None,
        identity: own.clone(),
        other: other.fingerprint(),
        listen: "127.0.0.1:0".into(),
        between: "127.0.0.1:0".into(),
        garbler: None,
        transport: transport.into(),
        computation: Choice::Auto,
        limits: Limits::of(PATIENCE),
    };
    let first = Server::bind(plan(Role::Garbler, &garbler, &evaluator)).await?;
    let second = Server::bind(Plan {
        between: first.between().unwrap_or_default(),
        garbler: Some(first.address()),
        ..plan(Role::Evaluator, &evaluator, &garbler)
    })
    .await?;
    let place = |server: &Server, identity: &Identity| Place {
        address: server.address(),
        fingerprint: identity.fingerprint(),
    };
    let venue = Venue {
        round: ROUND.into(),
        garbler: place(&first, &garbler),
        evaluator: place(&second, &evaluator),
        transport: transports::named(transport).map_err(|source| Failure::Link {
            whom: "the companies",
            source,
        })?,
        patience: PATIENCE,
    };
    let companies = identities.into_iter().zip(figures.iter().copied());
    // What a server says of itself is worth more than what companies are told.
    let playing = async { Ok(play(&venue, companies.collect(), order).await) };
    let (played, first, second) = tokio::try_join!(playing, first.run(), second.run())?;
    Ok((played?, [first, second]))
}
