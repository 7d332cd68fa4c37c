//! The server: listens, accepts connections and shuts down.

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
    app::{App, ConcurrencyLimits},
    connection,
    jobs::{self, Jobs},
    predictor::{Predictor, Source},
    serve_error::ServeError,
    sessions::Sessions,
    store::Store,
    token::Token,
};

/// Time that connections have to end after the running job has ended at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failed accept, for example when no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of a server.
#[derive(Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The address to listen on. With port 0, the system chooses a free port.
    pub listen: SocketAddr,
    /// The folder of the history. It is created if it does not exist.
    pub data: PathBuf,
    /// The `transpute` program, which runs both parties.
    pub binary: PathBuf,
    /// The secret that clients must present. It is optional on a loopback address.
    pub token: Option<Token>,
    /// True if clients may run commands with the permissions of this process.
    pub allow_programs: bool,
    /// The transports that users may choose. The program at `binary` must support them too.
    pub registry: Registry,
}

impl ServerConfig {
    /// Returns the settings of a server without a token, on which clients may not run commands.
    #[must_use]
    pub fn new(
        listen: SocketAddr,
        data: impl Into<PathBuf>,
        binary: impl Into<PathBuf>,
        registry: Registry,
    ) -> Self {
        Self {
            listen,
            data: data.into(),
            binary: binary.into(),
            token: None,
            allow_programs: false,
            registry,
        }
    }
}

/// A listening server.
pub struct WebServer {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    router: Router,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for WebServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("Server").field("address", &self.address)).finish_non_exhaustive()
    }
}

impl WebServer {
    /// Opens the history, starts the job thread and listens.
    ///
    /// # Errors
    /// Returns [`ServeError`] if one of these steps fails, or if a token is required and missing.
    pub async fn bind(config: ServerConfig) -> Result<Self, ServeError> {
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
            let inside = jobs::probe_environment();
            Ok::<_, ServeError>(App {
                store,
                predictor: Predictor::new(config.registry),
                jobs,
                token: config.token,
                sessions: Sessions::default(),
                allow_programs: config.allow_programs,
                cannot_run: inside.as_ref().err().cloned(),
                environment: inside.ok(),
                stopping,
                limits: ConcurrencyLimits::default(),
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

    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the reason why this machine cannot emulate paths. None if it can.
    #[must_use]
    pub fn cannot_run(&self) -> Option<&str> {
        self.app.cannot_run.as_deref()
    }

    /// Serves until `over` completes. Then cancels the running job and returns when all tasks and
    /// processes have ended.
    pub async fn run(self, over: impl Future<Output = ()>) {
        let Self {
            listener,
            app,
            router,
            stop,
            ..
        } = self;
        let counting = Arc::clone(&app);
        // Circuits are counted in the background, because large ones take seconds to compile.
        let counting = tokio::task::spawn_blocking(move || count_all(&counting));
        let room = Arc::new(Semaphore::new(connection::MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        let accepting = async {
            loop {
                // Acquiring cannot fail, because the semaphore is never closed.
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
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            () = over => {}
        }
        drop(listener);
        let ending = Arc::clone(&app);
        // If `stop` panics, Rust prints the panic message, and the shutdown continues.
        let _ = tokio::task::spawn_blocking(move || ending.jobs.stop()).await;
        stop.send_replace(true);
        let _ = timeout(SHUTDOWN_TIMEOUT, async {
            while connections.join_next().await.is_some() {}
        })
        .await;
        connections.abort_all();
        let _ = counting.await;
    }
}

/// Counts the gates of all circuits of the catalogue, so that the web UI can show their sizes.
fn count_all(app: &App) {
    for circuit in catalogue::entries() {
        if *app.stopping.borrow() {
            return;
        }
        // An error is ignored here. A request for this circuit counts again and reports the error.
        let _ = app.count(&Source::BuiltIn(circuit.example.spec.to_owned()));
    }
}
