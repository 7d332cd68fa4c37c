//! The web UI of the testbed. In a browser, users choose conditions, start and watch runs, and
//! compare them.
//!
//! [`WebServer`] implements the HTTP interface of docs/testbed-http.md and serves the web UI, which
//! is embedded in the program. Runs are stored in an SQLite file. Jobs run one at a time on a
//! separate thread, whether or not a browser is connected.
//!
//! | module | content |
//! | --- | --- |
//! | `server`, `connection` | listening, connection limits and timeouts |
//! | `guard`, `token`, `sessions`, `body` | authentication and checks of requests |
//! | `app`, `api` | the shared state and the handlers |
//! | `jobs` | the queue of jobs, their events and samples |
//! | `store`, `run` | the history |
//! | `predictor` | sizes of circuits and predictions of runs |
//! | `scenario_choice`, `assets` | the scenarios in requests, and the files of the web UI |

mod api;
mod app;
mod assets;
mod body;
mod connection;
mod error;
mod guard;
mod import;
mod jobs;
mod predictor;
mod run;
mod scenario_choice;
mod serve_error;
mod server;
mod sessions;
mod store;
mod token;

pub use import::import;
pub use serve_error::ServeError;
pub use server::{ServerConfig, WebServer};
pub use store::StoreError;
pub use token::{Token, TokenError};
