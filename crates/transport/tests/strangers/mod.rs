//! Who comes to a listener and picks nothing.

use transpute_transport::auto::AutoListener;

/// Lets strangers come and go until the future is done.
pub(crate) async fn beside<T>(listener: &mut AutoListener, future: impl Future<Output = T>) -> T {
    tokio::select! {
        output = future => output,
        accepted = listener.next() => panic!("{accepted:?}"),
    }
}
