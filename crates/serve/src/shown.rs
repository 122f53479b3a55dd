//! How a member is named to people: its path or address without what is secret in it.
//!
//! An address may have a password before its host, and a signature or token behind its path. Messages, pages and errors are
//! read by more people than may know those.

use std::path::Path;

/// Keys of an address that say where something is, and no more.
const PLAIN_KEYS: [&str; 3] = ["socket", "tls-certificates", "tls-hostname"];

/// The path or address, with stars for its secrets.
#[must_use]
pub fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let Some((scheme, rest)) = text.split_once("://") else { return text.into_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (place, behind) = rest.split_at(end);
    let place = match place.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            format!("{}:***@{host}", user.split(':').next().unwrap_or_default())
        }
        _ => place.to_owned(),
    };
    let behind = match behind.split_once('?') {
        Some((path, query)) => {
            format!("{path}?{}", query.split('&').map(key_shown).collect::<Vec<_>>().join("&"))
        }
        None => behind.to_owned(),
    };
    format!("{scheme}://{place}{behind}")
}

fn key_shown(pair: &str) -> String {
    match pair.split_once('=') {
        Some((key, _)) if !PLAIN_KEYS.contains(&key) => format!("{key}=***"),
        Some(_) => pair.to_owned(),
        None => "***".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_are_not_shown() {
        for (given, seen) in [
            ("/dev/md0", "/dev/md0"),
            ("a@b:c?d=e", "a@b:c?d=e"),
            ("nbd://far:10809/disk", "nbd://far:10809/disk"),
            ("nbd+unix:///a?socket=/run/s", "nbd+unix:///a?socket=/run/s"),
            ("https://me:secret@far/disk", "https://me:***@far/disk"),
            ("https://me:sec@ret@far/a@b:c", "https://me:***@far/a@b:c"),
            ("https://far/disk?X-Signature=secret&expires=7", "https://far/disk?X-Signature=***&expires=***"),
            ("https://far?secret", "https://far?***"),
        ] {
            assert_eq!(shown(Path::new(given)), seen);
        }
    }
}
