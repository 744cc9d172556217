//! Requests, of which the live page's server reads the head before it knows who is asking.

use spectral_live::http::read_head;

pub(super) fn run(bytes: &[u8]) {
    let whole = read_head(bytes, bytes.len());
    if let Some(Ok((path, length))) = &whole {
        assert!(path.starts_with('/') && !path.contains(['%', '\\', '\0']), "{path:?}");
        assert!(*length <= 1024, "a body of {length} bytes");
    }
    // However the bytes come, the same is read. A head that is too large may be refused sooner or later.
    let first = bytes.first().map_or(0, |byte| usize::from(*byte)) % (bytes.len() + 1);
    let parted = read_head(bytes, first);
    assert!(whole == parted || whole == Some(Err(431)) || parted == Some(Err(431)), "{whole:?}, {parted:?}");
}
