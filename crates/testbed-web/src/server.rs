//! Listening, and ending.

use std::{
    future::Future,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::Router;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use transpute::{Registry, circuit::catalogue};

use super::{
    api,
    app::{App, Places},
    connection,
    jobs::{self, Jobs},
    knowledge::{Knowledge, Source},
    serve_error::ServeError,
    sessions::Sessions,
    store::Store,
    token::Token,
};

/// How long connections have to end.
const GRACE: Duration = Duration::from_secs(2);

/// How long nobody is let in after the system had no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// How to serve.
#[derive(Debug)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The folder of the history, which is made if need be.
    pub data: PathBuf,
    /// The `transpute` program, which both parties are.
    pub binary: PathBuf,
    /// What whoever uses the server has to know. Not needed on a loopback address.
    pub token: Option<Token>,
    /// Whether users may run commands of their own, as the user of this process.
    pub allow_programs: bool,
    /// The transports that users may choose. The program at `binary` must know them too.
    pub registry: Registry,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    router: Router,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("Server").field("address", &self.address)).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the history, starts what runs jobs, and listens.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn bind(config: Config) -> Result<Self, ServeError> {
        let address = config.listen;
        if config.token.is_none() {
            if !address.ip().is_loopback() {
                return Err(ServeError::NeedsToken { address });
            }
            if config.allow_programs {
                return Err(ServeError::ProgramsNeedToken);
            }
        }
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (stop, stopping) = watch::channel(false);
        let opening = tokio::task::spawn_blocking(move || {
            let store = Arc::new(Store::open(&config.data)?);
            let jobs = Jobs::start(Arc::clone(&store), config.binary)?;
            let inside = jobs::look_inside();
            Ok::<_, ServeError>(App {
                store,
                knowledge: Knowledge::new(config.registry),
                jobs,
                token: config.token,
                sessions: Sessions::default(),
                allow_programs: config.allow_programs,
                cannot_run: inside.as_ref().err().cloned(),
                environment: inside.ok(),
                stopping,
                places: Places::default(),
                counted: Mutex::default(),
            })
        });
        let app = match opening.await {
            Ok(app) => Arc::new(app?),
            Err(error) => return Err(ServeError::Thread(error.into())),
        };
        Ok(Self {
            listener,
            address,
            router: api::router(&app),
            app,
            stop,
        })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns why this machine cannot emulate paths, if it cannot.
    #[must_use]
    pub fn cannot_run(&self) -> Option<&str> {
        self.app.cannot_run.as_deref()
    }

    /// Answers until `over` comes to its end. Then the job that runs is cancelled, and all that runs has ended when this returns.
    pub async fn run(self, over: impl Future<Output = ()>) {
        let Self {
            listener,
            app,
            router,
            stop,
            ..
        } = self;
        let counting = Arc::clone(&app);
        // In the background: some of them are large.
        let counting = tokio::task::spawn_blocking(move || count_all(&counting));
        let room = Arc::new(Semaphore::new(connection::MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        let accepting = async {
            loop {
                // Nobody closes it.
                let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                    return;
                };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let serving = connection::serve(stream, router.clone(), stop.subscribe());
                        connections.spawn(async move {
                            serving.await;
                            drop(place);
                        });
                        while connections.try_join_next().is_some() {}
                    }
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            () = over => {}
        }
        drop(listener);
        let ending = Arc::clone(&app);
        // A panic in there is told on standard error. Whoever listens to events is told of the end by them.
        let _ = tokio::task::spawn_blocking(move || ending.jobs.stop()).await;
        stop.send_replace(true);
        let _ = timeout(GRACE, async {
            while connections.join_next().await.is_some() {}
        })
        .await;
        connections.abort_all();
        let _ = counting.await;
    }
}

/// Counts the circuits that come with the program.
fn count_all(app: &App) {
    for circuit in catalogue::entries() {
        if *app.stopping.borrow() {
            return;
        }
        // Whoever asks for it is told why it cannot be counted.
        let _ = app.count(&Source::BuiltIn(circuit.example.spec.to_owned()));
    }
}
