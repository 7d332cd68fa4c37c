//! The files of the web UI, embedded in the program.

use std::io::Write;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use transpute::circuit::hex;

/// An embedded file.
struct Asset {
    /// The path of the file in its URL.
    path: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $file:literal, $kind:expr) => {
        Asset {
            path: $path,
            kind: $kind,
            content: include_bytes!(concat!("page/", $file)),
        }
    };
}

/// All files of the web UI. A test compares this list with the files in the source folder.
const ASSETS: &[Asset] = &[
    asset!("/", "index.html", HTML),
    asset!("/api.js", "api.js", SCRIPT),
    asset!("/app.js", "app.js", SCRIPT),
    asset!("/charts.js", "charts.js", SCRIPT),
    asset!("/circuit.js", "circuit.js", SCRIPT),
    asset!("/compare.js", "compare.js", SCRIPT),
    asset!("/comparison.js", "comparison.js", SCRIPT),
    asset!("/dom.js", "dom.js", SCRIPT),
    asset!("/download.js", "download.js", SCRIPT),
    asset!("/figure.js", "figure.js", SCRIPT),
    asset!("/format.js", "format.js", SCRIPT),
    asset!("/glossary.js", "glossary.js", SCRIPT),
    asset!("/heatmap.js", "heatmap.js", SCRIPT),
    asset!("/history.js", "history.js", SCRIPT),
    asset!("/icon.svg", "icon.svg", SVG),
    asset!("/job.js", "job.js", SCRIPT),
    asset!("/jobs.js", "jobs.js", SCRIPT),
    asset!("/map.js", "map.js", SCRIPT),
    asset!("/marks.js", "marks.js", SCRIPT),
    asset!("/programs.js", "programs.js", SCRIPT),
    asset!("/run.js", "run.js", SCRIPT),
    asset!("/scale.js", "scale.js", SCRIPT),
    asset!("/scenario.js", "scenario.js", SCRIPT),
    asset!("/start.js", "start.js", SCRIPT),
    asset!("/style.css", "style.css", CSS),
    asset!("/submit.js", "submit.js", SCRIPT),
    asset!("/svg.js", "svg.js", SCRIPT),
    asset!("/theme.js", "theme.js", SCRIPT),
    asset!("/timelines.js", "timelines.js", SCRIPT),
];

/// A file, prepared for answers: its content, compressed and plain, and its headers.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) path: &'static str,
    kind: &'static str,
    plain: Bytes,
    zipped: Bytes,
    tag: HeaderValue,
}

/// Compresses all files and computes their entity tags.
pub(super) fn ready() -> Vec<Ready> {
    let ready = |asset: &Asset| {
        let digest = hex(&Sha256::digest(asset.content)[..12]);
        Ready {
            path: asset.path,
            kind: asset.kind,
            plain: Bytes::from_static(asset.content),
            zipped: zip(asset.content).into(),
            tag: HeaderValue::from_str(&format!("\"{digest}\""))
                .unwrap_or(HeaderValue::from_static("\"\"")),
        }
    };
    ASSETS.iter().map(ready).collect()
}

fn zip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}

impl Ready {
    /// Returns the answer to a request for the file. The answer is 304 Not Modified, or has the
    /// compressed or the plain content.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let mut response = if text(header::IF_NONE_MATCH)
            .is_some_and(|known| known.split(',').any(|known| known.trim() == self.tag))
        {
            StatusCode::NOT_MODIFIED.into_response()
        } else if text(header::ACCEPT_ENCODING).is_some_and(takes_gzip) {
            let zipped = Body::from(self.zipped.clone());
            ([(header::CONTENT_ENCODING, "gzip")], zipped).into_response()
        } else {
            Body::from(self.plain.clone()).into_response()
        };
        let own = response.headers_mut();
        own.insert(header::ETAG, self.tag.clone());
        own.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        own.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if response.status() == StatusCode::OK {
            let kind = HeaderValue::from_static(self.kind);
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        response
    }
}

fn takes_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == "gzip" && quality.trim() != "q=0"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_web_ui_is_small_and_loads_nothing_from_other_hosts() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes < 300_000, "{bytes} bytes");
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.content).unwrap();
            // XML namespaces look like URLs, but a browser does not load them.
            let text = text.replace("http://www.w3.org/", "");
            for place in ["http://", "https://", "src=\"//", "@import"] {
                assert!(!text.contains(place), "{}: {place}", asset.path);
            }
        }
    }

    #[test]
    fn every_file_of_the_web_ui_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page");
        let mut files: Vec<_> = (std::fs::read_dir(folder).unwrap())
            .map(|entry| format!("/{}", entry.unwrap().file_name().into_string().unwrap()))
            .map(|file| file.replace("/index.html", "/"))
            .collect();
        let mut served: Vec<_> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        files.sort();
        served.sort();
        assert_eq!(files, served);
    }

    #[test]
    fn files_are_compressed_only_for_clients_that_accept_gzip() {
        assert!(takes_gzip("gzip, deflate, br") && takes_gzip("br;q=1.0, gzip;q=0.8"));
        assert!(!takes_gzip("br") && !takes_gzip("gzip;q=0") && !takes_gzip("xgzip"));
    }
}
