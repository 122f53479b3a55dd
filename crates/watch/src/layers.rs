//! The layers of an overlay, as the list of mounts tells them.
//!
//! ```text
//!   rw,lowerdir=/a:/b,upperdir=/c,workdir=/d   ─▶   /c, /a, /b
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// What `mountinfo` calls the kind.
pub(crate) const KIND: &str = "overlay";

/// The layers of an overlay, the uppermost first, from its options in `mountinfo`: `lowerdir=/a:/b,upperdir=/c`, or a `lowerdir+=` for each. None where one is told by
/// a relative path: relative to what nobody knows.
pub(crate) fn layers(options: &[u8]) -> Vec<PathBuf> {
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for option in split(options, b',') {
        let of = |name: &str| option.strip_prefix(name.as_bytes());
        if let Some(path) = of("upperdir=") {
            upper.extend(split(path, b':'));
        } else if let Some(paths) = of("lowerdir=").or_else(|| of("lowerdir+=")) {
            lower.extend(split(paths, b':').into_iter().filter(|path| !path.is_empty()));
        }
    }
    let all = upper.into_iter().chain(lower).map(|path| PathBuf::from(OsString::from_vec(plain(&path))));
    let all: Vec<PathBuf> = all.collect();
    if all.iter().all(|layer| layer.is_absolute()) { all } else { Vec::new() }
}

/// Cut at a separator that has no backslash before it.
fn split(text: &[u8], separator: u8) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let last = parts.last_mut().expect("one at least");
        match byte {
            b'\\' => last.extend([byte].into_iter().chain(bytes.next())),
            byte if byte == separator => parts.push(Vec::new()),
            byte => last.push(byte),
        }
    }
    parts
}

/// Without the backslashes before others.
fn plain(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.iter().copied();
    std::iter::from_fn(|| match bytes.next()? {
        b'\\' => bytes.next(),
        byte => Some(byte),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(options: &str) -> Vec<String> {
        layers(options.as_bytes()).iter().map(|layer| layer.display().to_string()).collect()
    }

    #[test]
    fn the_upper_layer_comes_first_and_a_comma_or_a_colon_of_a_name_cuts_nothing() {
        assert_eq!(told("rw,lowerdir=/a:/b,upperdir=/c,workdir=/d"), ["/c", "/a", "/b"]);
        assert_eq!(told("ro,lowerdir+=/a,lowerdir+=/b"), ["/a", "/b"]);
        assert_eq!(
            told(r"rw,lowerdir=/a\:1:/b\,2::/data,upperdir=/c\\d"),
            [r"/c\d", "/a:1", "/b,2", "/data"]
        );
        assert_eq!(told("rw,lowerdir=l/A:l/B,upperdir=/c"), Vec::<String>::new());
        assert_eq!(told("rw,relatime"), Vec::<String>::new());
    }
}
