//! The web UI and the testbed list a transport from another crate, once it is registered.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use transpute::{
    Registry, Transport, TransportError,
    transport::{Link, Listener, Profile, Security, Tcp},
};
use transpute_testbed::runner::Matrix;
use transpute_testbed_web::{ServerConfig, WebServer};

/// A transport of this test: TCP under another name.
struct Mine;

#[async_trait]
impl Transport for Mine {
    fn name(&self) -> &'static str {
        "mine"
    }

    fn describe(&self) -> &'static str {
        "a transport of a test"
    }

    fn profile(&self) -> Option<Profile> {
        Some(Profile::default())
    }

    async fn listen(&self, at: &str, s: &Security) -> Result<Box<dyn Listener>, TransportError> {
        Tcp::default().listen(at, s).await
    }

    async fn connect(&self, to: &str, security: &Security) -> Result<Link, TransportError> {
        Tcp::default().connect(to, security).await
    }
}

fn registry() -> Registry {
    let mut registry = transpute::auto::registry();
    registry.register(Arc::new(Mine)).unwrap();
    registry
}

#[test]
fn a_matrix_accepts_a_registered_transport() {
    let transports = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Matrix::transports(&names, &registry())
    };
    assert!(transports(&["all"]).unwrap().contains(&"mine".to_owned()));
    assert_eq!(transports(&["mine", "auto"]).unwrap(), ["mine", "auto"]);
    assert!(transports(&["yours"]).is_err());
}

#[tokio::test]
async fn the_options_of_the_web_ui_list_a_registered_transport() {
    let folder = tempfile::tempdir().unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let binary = std::env::current_exe().unwrap();
    let config = ServerConfig::new(listen, folder.path(), binary, registry());
    let server = WebServer::bind(config).await.unwrap();
    let address = server.address();
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request =
            format!("GET /api/options HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let (stop, over) = tokio::sync::oneshot::channel::<()>();
    let running = server.run(async { over.await.unwrap_or(()) });
    let asked = async {
        let answer = asking.await;
        drop(stop);
        answer
    };
    let ((), answer) = tokio::join!(running, asked);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let options: serde_json::Value = serde_json::from_str(body).unwrap();
    let entry = serde_json::json!({ "name": "mine", "label": "mine", "predictable": true });
    let transports = options["transports"].as_array().unwrap();
    assert!(transports.contains(&entry), "{answer}");
}
