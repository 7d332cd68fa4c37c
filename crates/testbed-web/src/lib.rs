//! The testbed as a page in a browser: choose conditions, run, watch, compare.
//!
//! [`Server`] answers what docs/testbed-http.md describes, and sends the page, which is within the program. Runs are kept in a
//! file of SQLite; jobs run one at a time on a thread of their own, whoever watches.
//!
//! | module | idea |
//! | --- | --- |
//! | `server`, `connection` | listening, and what a connection may take |
//! | `guard`, `token`, `sessions`, `body` | which requests are answered, and how much of one is read |
//! | `app`, `api` | what there is to ask, and the answers |
//! | `jobs` | what runs, its events and its samples |
//! | `store`, `run` | the history |
//! | `knowledge` | circuits, and predictions of runs |
//! | `choose`, `assets` | scenarios as sliders, and the files of the page |

mod api;
mod app;
mod assets;
mod body;
mod choose;
mod connection;
mod error;
mod guard;
mod import;
mod jobs;
mod knowledge;
mod run;
mod serve_error;
mod server;
mod sessions;
mod store;
mod token;

pub use import::import;
pub use serve_error::ServeError;
pub use server::{Config, Server};
pub use store::StoreError;
pub use token::{Token, TokenError};
