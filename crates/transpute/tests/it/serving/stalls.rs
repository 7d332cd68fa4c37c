//! Tests of peers that hold up a run and send keep-alives.

use super::*;

/// Calls for a run and then sends keep-alives. Returns when the server has cut the connection.
async fn stall(link: Link, per_second: u32) {
    let (mut reader, mut writer) = link.into_parts();
    writer.write_all(&opening()).await.unwrap();
    writer.flush().await.unwrap();
    let living = async {
        let alive = transpute::session::SessionConnection::sign_of_life();
        while writer.write_all(alive).await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1) / per_second).await;
        }
    };
    let mut heard = Vec::new();
    let reading = async { drop(reader.read_to_end(&mut heard).await) };
    tokio::join!(living, reading);
}

#[tokio::test]
async fn signs_of_life_hold_no_place() {
    let mut limits = Limits::default();
    // The faster peer sends a hundred keep-alives per second, which are 1.5 kB in this time.
    limits.stall = Duration::from_secs(3);
    limits.runs_at_once = 2;
    let serving = Serving::start(limits).await;
    let peers = tokio::spawn({
        let (slow, fast) = (serving.link().await, serving.link().await);
        async move { tokio::join!(stall(slow, 8), stall(fast, 100)) }
    });
    // The stalling peers hold both permits, so the honest peer's run waits for one.
    let honest = serving.connect().await;
    let served = timeout(Duration::from_secs(30), check(&honest, 1)).await;
    served.expect("the places are free again");
    let cut = timeout(Duration::from_secs(30), peers).await;
    cut.expect("the peers are cut").unwrap();
    honest.close().await.unwrap();
    let summary = serving.stop().await;
    assert_eq!((summary.runs, summary.broken), (1, 2), "{summary:?}");
}
